// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rifling/agent"
	"rifling/profile"
	"rifling/slurm"
)

// cluster builds an input of nodes with 8 GPUs each, four to a leaf switch, of
// which so many are free, and one pending job.
func cluster(job slurm.Job, free ...int) Input {
	s := &slurm.Snapshot{TakenAt: noon, Release: slurm.Release{Major: 24, Minor: 11, REST: 42}}
	p := slurm.Partition{Name: "gpu", Up: true}
	for i, f := range free {
		name := fmt.Sprintf("gpu%02d", i+1)
		s.Nodes = append(s.Nodes, slurm.Node{
			Name: name, GPUs: 8, GPUsUsed: 8 - f, CPUs: 64, MemoryMB: 1 << 20,
			Leaf: fmt.Sprintf("s%d", 1+i/4), State: slurm.State{Base: "MIXED"},
		})
		p.Nodes = append(p.Nodes, name)
	}
	s.Partitions = []slurm.Partition{p}
	job.ID, job.Partition, job.State.Base, job.Priority, job.ArrayTaskID = 7, "gpu", "PENDING", 100, -1
	job.SubmitTime = noon.Add(-time.Minute)
	s.Jobs = []slurm.Job{job}
	return Input{
		Snapshot: s, Profiles: map[slurm.JobID]profile.Profile{7: {Group: profile.GroupUnknown}},
		Heads: map[slurm.JobID]time.Time{7: noon}, Rand: rand.New(rand.NewPCG(1, 1)),
		Limits: Limits{Depth: 10, SlackNodes: 1, MaxOffset: 100, MaxWait: time.Hour, MaxChanges: 10, TTL: time.Hour},
	}
}

// withRunning adds a running job on the given nodes, with its share of them.
func withRunning(in Input, comm bool, ends time.Duration, gpus map[string]int) Input {
	id := slurm.JobID(len(in.Snapshot.Jobs) + 100)
	in.Snapshot.Jobs = append(in.Snapshot.Jobs, slurm.Job{
		ID: id, Partition: "gpu", State: slurm.State{Base: "RUNNING"}, Nodes: keys(gpus), NodeGPUs: gpus,
		StartTime: noon.Add(-time.Hour), EndTime: noon.Add(ends),
	})
	in.Profiles[id] = profile.Profile{Group: 0, CommBound: comm}
	return in
}

// greedy is the policy without chance and without experience.
func greedy() *Rifling {
	p := agent.DefaultParams()
	p.Epsilon, p.EpsilonMin = 0, 0
	return &Rifling{Table: agent.NewTable(p), FCFS: true, Prior: RulePrior, PriorWeight: 3}
}

func TestChoice(t *testing.T) {
	one := func(g int) slurm.Job {
		return slurm.Job{MinNodes: 1, MaxNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerNode: g}}
	}
	open := func(g int) slurm.Job { return slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: g}} }
	comm := profile.Profile{Group: 0, CommBound: true}
	compute := profile.Profile{Group: 2, ComputeBound: true}

	tests := map[string]struct {
		in         Input
		profile    profile.Profile
		want       Action
		candidates string // compressed; "all" for no narrowing
	}{
		"a small job fills the fullest node and keeps whole nodes whole": {
			in: cluster(one(2), 8, 8, 2, 0), want: Pack, candidates: "gpu[03-04]",
		},
		"an open job goes to the one node that serves it, not to the scattered rest": {
			in: cluster(open(8), 4, 4, 8, 0), want: Pack, candidates: "gpu[03-04]",
		},
		"a job of unknown kind waits for a whole node rather than scatter": {
			in: withRunning(withRunning(cluster(open(8), 4, 4, 4, 4, 0, 0), false, 10*time.Minute, map[string]int{"gpu05": 8}),
				false, 20*time.Minute, map[string]int{"gpu06": 8}),
			want: Wait, candidates: "gpu[05-06]",
		},
		"nobody waits for what comes after the deadline": {
			in: withRunning(withRunning(cluster(open(8), 4, 4, 4, 4, 0, 0), false, 100*time.Minute, map[string]int{"gpu05": 8}),
				false, 100*time.Minute, map[string]int{"gpu06": 8}),
			profile: comm, want: Leave, candidates: "all",
		},
		"a compute-bound job does not wait": {
			in: withRunning(withRunning(cluster(open(8), 4, 4, 4, 4, 0, 0), false, 10*time.Minute, map[string]int{"gpu05": 8}),
				false, 20*time.Minute, map[string]int{"gpu06": 8}),
			profile: compute, want: Leave, candidates: "all",
		},
		"a communication-bound job waits for the nodes that come free soonest": {
			in: withRunning(withRunning(cluster(open(8), 4, 4, 4, 4, 0, 0), false, 10*time.Minute, map[string]int{"gpu05": 8}),
				false, 20*time.Minute, map[string]int{"gpu06": 8}),
			profile: comm, want: Wait, candidates: "gpu[05-06]",
		},
		"two nodes are taken under one leaf switch": {
			in:      cluster(slurm.Job{MinNodes: 2, MaxNodes: 2, Tasks: 2, Request: slurm.GPURequest{PerNode: 8}}, 8, 0, 0, 0, 8, 8, 8, 0),
			profile: comm, want: Leaf,
		},
		"nothing is left to choose when no node could serve the job": {
			in: cluster(one(9), 8, 8), want: Leave, candidates: "all",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			tc.in.Profiles[7] = tc.profile
			if tc.profile == (profile.Profile{}) {
				tc.in.Profiles[7] = profile.Profile{Group: profile.GroupUnknown}
			}
			d := Restrict(greedy().Decide(tc.in), tc.in).Decisions[0]
			if d.Action != tc.want {
				t.Errorf("action %s, want %s (%s)\nconsidered %+v", d.Action, tc.want, d.Reason, d.Considered)
			}
			got := "all"
			if d.Candidates != nil {
				got = slurm.CompressHosts(d.Candidates)
			}
			if tc.candidates != "" && got != tc.candidates {
				t.Errorf("candidates %s, want %s (%s)", got, tc.candidates, d.Reason)
			}
		})
	}
}

