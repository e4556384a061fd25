// SPDX-License-Identifier: Apache-2.0

package store

import (
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"strconv"
	"strings"

	"github.com/mattn/go-sqlite3"

	"rifling/slurm"
)

// The schema, one file a step. A file that was released is never changed.
//
//go:embed migrations/*.sql
var migrationFiles embed.FS

// migration is one numbered step of the schema.
type migration struct {
	version int
	name    string
	sql     string
}

// migrations returns the steps in order: 0001_..., 0002_..., without a gap.
func migrations() ([]migration, error) {
	names, err := fs.Glob(migrationFiles, "migrations/*.sql")
	if err != nil {
		return nil, err
	}
	var out []migration
	for i, name := range names {
		base := strings.TrimPrefix(name, "migrations/")
		number, _, _ := strings.Cut(base, "_")
		version, err := strconv.Atoi(number)
		if err != nil || version != i+1 {
			return nil, fmt.Errorf("migration %s: want number %04d", base, i+1)
		}
		body, err := migrationFiles.ReadFile(name)
		if err != nil {
			return nil, err
		}
		out = append(out, migration{version: version, name: base, sql: string(body)})
	}
	return out, nil
}

// SchemaVersion returns the schema's number that this program writes.
func SchemaVersion() int {
	all, err := migrations()
	if err != nil {
		panic(err) // the files are part of the program
	}
	return len(all)
}

// migrate runs the steps that the file has not seen, each in a transaction of
// its own, so that a crash leaves a whole step or none. A file that holds
// something is copied first, to path.schemaN, so that an upgrade can be undone. Opening a file cannot be
// interrupted, so there is no context.
func (s *Store) migrate() error {
	all, err := migrations()
	if err != nil {
		return err
	}
	const create = `CREATE TABLE IF NOT EXISTS migrations (
		version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`
	if err := s.refuseForeign(); err != nil {
		return err
	}
	if _, err := s.db.Exec(create); err != nil {
		return explain(s.path, "prepare", err)
	}
	have, err := s.version()
	if err != nil {
		return explain(s.path, "read the schema of", err)
	}
	if have > len(all) {
		return s.newer(have)
	}
	if have > 0 && have < len(all) {
		if err := s.backup(have); err != nil {
			return s.explainBackup(have, err)
		}
	}
	for _, m := range all[have:] {
		if err := s.step(m); err != nil {
			return explain(s.path, "bring up to date ("+m.name+")", err)
		}
	}
	return nil
}

func (s *Store) step(m migration) error {
	tx, err := s.db.Beginx()
	if err != nil {
		return err
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if _, err := tx.Exec(m.sql); err != nil {
		return err
	}
	const note = `INSERT INTO migrations (version, name, applied_at) VALUES (?, ?, ?)`
	if _, err := tx.Exec(note, m.version, m.name, s.now().Unix()); err != nil {
		return err
	}
	return tx.Commit()
}

// refuseForeign keeps rifling's tables out of another program's database.
func (s *Store) refuseForeign() error {
	var tables, ours int
	const q = `SELECT count(*), coalesce(sum(name = 'migrations'), 0) FROM sqlite_master WHERE type = 'table'`
	if err := s.db.QueryRow(q).Scan(&tables, &ours); err != nil {
		return explain(s.path, "read", err)
	}
	if tables > 0 && ours == 0 {
		return s.foreign()
	}
	return nil
}

// checkSchema tells whether the queries of this program fit the file.
func (s *Store) checkSchema() error {
	have, err := s.version()
	var se sqlite3.Error
	switch {
	case errors.As(err, &se) && se.Code == sqlite3.ErrError: // no such table
		if s.empty() {
			return slurm.WithHint(fmt.Errorf("%s: %w", s.path, ErrMissing), "riflingd fills it in its first cycle: see `systemctl status riflingd`")
		}
		return s.foreign()
	case err != nil:
		return explain(s.path, "read the schema of", err)
	case have > SchemaVersion():
		return s.newer(have)
	case have < SchemaVersion():
		return slurm.WithHint(fmt.Errorf("%s: %w: %d, this program knows %d", s.path, ErrOlder, have, SchemaVersion()),
			"restart riflingd of the same version as this program: it brings the file up to date")
	}
	return nil
}

func (s *Store) version() (int, error) {
	var v int
	err := s.db.Get(&v, `SELECT coalesce(max(version), 0) FROM migrations`)
	return v, err
}

func (s *Store) empty() bool {
	var n int
	err := s.db.Get(&n, `SELECT count(*) FROM sqlite_master`)
	return err == nil && n == 0
}

func (s *Store) newer(have int) error {
	hint := "use the programs of the newer release; a schema is never taken back"
	if copied := newestBackup(s.path); copied != "" {
		hint += fmt.Sprintf(". To go back all the same: call `rifling release` of the newer release, stop riflingd, remove %s-wal and -shm, and move %s to %s; what came after it is lost",
			s.path, copied, s.path)
	}
	return slurm.WithHint(fmt.Errorf("%s: %w: %d, this program knows %d", s.path, ErrNewer, have, SchemaVersion()), "%s", hint)
}

func (s *Store) foreign() error {
	return slurm.WithHint(fmt.Errorf("%s: %w", s.path, ErrNotDatabase),
		"it is an SQLite file of another program: check the path database in the configuration")
}
