// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/contrib/labrun"
)

// Each row is something that a site gets wrong, what "rifling check" must say
// of it, and whether the daemon goes on.
func TestBadInput(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	stranger := proxy(t, func(*http.Request) labrun.Fault { return labrun.Fault{Status: http.StatusNotFound, Body: "Not found"} })
	noAccounting := proxy(t, func(r *http.Request) labrun.Fault {
		if strings.HasPrefix(r.URL.Path, "/slurmdb/") {
			return labrun.Fault{Status: http.StatusInternalServerError,
				Body: `{"errors":[{"description":"Failed to open slurmdbd connection","error_number":7000,"error":"Unable to connect to database"}]}`}
		}
		return labrun.Fault{}
	})
	tests := []struct {
		name   string
		opts   labrun.DaemonOptions
		check  []string // words of rifling check, any case; the first is the level
		daemon []string // words of riflingd's log or last message
		ends   bool     // riflingd refuses to start
	}{
		{
			name:   "wrong token",
			opts:   labrun.DaemonOptions{Config: map[string]any{"slurm.token-file": write("wrong", "not.a.token\n")}},
			check:  []string{"fail", "token"},
			daemon: []string{"authentication refused"},
		},
		{
			name:   "expired token",
			opts:   labrun.DaemonOptions{Config: map[string]any{"slurm.token-file": write("expired", expiredToken(t)+"\n")}},
			check:  []string{"fail", "expired"},
			daemon: []string{"authentication refused"},
		},
		{
			name:   "no token file",
			opts:   labrun.DaemonOptions{Config: map[string]any{"slurm.token-file": filepath.Join(dir, "nosuch")}},
			check:  []string{"fail", "nosuch", "scontrol token"},
			daemon: []string{"nosuch"},
		},
		{
			name:   "nobody listens at the URL",
			opts:   labrun.DaemonOptions{URL: "http://127.0.0.1:1"},
			check:  []string{"fail", "127.0.0.1:1"},
			daemon: []string{"cannot be reached"},
		},
		{
			name:   "something else listens there, or a release that is unknown",
			opts:   labrun.DaemonOptions{URL: stranger.URL},
			check:  []string{"fail", "no known REST version"},
			daemon: []string{"no known REST version"},
		},
		{
			name:   "no accounting",
			opts:   labrun.DaemonOptions{URL: noAccounting.URL},
			check:  []string{"warn", "accounting"},
			daemon: []string{"connected"},
		},
		{
			name:   "a managed partition that is not there",
			opts:   labrun.DaemonOptions{Config: map[string]any{"manage.partitions": []string{"nosuch"}}},
			check:  []string{"nosuch", "partition"},
			daemon: []string{"connected"},
		},
		{
			name:   "an unknown key",
			opts:   labrun.DaemonOptions{Config: map[string]any{"limits.max-wiat": "2h"}},
			check:  []string{"max-wiat", "unknown key"},
			daemon: []string{"max-wiat", "unknown key", "hint"},
			ends:   true,
		},
		{
			name:   "a word that is no mode",
			opts:   labrun.DaemonOptions{Mode: "stear"},
			check:  []string{"stear", "steer"},
			daemon: []string{"stear", "hint"},
			ends:   true,
		},
		{
			name:   "a broken database file",
			opts:   labrun.DaemonOptions{Database: write("broken.db", strings.Repeat("this is no database\n", 100))},
			check:  []string{"database", "broken.db"},
			daemon: []string{"broken.db", "hint"},
			ends:   true,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			d, err := theLab.PrepareDaemon(tt.opts)
			if err != nil {
				t.Fatal(err)
			}
			defer d.Remove()
			out, err := d.Rifling(within(t, time.Minute), "check")
			if err != nil {
				out += err.Error()
			}
			mustSay(t, "rifling check", out, tt.check)

			err = d.Start(within(t, 40*time.Second))
			if tt.ends {
				if err == nil {
					t.Fatal("riflingd started")
				}
				mustSay(t, "riflingd", d.Log(), tt.daemon)
				return
			}
			if err != nil {
				t.Fatalf("riflingd must go on: %v", err)
			}
			time.Sleep(2500 * time.Millisecond)
			if !d.Running() {
				t.Errorf("riflingd ended")
			}
			mustSay(t, "riflingd", d.Log(), tt.daemon)
			if err := d.Stop(); err != nil {
				t.Errorf("stop: %v", err)
			}
		})
	}
}

func mustSay(t *testing.T, who, text string, words []string) {
	t.Helper()
	for _, w := range words {
		if !strings.Contains(strings.ToLower(text), strings.ToLower(w)) {
			t.Errorf("%s does not say %q:\n%s", who, w, text)
		}
	}
	t.Logf("%s:\n%s", who, text)
}

// proxy starts a proxy in front of the lab's slurmrestd for the test's time.
func proxy(t *testing.T, choose func(*http.Request) labrun.Fault) *labrun.Proxy {
	t.Helper()
	p, err := labrun.NewProxy(theLab.RESTURL)
	if err != nil {
		t.Fatal(err)
	}
	p.Inject(choose)
	t.Cleanup(func() { p.Close() })
	return p
}

// expiredToken makes a token that lives for a second and waits for its end.
func expiredToken(t *testing.T) string {
	t.Helper()
	out, err := theLab.Exec(within(t, 30*time.Second), "scontrol", "token", "username="+theLab.JWTUser, "lifespan=1")
	if err != nil {
		t.Fatal(err)
	}
	_, token, _ := strings.Cut(out, "=")
	time.Sleep(2 * time.Second)
	return token
}

// A job starts after the poll and before the update: Slurm refuses, nothing of
// the call comes through, and the daemon goes on.
func TestJobStartsBetweenPollAndUpdate(t *testing.T) {
	s := setScene(t)
	s.alone(t) // the other would start first
	p := proxy(t, nil)
	startNow := make(chan struct{}, 1)
	startNow <- struct{}{}
	p.Inject(func(r *http.Request) labrun.Fault {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/job/"+s.own) {
			return labrun.Fault{}
		}
		return labrun.Fault{Before: func(ctx context.Context) {
			select {
			case <-startNow:
			default:
				return
			}
			if err := theLab.Cancel(ctx, s.fillers[theLab.NodeNames()[1]]); err != nil {
				t.Error(err)
			}
			if _, err := theLab.WaitJob(ctx, s.own, "start", func(f labrun.Fields) bool { return f.State() == "RUNNING" }); err != nil {
				t.Error(err)
			}
		}}
	})
	d := daemon(t, labrun.DaemonOptions{Mode: "steer", URL: p.URL})
	waitJob(t, s.own, "start", func(f labrun.Fields) bool { return f.State() == "RUNNING" })
	_, err := labrun.Wait(within(t, 30*time.Second), "the daemon to tell", func(context.Context) (string, error) { return d.Log(), nil },
		func(log string) bool { return strings.Contains(log, "started meanwhile") })
	if err != nil {
		t.Fatalf("%v\n%s", err, d.Log())
	}
	f := job(t, s.own)
	if got := f["ExcNodeList"]; got != s.avoid {
		t.Errorf("exclude list of the started job = %s, want the user's own %s", got, s.avoid)
	}
	if got := f["Nice"]; got != "40" {
		t.Errorf("nice of the started job = %s, want the user's own 40", got)
	}
	if !d.Running() {
		t.Error("riflingd ended")
	}
}
