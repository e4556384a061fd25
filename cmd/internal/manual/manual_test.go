// SPDX-License-Identifier: Apache-2.0

package manual

import (
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/etc"
)

var update = flag.Bool("update", false, "rewrite docs/configure.md")

// The marks in docs/configure.md between which the table of keys stands.
const (
	begin = "<!-- keys: made by `go generate ./cmd/internal/manual` -->\n"
	end   = "<!-- end of keys -->\n"
)

func TestConfigurePage(t *testing.T) {
	const path = "../../../docs/configure.md"
	have, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	table, err := ConfigTable(etc.Sample)
	if err != nil {
		t.Fatal(err)
	}
	before, rest, ok := strings.Cut(string(have), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 {
		t.Fatalf("%s lacks its marks", path)
	}
	want := before + begin + "\n" + table + "\n" + end + after
	if *update {
		if err := os.WriteFile(path, []byte(want), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	if want != string(have) {
		t.Errorf("%s does not show the keys of etc/rifling.yaml: call go generate ./cmd/internal/manual", path)
	}
}

// Every leaf of the configuration's struct is a key with a meaning.
func TestKeysHaveAllOfTheConfiguration(t *testing.T) {
	list, err := Keys(etc.Sample)
	if err != nil {
		t.Fatal(err)
	}
	have, sections := map[string]Key{}, map[string]string{}
	for _, k := range list {
		if k.Section {
			sections[k.Name] = k.Meaning
		}
		have[k.Name] = k
	}
	var walk func(reflect.Type, string)
	walk = func(s reflect.Type, prefix string) {
		for i := range s.NumField() {
			f := s.Field(i)
			name := prefix + f.Tag.Get("mapstructure")
			if f.Type.Kind() == reflect.Struct {
				walk(f.Type, name+".")
				continue
			}
			k, ok := have[name]
			section, _, _ := strings.Cut(name, ".")
			if !ok || k.Meaning == "" && sections[section] == "" {
				t.Errorf("%s: there %t, meaning %q", name, ok, k.Meaning)
			}
		}
	}
	walk(reflect.TypeFor[config.Config](), "")
}

func TestKeys(t *testing.T) {
	list, err := Keys("# About the file.\n\n# The first\n# of all.\na: 1\n\n# A section.\nb:\n  # One | two.\n  c: [x, y]\n  d: \"\"\n")
	if err != nil {
		t.Fatal(err)
	}
	want := []Key{{"a", "1", "The first of all.", false}, {"b", "", "A section.", true},
		{"b.c", "[x, y]", "One | two.", false}, {"b.d", `""`, "", false}}
	if !reflect.DeepEqual(list, want) {
		t.Errorf("got %+v", list)
	}
	for _, bad := range []string{"a: [", "- list", ""} {
		if _, err := Keys(bad); err == nil {
			t.Errorf("%q was read", bad)
		}
	}
}

func testRoot() *cobra.Command {
	root := &cobra.Command{Use: "prog", Short: "Do things", Version: "1.2", Long: "prog does.\n\n.dots and 'quotes' \\ stay.\n\n  as it is"}
	root.PersistentFlags().String("config", "", "configuration `file`")
	verb := &cobra.Command{Use: "verb NAME", Short: "Do one thing", Run: func(*cobra.Command, []string) {}, Example: "  prog verb x"}
	verb.Flags().IntP("number", "n", 3, "how many")
	verb.Flags().String("secret", "", "hidden")
	_ = verb.Flags().MarkHidden("secret")
	root.AddCommand(verb)
	Add(root, Program{Section: 1, Exit: "0 or 1.", Files: []string{"/etc/prog  its file"}, SeeAlso: []string{"other(8)"}})
	return root
}

func TestPagesSayWhatTheHelpSays(t *testing.T) {
	dir := t.TempDir()
	root := testRoot()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil || len(entries) != 2 {
		t.Fatalf("%v, %v: want one page for the program and one for its verb", entries, err)
	}
	for page, want := range map[string][]string{
		"prog.1": {`.TH PROG 1 "" "rifling 1.2"`, `\&.dots and \(aqquotes\(aq \e stay.`, ".BR prog\\-verb (1)", ".BR other (8)", `\-\-config FILE`, "/etc/prog"},
		"prog-verb.1": {`prog\-verb \- Do one thing`, `.B prog verb NAME [flags]`, `\-n, \-\-number INT`, "how many (default 3)",
			"OPTIONS OF ALL COMMANDS", "prog verb x"},
	} {
		text, err := os.ReadFile(filepath.Join(dir, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, w := range want {
			if !strings.Contains(string(text), w) {
				t.Errorf("%s lacks %q:\n%s", page, w, text)
			}
		}
		if strings.Contains(string(text), "secret") {
			t.Errorf("%s shows a hidden flag", page)
		}
	}
}

// man itself finds nothing wrong with the pages.
func TestManReadsThePages(t *testing.T) {
	if _, err := exec.LookPath("man"); err != nil {
		t.Skip("there is no man here")
	}
	text, err := ConfigPage(etc.Sample, "1")
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rifling.yaml.5"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	root := testRoot()
	root.SetArgs([]string{"man", dir})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	pages, _ := filepath.Glob(filepath.Join(dir, "*"))
	for _, p := range pages {
		cmd := exec.Command("man", "--warnings", "-E", "UTF-8", "-l", "-Tutf8", p)
		cmd.Env = append(os.Environ(), "MANWIDTH=80", "LC_ALL=C.UTF-8")
		var errs strings.Builder
		cmd.Stderr = &errs
		if _, err := cmd.Output(); err != nil || errs.Len() > 0 {
			t.Errorf("%s: %v %s", p, err, errs.String())
		}
	}
}

// A program without verbs does not get any by having a page.
func TestAddLeavesAProgramWithoutVerbsAsItWas(t *testing.T) {
	root := &cobra.Command{Use: "daemon", Short: "Run", Args: cobra.NoArgs, RunE: func(*cobra.Command, []string) error { return nil }}
	Add(root, Program{Section: 8})
	var out strings.Builder
	root.SetOut(&out)
	root.SetArgs([]string{"--help"})
	if err := root.Execute(); err != nil {
		t.Fatal(err)
	}
	for _, no := range []string{"Available Commands", "completion", "[command]"} {
		if strings.Contains(out.String(), no) {
			t.Errorf("the help shows %q:\n%s", no, out.String())
		}
	}
}
