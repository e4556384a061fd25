// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rifling/cmd/internal/config"
	"rifling/cycle"
	"rifling/policy"
	"rifling/slurm"
)

func TestOneDaemonADatabase(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rifling.db")
	first, err := lockDatabase(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := lockDatabase(path); err == nil || !strings.Contains(slurm.HintOf(err), "another riflingd") {
		t.Errorf("a second daemon gets %v, hint %q", err, slurm.HintOf(err))
	}
	if err := first.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDatabase(path)
	if err != nil {
		t.Fatalf("after the first ended: %v", err)
	}
	_ = again.Close() // nothing was written
}

// start runs riflingd in process until the test ends and returns its log.
func start(t *testing.T, config string) (log *bytes.Buffer, wait func() error) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rifling.yaml")
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	log = &bytes.Buffer{}
	cmd := newRoot(log)
	cmd.SetArgs([]string{"--config", path})
	cmd.SetOut(io.Discard)
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- cmd.ExecuteContext(ctx) }()
	return log, func() error { cancel(); return <-done }
}

// A slurmrestd that is away when the daemon starts is waited for, the log says
// so once, and the daemon ends when told to.
func TestSlurmAwayIsWaitedFor(t *testing.T) {
	dir := t.TempDir()
	log, wait := start(t, `
slurm: {url: "http://127.0.0.1:1", timeout: 1s}
database: `+dir+`/rifling.db
interval: 100ms
limits: {ttl: 1s}
listen: {address: "127.0.0.1:16839"}
`)
	var body string
	for range 100 {
		time.Sleep(50 * time.Millisecond)
		resp, err := http.Get("http://127.0.0.1:16839/metrics")
		if err != nil {
			continue
		}
		b, _ := io.ReadAll(resp.Body) // a short page fails below
		_ = resp.Body.Close()
		if body = string(b); strings.Contains(body, `rifling_cycles_total{result="failed"} 2`) {
			break
		}
	}
	err := wait()
	if !strings.Contains(body, `rifling_cycles_total{result="failed"}`) || !strings.Contains(body, "rifling_build_info") {
		t.Errorf("metrics:\n%s", body)
	}
	if n := strings.Count(log.String(), "cycle failed"); n != 1 {
		t.Errorf("the failure is logged %d times, want once:\n%s", n, log)
	}
	if !strings.Contains(log.String(), "hint=") {
		t.Errorf("the log has no hint:\n%s", log)
	}
	if err != nil {
		t.Errorf("a clean stop with nothing to give back ends with %v", err)
	}
}

func TestBadStart(t *testing.T) {
	tests := map[string]struct{ config, wantErr, wantHint string }{
		"a misspelled key":        {"modus: steer\n", "modus", "etc/rifling.yaml"},
		"no such directory":       {"database: /nonexistent/rifling.db\n", "lock the database", "directory"},
		"no such log level":       {"log: {level: loud}\n", "log.level", "debug"},
		"a secret that is gone":   {"listen: {secret-file: /nonexistent/secret}\n", "secret", "openssl"},
		"REST version that kills": {"slurm: {rest-version: 39}\n", "39", ""},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			config := tc.config
			if !strings.Contains(config, "database") {
				config += "database: " + filepath.Join(t.TempDir(), "rifling.db") + "\n"
			}
			_, wait := start(t, config)
			err := wait()
			if err == nil || !strings.Contains(err.Error(), tc.wantErr) {
				t.Fatalf("error %v does not say %q", err, tc.wantErr)
			}
			if hint := slurm.HintOf(err); !strings.Contains(hint, tc.wantHint) {
				t.Errorf("hint %q does not say %q", hint, tc.wantHint)
			}
		})
	}
}

// Whatever Slurm or a user writes into a reason: a log line stays one line of
// plain text.
func TestHostileNamesInTheLog(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		var out bytes.Buffer
		format := rapid.SampledFrom([]string{"text", "json"}).Draw(rt, "format")
		c := config.Default()
		c.Log.Format = format
		log, err := newLogger(&c, &out)
		if err != nil {
			rt.Fatal(err)
		}
		hostile := rapid.StringOf(rapid.OneOf(rapid.Rune(), rapid.SampledFrom([]rune("\x1b\n\r\x00\u202e\"'=\\\u2028\u009b")))).Draw(rt, "words")
		d := &daemon{log: log, said: map[string]bool{}}
		d.report(cycle.Report{
			GPUs: 1, Odd: map[string]int{hostile: 1},
			Results: []policy.Result{{Change: policy.Change{Kind: policy.KindSet, Why: hostile}, Outcome: policy.Failed, Detail: hostile}},
		})
		lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
		if len(lines) != 2 {
			rt.Fatalf("%d lines for two records:\n%q", len(lines), out.String())
		}
		for _, r := range strings.Join(lines, "") {
			if r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 {
				rt.Fatalf("control character %U in %q", r, out.String())
			}
		}
	})
}

// A warning that begins with a number comes once, not once a number.
func TestWarningsComeOnce(t *testing.T) {
	var out bytes.Buffer
	d := &daemon{log: slog.New(slog.NewTextHandler(&out, nil)), said: map[string]bool{}}
	for _, what := range []string{"3 samples were refused: late", "17 samples were refused: late", "3 samples were refused: future"} {
		d.once(what, "look")
	}
	if n := strings.Count(out.String(), "level=WARN"); n != 2 {
		t.Errorf("%d warnings, want 2:\n%s", n, out.String())
	}
}
