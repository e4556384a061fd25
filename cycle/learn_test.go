// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"testing"
	"time"

	"rifling/agent"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// counters are what the collectors would send for the jobs that run across nodes.
type counters struct {
	c      *fakeCluster
	sample func(j *slurm.Job, node string) profile.Sample
}

func (t *counters) Since(_ context.Context, mark int64) (Counters, error) {
	var out []profile.Sample
	for _, id := range sortedKeys(t.c.jobs) {
		j := t.c.jobs[id]
		if !j.Running() || len(j.Nodes) < 2 {
			continue
		}
		for _, n := range j.Nodes {
			s := t.sample(j, n)
			s.JobID, s.Node, s.At, s.Interval, s.GPUs = id, n, t.c.now, 15*time.Second, j.NodeGPUs[n]
			out = append(out, s)
		}
	}
	return Counters{Samples: out, Mark: mark, Now: t.c.now}, nil
}

const nicSpeed = 50e9 / 8

// stalled is a job across nodes that spends 70 % of its time on the NIC.
func stalled(*slurm.Job, string) profile.Sample {
	return profile.Sample{Compute: 0.3, Source: profile.SourceGPM, NetRate: 0.7 * nicSpeed, NetSpeed: nicSpeed}
}

// passes lets so many cycles of 15 s pass.
func passes(t *testing.T, l *Loop, c *fakeCluster, n int) {
	t.Helper()
	for range n {
		c.now = c.now.Add(15 * time.Second)
		once(t, l)
	}
}

// openJob leaves its shape to Slurm, so that there is something to learn.
func openJob(id slurm.JobID, gpus int) slurm.Job {
	j := gpuJob(id, 0)
	j.MaxNodes, j.Request = 0, slurm.GPURequest{PerJob: gpus}
	return j
}

// halfFull has half of three nodes taken, and the whole of the fourth.
func halfFull() *fakeCluster {
	c := newFakeCluster(4, 8)
	for i, n := range []string{"a", "b", "c", "d"} {
		id := slurm.JobID(1 + i)
		gpus := 4
		if n == "d" {
			gpus = 8
		}
		c.submit(gpuJob(id, gpus))
		c.start(id, n)
		c.jobs[id].EndTime = noon.Add(time.Duration(30+i) * time.Minute)
	}
	return c
}

func TestARunTeachesWhatItsPlacementCost(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	c.submit(openJob(7, 8))
	l := newLoop(t, c, r)
	l.Telemetry = &counters{c, stalled}
	once(t, l)
	state := l.previous[7].State
	c.start(7, "a", "b") // scattered, whatever was decided
	passes(t, l, c, 20)
	c.jobs[7].State.Base, c.jobs[7].EndTime = "COMPLETED", c.now
	passes(t, l, c, 1)

	e := r.episodes[7]
	if !e.Learned || e.NPRCount == 0 || e.NPR > 0.5 || e.Reward >= 0 {
		t.Fatalf("episode %+v: want a learned loss at about 0.3 of the best rate", e)
	}
	cell := entry(l, state, e.Actual)
	if cell == nil || cell.Visits != 1 || cell.Value != e.Reward {
		t.Errorf("table cell %+v of %q %s, want one visit with %v", cell, state, e.Actual, e.Reward)
	}
}

// Slurm may place a job scattered that rifling left to it: that is what leaving
// taught, and nothing is said of packing.
func TestAScatteredStartIsNotTakenForAPackedOne(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	c.submit(openJob(7, 8))
	l := newLoop(t, c, r)
	l.Telemetry = &counters{c, stalled}
	once(t, l)
	c.start(7, "c", "d")
	c.jobs[7].MinNodes = 2 // as Slurm shows it after the start
	passes(t, l, c, 30)
	if e := r.episodes[7]; !e.Learned || e.Actual != policy.Leave {
		t.Errorf("what came of it is called %s, want leave: %+v", e.Actual, e)
	}
}

func entry(l *Loop, state string, a policy.Action) *agent.Entry {
	for _, e := range l.Policy.(policy.Learner).Entries() {
		if e.State == state && e.Action == string(a) {
			return &e
		}
	}
	return nil
}

func TestObservingTeachesToo(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	c.submit(openJob(7, 8))
	l := newLoop(t, c, r)
	l.Mode, l.Telemetry = Observe, &counters{c, stalled}
	once(t, l)
	c.start(7, "a", "b")
	passes(t, l, c, 30)
	if c.posts != 0 || len(l.Policy.(policy.Learner).Entries()) == 0 {
		t.Errorf("%d writes, table %v; want none and something learned", c.posts, l.Policy.(policy.Learner).Entries())
	}
}

func TestWaitingWhileSomethingCouldStartIsAStepThatCosts(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	c.submit(openJob(7, 8))
	l := newLoop(t, c, r)
	once(t, l)
	d := l.previous[7]
	if d.Action != policy.Wait {
		t.Fatalf("decided %s, the scene wants wait: %+v", d.Action, d.Considered)
	}
	passes(t, l, c, 4)
	delete(c.jobs, 1) // its node comes free: another state
	passes(t, l, c, 1)
	cell := entry(l, d.State, policy.Wait)
	if cell == nil || cell.Visits != 1 {
		t.Fatalf("no step was learned from waiting: %v", l.Policy.(policy.Learner).Entries())
	}
	if next := l.previous[7]; next.Action != policy.Pack || next.State == d.State {
		t.Errorf("with a node free the job is decided %s in %q", next.Action, next.State)
	}
}

func TestARestartGoesOnWhereItWas(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	c.submit(openJob(7, 8))
	l := newLoop(t, c, r)
	l.Telemetry = &counters{c, stalled}
	once(t, l)
	c.start(7, "a", "b")
	passes(t, l, c, 5)

	again := newLoop(t, c, r) // as after a kill -9 right after a check-point
	again.Telemetry = &counters{c, stalled}
	passes(t, again, c, 30)
	if e := r.episodes[7]; !e.Learned {
		t.Errorf("the episode that was open at the restart is lost: %+v", e)
	}
	if got, want := again.Book.Members(), l.Book.Members(); len(got) < len(want) {
		t.Errorf("%d families after the restart, %d before", len(got), len(want))
	}
}

func TestCheckpointThatCannotBeReadIsNoReasonToStop(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	r.blobs[stateLoop], r.blobs[stateBook] = []byte("{"), []byte("nonsense")
	once(t, newLoop(t, c, r))
}
