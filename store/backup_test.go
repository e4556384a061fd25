// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rifling/slurm"
)

const ownOne = `INSERT INTO owners (job_id, user_nice, set_at, expires_at, shunned) VALUES (7, 0, 0, 0, '')`

func TestAnUpgradeKeepsACopyOfTheOldFile(t *testing.T) {
	path := testPath(t)
	old := atVersion(t, path, 2)
	if _, err := old.db.Exec(ownOne); err != nil {
		t.Fatal(err)
	}
	old.Close()
	openTest(t, path).Close()
	copied := backupPath(path, 2)
	info, err := os.Stat(copied)
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode().Perm()&0o007 != 0 {
		t.Errorf("everybody may read the copy: %v", info.Mode())
	}
	// The copy is a whole database of the old schema: the old program would go
	// on with it, and so does this one.
	s := open(copied, dsn(copied, url.Values{}), Options{})
	v, err := s.version()
	s.Close()
	if err != nil || v != 2 {
		t.Fatalf("the copy has schema %d, %v", v, err)
	}
	s = openTest(t, copied)
	defer s.Close()
	owners, err := s.Owners(context.Background())
	if err != nil || len(owners) != 1 || owners[0].JobID != 7 {
		t.Errorf("owners of the copy: %v, %v", owners, err)
	}
}

func TestNoCopyWithoutAnUpgrade(t *testing.T) {
	path := testPath(t)
	for range 2 { // a new file, then one that is up to date
		openTest(t, path).Close()
	}
	if found, _ := filepath.Glob(path + ".schema*"); len(found) > 0 {
		t.Errorf("there is %v", found)
	}
}

func TestACopyOfAnEarlierTryGivesWay(t *testing.T) {
	path := testPath(t)
	atVersion(t, path, 1).Close()
	writeFile(t, backupPath(path, 1), "an old copy")
	writeFile(t, backupPath(path, 1)+".new", "half a copy")
	openTest(t, path).Close()
	if _, err := os.Stat(backupPath(path, 1) + ".new"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("half a copy is left: %v", err)
	}
	if err := checkFile(backupPath(path, 1)); err != nil {
		t.Error(err)
	}
}

func TestNoCopyNoUpgrade(t *testing.T) {
	path := testPath(t)
	atVersion(t, path, 1).Close()
	// A folder of the copy's name, with something in it, cannot be replaced.
	if err := os.MkdirAll(filepath.Join(backupPath(path, 1), "x"), 0o700); err != nil {
		t.Fatal(err)
	}
	s, err := Open(path, Options{})
	if err == nil {
		s.Close()
		t.Fatal("the schema was changed without a copy")
	}
	if hint := slurm.HintOf(err); !strings.Contains(hint, "nothing was changed") {
		t.Errorf("hint %q", hint)
	}
	old := open(path, dsn(path, url.Values{}), Options{})
	defer old.Close()
	if v, err := old.version(); err != nil || v != 1 {
		t.Errorf("schema %d, %v", v, err)
	}
}

func TestADowngradeIsRefusedAndNamesTheCopy(t *testing.T) {
	path := testPath(t)
	atVersion(t, path, 1).Close()
	openTest(t, path).Close()
	foreignDB(t, path, `INSERT INTO migrations VALUES (999, '0999_future.sql', 0)`)
	for name, open := range map[string]func() error{
		"to write": func() error { _, err := Open(path, Options{}); return err },
		"to read":  func() error { _, err := OpenReadOnly(path); return err },
	} {
		err := open()
		if !errors.Is(err, ErrNewer) || !strings.Contains(slurm.HintOf(err), backupPath(path, 1)) {
			t.Errorf("%s: %v, hint %q", name, err, slurm.HintOf(err))
		}
	}
}
