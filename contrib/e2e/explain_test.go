// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"rifling/contrib/labrun"
)

// What "rifling explain" answers of a waiting, a skipped and a packed job.
func TestExplain(t *testing.T) {
	s := setScene(t)
	held := submit(t, "bob", sleeper, "--hold", "--job-name=held", "--gres=gpu:2", "--output=/dev/null")
	out := submit(t, "bob", sleeper, "--job-name=optout", "--gres=gpu:4", "--comment=rifling=off", "--output=/dev/null")
	d := daemon(t, labrun.DaemonOptions{Mode: "steer"})
	steered(t, s)

	explained(t, d, s.own, " waits (", "wait for a better place", "excluded_nodes=", "exclude list is "+s.avoid)
	explained(t, d, held, " waits (", "it is held")
	explained(t, d, out, " waits (", "its comment says rifling=off")

	s.alone(t)
	if err := theLab.Cancel(within(t, 30*time.Second), out); err != nil { // it would take what comes free
		t.Fatal(err)
	}
	node := theLab.NodeNames()[2]
	s.free(t, node)
	f := waitJob(t, s.own, "start", func(f labrun.Fields) bool { return f.State() == "RUNNING" })
	explained(t, d, s.own, "running", "on "+f["NodeList"])
}

// A job that is spread over two nodes says so, and what that cost it.
func TestExplainSpread(t *testing.T) {
	s := setScene(t)
	for _, id := range []string{s.own, s.later} {
		if err := theLab.Cancel(within(t, 30*time.Second), id); err != nil {
			t.Fatal(err)
		}
	}
	d := daemon(t, labrun.DaemonOptions{Mode: "steer"})
	spread := submit(t, "carol", sleeper, "--job-name=spread", "--nodes=2", fmt.Sprintf("--gres=gpu:%d", theLab.GPUs),
		"--time=30", "--output=/dev/null")
	explained(t, d, spread, " waits (", "2 nodes", "What was considered")
	nodes := theLab.NodeNames()
	s.free(t, nodes[0])
	s.free(t, nodes[1])
	f := waitJob(t, spread, "start", func(f labrun.Fields) bool { return f.State() == "RUNNING" })
	explained(t, d, spread, "running", "on "+f["NodeList"], "2 nodes")
}

// explained waits until "rifling explain" says all of the words, since the
// daemon may not have seen yet what Slurm has done.
func explained(t *testing.T, d *labrun.Daemon, id string, words ...string) {
	t.Helper()
	look := func(ctx context.Context) (string, error) { return d.Rifling(ctx, "explain", id) }
	all := func(out string) bool {
		for _, w := range words {
			if !strings.Contains(out, w) {
				return false
			}
		}
		return true
	}
	out, err := labrun.Wait(within(t, 15*time.Second), "rifling explain to say "+strings.Join(words, ", "), look, all)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("rifling explain %s:\n%s", id, out)
}
