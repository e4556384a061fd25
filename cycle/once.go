// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math/rand/v2"
	"slices"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// Modes of operation.
const (
	Observe = "observe" // decide, record, change nothing
	Steer   = "steer"
)

// Loop holds what one cycle hands to the next. Its exported fields are set
// once, before the first call of Once.
type Loop struct {
	Cluster   Cluster
	Recorder  Recorder
	Telemetry Telemetry // nil: no counters
	Policy    policy.Policy
	Book      *profile.Book
	Mode      string
	Limits    policy.Limits
	Seed      uint64
	Tau       time.Duration // time constant of the reward
	Log       *slog.Logger
	// Clock measures how long a cycle takes; decisions never look at it.
	Clock func() time.Time
	// CheckpointEvery is how many cycles lie between two check-points of what
	// was learned; 0 means each.
	CheckpointEvery int
	// Brakes may keep a loop in mode steer from setting anything.
	Brakes Brakes

	owned      map[slurm.JobID]policy.Owner
	previous   map[slurm.JobID]policy.Decision
	heads      map[slurm.JobID]time.Time
	episodes   map[slurm.JobID]*episode
	lastAt     time.Time
	cycles     int
	mark       int64         // of the last counter that the book has
	shift      time.Duration // Slurm's clock against the counters'
	recovering bool          // the first cycle takes back what an earlier process left
	held       *Held         // what keeps the loop from steering now
	heldKept   bool          // whether the recorder knows
	loadAt     time.Time     // when slurmctld was last asked how it fares
}

// Report is what one cycle did, for the log and the metrics.
type Report struct {
	Cycle     int64
	At        time.Time
	Pending   int
	Running   int
	GPUs      int
	GPUsUsed  int
	ANPR      float64
	Decisions int
	Skipped   int
	Samples   int
	Rejected  map[string]int // counters that were refused, by reason
	Results   []policy.Result
	Owned     int
	PutOff    int       // changes left to a later cycle by the limit
	Learned   int       // episodes that taught something
	Rewards   []float64 // of these episodes, in any order
	Odd       map[string]int
	Held      *Held // nil: nothing keeps the loop from steering
	Took      time.Duration
	Phases    []Phase // how Took was spent, in order

	// What the cycle decided on and with. Nobody changes these values after
	// Once has returned, so that others may read them at any time.
	Snapshot *slurm.Snapshot
	Profiles map[slurm.JobID]profile.Profile
	Plan     policy.Plan
	Owners   map[slurm.JobID]policy.Owner
}

// Phase is a part of a cycle and the time that it took by the Clock.
type Phase struct {
	Name string // of PhaseNames
	Took time.Duration
}

// PhaseNames are the parts of a cycle in order. Poll reads Slurm; profile takes
// in counters, groups jobs and learns from what ended; decide runs the policy
// and plans the writes; record keeps the plan; apply writes to Slurm; keep
// records what came of it, check-points included.
var PhaseNames = []string{"poll", "profile", "decide", "record", "apply", "keep"}

// laps measures the phases of one cycle.
type laps struct {
	clock func() time.Time
	last  time.Time
	done  []Phase
}

// end ends the phase that is next in turn.
func (p *laps) end() {
	now := p.clock()
	p.done = append(p.done, Phase{PhaseNames[len(p.done)], now.Sub(p.last)})
	p.last = now
}

// Start restores what earlier runs kept: owner records, the profile book, the
// learner's table, open episodes. It must be called once before Once.
func (l *Loop) Start(ctx context.Context) error {
	owners, err := l.Recorder.Owners(ctx)
	if err != nil {
		return fmt.Errorf("restore owner records: %w", err)
	}
	l.owned = map[slurm.JobID]policy.Owner{}
	for _, o := range owners {
		l.owned[o.JobID] = o
	}
	l.recovering = len(owners) > 0
	l.previous = map[slurm.JobID]policy.Decision{}
	l.heads = map[slurm.JobID]time.Time{}
	l.episodes = map[slurm.JobID]*episode{}
	return l.restore(ctx)
}

