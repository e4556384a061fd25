// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/mattn/go-sqlite3"

	"rifling/slurm"
)

func writeFile(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// foreignDB is an SQLite file of another program.
func foreignDB(t *testing.T, path string, statements ...string) {
	t.Helper()
	s := open(path, dsn(path, url.Values{}), Options{})
	defer s.Close()
	for _, q := range statements {
		if _, err := s.db.Exec(q); err != nil {
			t.Fatalf("%s: %v", q, err)
		}
	}
}

func TestOpenReadOnlySaysWhatIsWrong(t *testing.T) {
	tests := map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"no file yet": {make: func(*testing.T, string) {}, want: ErrMissing},
		"an empty file, as the daemon makes before its first transaction": {
			make: func(t *testing.T, path string) { writeFile(t, path, "") }, want: ErrMissing},
		"a text file": {
			make: func(t *testing.T, path string) { writeFile(t, path, "database: /var/lib/rifling/rifling.db\n") },
			want: ErrNotDatabase},
		"a folder": {
			make: func(t *testing.T, path string) {
				if err := os.Mkdir(path, 0o700); err != nil {
					t.Fatal(err)
				}
			}, want: ErrUnreadable},
		"another program's database": {
			make: func(t *testing.T, path string) { foreignDB(t, path, `CREATE TABLE users (id INTEGER)`) },
			want: ErrNotDatabase},
		"a newer schema": {
			make: func(t *testing.T, path string) {
				openTest(t, path).Close()
				foreignDB(t, path, `INSERT INTO migrations VALUES (999, '0999_future.sql', 0)`)
			}, want: ErrNewer},
		"an older schema": {
			make: func(t *testing.T, path string) { atVersion(t, path, 1).Close() }, want: ErrOlder},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := testPath(t)
			tc.make(t, path)
			s, err := OpenReadOnly(path)
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, tc.want) {
				t.Fatalf("got %v, want %v", err, tc.want)
			}
			if slurm.HintOf(err) == "" || !strings.Contains(err.Error(), path) {
				t.Errorf("want the path and a hint, got %q, hint %q", err, slurm.HintOf(err))
			}
		})
	}
}

func TestOpenRefusesWhatItWouldDestroy(t *testing.T) {
	tests := map[string]struct {
		make func(t *testing.T, path string)
		want error
	}{
		"a text file": {
			make: func(t *testing.T, path string) { writeFile(t, path, "keep me") }, want: ErrNotDatabase},
		"another program's database": {
			make: func(t *testing.T, path string) { foreignDB(t, path, `CREATE TABLE users (id INTEGER)`) },
			want: ErrNotDatabase},
		"a newer schema": {
			make: func(t *testing.T, path string) {
				openTest(t, path).Close()
				foreignDB(t, path, `INSERT INTO migrations VALUES (999, '0999_future.sql', 0)`)
			}, want: ErrNewer},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			path := testPath(t)
			tc.make(t, path)
			s, err := Open(path, Options{})
			if err == nil {
				s.Close()
			}
			if !errors.Is(err, tc.want) || slurm.HintOf(err) == "" {
				t.Fatalf("got %v (hint %q), want %v", err, slurm.HintOf(err), tc.want)
			}
		})
	}
}

// atVersion makes a database of an earlier schema.
func atVersion(t *testing.T, path string, version int) *Store {
	t.Helper()
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	s := open(path, dsn(path, url.Values{}), Options{Now: func() time.Time { return hostNow }})
	if _, err := s.db.Exec(`CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL,
		applied_at INTEGER NOT NULL) STRICT`); err != nil {
		t.Fatal(err)
	}
	for _, m := range all[:version] {
		if err := s.step(m); err != nil {
			t.Fatal(err)
		}
	}
	return s
}

func TestOpenBringsAnOlderFileUpToDateAndKeepsIt(t *testing.T) {
	path := testPath(t)
	old := atVersion(t, path, 1)
	if _, err := old.db.Exec(`INSERT INTO owners (job_id, user_nice, set_at, expires_at, shunned) VALUES (7, 0, 0, 0, '')`); err != nil {
		t.Fatal(err)
	}
	old.Close()
	for range 2 { // a second start finds nothing to do
		s := openTest(t, path)
		owners, err := s.Owners(context.Background())
		if err != nil || len(owners) != 1 || owners[0].JobID != 7 {
			t.Fatalf("owners after the migration: %v, %v", owners, err)
		}
		if v, err := s.version(); err != nil || v != SchemaVersion() {
			t.Fatalf("version %d, %v; want %d", v, err, SchemaVersion())
		}
		s.Close()
	}
}

