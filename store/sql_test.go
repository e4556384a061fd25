// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// sqlWords are what a piece of SQL begins with or holds.
var sqlWords = regexp.MustCompile(`(?s)^\s*(SELECT|INSERT|UPDATE|DELETE|REPLACE|CREATE|DROP|ALTER|PRAGMA|WHERE|FROM|ORDER|AND|VALUES|SET)\b|\b(SELECT|WHERE|FROM|VALUES)\b`)

// sqlParts are the names that hold text of ours: columns, conditions with
// question marks, statements. A name that is not here is a value until somebody
// has looked at it.
var sqlParts = map[string]bool{
	"where": true, "rest": true, "columns": true, "conds": true, "q": true, "means": true, "by": true, "table": true,
	"marks": true, "cols": true, "from": true,
}

// SQL is put together of literals, constants and named parts only; values go
// through parameters. This reads the package's sources for anything else.
func TestSQLHoldsNoValues(t *testing.T) {
	fset := token.NewFileSet()
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	constants, parsed := map[string]bool{}, map[string]*ast.File{}
	for _, name := range files {
		if strings.HasSuffix(name, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(fset, name, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		parsed[name] = f
		ast.Inspect(f, func(n ast.Node) bool {
			if d, ok := n.(*ast.GenDecl); ok && d.Tok == token.CONST {
				for _, s := range d.Specs {
					for _, id := range s.(*ast.ValueSpec).Names {
						constants[id.Name] = true
					}
				}
			}
			return true
		})
	}
	looked := 0
	for _, f := range parsed {
		for _, bad := range sqlValues(f, constants, &looked) {
			t.Errorf("%s: %s in SQL: use a parameter", fset.Position(bad.Pos()), shape(bad))
		}
	}
	if looked < 50 {
		t.Errorf("only %d pieces of SQL were looked at: has the package changed its ways?", looked)
	}
}

// sqlValues returns the expressions that are joined to SQL and are neither
// constants nor parts.
func sqlValues(f *ast.File, constants map[string]bool, looked *int) (bad []ast.Expr) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BasicLit:
			if isSQL(n) {
				*looked++
			}
		case *ast.CallExpr:
			if sel, ok := n.Fun.(*ast.SelectorExpr); ok && strings.HasPrefix(sel.Sel.Name, "Sprint") && len(n.Args) > 1 && isSQL(n.Args[0]) {
				bad = append(bad, n)
			}
		case *ast.BinaryExpr:
			parts := operands(n)
			if n.Op != token.ADD || !anySQL(parts) {
				return true
			}
			for _, p := range parts {
				if !ours(p, constants) {
					bad = append(bad, p)
				}
			}
			return false
		case *ast.AssignStmt:
			if n.Tok == token.ADD_ASSIGN && anySQL(operands(n.Rhs[0])) && !ours(n.Lhs[0], constants) {
				bad = append(bad, n.Lhs[0])
			}
		}
		return true
	})
	return bad
}

func operands(e ast.Expr) []ast.Expr {
	if b, ok := e.(*ast.BinaryExpr); ok && b.Op == token.ADD {
		return append(operands(b.X), operands(b.Y)...)
	}
	if p, ok := e.(*ast.ParenExpr); ok {
		return operands(p.X)
	}
	return []ast.Expr{e}
}

func anySQL(list []ast.Expr) bool {
	for _, e := range list {
		if isSQL(e) {
			return true
		}
	}
	return false
}

func isSQL(e ast.Expr) bool {
	lit, ok := e.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return false
	}
	s, err := strconv.Unquote(lit.Value)
	return err == nil && sqlWords.MatchString(s)
}

// ours reports whether an operand is text of the program's own.
func ours(e ast.Expr, constants map[string]bool) bool {
	switch e := e.(type) {
	case *ast.BasicLit:
		return true
	case *ast.Ident:
		return constants[e.Name] || sqlParts[e.Name]
	case *ast.CallExpr: // strings.Join(conds, " AND ") and the like
		if sel, ok := e.Fun.(*ast.SelectorExpr); ok {
			pkg, isPkg := sel.X.(*ast.Ident)
			if isPkg && pkg.Name == "strings" && (sel.Sel.Name == "Join" || sel.Sel.Name == "Repeat") {
				return ours(e.Args[0], constants)
			}
		}
	}
	return false
}

func shape(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return shape(e.X) + "." + e.Sel.Name
	case *ast.CallExpr:
		return shape(e.Fun) + "(...)"
	}
	return fmt.Sprintf("%T", e)
}

// The reading finds what it is for.
func TestSQLReaderFindsValues(t *testing.T) {
	for src, want := range map[string]int{
		"db.Get(&n, `SELECT * FROM jobs WHERE user = '` + f.User + `'`)":               1,
		"db.Get(&n, fmt.Sprintf(`SELECT * FROM jobs WHERE user = %q`, user))":          1,
		"q += ` AND name = '` + name + `'`":                                            1,
		"s := `SELECT a FROM b WHERE ` + where + ` ORDER BY ` + strings.Join(cols, x)": 0,
		"db.Get(&n, `SELECT a FROM b WHERE c = ?`, f.User)":                            0,
		"s := `hello ` + f.User":                                                       0,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "x.go", "package x\nfunc f() { "+src+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		looked := 0
		if got := sqlValues(f, nil, &looked); len(got) != want {
			t.Errorf("%s: %d findings, want %d", src, len(got), want)
		}
	}
}

// No other package talks SQL.
func TestOnlyTheStoreTalksSQL(t *testing.T) {
	root := ".."
	err := filepath.WalkDir(root, func(path string, e os.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(root, path)
		if e.IsDir() && (strings.HasPrefix(e.Name(), ".") && rel != "." || rel == "store") {
			return filepath.SkipDir
		}
		// Tests break databases for others to stumble over.
		if !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.ImportsOnly)
		if err != nil {
			return nil //nolint:nilerr // another test's business
		}
		for _, i := range f.Imports {
			if p := strings.Trim(i.Path.Value, `"`); (p == "database/sql" || strings.Contains(p, "sqlx") || strings.Contains(p, "sqlite")) && !strings.HasPrefix(rel, "contrib/") {
				t.Errorf("%s imports %s", rel, p)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}
