// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/sim"
	"rifling/sim/trace"
	"rifling/slurm"
)

func TestTraceJobsBecomeSimulatedOnes(t *testing.T) {
	base := trace.Job{ID: "a", GPUs: 16, Duration: time.Hour, Milli: 1000, Estimate: math.NaN(), User: "u", Name: "n"}
	for name, tc := range map[string]struct {
		change func(*trace.Job)
		o      JobOptions
		want   func(sim.Job) bool
	}{
		"open where nothing is told":   {func(*trace.Job) {}, JobOptions{}, func(j sim.Job) bool { return cmp.Equal(j.Request, sim.Request{GPUs: 16}) }},
		"nodes that are told":          {func(t *trace.Job) { t.Nodes = 4 }, JobOptions{}, func(j sim.Job) bool { return cmp.Equal(j.Request, sim.Request{GPUsPerNode: 4, MinNodes: 4}) }},
		"nodes with unequal parts":     {func(t *trace.Job) { t.Nodes = 3 }, JobOptions{}, func(j sim.Job) bool { return cmp.Equal(j.Request, sim.Request{GPUs: 16, MinNodes: 3, MaxNodes: 3}) }},
		"told, but opened":             {func(t *trace.Job) { t.Nodes = 4 }, JobOptions{Shape: Open}, func(j sim.Job) bool { return cmp.Equal(j.Request, sim.Request{GPUs: 16}) }},
		"the fewest":                   {func(*trace.Job) {}, JobOptions{Shape: Fewest, NodeGPUs: 8}, func(j sim.Job) bool { return cmp.Equal(j.Request, sim.Request{GPUsPerNode: 8, MinNodes: 2}) }},
		"its limit":                    {func(t *trace.Job) { t.Limit = 2 * time.Hour }, JobOptions{}, func(j sim.Job) bool { return j.Limit == 2*time.Hour }},
		"a drawn one where none":       {func(*trace.Job) {}, JobOptions{}, func(j sim.Job) bool { return j.Limit > time.Hour }},
		"none":                         {func(t *trace.Job) { t.Limit = 2 * time.Hour }, JobOptions{Limits: LimitsNone}, func(j sim.Job) bool { return j.Limit == 0 }},
		"exact":                        {func(t *trace.Job) { t.Duration += time.Second }, JobOptions{Limits: LimitsExact}, func(j sim.Job) bool { return j.Limit == time.Hour+time.Minute }},
		"its model":                    {func(t *trace.Job) { t.Model = "ncf" }, JobOptions{Mix: trace.Mix{Compute: 1}}, func(j sim.Job) bool { return j.Model.Name == "ncf" }},
		"a drawn model":                {func(t *trace.Job) { t.Model = "gpt9" }, JobOptions{Mix: trace.Mix{Compute: 1}}, func(j sim.Job) bool { return strings.HasSuffix(j.Model.Name, "-large") }},
		"no model by mix":              {func(*trace.Job) {}, JobOptions{Mix: trace.Mix{None: true}}, func(j sim.Job) bool { return j.Model == nil }},
		"no model, as generated":       {func(t *trace.Job) { t.Model = "none" }, JobOptions{}, func(j sim.Job) bool { return j.Model == nil }},
		"an estimate":                  {func(t *trace.Job) { t.Estimate = -7 }, JobOptions{}, func(j sim.Job) bool { return j.GPUSecondsEstimate == -7 }},
		"a queue that is a partition":  {func(t *trace.Job) { t.Queue = "q" }, JobOptions{Partitions: []sim.PartitionSpec{{Name: "q"}}}, func(j sim.Job) bool { return j.Partition == "q" }},
		"a queue that is none":         {func(t *trace.Job) { t.Queue = "x" }, JobOptions{Partitions: []sim.PartitionSpec{{Name: "q"}}}, func(j sim.Job) bool { return j.Partition == "" }},
		"a name of its own where none": {func(t *trace.Job) { t.Name = "" }, JobOptions{Mix: trace.Mix{None: true}}, func(j sim.Job) bool { return j.Name == "job-a" }},
	} {
		t.Run(name, func(t *testing.T) {
			in := base
			tc.change(&in)
			jobs, _, err := Jobs([]trace.Job{in}, tc.o)
			if err != nil || len(jobs) != 1 || !tc.want(jobs[0]) || jobs[0].Work != in.Duration {
				t.Errorf("%v, %+v", err, jobs)
			}
		})
	}
}

// What cannot be simulated is counted; a job's model does not hang on others.
func TestJobsAreCounted(t *testing.T) {
	in := []trace.Job{
		{ID: "cpu", CPUs: 4, Duration: time.Hour}, {ID: "model", GPUs: 1, Iterations: 9}, {ID: "share", GPUs: 1, Milli: 300, Duration: time.Hour},
		{ID: "x", GPUs: 4, Duration: time.Hour, User: "u", Name: "n"}, {ID: "y", GPUs: 4, Duration: time.Hour, User: "u", Name: "n"},
	}
	jobs, notes, err := Jobs(in, JobOptions{Seed: 5})
	if err != nil || len(jobs) != 3 || notes.NoGPUs != 1 || notes.NoRunTime != 1 || notes.Shares != 1 || notes.Users != 1 || notes.Drawn != 3 {
		t.Fatalf("%v, %d jobs, %+v", err, len(jobs), notes)
	}
	if jobs[1].ID != 4 || jobs[1].Model != jobs[2].Model {
		t.Errorf("one user's jobs of one name are %v and %v", jobs[1].Model, jobs[2].Model)
	}
	alone, _, _ := Jobs(in[3:], JobOptions{Seed: 5})
	if alone[0].Model != jobs[1].Model {
		t.Error("the model hangs on the jobs before")
	}
	if _, _, err := Jobs(in[1:2], JobOptions{}); err == nil || slurm.HintOf(err) == "" {
		t.Errorf("a trace without run times: %v", err)
	}
}

