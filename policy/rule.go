// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// Rule is the fixed rule: wait for packing until a deadline from the queue's
// head, keep packed slots whole, equal parts away from busy NICs, compute-bound
// jobs exempt. It is a policy by itself, and its values are the prior and the
// net of the learners: there is no second copy. Values are on the scale of the
// reward, the part of the job's GPU time that is lost, -1..0. Start from
// DefaultRule.
type Rule struct {
	// What a start across more nodes than needed costs, 0..1: of a job that is
	// communication-bound, of unknown kind, and compute-bound. The first two
	// follow from measured slowdowns (bert keeps 0.3 to 0.45 of its rate,
	// resnet50 0.7 to 0.85); the last must stay below Hold, which is what
	// exempts compute-bound jobs from waiting.
	CommLoss, UnknownLoss, ComputeLoss float64
	// Hold is what waiting costs by itself while the job could start, 0..1: it
	// keeps jobs from waiting for next to nothing.
	Hold float64
	// Patience is the longest wait, from the queue's head, in run times of the
	// job (predicted, else PatienceOfLimit of its limit), 0 or more; 0 never
	// waits while something could start. Limits.MaxWait bounds it. The longer
	// the expected wait, the less it is worth; at Patience it is worth a
	// scattered start.
	Patience float64
	// PatienceOfLimit is the run time taken of a job without a prediction, as a
	// part of its time limit, 0..1: users ask for two to five times of what
	// they need.
	PatienceOfLimit float64
	// EvenPart and QuietPart are what equal parts over idle NICs, and a start
	// away from busy ones, cost of a scattered start, 0..1.
	EvenPart, QuietPart float64
	// BusyPart is what sharing a NIC with a communication-bound job costs a job
	// that needs several nodes at best, as a part of a scattered start, 0..1.
	BusyPart float64
	// LeafPart is the same for its nodes being under several leaf switches.
	LeafPart float64
	// Chosen is by how much choosing the node beats leaving an equally good
	// start to Slurm: it keeps packed slots whole.
	Chosen float64
}

// DefaultRule returns the parameters that rifling ships with; docs/design/policy.md
// says how they were chosen.
func DefaultRule() Rule {
	return Rule{
		CommLoss: 0.5, UnknownLoss: 0.25, ComputeLoss: 0.02, Hold: 0.03, Patience: 3, PatienceOfLimit: 0.3,
		EvenPart: 0.6, QuietPart: 0.8, BusyPart: 0.5, LeafPart: 0.2, Chosen: 0.01,
	}
}

// Features is what the rule may look at.
type Features struct {
	CommBound, ComputeBound bool
	Open                    bool
	LeaveNodes              int // nodes that Slurm's own fit would take now; 0 when it cannot start
	Need                    int // nodes at best
	Nodes, Leaves           int // of the action's own shape; 0 when it cannot start now
	Busy                    bool // a communication-bound job uses a NIC of its nodes
	// Waited is the time from the queue's head to the expected start, of Wait;
	// Run is the job's run time, as far as it is known.
	Waited, Run time.Duration
}

// loss is what a scattered start costs the job.
func (r Rule) loss(f Features) float64 {
	switch {
	case f.CommBound:
		return r.CommLoss
	case f.ComputeBound:
		return r.ComputeLoss
	}
	return r.UnknownLoss
}

// Value is what the rule expects of the action.
func (r Rule) Value(f Features, a Action) float64 {
	loss := r.loss(f)
	switch {
	case a == Wait && f.LeaveNodes == 0:
		return -0.02 // it costs nothing, and says which nodes to take
	case a == Wait:
		switch {
		case r.Patience <= 0:
			return -1
		case f.Run <= 0:
			return -r.Hold // Limits.MaxWait alone bounds it
		}
		return max(-1, -r.Hold-loss*float64(f.Waited)/(r.Patience*float64(f.Run)))
	case a == Leave && f.Nodes == 0 && f.Open:
		return -loss / 2 // Slurm takes whatever comes free first
	case a == Leave && f.Nodes <= f.Need:
		return -r.Chosen - r.across(f, loss)
	case a == Even:
		return -r.EvenPart * loss
	case a == Quiet && f.Nodes > f.Need:
		return -r.QuietPart * loss
	case f.Nodes > f.Need:
		return -loss
	}
	return -r.across(f, loss)
}

// across is what a packed start that needs several nodes loses on its way.
func (r Rule) across(f Features, loss float64) float64 {
	if f.Need < 2 {
		return 0
	}
	out := 0.0
	if f.Leaves > 1 {
		out += r.LeafPart * loss
	}
	if f.Busy {
		out += r.BusyPart * loss
	}
	return out
}

// RulePrior is the rule's values with the shipped parameters.
func RulePrior(f Features, a Action) float64 { return DefaultRule().Value(f, a) }

// Decide takes the action of the highest value, the first of equals.
func (r Rule) Decide(in Input) Plan {
	return decide("rule", in, false, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, ok := b.fit(j)
		if !ok {
			d.Reason = notModelled
			return nil
		}
		if severalTasks(j) {
			d.Reason = severalTasksWait
			return f.slurmFit(f.hosts)
		}
		p := in.Profiles[j.ID]
		offers := f.offers(!waitedOut(j, in))
		best, worth := 0, 0.0
		d.Considered = considered(b, offers, nil)
		for i, o := range offers {
			v := r.Value(f.features(p, offers[0], o), o.action)
			d.Considered[i].Value, d.Considered[i].Prior = v, v
			if i == 0 || v > worth {
				best, worth = i, v
			}
		}
		o := f.keep(offers[best], in.Previous[j.ID])
		d.Value = worth
		return f.settle(d, o, offers[0], p)
	})
}

// features describes one offer to the rule; leave is what Slurm would do.
func (f *fit) features(p profile.Profile, leave, o offer) Features {
	out := Features{
		CommBound: p.CommBound, ComputeBound: p.ComputeBound, Open: f.r.open(), LeaveNodes: len(leave.shape),
		Need: f.need, Nodes: len(o.shape), Leaves: f.b.leafCount(keys(o.shape)), Run: f.run(p),
	}
	for n := range o.shape {
		out.Busy = out.Busy || f.b.busy[n]
	}
	if o.action == Wait {
		out.Waited = o.ready.Sub(f.head())
	}
	return out
}

// run is the job's predicted run time, else a part of its limit, as rifling
// ships it; 0 when neither is known.
func (f *fit) run(p profile.Profile) time.Duration {
	if p.RunTime > 0 {
		return p.RunTime
	}
	return time.Duration(DefaultRule().PatienceOfLimit * float64(f.j.TimeLimit))
}

// settle writes the chosen offer into the decision and returns what it takes
// from the board.
func (f *fit) settle(d *Decision, o, leave offer, p profile.Profile) map[string]int {
	d.Action, d.Candidates, d.Target = o.action, o.candidates, o.target
	d.Reason = reason(f, p, o, leave, d)
	if o.action == Wait {
		d.Deadline = deadline(f.j, f.b.in)
		f.b.claim(f, o.target, o.ready, f.run(p))
		return nil
	}
	if o.shape == nil {
		if nodes, at := f.soonest(f.hosts); nodes != nil {
			f.b.claim(f, nodes, at, f.run(p))
		}
	}
	return o.shape
}
