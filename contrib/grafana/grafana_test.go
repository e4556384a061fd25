// SPDX-License-Identifier: Apache-2.0

package grafana

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/contrib/scene"
	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

// dashboardScene has something of everything that a panel shows.
func dashboardScene(now time.Time) *slurm.Snapshot {
	b := slurmtest.Snapshot().At(now).Nodes("gpu[01-08]", 8)
	for i, name := range []string{"gpu01", "gpu02", "gpu03", "gpu04"} {
		b.Jobs(slurmtest.Job(slurm.JobID(100 + i)).Name("train" + string(rune('a'+i))).GPUs(4 + i).TimeLimit(24 * time.Hour).Running(name).Started(now.Add(-2 * time.Hour)))
	}
	for i := range 12 {
		b.Jobs(slurmtest.Job(slurm.JobID(200 + i)).GPUs(8).Submitted(now.Add(-time.Duration(i) * time.Hour)))
	}
	return b.Obj()
}

// Every query of the dashboard gives data on a real Prometheus that reads a
// running riflingd, and promtool finds nothing to say of the metrics.
func TestDashboardAndMetrics(t *testing.T) {
	repo := filepath.Join("..", "..")
	if Program(repo, "prometheus") == "" || Program(repo, "promtool") == "" {
		t.Skip(ErrNone)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	dir := t.TempDir()
	bin, err := scene.Build(ctx, dir)
	if err != nil {
		t.Fatal(err)
	}
	token := filepath.Join(dir, "token")
	// {"exp":4102444800,"sun":"rifling"}, signed by nobody
	if err := os.WriteFile(token, []byte("eyJhbGciOiJIUzI1NiJ9.eyJleHAiOjQxMDI0NDQ4MDAsInN1biI6InJpZmxpbmcifQ.c2ln\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RIFLING_SLURM_TOKEN_FILE", token)
	snap := dashboardScene(time.Now().Truncate(time.Second))
	d, err := scene.Start(ctx, snap, scene.Options{Bin: bin, Dir: dir, Config: "interval: 1s\nprofile: {regroup-every: 5s}\nagent: {tau: 10s}"})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	address := strings.TrimPrefix(d.URL, "http://")
	p, err := Start(ctx, repo, dir, address)
	if errors.Is(err, ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	if err := d.Count(ctx, snap, 16); err != nil {
		t.Fatal(err)
	}
	// A job that was decided on runs, so that there is something to learn from.
	d.Server.Run(211, "gpu05")
	started := *snap
	started.Jobs = []slurm.Job{d.Server.Job(211)}
	counting, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		for counting.Err() == nil {
			_ = d.Count(counting, &started, 1) // the next one comes soon
			select {
			case <-counting.Done():
			case <-time.After(15 * time.Second): // what a reading is over
			}
		}
	}()
	queries, err := Queries("10s")
	if err != nil {
		t.Fatal(err)
	}
	asking, enough := context.WithTimeout(ctx, 3*time.Minute)
	defer enough()
	silent, err := p.AskAll(asking, queries)
	for _, q := range silent {
		t.Errorf("panel %q has no data: %s (%v)", q.Panel, q.Expr, err)
	}
	text, err := d.Get(ctx, "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	lint := exec.CommandContext(ctx, Program(repo, "promtool"), "check", "metrics")
	lint.Stdin = strings.NewReader(text)
	if out, err := lint.CombinedOutput(); err != nil || len(out) > 0 {
		t.Errorf("promtool check metrics: %v\n%s", err, out)
	}
	for _, q := range queries {
		for name := range strings.FieldsFuncSeq(q.Expr, func(r rune) bool { return r != '_' && (r < 'a' || r > 'z') }) {
			if strings.HasPrefix(name, "slurm_") {
				t.Errorf("panel %q shows Slurm's own %s", q.Panel, name)
			}
		}
	}
}
