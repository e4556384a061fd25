// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rifling/slurm"
)

// backupPath names the copy that is made of a file before its schema changes.
func backupPath(path string, version int) string {
	return fmt.Sprintf("%s.schema%d", path, version)
}

// backup copies the database as it is, whole or not at all, beside it. An older
// copy of the same schema gives way: it is from a try that did not end, or from
// before the admin went back.
func (s *Store) backup(version int) error {
	to := backupPath(s.path, version)
	tmp := to + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := createPrivate(tmp); err != nil { // with the rights of the database; SQLite fills an empty file
		return err
	}
	if _, err := s.db.Exec(`VACUUM INTO ?`, tmp); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	if err := syncFile(tmp); err != nil {
		return errors.Join(err, os.Remove(tmp))
	}
	return os.Rename(tmp, to)
}

func syncFile(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// explainBackup says what was not begun, and what it takes.
func (s *Store) explainBackup(version int, err error) error {
	return slurm.WithHint(fmt.Errorf("copy %s before its schema changes from %d to %d: %w", s.path, version, SchemaVersion(), err),
		"it needs as much room in %s as the file has, and the right to write there; nothing was changed", filepath.Dir(s.path))
}

// newestBackup returns the copy with the highest schema that this program can
// read, or "".
func newestBackup(path string) string {
	names, err := filepath.Glob(escapeGlob(path) + ".schema*")
	if err != nil {
		return ""
	}
	best := 0
	for _, n := range names {
		v, err := strconv.Atoi(strings.TrimPrefix(n, path+".schema"))
		if err == nil && v <= SchemaVersion() {
			best = max(best, v)
		}
	}
	if best == 0 {
		return ""
	}
	return backupPath(path, best)
}

// escapeGlob keeps a path's own characters from being a pattern.
func escapeGlob(path string) string {
	var b strings.Builder
	for _, r := range path {
		if slices.Contains([]rune(`*?[\`), r) {
			b.WriteByte('\\')
		}
		b.WriteRune(r)
	}
	return b.String()
}
