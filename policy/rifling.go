// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"strings"
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
	// What ablations leave out: waiting, parts of the state by their place in
	// it, groups. Without groups each family of jobs is a state of its own.
	NoWait    bool
	Omit      []int
	Ungrouped bool
}

// Decide plans by the table. What is tried to learn stays while the job's state
// is the same and the action is still offered, so that exploring does not make
// the exclusions flap from one cycle to the next. All else is chosen anew: with
// an empty table and no exploring the plan is the rule's.
func (r *Rifling) Decide(in Input) Plan {
	p := decide("rifling", in, r.FCFS, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, taken := b.choosable(j, d)
		if f == nil {
			return taken
		}
		return r.choose(f, in.Profiles[j.ID], d)
	})
	if r.FCFS {
		orderFCFS(&p, in)
	}
	return p
}

// choosable returns the fit of a job whose nodes may be chosen. Of any other it
// is nil; the decision then says why Slurm alone decides, and taken is what the
// job is expected to take.
func (b *board) choosable(j *slurm.Job, d *Decision) (f *fit, taken map[string]int) {
	f, ok := b.fit(j)
	if !ok {
		d.Reason = notModelled
		return nil, nil
	}
	if severalTasks(j) {
		d.Reason = severalTasksWait
		return nil, f.slurmFit(f.all)
	}
	return f, nil
}

const severalTasksWait = "several tasks of this array are pending, and one node list would bind them all"

func severalTasks(j *slurm.Job) bool {
	if !j.IsArray() || j.ArrayTaskID >= 0 {
		return false
	}
	n, _, known, err := slurm.ParseTasks(j.ArrayTaskString)
	return err != nil || !known || n != 1
}

func (r *Rifling) choose(f *fit, p profile.Profile, d *Decision) map[string]int {
	in := f.b.in
	offers := f.offers(!r.NoWait && !waitedOut(f.j, in))
	d.State = r.state(f, p)
	choices := make([]agent.Choice, len(offers))
	for i, o := range offers {
		choices[i] = agent.Choice{Action: string(o.action)}
		if r.Prior != nil {
			choices[i].Prior, choices[i].PriorWeight = r.Prior(f.features(p, offers[0], o), o.action), r.PriorWeight
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
	if last, ok := in.Previous[f.j.ID]; ok && last.Explored && last.State == d.State {
		if i = byAction(last.Action); i >= 0 {
			d.Explored = true
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
	d.Considered = considered(f, offers, value)
	for k := range d.Considered {
		d.Considered[k].Prior = choices[k].Prior
	}
	return f.settle(d, o, offers[0], p)
}

// state is what the table knows the job's situation by.
func (r *Rifling) state(f *fit, p profile.Profile) string {
	s := encode(f, p)
	if len(r.Omit) == 0 && !r.Ungrouped {
		return s
	}
	parts := strings.Fields(s)
	if r.Ungrouped {
		parts[0] = "family:" + strings.ReplaceAll(p.Family, " ", "_")
	}
	for _, i := range r.Omit {
		parts[i] = "-"
	}
	return strings.Join(parts, " ")
}

func deadline(j *slurm.Job, in Input) time.Time {
	return headOf(j, in).Add(in.Limits.MaxWait)
}

// headOf is since when the job stands at its queue's head; now when it does not.
func headOf(j *slurm.Job, in Input) time.Time {
	if head, ok := in.Heads[j.ID]; ok {
		return head
	}
	return in.Snapshot.TakenAt
}

func (f *fit) head() time.Time { return headOf(f.j, f.b.in) }

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