func TestAStepThatFailsLeavesNothingBehind(t *testing.T) {
	path := testPath(t)
	s := atVersion(t, path, 1)
	defer s.Close()
	bad := migration{version: 2, name: "0002_bad.sql", sql: `CREATE TABLE half (id INTEGER) STRICT; INSERT INTO nowhere VALUES (1);`}
	if err := s.step(bad); err == nil {
		t.Fatal("want an error")
	}
	var n int
	if err := s.db.Get(&n, `SELECT count(*) FROM sqlite_master WHERE name = 'half'`); err != nil || n != 0 {
		t.Errorf("table half is there: %d, %v", n, err)
	}
	if v, _ := s.version(); v != 1 {
		t.Errorf("version %d, want 1", v)
	}
}

func TestADamagedFileIsAnErrorWithAHint(t *testing.T) {
	path := testPath(t)
	s := openTest(t, path)
	for i := range 200 {
		begin(t, s, record(t0.Add(time.Duration(i)*time.Minute), pendingJob(slurm.JobID(i+1))))
	}
	if _, err := s.db.Exec(`PRAGMA wal_checkpoint(TRUNCATE)`); err != nil {
		t.Fatal(err)
	}
	s.Close()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	for i := 4096; i < len(b); i++ { // all pages but the first
		b[i] = 0xA5
	}
	writeFile(t, path, string(b))
	r, err := OpenReadOnly(path)
	if err == nil {
		defer r.Close()
		_, err = r.Jobs(context.Background(), Filter{})
	}
	var se sqlite3.Error
	if !errors.As(err, &se) || se.Code != sqlite3.ErrCorrupt {
		t.Fatalf("got %v, want SQLite's ErrCorrupt", err)
	}
	if !strings.Contains(slurm.HintOf(err), ".recover") {
		t.Errorf("hint %q does not say how to recover", slurm.HintOf(err))
	}
}

func TestHintsByCause(t *testing.T) {
	tests := map[string]struct {
		err  error
		want string
	}{
		"disk full":          {sqlite3.Error{Code: sqlite3.ErrFull}, "disk is full"},
		"a second daemon":    {sqlite3.Error{Code: sqlite3.ErrBusy}, "second riflingd"},
		"damaged":            {sqlite3.Error{Code: sqlite3.ErrCorrupt}, ".recover"},
		"read-only":          {sqlite3.Error{Code: sqlite3.ErrReadonly}, "user of riflingd"},
		"failing disk":       {sqlite3.Error{Code: sqlite3.ErrIoErr}, "dmesg"},
		"no right":           {os.ErrPermission, "user of riflingd"},
		"keeps a hint":       {slurm.WithHint(errors.New("x"), "own hint"), "own hint"},
		"anything of SQLite": {sqlite3.Error{Code: sqlite3.ErrMisuse}, "integrity_check"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := explain("/var/lib/rifling/rifling.db", "write", tc.err)
			if got := slurm.HintOf(err); !strings.Contains(got, tc.want) {
				t.Errorf("hint %q does not contain %q", got, tc.want)
			}
			if !errors.Is(err, tc.err) {
				t.Errorf("%v does not wrap its cause", err)
			}
		})
	}
	if err := explain("x", "write", nil); err != nil {
		t.Errorf("nil became %v", err)
	}
}

func TestASecondWriterIsToldWhoHoldsTheLock(t *testing.T) {
	path := testPath(t)
	s := openTest(t, path)
	other := open(path, strings.Replace(dsn(path, url.Values{"_txlock": {"immediate"}}), "5000", "50", 1), Options{})
	defer other.Close()
	tx, err := s.db.Beginx()
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := tx.Rollback(); err != nil {
			t.Error(err)
		}
	}()
	err = other.SaveState(context.Background(), "book", []byte("x"))
	if !strings.Contains(slurm.HintOf(err), "second riflingd") {
		t.Errorf("got %v, hint %q", err, slurm.HintOf(err))
	}
}

func TestOddPaths(t *testing.T) {
	for name, base := range map[string]string{
		"a question mark": "what?.db", "a hash": "a#b.db", "a space": "my history.db", "percent": "50%25.db",
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "new folder", base)
			openTest(t, path)
			if _, err := os.Stat(path); err != nil {
				t.Fatal(err)
			}
			r, err := OpenReadOnly(path)
			if err != nil {
				t.Fatal(err)
			}
			r.Close()
		})
	}
}

func TestReadersNeedNoRightToWrite(t *testing.T) {
	path := testPath(t)
	s := openTest(t, path)
	begin(t, s, record(t0, pendingJob(1)))
	s.Close()
	for _, side := range []string{"", "-wal", "-shm"} {
		if _, err := os.Stat(path + side); err != nil {
			t.Errorf("after the daemon's end: %v", err)
		}
	}
	// As after a copy of the file alone.
	lone := filepath.Join(t.TempDir(), "copy.db")
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	writeFile(t, lone, string(b))
	r, err := OpenReadOnly(lone)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if jobs, err := r.Jobs(context.Background(), Filter{}); err != nil || len(jobs) != 1 {
		t.Errorf("jobs of the copy: %v, %v", jobs, err)
	}
	if err := r.SaveState(context.Background(), "book", nil); err == nil {
		t.Error("a read-only store took a write")
	}
}
