// SPDX-License-Identifier: Apache-2.0

package main

import (
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"rifling/cmd/internal/config"
)

// followed are the pages whose blocks contrib/packaging/docs-test.sh runs, or CI.
var followed = []string{"install.md", "configure.md", "observe-to-steer.md", "tune.md", "troubleshoot.md", "admin.md",
	"lab.md", "simulate.md", "versions.md", "glossary.md", "README.md"}

// kinds are what a block of these pages may be: run in the lab as root of
// slurmctld's machine or of a node, run by CI in the repository, or read.
var kinds = []string{"sh lab", "sh node", "sh repo", "yaml", "ini"}

// block is a fenced block of a page.
type block struct {
	page, kind string
	lines      []string
}

func blocksOf(t *testing.T, path string) []block {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var out []block
	open := false
	for line := range strings.Lines(string(text)) {
		trimmed := strings.TrimSpace(line)
		switch kind, fence := strings.CutPrefix(trimmed, "```"); {
		case fence && !open:
			open = true
			out = append(out, block{page: filepath.Base(path), kind: kind})
		case fence:
			open = false
		case open:
			b := &out[len(out)-1]
			b.lines = append(b.lines, strings.TrimRight(line, "\n"))
		}
	}
	return out
}

func pages(t *testing.T) []string {
	t.Helper()
	list, err := filepath.Glob("../../docs/*.md")
	if err != nil || len(list) == 0 {
		t.Fatal("no pages", err)
	}
	return append(list, "../../README.md")
}

// No block of a page that is followed is left out silently.
func TestEveryBlockOfADocumentIsOfAKindThatIsTested(t *testing.T) {
	for _, path := range pages(t) {
		if !slices.Contains(followed, filepath.Base(path)) {
			continue
		}
		for _, b := range blocksOf(t, path) {
			if !slices.Contains(kinds, b.kind) {
				t.Errorf("%s: a block of kind %q, which no test runs: %q", b.page, b.kind, b.lines)
			}
		}
	}
}

// Configurations in documents are read as riflingd reads them.
func TestConfigurationsInDocumentsAreRead(t *testing.T) {
	for _, path := range pages(t) {
		for _, b := range blocksOf(t, path) {
			if b.kind != "yaml" || !slices.Contains(followed, b.page) {
				continue // other pages show other programs' files too
			}
			file := filepath.Join(t.TempDir(), "rifling.yaml")
			if err := os.WriteFile(file, []byte(strings.Join(b.lines, "\n")+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
			if _, err := config.Load(file, nil); err != nil {
				t.Errorf("%s: %v", b.page, err)
			}
		}
	}
}

var (
	ending  = regexp.MustCompile(`\s+#.*$|\s*(\||>|&&|;).*$`)
	targets = regexp.MustCompile(`(?m)^([a-z0-9-]+):`)
)

// Verbs and flags that a document shows are those that the program has.
func TestCommandsInDocumentsExist(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var goals []string
	for _, m := range targets.FindAllStringSubmatch(string(makefile), -1) {
		goals = append(goals, m[1])
	}
	checked := 0
	for _, path := range pages(t) {
		if strings.HasSuffix(path, "benchmarks.md") {
			continue // its blocks are output
		}
		for _, b := range blocksOf(t, path) {
			for _, line := range b.lines {
				line = strings.TrimPrefix(strings.TrimSpace(line), "runuser -u rifling -- ")
				words := strings.Fields(ending.ReplaceAllString(line, ""))
				switch {
				case len(words) > 1 && words[0] == "make":
					if !slices.Contains(goals, words[1]) {
						t.Errorf("%s: the Makefile has no %q", b.page, words[1])
					}
				case len(words) > 1 && words[0] == "rifling":
					checkCommand(t, b.page, words[1:])
				default:
					continue
				}
				checked++
			}
		}
	}
	if checked < 20 {
		t.Fatalf("found %d commands: does the search still see them?", checked)
	}
}

// checkCommand reads a command line as the program would, and runs nothing.
func checkCommand(t *testing.T, page string, words []string) {
	t.Helper()
	for i, w := range words {
		words[i] = strings.Trim(strings.ReplaceAll(w, "JOBID", "4711"), `"'`)
	}
	root := NewRoot(io.Discard, io.Discard, Env{Now: time.Now})
	cmd, rest, err := root.Find(words)
	if err == nil && cmd == root {
		err = io.EOF // a word that is no verb
	}
	if err == nil {
		err = cmd.ParseFlags(rest)
	}
	if err == nil && cmd.Args != nil {
		err = cmd.Args(cmd, cmd.Flags().Args())
	}
	if err != nil {
		t.Errorf("%s: rifling %s: %v", page, strings.Join(words, " "), err)
	}
}
