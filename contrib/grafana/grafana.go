// SPDX-License-Identifier: Apache-2.0

// Package grafana has the dashboard, rifling.json, and what its tests need:
// the queries in it, and a Prometheus to ask them.
package grafana

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

//go:embed rifling.json
var dashboard []byte

// Query is one query of a panel.
type Query struct{ Panel, Expr string }

// Queries returns all queries of the dashboard, with Grafana's own variables
// filled in: rates are over window.
func Queries(window string) ([]Query, error) {
	var d struct {
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal(dashboard, &d); err != nil {
		return nil, fmt.Errorf("rifling.json: %w", err)
	}
	fill := strings.NewReplacer("$__rate_interval", window, "$instance", ".*")
	var out []Query
	for _, p := range d.Panels {
		for _, t := range p.Targets {
			out = append(out, Query{p.Title, fill.Replace(t.Expr)})
		}
	}
	return out, nil
}

// ErrNone says that there is no Prometheus here.
var ErrNone = errors.New("no prometheus on this machine; contrib/setup.sh web brings Debian's")

// Prometheus is a running one.
type Prometheus struct {
	url  string
	cmd  *exec.Cmd
	done chan struct{}
}

// Program returns the path of a program of Prometheus; empty: it is not here.
func Program(repo, name string) string {
	if p := filepath.Join(repo, ".tools", "bin", name); exists(p) {
		return p
	}
	p, err := exec.LookPath(name)
	if err != nil {
		return ""
	}
	return p
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

// Start starts Prometheus with its files in dir. It reads the metrics of a
// riflingd at address each second. The error is ErrNone where there is none.
func Start(ctx context.Context, repo, dir, address string) (*Prometheus, error) {
	bin := Program(repo, "prometheus")
	if bin == "" {
		return nil, ErrNone
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	own := l.Addr().String()
	_ = l.Close() // Prometheus takes the port
	conf := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs: [{job_name: rifling, static_configs: [{targets: [%q]}]}]\n", address)
	if err := os.WriteFile(filepath.Join(dir, "prometheus.yml"), []byte(conf), 0o600); err != nil {
		return nil, err
	}
	p := &Prometheus{url: "http://" + own, done: make(chan struct{})}
	p.cmd = exec.CommandContext(ctx, bin, "--config.file="+filepath.Join(dir, "prometheus.yml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+own, "--log.level=error")
	if err := p.cmd.Start(); err != nil {
		return nil, err
	}
	go func() {
		_ = p.cmd.Wait() // Stop ends it
		close(p.done)
	}()
	return p, nil
}

// Stop ends it.
func (p *Prometheus) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // it may have ended
	select {
	case <-p.done:
	case <-time.After(10 * time.Second):
		_ = p.cmd.Process.Kill() // likewise
		<-p.done
	}
}

// Ask returns how many series answer a query, those without a number left out.
func (p *Prometheus) Ask(ctx context.Context, query string) (int, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, p.url+"/api/v1/query?query="+url.QueryEscape(query), nil)
	if err != nil {
		return 0, err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	var a struct {
		Status, Error string
		Data          struct{ Result []struct{ Value [2]any } }
	}
	if err := json.NewDecoder(resp.Body).Decode(&a); err != nil {
		return 0, err
	}
	if a.Status != "success" {
		return 0, fmt.Errorf("%s: %s", query, a.Error)
	}
	n := 0
	for _, r := range a.Data.Result {
		if r.Value[1] != "NaN" {
			n++
		}
	}
	return n, nil
}

// AskAll asks all queries until each has an answer or ctx ends, and returns
// those that have none.
func (p *Prometheus) AskAll(ctx context.Context, queries []Query) (silent []Query, err error) {
	silent = queries
	for {
		var rest []Query
		for _, q := range silent {
			n, askErr := p.Ask(ctx, q.Expr)
			if err = askErr; askErr != nil || n == 0 {
				rest = append(rest, q)
			}
		}
		if silent = rest; len(silent) == 0 {
			return nil, nil
		}
		select {
		case <-ctx.Done():
			return silent, err
		case <-time.After(time.Second):
		}
	}
}
