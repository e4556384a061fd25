// SPDX-License-Identifier: Apache-2.0

package gym

import (
	"context"
	"math"
	"slices"
	"time"

	"rifling/policy"
	"rifling/sim"
	"rifling/slurm"
)

// decider is the policy that asks the agent. What it offers, and what the
// rule would take, is the rule's own; a job whose only action is to be left to
// Slurm is not asked about. Jobs behind one another in the same cycle are
// offered what is left when those before follow the rule.
type decider struct {
	env  *Env
	ctx  context.Context
	zero time.Time

	jobs  []sim.Job
	ends  map[slurm.JobID]time.Duration
	scale float64
	last  time.Duration
}

// Decide asks about each job that has a choice.
func (d *decider) Decide(in policy.Input) policy.Plan {
	p := policy.DefaultRule().Decide(in)
	at := in.Snapshot.TakenAt.Sub(d.zero)
	for i := range p.Decisions {
		one := &p.Decisions[i]
		if one.Skipped != "" || len(one.Considered) < 2 {
			continue
		}
		q := question{at: at, decision: *one, obs: observe(in, one), reward: d.since(at)}
		select {
		case d.env.ask <- q:
		case <-d.ctx.Done():
			return p
		}
		select {
		case action := <-d.env.tell:
			take(one, policy.Actions[action])
		case <-d.ctx.Done():
			return p
		}
	}
	return p
}

// take makes another action of the decision; the rule's own stays as it is.
func take(d *policy.Decision, a policy.Action) {
	if a == d.Action {
		return
	}
	i := slices.IndexFunc(d.Considered, func(o policy.Option) bool { return o.Action == a })
	o := d.Considered[i]
	d.Action, d.Candidates, d.Target, d.Value = a, o.Nodes, nil, o.Value
	if a == policy.Leave {
		d.Candidates = nil
	}
	d.Reason, d.Explored = "the agent chose it", true
}

// since is the reward of the time from the last call to now: less the seconds
// that jobs spent in the system, over their work.
func (d *decider) since(now time.Duration) float64 {
	if now <= d.last {
		return 0
	}
	sum := 0.0
	for i := range d.jobs {
		end, ended := d.ends[d.jobs[i].ID]
		if !ended {
			end = now
		}
		if spent := min(end, now) - max(d.jobs[i].Submit, d.last); spent > 0 {
			sum += spent.Seconds()
		}
	}
	d.last = now
	return -sum / d.scale
}

// observe describes one decision in numbers.
func observe(in policy.Input, d *policy.Decision) Observation {
	out := none()
	j, p := in.Snapshot.Job(d.JobID), in.Profiles[d.JobID]
	now := in.Snapshot.TakenAt
	wanted, all, free := 0, 0, 0
	for i := range in.Snapshot.Jobs {
		if o := &in.Snapshot.Jobs[i]; o.Pending() {
			wanted += o.Total()
		}
	}
	for i := range in.Snapshot.Nodes {
		if n := &in.Snapshot.Nodes[i]; n.Usable() {
			all, free = all+n.GPUs, free+n.GPUs-n.GPUsUsed
		}
	}
	head, ok := in.Heads[d.JobID]
	if !ok {
		head = now
	}
	flag := map[bool]float64{true: 1}
	log := func(t time.Duration) float64 { return math.Log1p(max(0, t.Seconds())) }
	copy(out.Job, []float64{
		math.Log2(float64(max(1, j.Total()))), float64(j.MinNodes), log(p.RunTime), log(j.TimeLimit), log(now.Sub(j.SubmitTime)),
		flag[p.CommBound], flag[p.ComputeBound], flag[p.Group < 0], float64(wanted) / float64(max(1, all)),
		float64(free) / float64(max(1, all)), log(now.Sub(head)),
	})
	for _, o := range d.Considered {
		i := slices.Index(policy.Actions, o.Action)
		if i < 0 {
			continue
		}
		share := 1.0
		if o.Nodes != nil {
			share = float64(len(o.Nodes)) / float64(max(1, len(in.Snapshot.Nodes)))
		}
		out.Mask[i] = 1
		copy(out.Options[i], []float64{1, o.Value, share, flag[o.Shape != "" && o.Shape != cannotStart]})
	}
	return out
}

// cannotStart is how the record calls an option that has no place now.
const cannotStart = "cannot start now"
