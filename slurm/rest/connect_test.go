// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

func TestConnectFindsTheBestVersion(t *testing.T) {
	for _, tt := range []struct {
		r     slurm.Release
		want  int
		newer bool
	}{
		{release(22, 5, 8), 38, false},
		{release(23, 2, 0), 38, false}, // 39 is there and not used
		{release(23, 11, 0), 38, false},
		{release(23, 11, 10), 40, false},
		{release(24, 5, 1), 41, false},
		{release(24, 11, 5), 42, false},
		{release(25, 5, 0), 43, false},
		{release(25, 11, 2), 44, false},
		{release(26, 5, 5), 45, false},
		{release(26, 11, 0), 45, true}, // 46 is there and not known
	} {
		t.Run(tt.r.String(), func(t *testing.T) {
			c, _ := client(t, slurmtest.NewServer(t, queue(tt.r).Obj()), Options{})
			s := mustSnapshot(t, c)
			if s.Release.REST != tt.want || s.Release.String() != tt.r.String() {
				t.Errorf("%v v0.0.%d, want v0.0.%d", s.Release, s.Release.REST, tt.want)
			}
			if got := c.Stats().NewerRelease; got != tt.newer {
				t.Errorf("newer: %v, want %v", got, tt.newer)
			}
		})
	}
}

func TestConnectKeepsToTheVersionAskedFor(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2605).Obj())
	c, _ := client(t, srv, Options{Version: 43})
	if s := mustSnapshot(t, c); s.Release.REST != 43 {
		t.Errorf("v0.0.%d, want v0.0.43", s.Release.REST)
	}
	c, _ = client(t, srv, Options{Version: 41})
	if _, err := c.Connect(t.Context()); !errors.Is(err, slurm.ErrUnknownVersion) || slurm.HintOf(err) == "" {
		t.Error(fmtErr(err))
	}
	if _, err := New(Options{URL: srv.URL, Version: 46}); !errors.Is(err, slurm.ErrUnknownVersion) {
		t.Error(fmtErr(err))
	}
}

// TestJobsOf2605AreReadInOlderShape: v0.0.45 does not tell exclusive jobs.
func TestJobsOf2605AreReadInOlderShape(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2605).Jobs(slurmtest.Job(20).GPUs(1).Exclusive()).Obj())
	c, _ := client(t, srv, Options{})
	if s := mustSnapshot(t, c); !s.Job(20).Exclusive || s.Release.REST != 45 {
		t.Errorf("%+v", s.Job(20))
	}
	srv.Fail(slurmtest.Fault{Path: "v0.0.44", Status: 404, Body: "Unable to find requested URL endpoint", ContentType: "text/plain", Times: -1})
	c, _ = client(t, srv, Options{})
	if s := mustSnapshot(t, c); len(s.Jobs) != 6 {
		t.Errorf("%d jobs without v0.0.44, want 6", len(s.Jobs))
	}
}

func TestUpgradeUnderARunningDaemon(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2205).Obj())
	c, _ := client(t, srv, Options{})
	mustSnapshot(t, c)
	srv.SetRelease(slurm.Release{Major: 24, Minor: 11, Micro: 5})
	s := mustSnapshot(t, c)
	if s.Release != slurm2411 || len(s.Jobs) != 5 || c.Stats().Reconnect != 1 {
		t.Errorf("%v, %d jobs, %d reconnects", s.Release, len(s.Jobs), c.Stats().Reconnect)
	}
}

func TestConnectSaysWhatIsWrong(t *testing.T) {
	for _, tt := range []struct {
		name, hint string
		fault      slurmtest.Fault
		want       error
	}{
		{"no known version", "rifling speaks", slurmtest.Fault{Status: 404, Body: "Unable find requested URL.", ContentType: "text/plain"}, slurm.ErrUnknownVersion},
		{"no token wanted", "no token file is set", slurmtest.Fault{Status: 401, Body: "Authentication failure", ContentType: "text/plain"}, slurm.ErrAuth},
		{"another service", "no other service", slurmtest.Fault{Body: "<html>", ContentType: "text/html"}, slurm.ErrUnreachable},
	} {
		srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
		tt.fault.Times = -1
		srv.Fail(tt.fault)
		c, _ := client(t, srv, Options{})
		if _, err := c.Connect(t.Context()); !errors.Is(err, tt.want) || !strings.Contains(slurm.HintOf(err), tt.hint) {
			t.Errorf("%s: %s", tt.name, fmtErr(err))
		}
	}
}

func TestAccountingAndAdminLevel(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, _ := client(t, srv, Options{User: "rifling"})
		if err := c.Accounting(t.Context()); err != nil {
			t.Error(fmtErr(err))
		}
		if user, level, err := c.AdminLevel(t.Context()); user != "rifling" || level != "Operator" || err != nil {
			t.Errorf("%q %q %v", user, level, err)
		}
		srv.Fail(slurmtest.Fault{Path: "/slurmdb", Status: http.StatusBadGateway, Number: 7000, Text: "Database connection reference is wrong", Times: -1})
		if err := c.Accounting(t.Context()); !errors.Is(err, slurm.ErrBusy) {
			t.Errorf("slurmdbd away: %s", fmtErr(err))
		}
		srv2 := slurmtest.NewServer(t, queue(r).Obj())
		c2, _ := client(t, srv2, Options{User: "rifling"})
		srv2.Fail(slurmtest.Fault{Path: "/user/", Body: `{"users":[],"errors":[]}`}, slurmtest.Fault{Path: "/user/", Body: `{"users":[{"name":"rifling","administrator_level":[]}],"errors":[]}`})
		if _, _, err := c2.AdminLevel(t.Context()); !errors.Is(err, slurm.ErrGone) || slurm.HintOf(err) == "" {
			t.Errorf("unknown user: %s", fmtErr(err))
		}
		if _, level, err := c2.AdminLevel(t.Context()); level != "None" || err != nil {
			t.Errorf("plain user: %q %v", level, err)
		}
	})
}
