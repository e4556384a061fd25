// SPDX-License-Identifier: Apache-2.0

package main

import (
	"database/sql"
	"os"
	"strings"
	"testing"

	_ "github.com/mattn/go-sqlite3" // to make a schema old
)

// An older or newer schema, a damaged file, and one that may not be read each
// have their own line, on each verb that reads.
func TestVerbsTellWhatIsWrongWithTheDatabase(t *testing.T) {
	execute := func(query string) func(*site) {
		return func(s *site) {
			s.writer().Close()
			db, err := sql.Open("sqlite3", s.db())
			if err != nil {
				s.t.Fatal(err)
			}
			defer db.Close()
			if _, err := db.Exec(query); err != nil {
				s.t.Fatal(err)
			}
		}
	}
	tests := map[string]struct {
		prepare func(*site)
		want    []string
	}{
		"an older schema": {execute(`DELETE FROM migrations WHERE version > 4`), []string{"older schema", "hint: restart riflingd"}},
		"a newer schema":  {execute(`INSERT INTO migrations VALUES (999, 'later', 0)`), []string{"newer schema", "hint: use the programs of the newer release"}},
		"text":            {func(s *site) { writeText(s, s.db(), "text") }, []string{"not a database of rifling", "hint: "}},
		"no rights": {func(s *site) {
			s.writer().Close()
			if err := os.Chmod(s.db(), 0); err != nil {
				s.t.Fatal(err)
			}
		}, []string{"cannot be read", "hint: run as root or the user of riflingd"}},
	}
	for name, tc := range tests {
		for _, args := range [][]string{{"report"}, {"explain", "11"}, {"top"}} {
			t.Run(name+" "+args[0], func(t *testing.T) {
				if name == "no rights" && os.Getuid() == 0 {
					t.Skip("root may read everything")
				}
				s := newSite(t)
				tc.prepare(s)
				code, out, errs := s.run(args...)
				if code != 1 || out != "" {
					t.Errorf("exit %d, %q", code, out)
				}
				for _, w := range tc.want {
					if !strings.Contains(errs, w) {
						t.Errorf("no %q in %q", w, errs)
					}
				}
			})
		}
	}
}
