// SPDX-License-Identifier: Apache-2.0

// Package rifling_test holds the tests of the repository itself: which package
// may import which, what the pure packages must not touch, and what every file
// must have. See docs/design/repository.md.
package rifling_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// importMap says which of our packages a package may import. A package that is
// not on it, nor under cmd or contrib, is a breach by itself.
var importMap = map[string][]string{
	"slurm":           {},
	"slurm/rest":      {"slurm"},
	"slurm/slurmtest": {"slurm"},
	"slurm/sacct":     {"slurm"},
	"profile":         {"slurm"},
	"agent":           {},
	"agent/onnx":      {"agent"},
	"policy":          {"slurm", "profile", "agent"},
	"cycle":           {"slurm", "profile", "policy"},
	"collector":       {"slurm"},
	"collector/prom":  {"slurm", "collector"},
	"store":           {"slurm", "profile", "agent", "policy"},
	"sim":             {"slurm"},
	"sim/trace":       {"slurm", "sim"},
	"sim/peer":        {"slurm", "sim", "sim/trace"},
	"sim/run":         {"slurm", "profile", "agent", "policy", "cycle", "sim", "sim/trace"},
	"report":          {"slurm", "policy"},
	"etc":             {},
}

// pure packages get time, randomness, files and loggers from their callers.
var pure = []string{"slurm", "profile", "agent", "agent/onnx", "policy", "sim", "sim/trace", "sim/peer", "report"}

// impureImports are closed to pure packages.
var impureImports = []string{
	"os", "os/exec", "os/signal", "os/user", "log", "log/slog", "log/syslog", "net", "net/http",
	"syscall", "database/sql", "crypto/rand", "math/rand", "path/filepath", "io/ioutil",
}

// impureNames are closed to pure packages, by import path.
var impureNames = map[string][]string{
	"time": {"Now", "Since", "Until", "Sleep", "After", "AfterFunc", "Tick", "NewTimer", "NewTicker", "Local"},
	"fmt":  {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
}

// seededNames are all that a pure package may use of math/rand/v2: what is
// left of it reads the global source.
var seededNames = []string{"New", "NewPCG", "NewChaCha8", "NewZipf", "Rand", "Source", "PCG", "ChaCha8", "Zipf"}

// sourcedPackages are gonum's, whose values read the global source unless
// their field Src is set.
var sourcedPackages = []string{"gonum.org/v1/gonum/stat/distuv", "gonum.org/v1/gonum/stat/distmv"}

// breaches lists what a source file of the package pkg, given relative to the
// module, does against the rules.
func breaches(t *testing.T, pkg, name string, src any) []string {
	t.Helper()
	fset := token.NewFileSet()
	file, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
	if err != nil {
		t.Fatalf("parse %s: %v", name, err)
	}
	c := checker{pkg: pkg, fset: fset, names: map[string]string{}}
	for _, spec := range file.Imports {
		c.imports(spec)
	}
	if slices.Contains(pure, pkg) {
		ast.Inspect(file, c.inspect)
	}
	return c.found
}

type checker struct {
	pkg   string
	fset  *token.FileSet
	names map[string]string // import path by the name it has in the file
	found []string
}

func (c *checker) report(pos token.Pos, format string, args ...any) {
	p := c.fset.Position(pos)
	c.found = append(c.found, fmt.Sprintf("%s:%d: ", p.Filename, p.Line)+fmt.Sprintf(format, args...))
}

func (c *checker) imports(spec *ast.ImportSpec) {
	target, err := strconv.Unquote(spec.Path.Value)
	if err != nil {
		c.report(spec.Pos(), "unreadable import %s", spec.Path.Value)
		return
	}
	name := path.Base(target)
	if name == "v2" {
		name = path.Base(path.Dir(target))
	}
	if spec.Name != nil {
		name = spec.Name.Name
	}
	c.names[name] = target

	if ours, ok := strings.CutPrefix(target, "rifling/"); ok && !mayImport(c.pkg, ours) {
		c.report(spec.Pos(), "%s must not import %s", c.pkg, ours)
	}
	if !slices.Contains(pure, c.pkg) {
		return
	}
	if slices.Contains(impureImports, target) {
		c.report(spec.Pos(), "%s is pure and must not import %s", c.pkg, target)
	}
	if name == "." {
		c.report(spec.Pos(), "%s is pure and must not hide the origin of names by a dot import", c.pkg)
	}
}

// mayImport decides by the map. Programs tie everything together; what is in
// contrib is for the site and the tests, so nothing else rests on it.
func mayImport(from, to string) bool {
	switch {
	case strings.HasPrefix(from, "contrib/"):
		return true
	case strings.HasPrefix(from, "cmd/"):
		return !strings.HasPrefix(to, "contrib/")
	default:
		return slices.Contains(importMap[from], to)
	}
}

func (c *checker) inspect(n ast.Node) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if x, ok := n.X.(*ast.Ident); ok {
			c.use(n.Pos(), c.names[x.Name], n.Sel.Name)
		}
	case *ast.CompositeLit:
		c.literal(n)
	}
	return true
}

func (c *checker) use(pos token.Pos, target, name string) {
	if slices.Contains(impureNames[target], name) {
		c.report(pos, "%s is pure and must not use %s.%s", c.pkg, target, name)
	}
	if target == "math/rand/v2" && !slices.Contains(seededNames, name) {
		c.report(pos, "%s is pure and must not use the global source: rand.%s", c.pkg, name)
	}
}