// Once runs one cycle. An error before the plan is recorded means that nothing
// was written; one after it, that the history lacks what came of the writes,
// while the owner records of Begin cover them. What went wrong with single jobs
// is in the report.
func (l *Loop) Once(ctx context.Context) (Report, error) {
	began := l.Clock()

	// 1. Poll.
	snap, err := l.Cluster.Snapshot(ctx)
	if err != nil {
		return Report{}, fmt.Errorf("poll: %w", err)
	}
	rep := Report{At: snap.TakenAt, Odd: snap.Odd, Snapshot: snap}
	phases := laps{clock: l.Clock, last: began}
	phases.end()

	// 2. Profile.
	samples, fresh := l.drain(ctx, snap)
	l.Book.Track(snap)
	rep.Samples, rep.Rejected = len(samples), l.Book.Add(samples)

	// 3. Group.
	if groups, changed := l.Book.Regroup(snap.TakenAt); changed {
		if err := l.Recorder.SaveGroups(ctx, snap.TakenAt, groups); err != nil {
			return rep, fmt.Errorf("record groups: %w", err)
		}
	}

	// 4. Learn from what became of earlier decisions.
	in := l.input(snap)
	done, rewards := l.follow(in)
	rep.Learned, rep.Rewards, rep.Profiles = len(rewards), rewards, in.Profiles
	phases.end()

	// 5. Decide. What holds the loop back keeps it from setting, not from deciding.
	if err := l.brake(ctx, snap.TakenAt); err != nil {
		return rep, err
	}
	plan := policy.Plan{Policy: policy.PlanRecover, At: snap.TakenAt}
	if !l.recovering {
		plan = policy.Restrict(l.Policy.Decide(in), in)
	}
	rep.Plan = plan

	// 6. Plan the writes.
	writes := l.writes(plan, in)
	writes.Forget = l.reallyGone(ctx, writes.Forget, snap)
	rep.PutOff = writes.Left
	phases.end()

	// 7. Record the plan before the first write.
	rec := l.record(in, plan, writes, fresh)
	if rep.Cycle, err = l.Recorder.Begin(ctx, rec); err != nil {
		return rep, fmt.Errorf("record plan: %w", err)
	}
	l.adopt(writes)
	phases.end()

	// 8. Apply.
	rep.Results = l.apply(ctx, writes.Changes, snap)
	l.watch(snap.TakenAt, rep.Results)
	l.recovering = false
	rep.Owners = maps.Clone(l.owned)
	phases.end()

	// 9. Record what came of it.
	rep.Took = l.Clock().Sub(began)
	if err := l.Recorder.End(ctx, rep.Cycle, rep.Results, rep.Took); err != nil {
		return rep, fmt.Errorf("record results: %w", err)
	}
	if err := l.Recorder.SaveEpisodes(ctx, done); err != nil {
		return rep, fmt.Errorf("record episodes: %w", err)
	}
	l.remember(in, plan)
	l.fill(&rep, rec, plan)
	l.cycles++
	if l.CheckpointEvery <= 1 || l.cycles%l.CheckpointEvery == 0 {
		err = l.Checkpoint(ctx, snap.TakenAt)
	}
	phases.end()
	rep.Phases = phases.done
	return rep, err
}

// drainRounds bounds what one cycle takes in. After a long stop the rest waits
// for the next: a day of 100 nodes takes some minutes.
const drainRounds = 5

// drain takes the counters that came in and sets them to Slurm's clock. Those
// of which the history has no record yet are fresh.
func (l *Loop) drain(ctx context.Context, snap *slurm.Snapshot) (samples, fresh []profile.Sample) {
	if l.Telemetry == nil {
		return nil, nil
	}
	for range drainRounds {
		c, err := l.Telemetry.Since(ctx, l.mark)
		if err != nil {
			l.Log.Warn("counters cannot be read, the next cycle tries again", "err", err)
			return samples, fresh
		}
		shift := l.setClock(snap.TakenAt, c.Now)
		for i := range c.Samples {
			c.Samples[i].At = c.Samples[i].At.Add(shift)
		}
		samples, l.mark = append(samples, c.Samples...), c.Mark
		if !c.Kept {
			fresh = append(fresh, c.Samples...)
		}
		if !c.More {
			break
		}
	}
	return samples, fresh
}

// clockNoise is by how much the distance between the two clocks seems to vary:
// Slurm's is read in whole seconds, and an answer takes its time.
const clockNoise = 2 * time.Second

