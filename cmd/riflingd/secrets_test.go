// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"rifling/slurm/slurmtest"
)

// The words that must be nowhere: a token for slurmrestd, the collectors'
// secret, and one that a stranger tries.
const (
	markedSecret = "MARKEDsecretMARKED"
	markedGuess  = "MARKEDguessMARKED"
)

func markedToken() string {
	part := func(s string) string { return base64.RawURLEncoding.EncodeToString([]byte(s)) }
	return part(`{"alg":"HS256"}`) + "." + part(`{"exp":9999999999,"sun":"rifling","mark":"MARKEDtokenMARKED"}`) + ".MARKEDsignatureMARKED"
}

// leaks returns which of the marks a text holds.
func leaks(text string) []string {
	var out []string
	for _, m := range []string{markedSecret, markedGuess, markedToken(), "MARKED"} {
		if strings.Contains(text, m) {
			out = append(out, m)
		}
	}
	return out
}

// echo stands before slurmrestd and gives back the token in each third answer,
// as a careless proxy does in its error pages.
func echo(t *testing.T, behind string) string {
	t.Helper()
	to, err := url.Parse(behind)
	if err != nil {
		t.Fatal(err)
	}
	forward := httputil.NewSingleHostReverseProxy(to)
	var n atomic.Int64
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if n.Add(1)%3 != 0 {
			forward.ServeHTTP(w, r)
			return
		}
		w.WriteHeader([]int{401, 500, 502, 400}[n.Load()/3%4])
		fmt.Fprintf(w, `{"errors":[{"description":"bad header %s","error_number":9000}]}`, r.Header.Get("X-SLURM-USER-TOKEN"))
	}))
	t.Cleanup(srv.Close)
	return srv.URL
}

// A run with marked secrets, strangers at the door and a crash: no mark is in
// the log, on a page, in a metric, in the database or in the crash's dump.
func TestSecretsAreNowhere(t *testing.T) {
	snap := slurmtest.Snapshot().Nodes("gpu[01-04]", 8).Partitions(slurmtest.Partition("gpu", "gpu01", "gpu02", "gpu03", "gpu04").Default()).
		Jobs(slurmtest.Job(1).Running("gpu01").GPUsPerNode(6).Partition("gpu"), slurmtest.Job(7).Pending().GPUsPerNode(2).Partition("gpu").Priority(100)).Obj()
	fake := slurmtest.NewServer(t, snap)
	d := newIngesting(t)
	dir := filepath.Dir(d.conf)
	for name, text := range map[string]string{
		"token": markedToken(), "secret": markedSecret,
		"rifling.yaml": fmt.Sprintf(`
slurm: {url: %q, token-file: %s/token, timeout: 1s}
database: %s
mode: steer
interval: 200ms
limits: {ttl: 1m}
listen: {address: %q, secret-file: %s/secret}
log: {level: debug}
`, echo(t, fake.URL), dir, d.db, d.address, dir),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var log bytes.Buffer
	d.log = &log
	d.start()
	ended := false
	defer func() {
		if !ended {
			d.kill()
		}
	}()
	pages := knock(t, d.address, 15)
	_ = d.cmd.Process.Signal(syscall.SIGQUIT) // Go's runtime dumps every goroutine
	_ = d.cmd.Wait()
	ended = true

	if got := leaks(log.String()); got != nil {
		t.Errorf("the log or the crash's dump shows %v", got)
	}
	if !strings.Contains(log.String(), "goroutine") || !strings.Contains(log.String(), "cycle") {
		t.Errorf("no log or no dump to look at:\n%.2000s", &log)
	}
	if got := leaks(pages); got != nil || !strings.Contains(pages, "rifling_build_info") {
		t.Errorf("the pages show %v", got)
	}
	files := 0
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || e.Name() == "token" || e.Name() == "secret" {
			return err
		}
		b, err := os.ReadFile(path)
		files++
		if got := leaks(string(b)); got != nil {
			t.Errorf("%s holds %v", path, got)
		}
		return err
	})
	if err != nil || files < 2 {
		t.Errorf("%d files looked at, error %v", files, err)
	}
}

// knock asks for every page, with and without words that are not the secret,
// and returns all that was answered.
func knock(t *testing.T, address string, times int) string {
	t.Helper()
	var all strings.Builder
	client := &http.Client{Timeout: 5 * time.Second}
	for range times {
		for _, r := range []struct{ method, path, auth, body string }{
			{"GET", "/metrics", "", ""},
			{"GET", "/healthz", "", ""},
			{"GET", "/", "Bearer " + markedSecret, ""},
			{"GET", "/../../etc/passwd", "", ""},
			{"POST", "/v1/samples", "Bearer " + markedGuess, "{}"},
			{"POST", "/v1/samples", "Bearer " + markedSecret, `{"version":99,"secret":"x"}`},
			{"POST", "/v1/samples", "Basic " + markedSecret, "{}"},
			{"POST", "/metrics", "", "x"},
		} {
			req, err := http.NewRequestWithContext(t.Context(), r.method, "http://"+address+r.path, strings.NewReader(r.body))
			if err != nil {
				t.Fatal(err)
			}
			req.Header.Set("Authorization", r.auth)
			resp, err := client.Do(req)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(resp.Body)
			_ = resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintln(&all, resp.Status, resp.Header, string(b))
		}
		time.Sleep(100 * time.Millisecond)
	}
	return all.String()
}

// More connections than there are places wait; none is lost, and closing ends
// the wait.
func TestConnectionsAreBounded(t *testing.T) {
	inner, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ln := newBounded(inner, 2)
	taken := make(chan net.Conn, 10)
	ended := make(chan error, 1)
	go func() {
		for {
			c, err := ln.Accept()
			if err != nil {
				ended <- err
				return
			}
			taken <- c
		}
	}()
	for range 3 {
		c, err := net.Dial("tcp", inner.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Close() })
	}
	first := <-taken
	<-taken
	select {
	case <-taken:
		t.Fatal("a third connection was taken where there are two places")
	case <-time.After(50 * time.Millisecond):
	}
	_ = first.Close()
	_ = first.Close() // must not give back a second place
	<-taken
	if err := ln.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; !errors.Is(err, net.ErrClosed) {
		t.Errorf("the accept loop ended with %v", err)
	}
}

func TestCertificateIsLookedAtAtTheStart(t *testing.T) {
	dir := t.TempDir()
	conf := filepath.Join(dir, "rifling.yaml")
	text := "database: " + dir + "/rifling.db\nlisten: {address: \"127.0.0.1:0\", cert-file: /nonexistent/cert, key-file: /nonexistent/key}\n"
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	cmd := newRoot(io.Discard)
	cmd.SetArgs([]string{"--config", conf, "--once"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "/nonexistent/cert") {
		t.Errorf("error %v", err)
	}
}

func TestFileModesAreLookedAtAtTheStart(t *testing.T) {
	dir := t.TempDir()
	conf, secret := filepath.Join(dir, "rifling.yaml"), filepath.Join(dir, "secret")
	for path, text := range map[string]string{
		conf: "database: " + dir + "/rifling.db\nlisten: {address: \"127.0.0.1:0\", secret-file: " + secret + "}\n", secret: "word",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(secret, 0o644); err != nil {
		t.Fatal(err)
	}
	cmd := newRoot(io.Discard)
	cmd.SetArgs([]string{"--config", conf, "--once"})
	if err := cmd.ExecuteContext(t.Context()); err == nil || !strings.Contains(err.Error(), "every user of this machine can read it") {
		t.Errorf("error %v", err)
	}
}