func (c *checker) literal(lit *ast.CompositeLit) {
	sel, ok := lit.Type.(*ast.SelectorExpr)
	if !ok {
		return
	}
	x, ok := sel.X.(*ast.Ident)
	if !ok {
		return
	}
	target := c.names[x.Name]
	optimizer := target == "gonum.org/v1/gonum/optimize" && sel.Sel.Name == "CmaEsChol"
	if !optimizer && !slices.Contains(sourcedPackages, target) {
		return
	}
	for _, e := range lit.Elts {
		if kv, ok := e.(*ast.KeyValueExpr); ok {
			if key, ok := kv.Key.(*ast.Ident); ok && key.Name == "Src" {
				return
			}
		}
	}
	c.report(lit.Pos(), "%s is pure: state the Src of %s.%s", c.pkg, x.Name, sel.Sel.Name)
}

func TestImportMapAndPurity(t *testing.T) {
	seen := map[string]int{}
	for _, file := range sourceFiles(t, ".go") {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		pkg := path.Dir(file)
		seen[pkg]++
		for _, b := range breaches(t, pkg, file, nil) {
			t.Error(b)
		}
	}
	for _, pkg := range slices.Sorted(maps.Keys(seen)) {
		_, mapped := importMap[pkg]
		if !mapped && !strings.HasPrefix(pkg, "cmd/") && !strings.HasPrefix(pkg, "contrib/") {
			t.Errorf("%s is not on the import map: give it a place in arch_test.go and in docs/design", pkg)
		}
	}
	if seen["slurm"] == 0 {
		t.Error("found no file of package slurm: is the walk looking in the right place?")
	}
}

func TestCheckerCatchesBreaches(t *testing.T) {
	tests := map[string]struct {
		pkg, src string
		want     []string
	}{
		"a policy may read profiles": {
			"policy", "package policy\nimport _ \"rifling/profile\"", nil,
		},
		"the agent must not know Slurm": {
			"agent", "package agent\nimport _ \"rifling/slurm\"", []string{"f.go:2: agent must not import slurm"},
		},
		"the loop must not know how Slurm is reached": {
			"cycle", "package cycle\nimport _ \"rifling/slurm/rest\"", []string{"f.go:2: cycle must not import slurm/rest"},
		},
		"adapters do not know one another": {
			"collector", "package collector\nimport _ \"rifling/store\"", []string{"f.go:2: collector must not import store"},
		},
		"a program ties all together": {
			"cmd/riflingd", "package main\nimport (\n_ \"rifling/cycle\"\n_ \"rifling/cmd/internal/config\")", nil,
		},
		"a program does not rest on contrib": {
			"cmd/riflingd", "package main\nimport _ \"rifling/contrib/demo\"",
			[]string{"f.go:2: cmd/riflingd must not import contrib/demo"},
		},
		"an adapter may read the clock": {
			"store", "package store\nimport (\"os\"; \"time\")\nvar _, _ = os.Args, time.Now", nil,
		},
		"a pure package must not import os": {
			"slurm", "package slurm\nimport \"os\"\nvar _ = os.Args", []string{"f.go:2: slurm is pure and must not import os"},
		},
		"a pure package must not read the clock": {
			"sim", "package sim\nimport \"time\"\nvar now = time.Now()\nvar ok time.Time",
			[]string{"f.go:3: sim is pure and must not use time.Now"},
		},
		"another name for time does not hide it": {
			"sim", "package sim\nimport clock \"time\"\nvar f = clock.Since",
			[]string{"f.go:3: sim is pure and must not use time.Since"},
		},
		"a field called time is not the package": {
			"sim", "package sim\nvar x struct{ Now int }\nvar _ = x.Now", nil,
		},
		"a dot import is no way round": {
			"sim", "package sim\nimport . \"time\"\nvar f = Now",
			[]string{"f.go:2: sim is pure and must not hide the origin of names by a dot import"},
		},
		"a seeded source is fine, the global one is not": {
			"agent", "package agent\nimport \"math/rand/v2\"\nvar r = rand.New(rand.NewPCG(1, 2))\nvar n = rand.IntN(3)",
			[]string{"f.go:4: agent is pure and must not use the global source: rand.IntN"},
		},
		"the old math/rand is out altogether": {
			"agent", "package agent\nimport \"math/rand\"\nvar n = rand.Intn(3)",
			[]string{"f.go:2: agent is pure and must not import math/rand"},
		},
		"a distribution without a source reads the global one": {
			"sim", "package sim\nimport \"gonum.org/v1/gonum/stat/distuv\"\nvar a = distuv.Normal{Sigma: 1}\nvar b = distuv.Normal{Sigma: 1, Src: src}",
			[]string{"f.go:3: sim is pure: state the Src of distuv.Normal"},
		},
		"a pure package must not print": {
			"report", "package report\nimport \"fmt\"\nfunc f() { fmt.Println(); _ = fmt.Sprint() }",
			[]string{"f.go:3: report is pure and must not use fmt.Println"},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got := breaches(t, tc.pkg, "f.go", tc.src)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("breaches (-want +got):\n%s", diff)
			}
		})
	}
}

// sourceFiles lists the repository's files with one of the suffixes, with
// slashes, but for what is built or fetched and for test data.
func sourceFiles(t *testing.T, suffixes ...string) []string {
	t.Helper()
	skip := []string{".git", ".tools", "bin", "dist", "testdata"}
	var files []string
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil && os.IsNotExist(err):
			return nil // went away under the walk
		case err != nil:
			return err
		case d.IsDir() && slices.Contains(skip, d.Name()):
			return filepath.SkipDir
		case d.Type().IsRegular() && slices.ContainsFunc(suffixes, func(s string) bool { return strings.HasSuffix(name, s) }):
			files = append(files, filepath.ToSlash(name))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}