// setClock returns what brings the counters' times to Slurm's clock. It stays
// the same while it can: else intervals would move against one another.
func (l *Loop) setClock(slurms, theirs time.Time) time.Duration {
	if shift := slurms.Sub(theirs); (shift - l.shift).Abs() > clockNoise {
		l.shift = shift
	}
	return l.shift
}

func (l *Loop) input(snap *slurm.Snapshot) policy.Input {
	in := policy.Input{
		Snapshot: snap, Profiles: l.Book.Profiles(snap), Owned: l.owned, Previous: l.previous,
		Limits: l.Limits,
		// One stream per instant, so that a cycle can be replayed by itself.
		Rand: rand.New(rand.NewPCG(l.Seed, uint64(snap.TakenAt.UnixNano()))),
	}
	in.Heads = policy.Heads(in, l.heads)
	l.heads = in.Heads
	return in
}

// writes plans what to send. Observing, that is nothing but taking back what an
// earlier, steering run left.
func (l *Loop) writes(plan policy.Plan, in policy.Input) policy.Writes {
	if l.mode() != Steer {
		plan.Decisions = nil
	}
	return policy.Steer(plan, in)
}

// reallyGone keeps those jobs whose owner records may be dropped: a record that
// could not be read is left out of the snapshot, and its job is not gone.
func (l *Loop) reallyGone(ctx context.Context, ids []slurm.JobID, snap *slurm.Snapshot) []slurm.JobID {
	return slices.DeleteFunc(ids, func(id slurm.JobID) bool {
		if snap.Job(id) != nil {
			return false // pending, with nothing of rifling's on it
		}
		_, err := l.Cluster.Job(ctx, id)
		return !errors.Is(err, slurm.ErrGone)
	})
}

func (l *Loop) record(in policy.Input, plan policy.Plan, w policy.Writes, samples []profile.Sample) policy.Record {
	r := policy.Record{
		At: in.Snapshot.TakenAt, Mode: l.mode(), Seed: l.Seed, Profiles: in.Profiles, Samples: samples,
		Plan: plan, Changes: w.Changes, Renew: w.Renew, Forget: w.Forget, Odd: in.Snapshot.Odd,
	}
	for i := range in.Snapshot.Jobs {
		if j := in.Snapshot.Jobs[i]; j.WantsGPU() || len(j.NodeGPUs) > 0 {
			r.Jobs = append(r.Jobs, j)
		}
	}
	for i := range in.Snapshot.Nodes {
		if n := &in.Snapshot.Nodes[i]; n.Usable() {
			r.GPUs += n.GPUs
			r.GPUsUsed += n.GPUsUsed
		}
	}
	r.FreeSplit, r.Unevenness = policy.LoadShape(in.Snapshot)
	r.ANPR, r.ANPRGPUs = l.Book.ANPR(in.Snapshot)
	return r
}

// adopt makes the owner records what Begin has kept.
func (l *Loop) adopt(w policy.Writes) {
	for _, id := range w.Forget {
		delete(l.owned, id)
	}
	for _, o := range w.Renew {
		l.owned[o.JobID] = o
	}
}

// remember keeps what the next cycle needs of this one.
func (l *Loop) remember(in policy.Input, plan policy.Plan) {
	next := make(map[slurm.JobID]policy.Decision, len(plan.Decisions))
	for _, d := range plan.Decisions {
		if d.Skipped == "" {
			next[d.JobID] = d
		}
	}
	l.decided(in, next)
	l.previous = next
	l.lastAt = in.Snapshot.TakenAt
}

func (l *Loop) fill(rep *Report, rec policy.Record, plan policy.Plan) {
	for i := range rec.Jobs {
		switch {
		case rec.Jobs[i].Pending():
			rep.Pending++
		case rec.Jobs[i].Running():
			rep.Running++
		}
	}
	rep.Held = l.held
	rep.GPUs, rep.GPUsUsed, rep.ANPR, rep.Owned = rec.GPUs, rec.GPUsUsed, rec.ANPR, len(l.owned)
	rep.Decisions = len(plan.Decisions)
	rep.Skipped = len(slices.DeleteFunc(slices.Clone(plan.Decisions), func(d policy.Decision) bool { return d.Skipped == "" }))
}
