// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rifling/profile"
	"rifling/slurm"
)

func byName(t *testing.T, name string) Policy {
	t.Helper()
	p, err := New(name, Options{})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Each baseline on the same board: what it is known for.
func TestBaselinesChoose(t *testing.T) {
	fixed := slurm.Job{MinNodes: 1, MaxNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerNode: 2}}
	open := slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}
	busy := func(job slurm.Job) Input {
		in := cluster(job, 6, 2, 4, 3, 0, 0)
		for i, g := range []int{2, 6, 4, 5, 8, 8} {
			in = withRunning(in, false, time.Duration(10*(i+1))*time.Minute, map[string]int{fmt.Sprintf("gpu%02d", i+1): g})
		}
		in.Limits.SlackNodes = 0
		return in
	}
	for _, tt := range []struct {
		policy string
		job    slurm.Job
		action Action
		target string
	}{
		{"spread", fixed, Place, "gpu01"},
		{"balance", fixed, Place, "gpu01"},
		{"best-fit", fixed, Place, "gpu02"},
		{"pack", fixed, Pack, "gpu02"},
		{"strict", fixed, Pack, "gpu02"},
		{"spread", open, Place, "gpu[02-04]"},
		{"best-fit", open, Place, "gpu[02-04]"},
		{"balance", open, Place, "gpu[01,03]"},
		{"pack", open, Leaf, "gpu[01,03]"},
		{"strict", open, Wait, "gpu01"},
		{"delay", open, Wait, "gpu01"},
		{"slurm", open, Leave, ""},
	} {
		d := Restrict(byName(t, tt.policy).Decide(busy(tt.job)), busy(tt.job)).Decisions[0]
		if got := slurm.CompressHosts(d.Target); d.Action != tt.action || got != tt.target {
			t.Errorf("%s on %v: %s %s, want %s %s (%s)", tt.policy, tt.job.Request, d.Action, got, tt.action, tt.target, d.Reason)
		}
	}
}

func TestDelayGivesUp(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}, 4, 4, 0)
	in = withRunning(in, false, time.Hour/2, map[string]int{"gpu03": 8})
	in.Limits.SlackNodes = 0
	for waited, want := range map[time.Duration]bool{9 * time.Minute: true, 11 * time.Minute: false} {
		in.Heads[7] = noon.Add(-waited)
		if d := byName(t, "delay").Decide(in).Decisions[0]; (d.Action == Wait) != want {
			t.Errorf("%v after it came to the head: %s", waited, d.Action)
		}
		if d := byName(t, "strict").Decide(in).Decisions[0]; d.Action != Wait {
			t.Errorf("strict gives up after %v: %s", waited, d.Action)
		}
	}
}

// A draw is kept while the job can start there, or the list would be written
// anew in each cycle.
func TestRandomKeepsItsDraw(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, MaxNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerNode: 2}}, 8, 8, 8, 8, 8, 8)
	in.Limits.SlackNodes = 0
	first := Random().Decide(in).Decisions[0]
	drawn := map[string]bool{}
	for range 30 {
		drawn[slurm.CompressHosts(Random().Decide(in).Decisions[0].Candidates)] = true
	}
	if len(drawn) < 2 {
		t.Errorf("thirty draws are all alike: %v", drawn)
	}
	in.Previous = map[slurm.JobID]Decision{7: first}
	for range 30 {
		if d := Random().Decide(in).Decisions[0]; !slices.Equal(d.Candidates, first.Candidates) {
			t.Fatalf("%v becomes %v", first.Candidates, d.Candidates)
		}
	}
}

// Two jobs that wait do not count on the same node.
func TestWaitingJobsTakeDifferentNodes(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, Tasks: 1, TimeLimit: time.Hour, Request: slurm.GPURequest{PerJob: 8}}, 4, 4, 0, 0)
	second := in.Snapshot.Jobs[0]
	second.ID, second.Priority = 8, 50
	in.Snapshot.Jobs = append(in.Snapshot.Jobs, second)
	in = withRunning(in, false, 10*time.Minute, map[string]int{"gpu03": 8})
	in = withRunning(in, false, 20*time.Minute, map[string]int{"gpu04": 8})
	in.Limits.SlackNodes = 0
	p := byName(t, "strict").Decide(in)
	if a, b := slurm.CompressHosts(p.Decisions[0].Target), slurm.CompressHosts(p.Decisions[1].Target); a != "gpu03" || b != "gpu04" {
		t.Errorf("the first waits for %s, the second for %s", a, b)
	}
}