func TestNodes(t *testing.T) {
	got, err := Nodes("2x8:a100,1x4", 2, 100)
	want := []sim.NodeSpec{
		{Name: "node0001", GPUs: 8, GPUType: "a100", Leaf: "leaf001", NICSpeed: 12.5e9},
		{Name: "node0002", GPUs: 8, GPUType: "a100", Leaf: "leaf001", NICSpeed: 12.5e9},
		{Name: "node0003", GPUs: 4, Leaf: "leaf002", NICSpeed: 12.5e9},
	}
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v (-want +got)\n%s", err, d)
	}
	for _, text := range []string{"", "8", "x8", "8x", "0x8", "8x0", "-1x8", "8x8,", "999999x8", "8x9999999"} {
		if _, err := Nodes(text, 0, 50); err == nil {
			t.Errorf("%q is taken", text)
		}
	}
	if _, err := Nodes("8x8", 0, 0); err == nil {
		t.Error("a network of 0 Gb/s is taken")
	}
}

// All is done once, the error of the lowest number is the one that is told, and
// nothing starts after the context ended.
func TestEach(t *testing.T) {
	for _, workers := range []int{0, 1, 3, 50} {
		var sum atomic.Int64
		last := 0
		if err := Each(t.Context(), 20, workers, func(_ context.Context, i int) error { sum.Add(int64(i)); return nil }, func(n int) { last = n }); err != nil || sum.Load() != 190 || last != 20 {
			t.Errorf("%d workers: %v, sum %d, last %d", workers, err, sum.Load(), last)
		}
		bad := errors.New("bad")
		err := Each(t.Context(), 20, workers, func(ctx context.Context, i int) error {
			if i == 3 {
				return bad
			}
			return ctx.Err()
		}, nil)
		if !errors.Is(err, bad) {
			t.Errorf("%d workers: %v", workers, err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	ran := 0
	err := Each(ctx, 20, 1, func(context.Context, int) error { ran++; stop(); return nil }, nil)
	if !errors.Is(err, context.Canceled) || ran != 1 {
		t.Errorf("%v after %d calls", err, ran)
	}
}

// An interval of 95 % holds the true mean about so often; drawing jobs where
// days wait together holds it much less often.
func TestBootstrapCovers(t *testing.T) {
	rng := rand.New(rand.NewPCG(4, 4))
	const rounds = 200
	days, jobs := 0, 0
	for r := range rounds {
		var v []float64
		var byDay, byJob []int
		for d := range 30 {
			level := rng.NormFloat64()
			for range 10 {
				v, byDay, byJob = append(v, 5+level+0.3*rng.NormFloat64()), append(byDay, d), append(byJob, len(v))
			}
		}
		if i := Bootstrap(v, byDay, uint64(r)); i.Low <= 5 && 5 <= i.High {
			days++
		}
		if i := Bootstrap(v, byJob, uint64(r)); i.Low <= 5 && 5 <= i.High {
			jobs++
		}
	}
	if days < rounds*88/100 || jobs > rounds*70/100 {
		t.Errorf("%d of %d intervals over days hold the mean, %d over jobs", days, rounds, jobs)
	}
	if i := Bootstrap([]float64{2, 4}, []int{1, 1}, 1); i != (Interval{3, 3, 3}) {
		t.Errorf("one block: %+v", i)
	}
	if i := Bootstrap(nil, nil, 1); i != (Interval{}) {
		t.Errorf("nothing: %+v", i)
	}
}

// Nodes have the GPUs that were held there at once; what ends when another
// starts makes room for it.
func TestHistoryFindsTheCluster(t *testing.T) {
	at := func(h int) time.Time { return time.Date(2026, 3, 1, h, 0, 0, 0, time.UTC) }
	past := func(id slurm.JobID, part string, gpus, from, to int, nodes ...string) *slurm.PastJob {
		return &slurm.PastJob{ID: id, Partition: part, GPUs: gpus, Submit: at(from), Start: at(from), End: at(to), Elapsed: at(to).Sub(at(from)), Nodes: nodes, NodeCount: len(nodes)}
	}
	h := History{Since: at(0), Until: at(23), Begin: at(0)}
	for _, p := range []*slurm.PastJob{past(1, "a", 4, 1, 3, "n1"), past(2, "a", 2, 2, 4, "n1"), past(3, "a", 4, 3, 5, "n1"), past(4, "b", 16, 1, 9, "n2", "n3"), past(5, "b", 0, 1, 2, "n9")} {
		h.Add(p)
	}
	nodes, parts := h.Cluster()
	if d := cmp.Diff([]sim.NodeSpec{{Name: "n1", GPUs: 6}, {Name: "n2", GPUs: 8}, {Name: "n3", GPUs: 8}}, nodes); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if d := cmp.Diff([]sim.PartitionSpec{{Name: "a", Nodes: []string{"n1"}}, {Name: "b", Nodes: []string{"n2", "n3"}}}, parts); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	if h.Left["without GPUs"] != 1 {
		t.Errorf("left out %v", h.Left)
	}
}
