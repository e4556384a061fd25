// SPDX-License-Identifier: Apache-2.0

// Package brake holds the files by which an admin keeps riflingd from changing
// jobs. A file can be made with a full disk, a broken database, without the
// daemon and without rifling's programs, so it is what counts: where one is
// that cannot be read or understood, nothing is set.
package brake

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"rifling/slurm"
)

// Pause is what `rifling pause` writes. A file made by hand may be empty.
type Pause struct {
	By    string     `json:"by,omitempty"`
	Why   string     `json:"why,omitempty"`
	At    time.Time  `json:"at,omitzero"`
	Until *time.Time `json:"until,omitempty"` // nil: until `rifling resume`
}

// most is how much of a pause file is read.
const most = 4096

// Read returns the pause that the file at path stands for at the given instant
// of the host's clock; nil when there is none, or when its time is over.
func Read(path string, now time.Time) *Pause {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	var p Pause
	if err == nil {
		defer f.Close()
		var b []byte
		if b, err = io.ReadAll(io.LimitReader(f, most)); err == nil && len(b) > 0 {
			err = json.Unmarshal(b, &p)
		}
	}
	if err != nil {
		// Somebody wanted something of us, if only by touching the file.
		return &Pause{Why: "the file " + path + " is there"}
	}
	if p.Until != nil && !now.Before(*p.Until) {
		return nil
	}
	if p.Why == "" {
		p.Why = "the file " + path + " is there"
	}
	return &p
}

// Write makes the pause file. The daemon's user must be able to read it.
func Write(path string, p Pause) error {
	b, err := json.Marshal(p)
	if err != nil {
		return fmt.Errorf("write the pause: %w", err)
	}
	if err := replace(path, append(b, '\n')); err != nil {
		return slurm.WithHint(fmt.Errorf("write the pause: %w", err),
			"run this as root or as rifling's user; on a full disk `touch %s` does the same", path)
	}
	return nil
}

// Touch makes an empty file, if there is none.
func Touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644) //nolint:gosec // it holds nothing, and the daemon must see it
	if err != nil {
		return slurm.WithHint(err, "run this as root or as rifling's user")
	}
	return f.Close()
}

// Remove removes a file and reports whether there was one.
func Remove(path string) (bool, error) {
	err := os.Remove(path)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, slurm.WithHint(err, "run this as root or as rifling's user")
	}
	return true, nil
}

// replace writes a file whole or not at all.
func replace(path string, text []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), ".pause-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(0o644), f.Close())
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
