// SPDX-License-Identifier: Apache-2.0

package config

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"rifling/slurm"
)

// Modes of files that are asked for.
const (
	othersRead  fs.FileMode = 0o004
	othersWrite fs.FileMode = 0o002
	groupWrite  fs.FileMode = 0o020
)

// CheckFiles refuses files that more people may read or write than is good:
// secrets that any user of the machine can read, a configuration or a state
// directory that any user can write to. path is the configuration's, empty for
// the default one. Files that are not there are not looked at: whoever needs
// one says so. What is odd without being dangerous is returned as warnings.
func (c *Config) CheckFiles(path string) (warnings []string, err error) {
	for _, f := range []struct {
		path, what string
		never      fs.FileMode
	}{
		{shown(path), "the configuration", othersWrite},
		{c.Slurm.TokenFile, "slurm.token-file", othersRead | othersWrite | groupWrite},
		{c.Listen.SecretFile, "listen.secret-file", othersRead | othersWrite | groupWrite},
		{c.Listen.KeyFile, "listen.key-file", othersRead | othersWrite | groupWrite},
		{c.Prometheus.TokenFile, "prometheus.token-file", othersRead | othersWrite | groupWrite},
		{filepath.Dir(c.Database), "the directory of the database", othersWrite},
		{c.Database, "the database", othersWrite},
	} {
		if f.path == "" {
			continue
		}
		info, err := os.Stat(f.path)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return warnings, fmt.Errorf("look at %s: %w", f.what, err)
		}
		mode := info.Mode()
		if bad := mode.Perm() & f.never; bad != 0 && (!info.IsDir() || mode&fs.ModeSticky == 0) {
			return warnings, slurm.WithHint(fmt.Errorf("%s (%s) has mode %04o: %s", f.what, f.path, mode.Perm(), reach(bad)),
				"chmod %04o %s", mode.Perm()&^f.never, f.path)
		}
		if f.path == c.Database && mode.Perm()&othersRead != 0 {
			warnings = append(warnings, fmt.Sprintf("%s (%s) can be read by every user of this machine: names, accounts and comments of all jobs; chmod 0640 %s",
				f.what, f.path, f.path))
		}
	}
	return warnings, nil
}

// reach says who can do what with such a mode.
func reach(bad fs.FileMode) string {
	switch {
	case bad&othersWrite != 0:
		return "every user of this machine can change it"
	case bad&groupWrite != 0:
		return "its group can change it"
	}
	return "every user of this machine can read it"
}
