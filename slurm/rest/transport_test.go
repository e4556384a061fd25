// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

func TestReadsAreTriedAgain(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	c, naps := client(t, srv, Options{MaxRetries: 5})
	srv.Fail(slurmtest.Fault{Path: "/jobs", Status: 502, Number: 1804, Times: 4})
	mustSnapshot(t, c)
	want := []time.Duration{250, 500, 1000, 2000}
	for i, n := range *naps {
		if n != want[i]*time.Millisecond {
			t.Errorf("pauses %v, want %v ms", *naps, want)
			break
		}
	}
	if s := c.Stats(); s.Retries != 4 || s.Errors["busy"] != 4 || s.BytesIn == 0 || s.Requests < 8 {
		t.Errorf("stats %+v", s)
	}
}

func TestReadsGiveUp(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, naps := client(t, srv, Options{MaxRetries: 2})
		mustSnapshot(t, c)
		srv.Stop()
		if _, err := c.Snapshot(t.Context()); !errors.Is(err, slurm.ErrBusy) || len(*naps) != 2 {
			t.Errorf("%s after %d tries again, want ErrBusy after 2", fmtErr(err), len(*naps))
		}
		srv.Start()
		mustSnapshot(t, c)
	})
}

// TestSlowFailureIsNotTriedAgain: on 22.05 the library has tried for 9 s.
func TestSlowFailureIsNotTriedAgain(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2205).Obj())
	now := time.Unix(1e9, 0)
	slow := false
	c, naps := client(t, srv, Options{Timeout: 20 * time.Second, User: "rifling", TokenFile: tokenFile(t, "good"), Now: func() time.Time {
		if slow {
			now = now.Add(9 * time.Second)
		}
		return now
	}})
	mustSnapshot(t, c)
	slow = true
	srv.Stop()
	if _, err := c.Snapshot(t.Context()); !errors.Is(err, slurm.ErrBusy) || len(*naps) > 1 {
		t.Errorf("%s after %d tries again; slow is busy, not a bad token", fmtErr(err), len(*naps))
	}
}

func TestNobodyListens(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	url := "http://" + l.Addr().String()
	l.Close()
	c, err := New(Options{URL: url, MaxRetries: -1})
	if err != nil {
		t.Fatal(err)
	}
	_, err = c.Snapshot(t.Context())
	if !errors.Is(err, slurm.ErrUnreachable) || !strings.Contains(slurm.HintOf(err), url) {
		t.Error(fmtErr(err))
	}
	if err := c.Update(t.Context(), slurm.Update{JobID: 1, Nice: ptr(int64(1))}); !errors.Is(err, slurm.ErrUnreachable) {
		t.Error(fmtErr(err))
	}
}

func TestContextEndsACall(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	c, _ := client(t, srv, Options{})
	mustSnapshot(t, c)
	srv.Fail(slurmtest.Fault{Delay: 10 * time.Second, Times: -1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	started := time.Now()
	if _, err := c.Snapshot(ctx); !errors.Is(err, context.DeadlineExceeded) || time.Since(started) > 5*time.Second {
		t.Errorf("%v after %v", err, time.Since(started))
	}
}

func TestSlowServerEndsByTimeout(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	srv.Fail(slurmtest.Fault{Delay: 10 * time.Second, Times: -1})
	c, _ := client(t, srv, Options{Timeout: 50 * time.Millisecond, MaxRetries: -1})
	if _, err := c.Snapshot(t.Context()); !errors.Is(err, slurm.ErrUnreachable) {
		t.Error(fmtErr(err))
	}
}

func TestUnixSocket(t *testing.T) {
	fake := slurmtest.NewServer(t, queue(slurm2411).Obj())
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	h := &http.Server{Handler: fake}
	go h.Serve(l)
	defer h.Close()
	c, err := New(Options{URL: "unix://" + socket})
	if err != nil {
		t.Fatal(err)
	}
	if s := mustSnapshot(t, c); len(s.Jobs) != 5 {
		t.Errorf("%d jobs", len(s.Jobs))
	}
}

func TestHeaders(t *testing.T) {
	var got http.Header
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		got = r.Header
		w.WriteHeader(http.StatusNotFound)
	}))
	defer srv.Close()
	jwt := jwt(`{"exp":9999999999,"sun":"steward"}`)
	for _, tt := range []struct {
		name              string
		o                 Options
		wantUser, wantJWT string
	}{
		{"user of the token", Options{TokenFile: tokenFile(t, "SLURM_JWT="+jwt+"\n")}, "steward", jwt},
		{"user as configured", Options{TokenFile: tokenFile(t, jwt), User: "rifling"}, "rifling", jwt},
		{"no token", Options{User: "rifling"}, "", ""},
	} {
		tt.o.URL = srv.URL
		c, err := New(tt.o)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := c.Connect(t.Context()); !errors.Is(err, slurm.ErrUnknownVersion) {
			t.Errorf("%s: %v", tt.name, err)
		}
		if u, j := got.Get("X-SLURM-USER-NAME"), got.Get("X-SLURM-USER-TOKEN"); u != tt.wantUser || j != tt.wantJWT {
			t.Errorf("%s: %q %q", tt.name, u, j)
		}
		if got.Get("Accept-Encoding") != "" || got.Get("User-Agent") != "rifling" {
			t.Errorf("%s: headers %v", tt.name, got)
		}
	}
}

