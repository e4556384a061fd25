// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jmoiron/sqlx"
	"github.com/mattn/go-sqlite3"

	"rifling/slurm"
)

// DefaultMaxSamples bounds the samples that are kept as they came, in rows of
// about 50 bytes. At 100 nodes with two jobs each and one sample in 15 s this
// is more than two days; a larger site keeps its means for as long.
const DefaultMaxSamples = 3_000_000

// busyTimeout is how long a statement waits for another process's lock.
const busyTimeout = 5 * time.Second

// Options are what a store may be told. The zero value is good.
type Options struct {
	// Now is the host's clock, for the marks that say when the daemon was
	// alive; nil means time.Now.
	Now func() time.Time
	// MaxSamples bounds the samples that are kept as they came, by FoldSamples;
	// 0 means DefaultMaxSamples.
	MaxSamples int64
}

// Store is an open database. Its methods may be called by several goroutines.
type Store struct {
	db         *sqlx.DB
	reads      *sqlx.DB // for long reads beside the writing connection; db itself in a reader
	path       string
	now        func() time.Time
	maxSamples int64
	ids        ids
}

// Open opens the database for writing, creates it when it is missing, and
// brings its schema up to date. There is one writing connection, so writers of
// this process queue up; those of other processes wait for busyTimeout.
//
// Errors wrap ErrNotDatabase, ErrNewer or SQLite's own, with a hint.
func Open(path string, o Options) (*Store, error) {
	if err := checkFile(path); err != nil && !errors.Is(err, ErrMissing) {
		return nil, err
	}
	if err := createPrivate(path); err != nil {
		return nil, explain(path, "open", err)
	}
	s := open(path, dsn(path, url.Values{
		"_journal_mode": {"WAL"},
		"_auto_vacuum":  {"incremental"},
		// An owner record must outlive a power cut that follows the write to
		// Slurm, so commits wait for the disk.
		"_synchronous": {"FULL"},
		"_txlock":      {"immediate"},
	}), o)
	s.db.SetMaxOpenConns(1)
	if err := s.migrate(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	s.reads = sqlx.NewDb(sql.OpenDB(connector{dsn: dsn(path, url.Values{"_query_only": {"true"}})}), "sqlite3")
	s.reads.SetMaxOpenConns(1)
	return s, nil
}

// OpenReadOnly opens the database for queries. It works while the daemon
// writes, and needs no right to write to the file or its folder.
//
// Errors wrap ErrMissing, ErrUnreadable, ErrNotDatabase, ErrOlder or ErrNewer,
// with a hint.
func OpenReadOnly(path string) (*Store, error) {
	if err := checkFile(path); err != nil {
		return nil, err
	}
	params := url.Values{"mode": {"ro"}, "_query_only": {"true"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		// Nobody has it open and nothing is left to merge. SQLite would still
		// want to create its lock files here, which a reader may not.
		params.Set("immutable", "1")
	}
	s := open(path, dsn(path, params), Options{})
	s.db.SetMaxOpenConns(4)
	if err := s.checkSchema(); err != nil {
		return nil, errors.Join(err, s.db.Close())
	}
	return s, nil
}

// Close closes the database.
func (s *Store) Close() error {
	// The writer goes last: it merges the log into the file.
	return explain(s.path, "close", errors.Join(s.reads.Close(), s.db.Close()))
}

// Path returns the name of the database file.
func (s *Store) Path() string { return s.path }

func open(path, dsn string, o Options) *Store {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.MaxSamples <= 0 {
		o.MaxSamples = DefaultMaxSamples
	}
	db := sqlx.NewDb(sql.OpenDB(connector{dsn: dsn}), "sqlite3")
	return &Store{db: db, reads: db, path: path, now: o.Now, maxSamples: o.MaxSamples}
}

// dsn writes the pragmas into the data source name, so that every connection
// of the pool has them.
func dsn(path string, params url.Values) string {
	params.Set("_foreign_keys", "true")
	params.Set("_busy_timeout", fmt.Sprint(busyTimeout.Milliseconds()))
	return "file:" + (&url.URL{Path: path}).EscapedPath() + "?" + params.Encode()
}

// connector opens connections without a driver registered for the process.
type connector struct{ dsn string }

// Driver returns the driver that Connect uses.
func (c connector) Driver() driver.Driver { return &sqlite3.SQLiteDriver{} }

// Connect opens one connection.
func (c connector) Connect(context.Context) (driver.Conn, error) {
	d := &sqlite3.SQLiteDriver{ConnectHook: func(conn *sqlite3.SQLiteConn) error {
		// The -wal and -shm files stay after the daemon's end, so that users
		// without the right to create them can read.
		return conn.SetFileControlInt("main", sqlite3.SQLITE_FCNTL_PERSIST_WAL, 1)
	}}
	return d.Open(c.dsn)
}

// createPrivate makes the file itself, so that its rights do not hang on the
// umask: SQLite gives its side files the same.
func createPrivate(path string) error {
	if path == "" {
		return slurm.WithHint(errors.New("no database file is named"), "set database.path in the configuration")
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o640)
	if err != nil {
		return err
	}
	return f.Close()
}
