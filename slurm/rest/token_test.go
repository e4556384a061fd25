// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

func TestTokenIsReadAgain(t *testing.T) {
	now := time.Unix(1_000_000, 0)
	first, second, third := jwt(`{"exp":1000600}`), jwt(`{"exp":1002000}`), jwt(`{"exp":1009999}`)
	file := tokenFile(t, first)
	k := newToken(file, func() time.Time { return now })
	get := func() string {
		t.Helper()
		text, _, err := k.get()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	if get() != first {
		t.Fatal("not the first token")
	}
	// Renewed in place, noticed by its time.
	replace(t, file, second, now.Add(time.Hour))
	if get() != second {
		t.Error("a changed file is not read again")
	}
	// Same size and time, as coarse file systems have it: noticed before exp.
	stamp := now.Add(time.Hour)
	replace(t, file, third, stamp)
	if get() != second {
		t.Error("read again without need")
	}
	now = time.Unix(1_002_000, 0).Add(-renewBefore)
	if get() != third {
		t.Error("not read again shortly before exp")
	}
}

func replace(t *testing.T, file, text string, mtime time.Time) {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Chtimes(file, mtime, mtime); err != nil {
		t.Fatal(err)
	}
}

func TestTokenRenewedUnderARunningClient(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		srv.Token("old")
		file := tokenFile(t, "old")
		c, _ := client(t, srv, Options{TokenFile: file, User: "rifling"})
		mustSnapshot(t, c)
		srv.Token("new-one")
		srv.Advance(time.Minute)
		if _, err := c.Snapshot(t.Context()); !errors.Is(err, slurm.ErrAuth) {
			t.Fatalf("old token: %s", fmtErr(err))
		}
		replace(t, file, "new-one\n", time.Unix(5000, 0))
		if s := mustSnapshot(t, c); len(s.Jobs) != 5 {
			t.Errorf("%d jobs", len(s.Jobs))
		}
	})
}

func TestUnusableTokenFiles(t *testing.T) {
	for name, file := range map[string]string{
		"missing":    filepath.Join(t.TempDir(), "none"),
		"empty":      tokenFile(t, "\n"),
		"two words":  tokenFile(t, "one two"),
		"too long":   tokenFile(t, strings.Repeat("x", maxToken+1)),
		"unreadable": t.TempDir(), // a folder, which even root cannot read as a file
	} {
		srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
		c, _ := client(t, srv, Options{TokenFile: file})
		_, err := c.Snapshot(t.Context())
		if !errors.Is(err, slurm.ErrAuth) || !strings.Contains(err.Error(), file) || slurm.HintOf(err) == "" {
			t.Errorf("%s: %s", name, fmtErr(err))
		}
		if len(srv.Requests()) != 0 {
			t.Errorf("%s: %d requests without a token", name, len(srv.Requests()))
		}
	}
}

func TestClaims(t *testing.T) {
	for _, tt := range []struct {
		name, text, user string
		exp              int64
	}{
		{"Slurm's own", jwt(`{"exp":1796103188,"iat":1796101388,"sun":"rifling"}`), "rifling", 1796103188},
		{"username", jwt(`{"exp":10,"username":"alice"}`), "alice", 10},
		{"an object under sun", jwt(`{"exp":10,"sun":{"name":"x"}}`), "", 10},
		{"a fraction", jwt(`{"exp":10.7}`), "", 10},
		{"no exp", jwt(`{"sun":"a"}`), "a", 0},
		{"exp beyond time", jwt(`{"exp":1e30}`), "", 0},
		{"no JWT", "secret", "", 0},
		{"three parts of nothing", "a.b.c", "", 0},
		{"not base64", "a.###.c", "", 0},
	} {
		user, exp := claims(tt.text)
		if user != tt.user || exp.IsZero() != (tt.exp == 0) || tt.exp != 0 && exp.Unix() != tt.exp {
			t.Errorf("%s: %q %v", tt.name, user, exp)
		}
	}
}
