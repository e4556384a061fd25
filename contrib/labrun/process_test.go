// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestProcessStops(t *testing.T) {
	p, err := startProcess("napper", []string{"sh", "-c", "trap 'echo bye; exit 0' TERM; echo up; while :; do sleep 0.05; done"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	up := func(context.Context) error {
		if !strings.Contains(p.Log(), "up") {
			return errors.New("not up")
		}
		return nil
	}
	if err := p.waitReady(t.Context(), up); err != nil {
		t.Fatal(err)
	}
	if got := p.ExitCode(); got != -1 {
		t.Errorf("exit code of a running process = %d, want -1", got)
	}
	if err := p.Stop(); err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(p.Log(), "bye") {
		t.Errorf("log = %q, want the last words as well", p.Log())
	}
}

func TestProcessThatDiesEarlySaysWhy(t *testing.T) {
	p, err := startProcess("daemon", []string{"sh", "-c", "echo 'config: unknown key pol1cy' >&2; exit 4"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	err = p.waitReady(t.Context(), func(context.Context) error { return errors.New("no answer") })
	if err == nil || !strings.Contains(err.Error(), "pol1cy") || p.ExitCode() != 4 {
		t.Errorf("err = %v, status %d; want the process's words and status 4", err, p.ExitCode())
	}
}

func TestKill9EndsTheWholeGroup(t *testing.T) {
	p, err := startProcess("stubborn", []string{"sh", "-c", "trap '' TERM; sleep 60 & wait"}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() { p.Kill9(); close(done) }()
	select {
	case <-done:
	case <-time.After(5 * time.Second):
		t.Fatal("Kill9 did not return")
	}
	if p.Stop() == nil {
		t.Error("Stop after a kill reports a clean end")
	}
}

func TestProxyCountsAndDisturbs(t *testing.T) {
	behind := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, "real "+r.Method+" "+r.Header.Get("X-Slurm-User-Token"))
	}))
	defer behind.Close()
	p, err := NewProxy(behind.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()

	send := func(method, path string) (int, string, error) {
		req, err := http.NewRequestWithContext(t.Context(), method, p.URL+path, nil)
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("X-Slurm-User-Token", "secret")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return 0, "", err
		}
		defer resp.Body.Close()
		body, err := io.ReadAll(resp.Body)
		return resp.StatusCode, string(body), err
	}

	if code, body, err := send("GET", "/jobs"); err != nil || code != 200 || body != "real GET secret" {
		t.Fatalf("passed on: %d %q %v", code, body, err)
	}
	ran := false
	p.Inject(func(r *http.Request) Fault {
		if r.Method != http.MethodPost {
			return Fault{}
		}
		return Fault{Before: func(context.Context) { ran = true }, Status: 502, Body: "busy"}
	})
	if code, body, err := send("POST", "/job/1"); err != nil || code != 502 || body != "busy" || !ran {
		t.Errorf("injected: %d %q %v, hook ran %v", code, body, err, ran)
	}
	if _, body, err := send("GET", "/jobs"); err != nil || body != "real GET secret" {
		t.Errorf("a request the fault spares: %q %v", body, err)
	}
	p.Inject(func(*http.Request) Fault { return Fault{Drop: true} })
	if _, _, err := send("POST", "/job/1"); err == nil {
		t.Error("a dropped request got an answer")
	}
	want := map[Call]int{{"GET", "/jobs"}: 2, {"POST", "/job/1"}: 2}
	if diff := cmp.Diff(want, p.Counts()); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	if got := p.Count("POST"); got != 2 {
		t.Errorf("POSTs = %d, want 2", got)
	}
}

func TestProxyRefusesAnOddTarget(t *testing.T) {
	if _, err := NewProxy("127.0.0.1:6820"); err == nil {
		t.Error("a target without a scheme was taken")
	}
}
