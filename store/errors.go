// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/mattn/go-sqlite3"

	"rifling/slurm"
)

// What can be wrong with a database file as a whole, told apart.
var (
	ErrMissing     = errors.New("there is no database yet")
	ErrUnreadable  = errors.New("database cannot be read")
	ErrNotDatabase = errors.New("file is not a database of rifling")
	ErrOlder       = errors.New("database has an older schema")
	ErrNewer       = errors.New("database has a newer schema")
	// ErrUnknownJob says that the history knows nothing of a job.
	ErrUnknownJob = errors.New("job is not in the history")
)

// magic begins every SQLite file.
var magic = []byte("SQLite format 3\x00")

// checkFile tells a missing, unreadable or foreign file before SQLite does, in
// plainer words. An empty file is a new database.
func checkFile(path string) error {
	f, err := os.Open(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return slurm.WithHint(fmt.Errorf("%s: %w", path, ErrMissing),
			"riflingd creates it in its first cycle: see `systemctl status riflingd`, or give --config if the daemon uses another file")
	case errors.Is(err, fs.ErrPermission):
		return slurm.WithHint(fmt.Errorf("%s: %w: %w", path, ErrUnreadable, err),
			"run as root or the user of riflingd, or join the group that owns the file")
	case err != nil:
		return slurm.WithHint(fmt.Errorf("%s: %w: %w", path, ErrUnreadable, err), "check the path database in the configuration")
	}
	defer f.Close()
	head := make([]byte, len(magic))
	n, err := io.ReadFull(f, head)
	if n == 0 && errors.Is(err, io.EOF) {
		return nil
	}
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) {
		return slurm.WithHint(fmt.Errorf("%s: %w: %w", path, ErrUnreadable, err), "check the path database in the configuration")
	}
	if !bytes.Equal(head, magic) {
		return slurm.WithHint(fmt.Errorf("%s: %w", path, ErrNotDatabase),
			"check the path database in the configuration; riflingd will not overwrite this file")
	}
	return nil
}

// explain says what was being done to which file and adds what the admin can
// do about it. Nil stays nil.
func explain(path, doing string, err error) error {
	if err == nil {
		return nil
	}
	wrapped := fmt.Errorf("%s %s: %w", doing, path, err)
	if slurm.HintOf(err) != "" {
		return wrapped
	}
	return slurm.WithHint(wrapped, "%s", hintFor(path, err))
}

func hintFor(path string, err error) string {
	if errors.Is(err, fs.ErrPermission) {
		return "run as the user of riflingd, and let that user own " + path + " and its folder"
	}
	var se sqlite3.Error
	if !errors.As(err, &se) {
		return "check the file and its folder: " + path
	}
	switch se.Code {
	case sqlite3.ErrFull:
		return "the disk is full: free space beside " + path + ", or shorten the retention in the configuration; nothing was written to Slurm without a record"
	case sqlite3.ErrBusy, sqlite3.ErrLocked:
		return "another process holds the database: is a second riflingd running? `fuser " + path + "` tells which"
	case sqlite3.ErrCorrupt, sqlite3.ErrNotADB:
		return "the file is damaged: stop riflingd, keep a copy, and rebuild it with `sqlite3 " + path + " .recover | sqlite3 new.db`; the table owners in it says what to take back in Slurm"
	case sqlite3.ErrReadonly, sqlite3.ErrPerm, sqlite3.ErrAuth, sqlite3.ErrCantOpen:
		return "run as the user of riflingd, and let that user own " + path + ", its -wal and -shm files and its folder"
	case sqlite3.ErrIoErr:
		return "the disk below " + path + " reports errors: see dmesg; a network file system is no place for this file"
	}
	return "see `sqlite3 " + path + " 'PRAGMA integrity_check'`"
}