// Every node half free: with slack a set that keeps a job of a whole node
// waiting exists only where some node has less to give.
func TestWaitingLooksForASetThatHolds(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerJob: 8}}, 6, 5, 4, 3)
	for i, g := range []int{2, 3, 4, 5} {
		in = withRunning(in, false, time.Duration(10*(i+1))*time.Minute, map[string]int{fmt.Sprintf("gpu%02d", i+1): g})
	}
	// gpu01, the soonest, would start scattered with any other as slack (6+3);
	// gpu02 too (5+3); gpu03 with gpu04 holds (4+3).
	d := byName(t, "strict").Decide(in).Decisions[0]
	if d.Action != Wait || slurm.CompressHosts(d.Candidates) != "gpu[03-04]" {
		t.Errorf("%s on %v, want wait on gpu[03-04]", d.Action, d.Candidates)
	}
}

// The rule is the prior: what it does is what an untaught table does.
func TestRuleIsTheUntaughtTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		a, b := DefaultRule().Decide(in), greedy().Decide(in)
		for _, d := range a.Decisions {
			i := slices.IndexFunc(b.Decisions, func(o Decision) bool { return o.JobID == d.JobID })
			if i < 0 { // another order, so another depth
				continue
			}
			o := b.Decisions[i]
			if len(a.Decisions) == 1 && o.Action != d.Action {
				t.Errorf("job %d: the rule says %s, the table %s", d.JobID, d.Action, o.Action)
			}
		}
	})
}

func TestRuleValues(t *testing.T) {
	r := DefaultRule()
	rapid.Check(t, func(t *rapid.T) {
		f := Features{
			CommBound: rapid.Bool().Draw(t, "comm"), Open: rapid.Bool().Draw(t, "open"), Busy: rapid.Bool().Draw(t, "busy"),
			Need: rapid.IntRange(1, 4).Draw(t, "need"), Nodes: rapid.IntRange(0, 8).Draw(t, "nodes"),
			Leaves: rapid.IntRange(0, 3).Draw(t, "leaves"), Total: rapid.IntRange(1, 32).Draw(t, "total"),
			Part: rapid.IntRange(0, 8).Draw(t, "part"), LeaveNodes: rapid.IntRange(0, 8).Draw(t, "leave"),
			Waited: time.Duration(rapid.IntRange(0, 1e6).Draw(t, "waited")) * time.Second,
			Run:    time.Duration(rapid.IntRange(0, 1e6).Draw(t, "run")) * time.Second,
		}
		for _, a := range Actions {
			v := r.Value(f, a)
			if math.IsNaN(v) || v > 0 || v < -1 {
				t.Fatalf("%s of %+v is worth %v", a, f, v)
			}
			longer := f
			longer.Waited *= 2
			if r.Value(longer, a) > v {
				t.Fatalf("%s is worth more when it takes longer", a)
			}
		}
	})
	impatient := r
	impatient.Patience = 0
	f := Features{Total: 8, Need: 1, LeaveNodes: 2, Nodes: 2, Part: 4, Run: time.Hour, Waited: time.Minute}
	if impatient.Value(f, Wait) > impatient.Value(f, Leave) || r.Value(f, Wait) < r.Value(f, Leave) {
		t.Error("with patience 0 it waits, or with the shipped patience it does not")
	}
}

// A job that needs two nodes goes in thin parts over what is left over, not as
// halves over two whole nodes.
func TestThinPartsForJobsLargerThanANode(t *testing.T) {
	in := cluster(slurm.Job{MinNodes: 2, Tasks: 1, Request: slurm.GPURequest{PerJob: 12}}, 8, 8, 3, 3, 3, 3)
	in.Profiles[7] = profile.Profile{Group: 0, CommBound: true}
	in.Limits.SlackNodes = 0
	d := DefaultRule().Decide(in).Decisions[0]
	if d.Action != Even || slurm.CompressHosts(d.Target) != "gpu[03-06]" {
		t.Errorf("%s on %v, want even on gpu[03-06] (%+v)", d.Action, d.Target, d.Considered)
	}
}

func TestNew(t *testing.T) {
	for _, name := range Names() {
		if p := byName(t, name); p == nil || About(name) == "" {
			t.Errorf("%s is not there or says nothing about itself", name)
		}
	}
	if _, err := New("clever", Options{}); err == nil {
		t.Error("a policy that is not there")
	}
}
