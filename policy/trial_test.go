// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/agent"
	"rifling/slurm"
)

// exploring draws much, so that a draw too many shows.
func exploring() *Rifling {
	p := agent.DefaultParams()
	p.Epsilon, p.EpsilonMin = 1, 1
	return &Rifling{Table: agent.NewTable(p), FCFS: true, Prior: RulePrior, PriorWeight: 3}
}

// Observing, the incumbent's plan is what it would be without a trial, whatever
// both of them draw.
func TestObservingChangesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		seed := rapid.Uint64().Draw(t, "draws")
		in.Rand = rand.New(rand.NewPCG(seed, 1))
		alone := exploring().Decide(in)
		in.Rand = rand.New(rand.NewPCG(seed, 1))
		trial, p := NewTrial(vA, exploring(), exploring(), 0)
		if diff := cmp.Diff(alone, p.Decide(in)); diff != "" {
			t.Fatal(diff)
		}
		for _, pair := range trial.Pairs() {
			if pair.Mine {
				t.Fatal("a job of a share of nothing")
			}
		}
	})
}

// With a share, each job has the decision of one of the two, and of the
// candidate just where the draw says so.
func TestAShareIsDecidedByTheCandidate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		share := rapid.Float64Range(0.01, 0.99).Draw(t, "share")
		trial, p := NewTrial(vA, DefaultRule(), Slurm{}, share)
		plan, alone := p.Decide(in), DefaultRule().Decide(in)
		if len(plan.Decisions) != len(alone.Decisions) {
			t.Fatalf("%d decisions, the incumbent's are %d", len(plan.Decisions), len(alone.Decisions))
		}
		for i, d := range plan.Decisions {
			mine := slices.ContainsFunc(trial.Pairs(), func(p PlanPair) bool { return p.Incumbent.JobID == d.JobID && p.Mine })
			if mine != (strings.Contains(d.Reason, "on trial")) || mine && !InShare(vA, in.Snapshot.Job(d.JobID), share) {
				t.Fatalf("job %d: of the share: %v; %s", d.JobID, mine, d.Reason)
			}
			if !mine {
				if diff := cmp.Diff(alone.Decisions[i], d); diff != "" {
					t.Fatal(diff)
				}
			}
		}
	})
}

// A learner in charge is still found by the loop; another is not made up, or
// the loop would empty the table that it kept.
func TestALearnerStaysOne(t *testing.T) {
	if _, p := NewTrial(vA, exploring(), Slurm{}, 0); p.(Learner) == nil {
		t.Error("the learner is hidden")
	}
	if _, p := NewTrial(vA, Slurm{}, exploring(), 0); isLearner(p) {
		t.Error("a candidate that learns is taken for the incumbent")
	}
}

func isLearner(p Policy) bool { _, ok := p.(Learner); return ok }

// queueOf is one node that is full, and n waiting jobs.
func queueOf(n int, at time.Time) Input {
	s := &slurm.Snapshot{TakenAt: at, Release: slurm.Release{Major: 24, Minor: 11, REST: 42}}
	for _, name := range []string{"a", "b", "c"} {
		s.Nodes = append(s.Nodes, slurm.Node{Name: name, GPUs: 8, GPUsUsed: 8, State: slurm.State{Base: "ALLOCATED"}})
	}
	s.Partitions = []slurm.Partition{{Name: "gpu", Nodes: []string{"a", "b", "c"}, Up: true}}
	for i := range n {
		s.Jobs = append(s.Jobs, slurm.Job{
			ID: slurm.JobID(i + 1), Partition: "gpu", User: "ada", State: slurm.State{Base: "PENDING"}, Priority: 100,
			SubmitTime: at, EligibleTime: at, TimeLimit: time.Hour, MinNodes: 1, Tasks: 1, ArrayTaskID: -1,
			Request: slurm.GPURequest{PerJob: 8},
		})
	}
	return Input{Snapshot: s, Limits: Limits{Depth: 1000, MaxWait: time.Hour}, Rand: rand.New(rand.NewPCG(1, 1))}
}

