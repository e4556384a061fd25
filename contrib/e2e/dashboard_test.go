// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"rifling/contrib/grafana"
	"rifling/contrib/labrun"
)

// Every query of the dashboard gives data on a real Prometheus that reads a
// riflingd beside a real Slurm, and the status page shows that Slurm. Two
// panels need what this lab has not: a token, since its daemon uses the socket,
// and rewards, which take minutes.
func TestDashboard(t *testing.T) {
	repo, err := labrun.Repo()
	if err != nil {
		t.Fatal(err)
	}
	s := setScene(t)
	d := daemon(t, labrun.DaemonOptions{Mode: "steer"})
	steered(t, s)
	p, err := grafana.Start(t.Context(), repo, t.TempDir(), d.Address)
	if errors.Is(err, grafana.ErrNone) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	defer p.Stop()
	collectors, err := theLab.StartCollectors(within(t, time.Minute), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := collectors.Stop(); err != nil {
			t.Log(err)
		}
	}()
	queries, err := grafana.Queries("10s")
	if err != nil {
		t.Fatal(err)
	}
	queries = slices.DeleteFunc(queries, func(q grafana.Query) bool {
		return strings.Contains(q.Expr, "token_expiry") || strings.Contains(q.Expr, "episode_reward")
	})
	silent, err := p.AskAll(within(t, 2*time.Minute), queries)
	for _, q := range silent {
		t.Errorf("panel %q has no data: %s (%v)", q.Panel, q.Expr, err)
	}
	for path, text := range map[string]string{"/": "GPUs in use", "/cluster": theLab.NodeNames()[0], "/queue": s.own, "/jobs/" + s.own: "excluded_nodes="} {
		body, err := d.Get(within(t, 10*time.Second), path)
		if err != nil || !strings.Contains(body, text) {
			t.Error(fmt.Errorf("%s lacks %q: %w", path, text, err))
		}
	}
}
