// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"encoding/csv"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"rifling/contrib/labrun"
	"rifling/sim"
)

// emujob submits an emulated job that takes the given real seconds inside one
// node and returns its id.
func emujob(t *testing.T, user, model string, realSeconds float64, args ...string) string {
	t.Helper()
	script := fmt.Sprintf("#!/bin/bash\nsrun --ntasks-per-node=1 emujob --model %s --seconds %g\n", model, realSeconds*compression)
	return submit(t, user, script, append([]string{"--job-name=e2e-" + model, "--time=20", "--output=emujob-%j.out"}, args...)...)
}

// result waits for an emulated job's end and returns what it printed.
func result(t *testing.T, user, id string) *labrun.Result {
	t.Helper()
	ctx := within(t, 4*time.Minute)
	f, err := theLab.WaitJob(ctx, id, "end", func(f labrun.Fields) bool {
		return f.State() != "PENDING" && f.State() != "RUNNING" && f.State() != "COMPLETING"
	})
	if err != nil {
		t.Fatal(err)
	}
	r := theLab.Result(user, id)
	if r == nil || r.Phase != "finished" {
		out, _ := os.ReadFile(filepath.Join(theLab.Root, "home", user, "emujob-"+id+".out"))
		t.Fatalf("job %s ended %s without a result; it printed:\n%s", id, f.State(), out)
	}
	return r
}

// The same job packed and spread shows the published slowdown within 10 %.
func TestEmulatedSlowdown(t *testing.T) {
	dir := shared(t, "placement")
	for i, model := range []string{"bert", "resnet50", "deepspeech2-large"} {
		pair := theLab.NodeNames()[2*i : 2*i+2] // each model has its own NICs
		nodes := strings.Join(pair, ",")
		t.Run(model, func(t *testing.T) {
			t.Parallel()
			want := published(t, dir, model, "4") / published(t, dir, model, "22")
			packed := result(t, "alice", emujob(t, "alice", model, 8, "--nodes=1", "--nodelist="+pair[0], "--gres=gpu:4"))
			spread := result(t, "alice", emujob(t, "alice", model, 8, "--nodes=2", "--nodelist="+nodes, "--gres=gpu:2"))
			if packed.Shape != "4" || spread.Shape != "2+2" {
				t.Fatalf("shapes %q and %q, want 4 and 2+2", packed.Shape, spread.Shape)
			}
			got := spread.Rate / packed.Rate
			t.Logf("%s: 2+2 runs at %.3f of the packed rate, published %.3f", model, got, want)
			if math.Abs(got/want-1) > 0.10 {
				t.Errorf("retention %.3f is more than 10 %% from the published %.3f", got, want)
			}
		})
	}
}

// Two communication-bound jobs across the same nodes slow each other as the
// formula says.
func TestTwoJobsShareTheirNICs(t *testing.T) {
	nodes := strings.Join(theLab.NodeNames()[:2], ",")
	args := []string{"--nodes=2", "--nodelist=" + nodes, "--gres=gpu:2"}
	alone := result(t, "alice", emujob(t, "alice", "bert", 3, args...))
	a, b := emujob(t, "alice", "bert", 6, args...), emujob(t, "bob", "bert", 6, args...)
	ra, rb := result(t, "alice", a), result(t, "bob", b)

	model, _ := sim.FindModel("bert")
	byNode := map[string]int{"a": 2, "b": 2}
	share := func(n int) func(string) (float64, int) {
		return func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, n }
	}
	want := sim.Rate(model, byNode, share(2)) / sim.Rate(model, byNode, share(1))
	for _, r := range []*labrun.Result{ra, rb} {
		got := r.Rate / alone.Rate
		t.Logf("job %d runs at %.3f of its rate alone, formula %.3f", r.Job, got, want)
		if math.Abs(got/want-1) > 0.10 {
			t.Errorf("job %d: %.3f of its rate alone is more than 10 %% from the formula's %.3f", r.Job, got, want)
		}
	}
}

// published returns the published time of an iteration of a model in a
// placement ("22" is two nodes with two GPUs each), at the batch that the speed
// model was fitted to.
func published(t *testing.T, dir, model, placement string) float64 {
	t.Helper()
	m, ok := sim.FindModel(model)
	if !ok {
		t.Fatalf("no model %q", model)
	}
	// "Pollux T4 measurements, bert batch 4"
	_, what, _ := strings.Cut(m.Source, ", ")
	table, batch, ok := strings.Cut(what, " batch ")
	if !ok {
		t.Fatalf("%s: source %q names no table and batch", model, m.Source)
	}
	f, err := os.Open(filepath.Join(dir, "pollux_t4_"+table+".csv"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	for _, row := range rows {
		if row[0] == placement && row[1] == batch {
			v, err := strconv.ParseFloat(row[2], 64)
			if err != nil {
				t.Fatal(err)
			}
			return v
		}
	}
	t.Fatalf("%s has no placement %s with batch %s", f.Name(), placement, batch)
	return 0
}
