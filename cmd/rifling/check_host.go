// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/golang-jwt/jwt/v5"
	"golang.org/x/sys/unix"

	"rifling/store"
)

// tokenSoon is how near the end of a token's life is worth a warning.
const tokenSoon = 10 * time.Minute

// token says until when the token is good. Its signature is slurmctld's to
// check; a wrong one shows as refused authentication.
func (c *checker) token(now time.Time) {
	path := c.cfg.Slurm.TokenFile
	if path == "" {
		if !strings.HasPrefix(c.cfg.Slurm.URL, "unix:") {
			c.add(levelWarn, "token", "set slurm.token-file; over TCP slurmrestd asks for a token", "none is configured")
			return
		}
		c.add(levelOK, "token", "", "none needed on a unix socket")
		return
	}
	exp, err := tokenExpiry(path)
	renew := "renew it with a timer: scontrol token username=" + c.cfg.Slurm.User + " lifespan=SECONDS > " + path
	switch {
	case err != nil:
		c.add(levelFail, "token", renew, "%v", err)
	case exp.IsZero():
		c.add(levelOK, "token", "", "names no end of life")
	case !now.Before(exp):
		c.add(levelFail, "token", renew, "ended %s ago, at %s", about(now.Sub(exp)), c.clock(exp))
	case exp.Sub(now) < tokenSoon:
		c.add(levelWarn, "token", renew, "good for %s only, until %s", about(exp.Sub(now)), c.clock(exp))
	default:
		c.add(levelOK, "token", "", "good for %s, until %s", about(exp.Sub(now)), c.clock(exp))
	}
	if info, err := os.Stat(path); err == nil && info.Mode().Perm()&0o007 != 0 {
		c.add(levelWarn, "token", "chmod o-rwx "+path, "everybody can read %s (mode %04o)", path, info.Mode().Perm())
	}
}

// tokenExpiry reads a JWT's exp; zero when it names none. Errors never hold
// the token's text.
func tokenExpiry(path string) (time.Time, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return time.Time{}, fmt.Errorf("read token: %w", err)
	}
	text := strings.TrimPrefix(strings.TrimSpace(string(raw)), "SLURM_JWT=")
	claims := jwt.MapClaims{}
	if _, _, err := jwt.NewParser().ParseUnverified(text, claims); err != nil {
		return time.Time{}, fmt.Errorf("%s holds no JWT", path)
	}
	exp, err := claims.GetExpirationTime()
	if err != nil {
		return time.Time{}, fmt.Errorf("%s: odd end of life (exp)", path)
	}
	if exp == nil {
		return time.Time{}, nil
	}
	return exp.Time, nil
}

// database looks at the file, and through it at the daemon and its collectors.
func (c *checker) database(ctx context.Context) {
	path := c.cfg.Database
	s, err := store.OpenReadOnly(path)
	switch {
	case errors.Is(err, store.ErrMissing):
		if unix.Access(nearest(filepath.Dir(path)), unix.W_OK) != nil {
			c.add(levelWarn, "database", "let riflingd's user own "+filepath.Dir(path), "%s does not exist, and this user may not create it", path)
			return
		}
		c.add(levelWarn, "database", "start riflingd, which creates it: systemctl start riflingd", "%s does not exist yet", path)
		return
	case err != nil:
		c.fail(levelFail, "database", err)
		return
	}
	defer s.Close()
	if unix.Access(path, unix.W_OK) != nil {
		c.add(levelWarn, "database", "run this check as riflingd's user to see whether it may", "%s is of schema %d; this user may not write to it", path, store.SchemaVersion())
	} else {
		c.add(levelOK, "database", "", "%s is of schema %d and can be written to", path, store.SchemaVersion())
	}
	st, err := s.Status(ctx)
	if err != nil {
		c.fail(levelFail, "database", err)
		return
	}
	c.daemon(st)
}

// nearest returns the folder, or the nearest one above it that exists.
func nearest(dir string) string {
	for {
		if _, err := os.Stat(dir); err == nil || dir == filepath.Dir(dir) {
			return dir
		}
		dir = filepath.Dir(dir)
	}
}

// collectorSilence is the age of the last counters that is worth a warning.
const collectorSilence = 10 * time.Minute

func (c *checker) daemon(st *store.Status) {
	if st.Last == nil {
		c.add(levelWarn, "riflingd", "see systemctl status riflingd", "has not finished a cycle yet")
		return
	}
	age := c.env.Now().Sub(lastBeat(st.Newest))
	switch {
	case st.Newest.Stopped():
		c.add(levelWarn, "riflingd", "systemctl start riflingd", "was stopped %s ago", about(age))
	case age > staleAfter(c.cfg):
		c.add(levelWarn, "riflingd", "see systemctl status riflingd; rifling release takes back what it left", "last cycle %s ago, %s", about(age), count(st.Owned, "job owned", "jobs owned"))
	default:
		c.add(levelOK, "riflingd", "", "last cycle %s ago, mode %s", about(age), st.Newest.Mode)
	}
	do := "start rifling-collector on the GPU nodes; without it jobs are told apart by accounting alone"
	switch {
	case st.LastSample.IsZero():
		c.add(levelWarn, "collectors", do, "none has reported yet")
	case st.Last.At.Sub(st.LastSample) > collectorSilence && st.Last.Running > 0:
		c.add(levelWarn, "collectors", do, "last heard of %s before the last cycle", about(st.Last.At.Sub(st.LastSample)))
	default:
		c.add(levelOK, "collectors", "", "%s heard of within an hour", count(st.Collectors, "node", "nodes"))
	}
}
