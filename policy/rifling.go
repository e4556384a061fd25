// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"time"

	"rifling/agent"
	"rifling/profile"
	"rifling/slurm"
)

// Rifling is the paper's policy (Chen, SP&E 2022): jobs grouped by their
// computation-communication ratio, a table of values learned by Q-learning
// over placements and waiting, first come first served.
type Rifling struct {
	Table *agent.Table
	// FCFS orders the queue by submission through bounded priority offsets;
	// otherwise Slurm's own order stays.
	FCFS bool
	// Prior gives each action a value before it was tried; nil means 0.
	Prior func(f Features, a Action) float64
	// PriorWeight is how many visits the prior counts for.
	PriorWeight float64
}

// Features is what a prior may look at.
type Features struct {
	CommBound, ComputeBound bool
	Open                    bool
	LeaveNodes              int // nodes that Slurm's own fit would take now; 0 when it cannot start
	Need                    int // nodes at best
	Nodes, Leaves           int // of the action's own shape; 0 when it cannot start now
}

// Decide plans by the table. A job keeps its last decision while its state is
// the same and the action is still offered, so that exploring does not make
// the exclusions flap from one cycle to the next.
func (r *Rifling) Decide(in Input) Plan {
	p := decide("rifling", in, r.FCFS, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, ok := b.fit(j)
		if !ok {
			d.Reason = notModelled
			return nil
		}
		if severalTasks(j) {
			d.Reason = "several tasks of this array are pending, and one node list would bind them all"
			return f.slurmFit(f.hosts)
		}
		return r.choose(f, in.Profiles[j.ID], d)
	})
	if r.FCFS {
		orderFCFS(&p, in)
	}
	return p
}

func severalTasks(j *slurm.Job) bool {
	if !j.IsArray() || j.ArrayTaskID >= 0 {
		return false
	}
	n, _, known, err := slurm.ParseTasks(j.ArrayTaskString)
	return err != nil || !known || n != 1
}

func (r *Rifling) choose(f *fit, p profile.Profile, d *Decision) map[string]int {
	in := f.b.in
	offers := f.offers(!waitedOut(f.j, in))
	d.State = encode(f, p)
	feats := featuresOf(f, p, offers[0])
	choices := make([]agent.Choice, len(offers))
	for i, o := range offers {
		choices[i] = agent.Choice{Action: string(o.action)}
		feats.Nodes, feats.Leaves = len(o.shape), f.b.leafCount(keys(o.shape))
		if r.Prior != nil {
			choices[i].Prior, choices[i].PriorWeight = r.Prior(feats, o.action), r.PriorWeight
		}
	}
	byAction := func(a Action) int {
		for i, o := range offers {
			if o.action == a {
				return i
			}
		}
		return -1
	}
	value := func(a Action) (float64, int) { return r.Table.Value(d.State, choices[byAction(a)]) }
	i := -1
	if last, ok := in.Previous[f.j.ID]; ok && last.State == d.State {
		if i = byAction(last.Action); i >= 0 {
			d.Explored = last.Explored
			d.Value, _ = value(last.Action)
		}
	}
	if i < 0 {
		pick := r.Table.Choose(d.State, choices, in.Rand)
		i = byAction(Action(pick.Action))
		d.Explored, d.Value = pick.Explored, pick.Value
	}
	o := f.keep(offers[i], in.Previous[f.j.ID])
	offers[i] = o
	d.Action, d.Candidates, d.Target = o.action, o.candidates, o.target
	d.Considered = considered(f.b, offers, value)
	for k := range d.Considered {
		d.Considered[k].Prior = choices[k].Prior
	}
	d.Reason = reason(f, p, o, offers[0], d)
	if o.action == Wait {
		d.Deadline = deadline(f.j, in)
		return nil
	}
	return o.shape
}

func deadline(j *slurm.Job, in Input) time.Time {
	head, ok := in.Heads[j.ID]
	if !ok {
		head = in.Snapshot.TakenAt
	}
	return head.Add(in.Limits.MaxWait)
}

func featuresOf(f *fit, p profile.Profile, leave offer) Features {
	return Features{
		CommBound: p.CommBound, ComputeBound: p.ComputeBound,
		Open: f.r.open(), LeaveNodes: len(leave.shape), Need: f.need,
	}
}

// RulePrior is what a scheduler without experience should expect (ours, after
// the fixed rule that won in a prototype): a packed start loses nothing; a
// scattered one costs a communication-bound job about half its rate, a job of
// unknown kind a quarter, a compute-bound one next to nothing. Waiting costs
// about a tenth while something could start, and next to nothing while nothing
// can: then it only says which nodes to take when they come free. Values are on
// the scale of the reward, -1..0.
func RulePrior(f Features, a Action) float64 {
	scatter := -0.25
	switch {
	case f.CommBound:
		scatter = -0.5
	case f.ComputeBound:
		scatter = -0.02
	}
	switch {
	case a == Wait && f.LeaveNodes == 0:
		return -0.02
	case a == Wait:
		return -0.1
	case a == Leave && f.Nodes == 0 && f.Open:
		return scatter / 2 // Slurm takes whatever comes free first
	case a == Leave && f.Nodes <= f.Need:
		return -0.01 // packed as well; a little behind choosing the node
	case a == Even:
		return 0.6 * scatter // published runs: equal parts lose the least across nodes
	case a == Quiet:
		return 0.8 * scatter
	case f.Nodes > f.Need:
		return scatter
	case f.Need > 1 && f.Leaves > 1:
		return 0.2 * scatter
	}
	return 0
}

// reason is the decision in one sentence.
func reason(f *fit, p profile.Profile, o, leave offer, d *Decision) string {
	kind := "of unknown kind"
	switch {
	case p.CommBound:
		kind = "communication-bound"
	case p.ComputeBound:
		kind = "compute-bound"
	case p.Group != profile.GroupUnknown:
		kind = "neither clearly compute- nor communication-bound"
	}
	if p.Group != profile.GroupUnknown {
		kind += fmt.Sprintf(" (group %d)", p.Group)
	}
	why := "is valued highest"
	if d.Explored {
		why = "is tried to learn"
	}
	now := f.b.words(o.shape)
	switch o.action {
	case Wait:
		return fmt.Sprintf("the job is %s; waiting %s: %s", kind, why, o.note)
	case Leave:
		if leave.shape == nil {
			return fmt.Sprintf("the job is %s; nothing it could use is free, and leaving it to Slurm %s", kind, why)
		}
		return fmt.Sprintf("the job is %s; leaving it to Slurm (%s) %s", kind, now, why)
	}
	return fmt.Sprintf("the job is %s; %s on %s %s", kind, verb(o.action), now, why)
}

func verb(a Action) string {
	switch a {
	case Pack:
		return "packing"
	case Leaf:
		return "keeping it under one leaf switch"
	case Even:
		return "equal parts"
	case Quiet:
		return "keeping away from busy NICs"
	}
	return string(a)
}