func TestWaitingIsBoundedFromTheHead(t *testing.T) {
	job := slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}
	in := cluster(job, 4, 4, 4, 4, 0, 0)
	in = withRunning(in, false, 10*time.Minute, map[string]int{"gpu05": 8})
	in = withRunning(in, false, 10*time.Minute, map[string]int{"gpu06": 8})
	in.Snapshot.Jobs[0].SubmitTime = noon.Add(-48 * time.Hour) // long ago, but at the head since noon
	if d := Restrict(greedy().Decide(in), in).Decisions[0]; d.Action != Wait || !d.Deadline.Equal(noon.Add(time.Hour)) {
		t.Errorf("at the head: %s until %v, want wait until 13:00", d.Action, d.Deadline)
	}
	in.Heads[7] = noon.Add(-time.Hour)
	if d := Restrict(greedy().Decide(in), in).Decisions[0]; d.Action == Wait {
		t.Error("an hour after it came to the head the job still waits")
	}
}

// Inside the set of a waiting job nothing may complete a scattered shape: with
// one slack node, that is the one that has the least to give, the latest.
func TestWaitingJobCannotScatterInItsSet(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}, 6, 4, 4, 2, 0, 0)
	for i, used := range []int{2, 4, 4, 6, 8, 8} {
		name := fmt.Sprintf("gpu%02d", i+1)
		in = withRunning(in, false, time.Duration(10+10*i)*time.Minute, map[string]int{name: used})
	}
	d := Restrict(greedy().Decide(in), in).Decisions[0]
	if got := slurm.CompressHosts(d.Candidates); d.Action != Wait || got != "gpu[01,06]" {
		t.Errorf("%s on %s, want wait on gpu01, soonest free, and gpu06, of which nothing is free for the longest", d.Action, got)
	}
	even := cluster(slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}, 4, 4, 4, 4)
	for i := range 4 {
		even = withRunning(even, false, time.Hour/2, map[string]int{fmt.Sprintf("gpu%02d", i+1): 4})
	}
	for _, o := range Restrict(greedy().Decide(even), even).Decisions[0].Considered {
		if o.Action == Wait {
			t.Errorf("waiting is offered on %v, where the job would start scattered at once", o.Nodes)
		}
	}
}

// A decision that still does is not rewritten because something moved a little.
func TestCandidatesAreKeptWhileTheyDo(t *testing.T) {
	at := func(first, second int) Input {
		in := cluster(slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}, 2, 2, 0, 0)
		for i, m := range []int{first, second, 50, 60} {
			used := 6
			if i > 1 {
				used = 8
			}
			in = withRunning(in, false, time.Duration(m)*time.Minute, map[string]int{fmt.Sprintf("gpu%02d", i+1): used})
		}
		return in
	}
	in := at(20, 22)
	before := Restrict(greedy().Decide(in), in).Decisions[0]
	for name, tc := range map[string]struct {
		in   Input
		kept bool
	}{"the other node is a little sooner": {at(22, 20), true}, "the other node is far sooner": {at(40, 10), false}} {
		tc.in.Previous = map[slurm.JobID]Decision{7: before}
		after := Restrict(greedy().Decide(tc.in), tc.in).Decisions[0]
		if before.Action != Wait || slices.Equal(before.Candidates, after.Candidates) != tc.kept {
			t.Errorf("%s: %v becomes %v", name, before.Candidates, after.Candidates)
		}
	}
}

func TestHeadsPassOverWaitingJobs(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, MaxNodes: 1, Request: slurm.GPURequest{PerNode: 1}}, 0, 0)
	second := in.Snapshot.Jobs[0]
	second.ID, second.Priority = 8, 50
	in.Snapshot.Jobs = append(in.Snapshot.Jobs, second)
	if h := Heads(in, nil); len(h) != 1 || h[7] != noon {
		t.Fatalf("heads %v, want job 7 alone", h)
	}
	in.Previous = map[slurm.JobID]Decision{7: {Action: Wait}}
	before := map[slurm.JobID]time.Time{7: noon.Add(-time.Hour), 99: noon}
	if h := Heads(in, before); len(h) != 2 || h[7] != before[7] || h[8] != noon {
		t.Errorf("heads %v, want 7 since 11:00, 8 since noon, and 99 forgotten", h)
	}
}

