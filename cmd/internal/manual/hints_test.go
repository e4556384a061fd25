// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// hint is a message of the code and what the code says to do about it.
type hint struct{ message, do string }

// sourceHints finds every message that comes with a hint: slurm.WithHint(error,
// hint) and the findings of rifling check and setup, in all that is shipped.
func sourceHints(t *testing.T, root string) map[string][]hint {
	t.Helper()
	fset := token.NewFileSet()
	var files []*ast.File
	var names []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		rel, _ := filepath.Rel(root, path)
		switch {
		case err != nil:
			return err
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && rel != "." || rel == "contrib" || d.Name() == "testdata" || d.Name() == "slurmtest"):
			return filepath.SkipDir
		case d.IsDir() || !strings.HasSuffix(rel, ".go") || strings.HasSuffix(rel, "_test.go"):
			return nil
		}
		f, err := parser.ParseFile(fset, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files, names = append(files, f), append(names, rel)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	known := sentinels(files)
	out := map[string][]hint{}
	for i, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			if h, ok := hintOf(call, known); ok {
				part := partOf(names[i])
				if !slices.Contains(out[part], h) {
					out[part] = append(out[part], h)
				}
			}
			return true
		})
	}
	return out
}

// hintOf reads one call. A hint that is put together at run time has no text
// here; what it is put together from is found where it stands.
func hintOf(call *ast.CallExpr, known map[string]string) (hint, bool) {
	name := ""
	switch f := call.Fun.(type) {
	case *ast.SelectorExpr:
		name = f.Sel.Name
	case *ast.Ident:
		name = f.Name
	}
	var message, do ast.Expr
	switch {
	case name == "WithHint" && len(call.Args) >= 2:
		message, do = call.Args[0], call.Args[1]
	case name == "add" && len(call.Args) >= 4:
		message, do = call.Args[3], call.Args[2]
	default:
		return hint{}, false
	}
	h := hint{plain(literal(message, known)), plain(literal(do, nil))}
	return h, h.do != "" && h.do != "…" && h.message != ""
}

// literal joins the string literals below an expression, the format of a call
// first; a sentinel error becomes its text.
func literal(e ast.Expr, known map[string]string) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if s, err := strconv.Unquote(e.Value); err == nil && e.Kind == token.STRING {
			return s
		}
	case *ast.BinaryExpr:
		return literal(e.X, known) + literal(e.Y, known)
	case *ast.CallExpr:
		return formatted(e.Args, known)
	case *ast.CompositeLit:
		for _, x := range e.Elts {
			if w := literal(x, known); w != "" {
				return w
			}
		}
	case *ast.Ident:
		if known[e.Name] != "" {
			return known[e.Name]
		}
		return "%v"
	case *ast.SelectorExpr:
		if known[e.Sel.Name] != "" {
			return known[e.Sel.Name]
		}
		return "%v"
	}
	return ""
}

// formatted reads the arguments of a call: a format, whose errors of known text
// are filled in, or a single text.
func formatted(args []ast.Expr, known map[string]string) string {
	if len(args) == 0 {
		return ""
	}
	text, i := literal(args[0], known), 0
	return verb.ReplaceAllStringFunc(text, func(v string) string {
		i++
		if i < len(args) && strings.HasSuffix(v, "w") {
			if w := literal(args[i], known); w != "" {
				return w
			}
		}
		return v
	})
}

// sentinels are the texts of errors that have names.
func sentinels(files []*ast.File) map[string]string {
	out := map[string]string{}
	for _, f := range files {
		ast.Inspect(f, func(n ast.Node) bool {
			v, ok := n.(*ast.ValueSpec)
			if !ok {
				return true
			}
			for i, name := range v.Names {
				if i < len(v.Values) && strings.HasPrefix(name.Name, "Err") {
					out[name.Name] = literal(v.Values[i], nil)
				}
			}
			return true
		})
	}
	return out
}

var verb = regexp.MustCompile(`%[-+#0-9.]*[a-zA-Z]`)

// plain makes a format readable: what is filled in becomes an ellipsis.
func plain(s string) string {
	s = strings.ReplaceAll(verb.ReplaceAllString(s, "…"), "%%", "%")
	return strings.Join(strings.Fields(strings.ReplaceAll(s, "……", "…")), " ")
}

// partOf names the part of rifling that a file belongs to, as an admin would.
func partOf(name string) string {
	switch dir := filepath.ToSlash(filepath.Dir(name)); {
	case dir == "cmd/rifling" && strings.Contains(name, "setup"):
		return "rifling setup"
	case dir == "cmd/rifling" && strings.Contains(name, "check"):
		return "rifling check"
	case strings.HasPrefix(dir, "cmd/rifling-collector"), strings.HasPrefix(dir, "collector"):
		return "rifling-collector and other sources of counters"
	case dir == "cmd/rifling":
		return "the command rifling"
	case dir == "cmd/riflingd":
		return "riflingd"
	case strings.HasPrefix(dir, "cmd/internal/config"):
		return "configuration"
	case dir == "store":
		return "database"
	case strings.HasPrefix(dir, "slurm"):
		return "Slurm and slurmrestd"
	}
	return "simulations, policies and the rest"
}

const (
	beginHints = "<!-- messages: made by `go generate ./cmd/internal/manual` -->\n"
	endHints   = "<!-- end of messages -->\n"
)

// Every message with a hint stands in docs/troubleshoot.md.
func TestTroubleshootPage(t *testing.T) {
	parts := sourceHints(t, "../../..")
	total := 0
	var b strings.Builder
	for _, part := range slices.Sorted(maps.Keys(parts)) {
		fmt.Fprintf(&b, "\n### %s\n\n| message | what to do |\n|---|---|\n", part)
		list := parts[part]
		slices.SortFunc(list, func(x, y hint) int { return strings.Compare(x.message+x.do, y.message+y.do) })
		for _, h := range list {
			fmt.Fprintf(&b, "| %s | %s |\n", shown(h.message), shown(h.do))
			total++
		}
	}
	if total < 80 {
		t.Fatalf("found %d messages: does the search still see them?", total)
	}
	const path = "../../../docs/troubleshoot.md"
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(have), beginHints)
	_, after, ok2 := strings.Cut(rest, endHints)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its marks", path)
	}
	want := before + beginHints + b.String() + "\n" + endHints + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(have) {
		t.Errorf("%s does not list what the code says: call go generate ./cmd/internal/manual", path)
	}
}

// shown keeps Markdown from reading a message.
func shown(s string) string {
	return strings.NewReplacer("|", `\|`, "<", "&lt;", "*", `\*`, "[", `\[`).Replace(s)
}

func TestHintsAreFound(t *testing.T) {
	dir := t.TempDir()
	src := "package p\nvar ErrGone = errors.New(\"it is gone\")\n" +
		"func f() error { return slurm.WithHint(fmt.Errorf(\"read %s: %w\", path, ErrGone), \"look at %s \"+\"again\", path) }\n" +
		"func g() { c.add(levelWarn, \"x\", \"mend it\", \"%d are bad\", n) }\n" +
		"func h() { c.add(levelOK, \"x\", \"\", \"fine\") }\n"
	if err := os.MkdirAll(filepath.Join(dir, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "store", "f.go"), []byte(src), 0o600); err != nil {
		t.Fatal(err)
	}
	got := sourceHints(t, dir)["database"]
	want := []hint{{"read …: it is gone", "look at … again"}, {"… are bad", "mend it"}}
	if !slices.Equal(got, want) {
		t.Errorf("got %q", got)
	}
}