// ended ends the jobs after a time of each.
func (in *Input) ended(after func(*slurm.Job) time.Duration) {
	for i := range in.Snapshot.Jobs {
		j := &in.Snapshot.Jobs[i]
		j.State.Base, j.EndTime = "COMPLETED", j.SubmitTime.Add(after(j))
	}
}

func TestATrialThatDoesHarmEndsByItself(t *testing.T) {
	trial, p := NewTrial(vA, Slurm{}, DefaultRule(), 0.2)
	at := noon
	rounds := 0
	for ; rounds < 100 && !trial.Figures().Alarm; rounds++ {
		in := queueOf(20, at)
		for i := range in.Snapshot.Jobs {
			in.Snapshot.Jobs[i].ID += slurm.JobID(1000 * rounds)
		}
		p.Decide(in)
		r := rand.New(rand.NewPCG(uint64(rounds), 3))
		in.ended(func(j *slurm.Job) time.Duration {
			run := time.Duration((0.5 + r.Float64()) * float64(time.Hour))
			if InShare(vA, j, 0.2) {
				run *= 3
			}
			return run
		})
		in.Snapshot.TakenAt = at.Add(5 * time.Hour)
		p.Decide(in)
		// What is shown as ended once more is not counted twice.
		before := trial.Figures()
		p.Decide(in)
		if diff := cmp.Diff(before, trial.Figures()); diff != "" {
			t.Fatal(diff)
		}
		state, err := trial.State()
		if err != nil {
			t.Fatal(err)
		}
		// Each round is a restart.
		trial, p = NewTrial(vA, Slurm{}, DefaultRule(), 0.2)
		if err := trial.Resume(state); err != nil {
			t.Fatal(err)
		}
		at = at.Add(6 * time.Hour)
	}
	f := trial.Figures()
	t.Logf("after %d rounds of 20 jobs: %+v", rounds, f)
	if !f.Alarm || f.Mine > 60 {
		t.Errorf("no alarm soon enough: %+v", f)
	}
	p.Decide(queueOf(50, at))
	for _, pair := range trial.Pairs() {
		if pair.Mine {
			t.Fatal("after the alarm the candidate still decides")
		}
	}
}

func TestAStateOfAnotherTrialIsNotTaken(t *testing.T) {
	a, _ := NewTrial(vA, Slurm{}, DefaultRule(), 0.2)
	a.test.Alarm, a.Since = true, noon
	state, err := a.State()
	if err != nil {
		t.Fatal(err)
	}
	for name, other := range map[string]struct {
		version string
		share   float64
		since   time.Time
		alarm   bool
	}{
		"the same": {vA, 0.2, noon, true}, "another version": {vB, 0.2, noon, false}, "another share": {vA, 0.3, noon, false},
		"promoted again": {vA, 0.2, noon.Add(time.Hour), false},
	} {
		b, _ := NewTrial(other.version, Slurm{}, DefaultRule(), other.share)
		b.Since = other.since
		if err := b.Resume(state); err != nil || b.Figures().Alarm != other.alarm {
			t.Errorf("%s: %v, alarm %v", name, err, b.Figures().Alarm)
		}
	}
	if err := a.Resume([]byte("{")); err == nil {
		t.Error("a broken state was taken")
	}
}

// panics is a policy with a fault.
type panics struct{}

func (panics) Decide(Input) Plan { panic("no such thing") }

// A fault of the candidate is the candidate's end, and nobody else's.
func TestAFaultOfTheCandidateHarmsNobody(t *testing.T) {
	trial, p := NewTrial(vA, DefaultRule(), panics{}, 0.5)
	in := queueOf(5, noon)
	alone := DefaultRule().Decide(in)
	for range 2 {
		if diff := cmp.Diff(alone, p.Decide(in)); diff != "" {
			t.Fatal(diff)
		}
	}
	if trial.Broken() != "no such thing" {
		t.Errorf("the fault reads %q", trial.Broken())
	}
}