func TestQuietIsOfferedBesideBusyNICs(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}, 4, 4, 4, 4)
	in = withRunning(in, true, time.Hour, map[string]int{"gpu01": 4, "gpu02": 4})
	d := Restrict(greedy().Decide(in), in).Decisions[0]
	i := slices.IndexFunc(d.Considered, func(o Option) bool { return o.Action == Even || o.Action == Quiet })
	if i < 0 || slices.Contains(d.Considered[i].Nodes, "gpu01") {
		t.Errorf("considered %+v, want a set without the busy gpu01", d.Considered)
	}
}

func TestOrderFCFS(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, MaxNodes: 1, Request: slurm.GPURequest{PerNode: 1}}, 0, 0)
	for i, p := range []int64{150, 120, 5000} { // later, but of higher priority; the last out of reach
		j := in.Snapshot.Jobs[0]
		j.ID, j.Priority, j.SubmitTime = slurm.JobID(8+i), p, noon.Add(time.Duration(i)*time.Second)
		in.Snapshot.Jobs = append(in.Snapshot.Jobs, j)
	}
	p := Restrict(greedy().Decide(in), in)
	got := map[slurm.JobID]int64{}
	for _, d := range p.Decisions {
		got[d.JobID] = d.Offset
	}
	want := map[slurm.JobID]int64{7: 51, 8: 0, 9: 0, 10: 0}
	for id, w := range want {
		if got[id] != w {
			t.Errorf("offset of job %d is %d, want %d", id, got[id], w)
		}
	}
}

func TestExplanationsAreSentences(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}, 8, 8, 0)
	d := greedy().Decide(in).Decisions[0]
	for _, part := range []string{"unknown kind", "packing", "1 node"} {
		if !strings.Contains(d.Reason, part) {
			t.Errorf("reason %q does not say %q", d.Reason, part)
		}
	}
}

func TestSeveralTasksOfAnArrayAreNotBound(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, MaxNodes: 1, Request: slurm.GPURequest{PerNode: 1}, ArrayJobID: 7, ArrayTaskString: "1-6%2"}, 8, 8, 2)
	if d := Restrict(greedy().Decide(in), in).Decisions[0]; d.Candidates != nil {
		t.Errorf("candidates %v for an array of six pending tasks", d.Candidates)
	}
}

func TestReward(t *testing.T) {
	tests := map[string]struct{ got, want float64 }{
		"a run at its best":                         {RunReward(Episode{GPUs: 8, NPR: 1}), 0},
		"a run at half speed":                       {RunReward(Episode{GPUs: 8, NPR: 0.5}), -0.5},
		"four neighbours' GPUs brought to a stop":   {RunReward(Episode{GPUs: 8, NPR: 1, NeighbourDelta: -4}), -0.5},
		"no better than its best for its neighbour": {RunReward(Episode{GPUs: 1, NPR: 1, NeighbourDelta: -4}), -1},
		"a tenth of the run's GPU time idle before": {WaitReward(8*360, 8, time.Hour), -0.1},
		"a long wait in which nothing could start":  {WaitReward(0, 8, time.Hour), 0},
		"a wait beyond measure":                     {WaitReward(1e9, 8, time.Hour), -1},
		"a wait for a run of no length":             {WaitReward(1, 8, 0), -1},
	}
	for name, tt := range tests {
		if math.Abs(tt.got-tt.want) > 1e-9 {
			t.Errorf("%s: reward %v, want %v", name, tt.got, tt.want)
		}
	}
}

// With an empty table and no exploring the learner's plan is the rule's,
// whatever was decided before: it can only be worse by what it learned.
func TestUntaughtLearnerIsTheRule(t *testing.T) {
	p := agent.DefaultParams()
	p.Epsilon, p.EpsilonMin = 0, 0
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		learner := &Rifling{Table: agent.NewTable(p), Prior: RulePrior, PriorWeight: 3}
		for range 2 {
			want, got := DefaultRule().Decide(in), learner.Decide(in)
			for i, w := range want.Decisions {
				g := got.Decisions[i]
				if g.Action != w.Action || !slices.Equal(g.Candidates, w.Candidates) || !slices.Equal(g.Target, w.Target) {
					t.Fatalf("job %d: %s on %v, the rule %s on %v", w.JobID, g.Action, g.Candidates, w.Action, w.Candidates)
				}
				in.Previous[w.JobID] = g
			}
			for i := range in.Snapshot.Nodes {
				in.Snapshot.Nodes[i].GPUsUsed = rapid.IntRange(0, in.Snapshot.Nodes[i].GPUs).Draw(t, "later")
			}
		}
	})
}
