// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/golang-jwt/jwt/v5"

	"rifling/slurm"
)

func TestCheck(t *testing.T) {
	tests := map[string]struct {
		make func(*site)
		code int
		want map[string]string // what a line is about: level, then words of it
	}{
		"all is well": {make: func(*site) {}, want: map[string]string{
			"slurmrestd": "ok Slurm 24.11.5, REST v0.0.42", "rights": "ok Operator", "accounting": "ok",
			"clock": "ok", "partitions": "ok gpu (32 GPUs)", "topology": "ok 2 leaf switches", "token": "ok unix socket",
			"database": "ok", "riflingd": "ok", "collectors": "ok 1 node heard of", "order": "ok site_factor"}},
		"slurmrestd is away": {make: func(s *site) { s.slurm.connect = slurm.WithHint(slurm.ErrUnreachable, "start it") }, code: 1,
			want: map[string]string{"slurmrestd": "fail cannot be reached", "database": "ok"}},
		"a plain user observes": {make: func(s *site) { s.slurm.level = "None" }, want: map[string]string{"rights": "warn AdminLevel None"}},
		"a plain user steers": {make: func(s *site) { s.slurm.level = "None"; s.extra = "mode: steer\n" }, code: 1,
			want: map[string]string{"rights": "fail AdminLevel None"}},
		"no accounting": {make: func(s *site) { s.slurm.account = slurm.ErrBusy },
			want: map[string]string{"accounting": "warn", "rights": "warn not known"}},
		"an old release": {make: func(s *site) { s.slurm.snap.Release = slurm.Release{Major: 22, Minor: 5, Micro: 8, REST: 38} },
			want: map[string]string{"order": "ok nice"}},
		"clocks apart": {make: func(s *site) { s.slurm.clock = s.now.Add(time.Hour) }, want: map[string]string{"clock": "warn 1h0m0s"}},
		"no GPUs": {make: func(s *site) {
			for i := range s.slurm.snap.Nodes {
				s.slurm.snap.Nodes[i].GPUs = 0
			}
		}, code: 1, want: map[string]string{"partitions": "fail no managed partition has GPUs"}},
		"a partition that is not there": {make: func(s *site) { s.extra = "manage: {partitions: [gpu, fast]}\n" }, code: 1,
			want: map[string]string{"partitions": "fail partition fast does not exist"}},
		"a flat network": {make: func(s *site) {
			for i := range s.slurm.snap.Nodes {
				s.slurm.snap.Nodes[i].Leaf = ""
			}
		}, want: map[string]string{"topology": "warn no leaf switch"}},
		"no token over TCP": {make: func(s *site) { s.extra = "slurm: {url: 'http://ctl:6820'}\n" },
			want: map[string]string{"token": "warn none is configured"}},
		"a token that ended":   {make: func(s *site) { s.token(-time.Minute) }, code: 1, want: map[string]string{"token": "fail ended 60 s ago"}},
		"a token near its end": {make: func(s *site) { s.token(5 * time.Minute) }, want: map[string]string{"token": "warn 5 min only"}},
		"a good token":         {make: func(s *site) { s.token(5 * time.Hour) }, want: map[string]string{"token": "ok 5 h 0 min"}},
		"the daemon is away": {make: func(s *site) { s.now = s.now.Add(time.Hour); s.slurm.clock = s.now },
			want: map[string]string{"riflingd": "warn last cycle"}},
		"not a database": {make: func(s *site) { writeText(s, s.db(), "text") }, code: 1, want: map[string]string{"database": "fail not a database"}},
		"no database yet": {make: func(s *site) {
			if err := os.Remove(s.db()); err != nil {
				s.t.Fatal(err)
			}
		}, want: map[string]string{"database": "warn does not exist yet"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := busySite(t)
			s.slurm.clock = s.now
			tc.make(s)
			code, out, errs := s.run("check")
			if code != tc.code || errs != "" {
				t.Errorf("exit %d, stderr %q, want exit %d:\n%s", code, errs, tc.code, out)
			}
			for about, want := range tc.want {
				level, words, _ := strings.Cut(want, " ")
				var got string
				for l := range strings.SplitSeq(out, "\n") {
					if f := strings.Fields(l); len(f) > 1 && f[0] == level && f[1] == about {
						got += l + "\n"
					}
				}
				if got == "" || !strings.Contains(got, words) {
					t.Errorf("no line %s %s with %q in\n%s", level, about, words, out)
				}
			}
			if code, out, _ = s.run("check", "--json"); code != tc.code || !json.Valid([]byte(out)) {
				t.Errorf("--json: exit %d, %q", code, out)
			}
		})
	}
}

// token writes a token that ends after the given time and configures it.
func (s *site) token(life time.Duration) {
	s.t.Helper()
	claims := jwt.MapClaims{"exp": s.now.Add(life).Unix(), "sun": "rifling"}
	text, err := jwt.NewWithClaims(jwt.SigningMethodHS256, claims).SignedString([]byte("a key of this test"))
	if err != nil {
		s.t.Fatal(err)
	}
	path := filepath.Join(s.dir, "token")
	writeText(s, path, "SLURM_JWT="+text+"\n")
	s.extra = "slurm: {url: 'http://ctl:6820', token-file: " + path + "}\n"
}

func TestATokenIsNeverShown(t *testing.T) {
	s := busySite(t)
	path := filepath.Join(s.dir, "token")
	writeText(s, path, "secret-that-is-no-jwt")
	s.extra = "slurm: {url: 'http://ctl:6820', token-file: " + path + "}\n"
	code, out, errs := s.run("check")
	if code != 1 || strings.Contains(out+errs, "secret-that") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}
