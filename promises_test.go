// SPDX-License-Identifier: Apache-2.0

package rifling_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	testName = regexp.MustCompile("`((?:Test|Fuzz)[A-Za-z0-9]+)`")
	testFunc = regexp.MustCompile(`(?m)^func ((?:Test|Fuzz)[A-Za-z0-9_]+)\(`)
)

// The pages that promise something name the tests that hold it: each of these
// exists, and each threat of the threat model has one, or a check.
func TestPromisesNameTestsThatExist(t *testing.T) {
	have := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, e fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case e.IsDir() && strings.HasPrefix(e.Name(), ".") && path != ".":
			return filepath.SkipDir
		case !strings.HasSuffix(path, "_test.go"):
			return nil
		}
		text, err := os.ReadFile(path)
		for _, m := range testFunc.FindAllStringSubmatch(string(text), -1) {
			have[m[1]] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, page := range []string{"docs/security.md", "docs/design/safety.md"} {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range testName.FindAllStringSubmatch(string(text), -1) {
			if !have[m[1]] {
				t.Errorf("%s names %s, which is no test", page, m[1])
			}
		}
		if page != "docs/security.md" {
			continue
		}
		for line := range strings.Lines(string(text)) {
			cells := strings.Split(line, "|")
			if len(cells) == 5 && !strings.Contains(line, "---") && !strings.Contains(line, "| threat |") &&
				!testName.MatchString(cells[3]) && !strings.Contains(cells[3], "`make ") {
				t.Errorf("%s: no test for %q", page, strings.TrimSpace(cells[1]))
			}
		}
	}
}
