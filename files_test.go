// SPDX-License-Identifier: Apache-2.0

package rifling_test

import (
	"bytes"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const (
	maxLines    = 500
	licenceLine = "SPDX-License-Identifier: Apache-2.0"
)

// sources are the kinds of file that people write and read as code.
var sources = []string{".go", ".sh", ".c", ".h", ".sql", ".lua", ".service", ".timer", "Makefile", ".ci/run"}

// Generated files carry the marker that Go prescribes, within their first lines.
var generated = regexp.MustCompile(`(?m)^// Code generated .* DO NOT EDIT\.$`)

func TestSourcesHaveLicenceLineAndFitInAFile(t *testing.T) {
	files := sourceFiles(t, sources...)
	if len(files) == 0 {
		t.Fatal("found no sources: is the walk looking in the right place?")
	}
	for _, name := range files {
		src := read(t, name)
		head := bytes.Join(firstLines(src, 3), []byte("\n"))
		if !bytes.Contains(head, []byte(licenceLine)) {
			t.Errorf("%s: the first lines lack %q", name, licenceLine)
		}
		if generated.Match(head) {
			continue
		}
		if lines := bytes.Count(src, []byte("\n")); lines >= maxLines {
			t.Errorf("%s has %d lines: split it before %d", name, lines, maxLines)
		}
	}
}

// A relative link of a document, without its anchor.
var link = regexp.MustCompile(`\]\(([^)#\s]+)(#[^)]*)?\)`)

func TestDocumentsLinkToFilesThatExist(t *testing.T) {
	for _, name := range sourceFiles(t, ".md") {
		for _, m := range link.FindAllStringSubmatch(string(read(t, name)), -1) {
			if strings.Contains(m[1], "://") || strings.HasPrefix(m[1], "mailto:") {
				continue
			}
			if _, err := os.Stat(filepath.FromSlash(path.Join(path.Dir(name), m[1]))); err != nil {
				t.Errorf("%s links to %s, which does not exist", name, m[1])
			}
		}
	}
}

func TestDesignIndexListsEveryPage(t *testing.T) {
	index := string(read(t, "docs/design/README.md"))
	for _, name := range sourceFiles(t, ".md") {
		page, ok := strings.CutPrefix(name, "docs/design/")
		if ok && page != "README.md" && !strings.Contains(index, "]("+page+")") {
			t.Errorf("docs/design/README.md does not list %s", page)
		}
	}
}

// A metric that is renamed leaves its alert silent for ever.
func TestAlertsNameMetricsThatExist(t *testing.T) {
	code := ""
	for _, name := range sourceFiles(t, ".go") {
		if path.Dir(name) == "cmd/riflingd" {
			code += string(read(t, name))
		}
	}
	names := regexp.MustCompile(`\brifling_([a-z_]+)`).FindAllStringSubmatch(string(read(t, "etc/alerts.rules.yml")), -1)
	if len(names) == 0 {
		t.Fatal("found no metric in the alerts")
	}
	series := regexp.MustCompile(`_(bucket|count|sum)$`) // what a histogram is scraped as
	for _, m := range names {
		full, short := series.ReplaceAllString(m[0], ""), series.ReplaceAllString(m[1], "")
		if !strings.Contains(code, `"`+short+`"`) && !strings.Contains(code, `"`+full+`"`) {
			t.Errorf("etc/alerts.rules.yml uses %s, which riflingd does not have", m[0])
		}
	}
}

// Whoever is woken by an alert finds what to do.
func TestAlertsHaveARunbook(t *testing.T) {
	rules, runbook := string(read(t, "etc/alerts.rules.yml")), string(read(t, "docs/metrics.md"))
	alerts := regexp.MustCompile(`alert: (\w+)`).FindAllStringSubmatch(rules, -1)
	if len(alerts) == 0 {
		t.Fatal("found no alert")
	}
	for _, m := range alerts {
		if !strings.Contains(runbook, "### "+m[1]+"\n") || !strings.Contains(rules, "docs/metrics.md#"+strings.ToLower(m[1])) {
			t.Errorf("%s has no section in docs/metrics.md, or does not name it", m[1])
		}
	}
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.FromSlash(name))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func firstLines(src []byte, n int) [][]byte {
	lines := bytes.SplitN(src, []byte("\n"), n+1)
	return lines[:min(n, len(lines))]
}
