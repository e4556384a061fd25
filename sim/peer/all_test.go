// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/sim"
	"rifling/sim/trace"
)

// cluster is nodes with 2 GPUs each.
func cluster(nodes int) sim.Spec {
	var s sim.Spec
	for i := range nodes {
		s.Nodes = append(s.Nodes, sim.NodeSpec{Name: fmt.Sprintf("n%d", i), GPUs: 2})
	}
	return s
}

// simJob has a limit of its true run time and 10 s.
func simJob(gpus int, submit, work float64) sim.Job {
	return sim.Job{Submit: seconds(submit), Work: seconds(work), Limit: seconds(work + 10), Request: sim.Request{GPUs: gpus}}
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func runPeer(t interface{ Fatal(...any) }, name string, spec sim.Spec, o Settings, jobs []sim.Job) []sim.Result {
	p, ok := Find(name)
	if !ok {
		t.Fatal("no peer " + name)
	}
	out := make([]sim.Result, len(jobs))
	next := 0
	source := func() (sim.Job, bool) {
		if next == len(jobs) {
			return sim.Job{}, false
		}
		next++
		return jobs[next-1], true
	}
	engine, err := sim.NewEngine(spec, p.New(o), source, func(r *sim.Result) { out[r.Seq] = *r })
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Run(); err != nil {
		t.Fatal(name, err)
	}
	return out
}

// Schedules that were worked out by hand: first start and end of each job, in
// seconds.
func TestPeersByHand(t *testing.T) {
	type times [2]float64
	for name, tc := range map[string]struct {
		peer  string
		nodes int
		o     Settings
		jobs  []sim.Job
		want  []times
	}{
		"fifo": {"fifo", 2, Settings{}, []sim.Job{simJob(3, 0, 100), simJob(4, 1, 50), simJob(1, 2, 10)},
			[]times{{0, 100}, {100, 150}, {150, 160}}},
		"fit-first": {"fit-first", 2, Settings{}, []sim.Job{simJob(3, 0, 100), simJob(4, 1, 50), simJob(1, 2, 200)},
			[]times{{0, 100}, {202, 252}, {2, 202}}},
		// The third ends before the second can start, at 110 by the first's limit.
		"backfill": {"strict", 2, Settings{}, []sim.Job{simJob(3, 0, 100), simJob(4, 1, 50), simJob(1, 2, 80)},
			[]times{{0, 100}, {100, 150}, {2, 82}}},
		"backfill holds a place": {"strict", 2, Settings{}, []sim.Job{simJob(3, 0, 100), simJob(4, 1, 50), simJob(1, 2, 200)},
			[]times{{0, 100}, {100, 150}, {150, 350}}},
		"strict waits for one node": {"strict", 2, Settings{}, []sim.Job{simJob(1, 0, 100), simJob(2, 1, 60), simJob(2, 2, 10)},
			[]times{{0, 100}, {1, 61}, {61, 71}}},
		"best-fit does not": {"best-fit", 3, Settings{}, []sim.Job{simJob(2, 0, 100), simJob(1, 1, 50), simJob(2, 1, 5), simJob(1, 2, 50), simJob(2, 3, 5)},
			[]times{{0, 100}, {1, 51}, {1, 6}, {2, 52}, {6, 11}}},
		// The third goes beside the first, so that the fourth finds a node.
		"fgd keeps whole nodes": {"fgd", 2, Settings{}, []sim.Job{simJob(1, 0, 100), simJob(2, 1, 5), simJob(1, 10, 50), simJob(2, 11, 5)},
			[]times{{0, 100}, {1, 6}, {10, 60}, {11, 16}}},
		"spread": {"spread", 2, Settings{}, []sim.Job{simJob(2, 0, 10), simJob(2, 1, 10)},
			[]times{{0, 10}, {1, 11}}},
		"sjf": {"sjf", 1, Settings{}, []sim.Job{simJob(2, 0, 10), simJob(2, 1, 30), simJob(2, 2, 20)},
			[]times{{0, 10}, {30, 60}, {10, 30}}},
		"qssf counts GPUs": {"qssf", 2, Settings{}, []sim.Job{simJob(4, 0, 10), simJob(4, 1, 20), simJob(3, 2, 21)},
			[]times{{0, 10}, {31, 51}, {10, 31}}},
		"srtf preempts at a cost": {"srtf", 1, Settings{RestartCost: 5 * time.Second}, []sim.Job{simJob(2, 0, 100), simJob(1, 10, 20)},
			[]times{{0, 125}, {10, 30}}},
		"srsf counts GPUs": {"srsf", 1, Settings{}, []sim.Job{simJob(1, 0, 50), simJob(2, 10, 21)},
			[]times{{0, 50}, {50, 71}}},
		// 3,250 GPU seconds are 1,625 s with two GPUs.
		"las": {"las", 1, Settings{}, []sim.Job{simJob(2, 0, 2000), simJob(2, 10, 100)},
			[]times{{0, 2100}, {1625, 1725}}},
	} {
		t.Run(name, func(t *testing.T) {
			spec := cluster(tc.nodes)
			spec.IgnoreLimits = true
			var got []times
			for _, r := range runPeer(t, tc.peer, spec, tc.o, tc.jobs) {
				got = append(got, times{r.FirstRun.Seconds(), r.End.Seconds()})
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// A patient job waits for one node, but not for ever.
func TestDelay(t *testing.T) {
	jobs := []sim.Job{simJob(1, 0, 500), simJob(2, 1, 30), simJob(1, 2, 500), simJob(2, 40, 10)}
	// The first two fill a node each but one GPU; the third takes that of the
	// first's. At 40 a node is free.
	got := runPeer(t, "delay", cluster(2), Settings{Patience: time.Minute}, jobs)
	if at := got[3].FirstRun; at != 40*time.Second {
		t.Errorf("started at %v, a node was free at 40 s", at)
	}
	jobs = []sim.Job{simJob(1, 0, 500), simJob(1, 0, 500), simJob(1, 0, 20), simJob(1, 0, 500), simJob(1, 0, 500), simJob(1, 0, 20), simJob(2, 1, 10)}
	got = runPeer(t, "delay", cluster(3), Settings{Patience: time.Minute}, jobs)
	if at := got[6].FirstRun; at != 80*time.Second {
		t.Errorf("started at %v, its GPUs were free at 20 s and its patience is 60 s", at)
	}
}

// FGD keeps whole nodes for the jobs that need them.
func TestFragments(t *testing.T) {
	f := &fragments{count: []float64{0, 3, 0, 0, 1}, all: 4} // three of one GPU, one of four
	for free, want := range []float64{0, 0.25, 0.5, 0.75, 0} {
		if got := f.of(free); got != want {
			t.Errorf("%d free: %v fragments, want %v", free, got, want)
		}
	}
}

// Every peer ends every job that fits, the same way each time, and gives no GPU
// twice (the engine sees to that).
func TestPeersProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := rapid.SampledFrom(All()).Draw(t, "peer")
		var jobs []sim.Job
		at := 0.0
		for range rapid.IntRange(1, 25).Draw(t, "jobs") {
			at += float64(rapid.IntRange(0, 900).Draw(t, "gap"))
			j := simJob(rapid.IntRange(1, 6).Draw(t, "gpus"), at, float64(rapid.IntRange(1, 4000).Draw(t, "work")))
			if rapid.Bool().Draw(t, "without a limit") {
				j.Limit = 0
			}
			if rapid.Bool().Draw(t, "estimated") {
				j.GPUSecondsEstimate = float64(rapid.IntRange(-5000, 20000).Draw(t, "estimate"))
			}
			jobs = append(jobs, j)
		}
		o := Settings{Seed: 3, RestartCost: 30 * time.Second}
		spec := cluster(3)
		spec.IgnoreLimits = true // a preempted job's restarts count against its limit
		one, two := runPeer(t, p.Name, spec, o, jobs), runPeer(t, p.Name, spec, o, jobs)
		for i := range one {
			if one[i].Outcome != sim.Completed {
				t.Fatalf("%s: job %d ended as %v", p.Name, i, one[i].Outcome)
			}
			if !p.Preemptive && one[i].Preempted > 0 {
				t.Fatalf("%s preempts", p.Name)
			}
		}
		if diff := cmp.Diff(one, two); diff != "" {
			t.Fatalf("%s differs the second time: %s", p.Name, diff)
		}
	})
}

// The baseline on the engine and the replay of Helios's FIFO are the same
// policy, on a cut without jobs larger than a node.
func TestFIFOOnBothEngines(t *testing.T) {
	work := FromTrace(read(t, trace.Philly, "traces", "philly_vc", "103959_4x8.csv"))
	spec := sim.Spec{IgnoreLimits: true}
	for i := range 4 {
		spec.Nodes = append(spec.Nodes, sim.NodeSpec{Name: fmt.Sprintf("n%d", i), GPUs: 8})
	}
	var jobs []sim.Job
	for _, w := range work {
		jobs = append(jobs, simJob(w.GPUs, w.Submit, w.Run))
	}
	done, err := Replay(Machine{Nodes: 4, GPUs: 8}, work, Options{Order: FIFO, Placement: BestWhole})
	if err != nil {
		t.Fatal(err)
	}
	for i, r := range runPeer(t, "fifo", spec, Settings{}, jobs) {
		if r.FirstRun.Seconds() != done[i].Start || r.End.Seconds() != done[i].End {
			t.Fatalf("job %d: %v to %v on the engine, %v to %v in the replay", i, r.FirstRun, r.End, done[i].Start, done[i].End)
		}
	}
}

func TestAllIsInOrder(t *testing.T) {
	var names []string
	for _, p := range All() {
		if p.About == "" || p.New(Settings{}).Name() != p.Name || slices.Contains(names, p.Name) {
			t.Errorf("%q: no description, another name or twice there", p.Name)
		}
		names = append(names, p.Name)
	}
	if _, ok := Find("none"); ok {
		t.Error("found a peer that is not there")
	}
}
