// SPDX-License-Identifier: Apache-2.0

package config

import (
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"rifling/slurm"
)

func TestFilesThatTooManyMayUse(t *testing.T) {
	tests := map[string]struct {
		file string
		mode fs.FileMode
		err  string
		hint string
		warn string
	}{
		"all as it should be":                    {file: "secret", mode: 0o640},
		"a secret that everybody can read":       {file: "secret", mode: 0o644, err: "every user of this machine can read it", hint: "chmod 0640"},
		"a token that everybody can read":        {file: "token", mode: 0o604, err: "slurm.token-file", hint: "chmod 0600"},
		"a token that its group can write":       {file: "token", mode: 0o660, err: "its group can change it"},
		"a key that everybody can read":          {file: "key", mode: 0o644, err: "listen.key-file"},
		"a configuration that everybody writes":  {file: "rifling.yaml", mode: 0o666, err: "every user of this machine can change it", hint: "chmod 0664"},
		"a configuration that everybody reads":   {file: "rifling.yaml", mode: 0o644},
		"a directory that everybody writes to":   {file: "state", mode: 0o777, err: "the directory of the database"},
		"one that is sticky, such as /tmp":       {file: "state", mode: 0o777 | fs.ModeSticky},
		"a database that everybody can write to": {file: "state/rifling.db", mode: 0o666, err: "the database"},
		"a database that everybody can read":     {file: "state/rifling.db", mode: 0o644, warn: "chmod 0640"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			at := func(name string) string { return filepath.Join(dir, name) }
			if err := os.Mkdir(at("state"), 0o750); err != nil {
				t.Fatal(err)
			}
			for _, f := range []string{"rifling.yaml", "secret", "token", "key", "state/rifling.db"} {
				if err := os.WriteFile(at(f), nil, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := os.Chmod(at(tc.file), tc.mode); err != nil {
				t.Fatal(err)
			}
			c := Default()
			c.Database, c.Slurm.TokenFile = at("state/rifling.db"), at("token")
			c.Listen.SecretFile, c.Listen.KeyFile = at("secret"), at("key")
			warn, err := c.CheckFiles(at("rifling.yaml"))
			if tc.err == "" && err != nil || tc.err != "" && (err == nil || !strings.Contains(err.Error(), tc.err)) {
				t.Errorf("error %v, want %q", err, tc.err)
			}
			if hint := slurm.HintOf(err); !strings.HasPrefix(hint, tc.hint) {
				t.Errorf("hint %q, want %q", hint, tc.hint)
			}
			if got := strings.Join(warn, "; "); !strings.Contains(got, tc.warn) || tc.warn == "" && got != "" {
				t.Errorf("warnings %q, want %q", got, tc.warn)
			}
		})
	}
}

func TestFilesThatAreMissingAreOthersBusiness(t *testing.T) {
	c := Default()
	c.Database, c.Slurm.TokenFile = "/nonexistent/rifling.db", "/nonexistent/token"
	if _, err := c.CheckFiles("/nonexistent/rifling.yaml"); err != nil {
		t.Error(err)
	}
}
