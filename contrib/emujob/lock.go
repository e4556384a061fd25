// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// The shared directory is written by jobs of different users on one host, so
// everything in it is open to all: a lab's directory, not a site's.
const (
	openDir  = 0o777
	openFile = 0o666
)

// mkdirAll makes a directory that every user may write to.
func mkdirAll(path string) error {
	if _, err := os.Stat(path); err == nil {
		return nil
	}
	if parent := filepath.Dir(path); parent != path {
		if err := mkdirAll(parent); err != nil {
			return err
		}
	}
	if err := os.Mkdir(path, openDir); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	_ = os.Chmod(path, openDir) // past the umask; refused where another user made it, who did the same
	return nil
}

// writeFile replaces the file in one step, so that no reader sees a part of it.
func writeFile(path, content string) error {
	tmp := fmt.Sprintf("%s/.%s.%d", filepath.Dir(path), filepath.Base(path), os.Getpid())
	if err := os.WriteFile(tmp, []byte(content), 0o644); err != nil {
		return err
	}
	return os.Rename(tmp, path)
}

// withLock runs f while no other process holds the lock file.
func withLock(path string, f func() error) error {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, openFile)
	if err != nil {
		return err
	}
	defer file.Close() // releases the lock
	_ = file.Chmod(openFile)
	if err := unix.Flock(int(file.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", path, err)
	}
	return f()
}

// hold publishes a file that is locked for as long as this process lives; the
// kernel releases it however the process ends. It is locked before it becomes
// visible. Closing it and removing it is the caller's.
func hold(path, content string) (*os.File, error) {
	tmp := fmt.Sprintf("%s/.%s.%d", filepath.Dir(path), filepath.Base(path), os.Getpid())
	f, err := os.OpenFile(tmp, os.O_CREATE|os.O_TRUNC|os.O_RDWR, 0o644)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX)
	if err == nil {
		_, err = f.WriteString(content)
	}
	if err == nil {
		err = os.Rename(tmp, path)
	}
	if err != nil {
		_ = f.Close() // the first error is the one to tell
		return nil, err
	}
	return f, nil
}

// held reports whether the process that published the file by hold still lives.
func held(path string) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer f.Close()
	return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB), unix.EWOULDBLOCK)
}