// TestTokenIsNeverShown lets a careless proxy echo it.
func TestTokenIsNeverShown(t *testing.T) {
	secret := jwt(`{"exp":9999999999}`)
	for _, status := range []int{200, 400, 401, 404, 500, 502} {
		for _, body := range []string{secret, `{"errors":[{"description":"bad header ` + secret + `","error_number":9000}]}`} {
			srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(status)
				w.Write([]byte(body))
			}))
			c, err := New(Options{URL: srv.URL, TokenFile: tokenFile(t, secret), User: "rifling", MaxRetries: -1})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Snapshot(t.Context())
			if err == nil || strings.Contains(fmtErr(err), secret) {
				t.Errorf("HTTP %d: %s", status, fmtErr(err))
			}
			srv.Close()
		}
	}
}

func TestBadURLs(t *testing.T) {
	for _, url := range []string{"", "localhost:6820", "ftp://x", "http://", "unix://", "http://user:secret@host:1", "http://a b", "http://[::1"} {
		_, err := New(Options{URL: url})
		if err == nil || strings.Contains(err.Error(), "secret") {
			t.Errorf("%q: %v", url, err)
		}
	}
	if _, err := New(Options{URL: "https://x", CAFile: tokenFile(t, "no certificate")}); err == nil {
		t.Error("a CA file without certificates is accepted")
	}
}

func FuzzRecord(f *testing.F) {
	for _, seed := range []string{
		`{"job_id":7,"job_state":["PENDING"],"priority":{"set":true,"infinite":false,"number":1}}`,
		`{"job_id":{"set":true,"number":7},"job_state":"RUNNING","nodes":"gpu[01-02]","gres_detail":["gpu:a100:2(IDX:0-1)",null]}`,
		`{"name":"gpu01","state":"idle","state_flags":["DRAIN"],"gres":"gpu:a100:8(S:0-1)"}`,
		`{"name":"gpu","partition":{"state":["UP"]},"nodes":{"configured":"gpu[01-02]"},"maximums":{"time":null}}`,
		`{"job_id":-1}`, `{"job_id":1e99}`, `[1,2]`, `null`, `{"nice":4294967295,"time_limit":"INFINITE"}`,
	} {
		f.Add([]byte(seed))
	}
	c, err := New(Options{URL: "http://localhost:1"})
	if err != nil {
		f.Fatal(err)
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		r := newRecord(raw)
		if j, _ := jobRecord(r); r.odd == "" && (j.ID == 0 || j.State.Base == "" || j.TimeLimit < 0 || j.Request.PerJob < 0 || j.MinNodes < 0 || j.CPUs < 0) {
			t.Errorf("%s is read as %+v", raw, j)
		}
		c.nodeRecord(newRecord(raw))
		partitionRecord(newRecord(raw))
		if _, err := c.interpret(request{method: http.MethodPost}, 200, "application/json", raw, 0); err == nil && !json.Valid(raw) {
			t.Errorf("%s is taken for an answer", raw)
		}
	})
}
