// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
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
	// CommPart, UnknownPart and ComputePart are the time that a job of that kind
	// communicates over the time it computes, for each of its GPUs on its
	// busiest NIC, 0 or more. A start across nodes then loses 1 - 1/(1+part) of
	// the job's rate. Measured on 50 Gb/s: bert about 1, resnet50 about 0.2,
	// compute-bound ones 0.01 to 0.05. What ComputePart leaves below Hold is
	// what exempts compute-bound jobs from waiting.
	CommPart, UnknownPart, ComputePart float64
	// Growth is the exponent by which that grows with the GPUs on the busiest
	// NIC: 1 where the NIC is the brake, near 0 where one stream is; 0..1.
	Growth float64
	// Hold is what waiting costs by itself while the job could start, 0..1: it
	// keeps jobs from waiting for next to nothing.
	Hold float64
	// Patience is the longest wait, from the queue's head, in run times (the
	// job's own or the queue's mean, whichever is longer, predicted or else taken
	// from limits), 0 or more; 0 never waits while something could start. Limits.MaxWait bounds it. The longer
	// the expected wait, the less it is worth; at Patience it is worth a
	// scattered start.
	Patience float64
	// Sharers is by how much a busy NIC is slower, 1 or more: 2 where one other
	// job uses it.
	Sharers float64
	// Leafs is what nodes under several leaf switches cost, as a part of the
	// rate, 0..1.
	Leafs float64
	// Chosen is by how much choosing the node beats leaving an equally good
	// start to Slurm: it keeps packed slots whole.
	Chosen float64
}

// DefaultRule returns the parameters that rifling ships with; docs/design/policy.md
// says how they were chosen.
func DefaultRule() Rule {
	return Rule{
		CommPart: 1, UnknownPart: 0.3, ComputePart: 0.01, Growth: 0.7, Hold: 0.03, Patience: 30,
		Sharers: 2, Leafs: 0.02, Chosen: 0.01,
	}
}

// Features is what the rule may look at.
type Features struct {
	CommBound, ComputeBound bool
	Open                    bool
	LeaveNodes              int  // nodes that Slurm's own fit would take now; 0 when it cannot start
	Need                    int  // nodes at best
	Nodes, Leaves           int  // of the action's own shape; 0 when it cannot start now
	Total, Part             int  // GPUs of the job, and the most of them on one node of the shape
	Busy                    bool // a communication-bound job uses a NIC of its nodes
	// Waited is the time from the queue's head to the expected start, of Wait;
	// Run is the job's run time, as far as it is known.
	Waited, Run time.Duration
	// Mean is the mean run time of the jobs in the queue, as far as it is known.
	Mean time.Duration
}

// loss is the part of its rate that the job loses on so many nodes with so many
// GPUs on the busiest, 0..1.
func (r Rule) loss(f Features, nodes, part int, busy bool) float64 {
	if nodes < 2 {
		return 0
	}
	c := r.UnknownPart
	switch {
	case f.CommBound:
		c = r.CommPart
	case f.ComputeBound:
		c = r.ComputePart
	}
	c *= math.Pow(float64(part), r.Growth)
	if busy {
		c *= r.Sharers
	}
	return 1 - 1/(1+c)
}

// Value is what the rule expects of the action.
func (r Rule) Value(f Features, a Action) float64 {
	best := r.loss(f, f.Need, ceilDiv(f.Total, max(1, f.Need)), false)
	half := r.loss(f, 2*f.Need, ceilDiv(f.Total, 2*max(1, f.Need)), false)
	switch {
	case a == Wait && f.LeaveNodes == 0:
		return -0.02 - best // it costs nothing, and says which nodes to take
	case a == Wait:
		return max(-1, -r.Hold-best-max(0, half-best)*r.impatience(f))
	case f.Nodes == 0 && f.Open:
		return -max(best, half/2) // Slurm takes whatever comes free first
	}
	v := -r.loss(f, f.Nodes, f.Part, f.Busy)
	if f.Nodes > 1 && f.Leaves > 1 && !f.ComputeBound {
		v -= r.Leafs
	}
	if a == Leave && f.Nodes <= f.Need {
		v -= r.Chosen
	}
	return max(-1, v)
}

// impatience is the part of the longest wait that will have passed, 0 or more.
func (r Rule) impatience(f Features) float64 {
	run := max(f.Run, f.Mean)
	switch {
	case r.Patience <= 0:
		return math.Inf(1)
	case run <= 0:
		return 0 // Limits.MaxWait alone bounds it
	}
	return float64(f.Waited) / (r.Patience * float64(run))
}

// RulePrior is the rule's values with the shipped parameters.
func RulePrior(f Features, a Action) float64 { return DefaultRule().Value(f, a) }

// Decide takes the action of the highest value, the first of equals.
func (r Rule) Decide(in Input) Plan {
	return decide("rule", in, false, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, taken := b.choosable(j, d)
		if f == nil {
			return taken
		}
		p := in.Profiles[j.ID]
		offers := f.offers(!waitedOut(j, in))
		best, worth := 0, 0.0
		d.Considered = considered(f, offers, nil)
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
		Mean: f.b.meanRun(), Total: f.r.total,
	}
	for n, g := range o.shape {
		out.Busy = out.Busy || f.b.busy[n]
		out.Part = max(out.Part, g)
	}
	if o.action == Wait {
		out.Waited = o.ready.Sub(f.head())
	}
	return out
}

// run is the job's predicted run time, else a part of its limit, as rifling
// ships it; 0 when neither is known.
func (f *fit) run(p profile.Profile) time.Duration { return runOf(f.j, p) }

func runOf(j *slurm.Job, p profile.Profile) time.Duration {
	if p.RunTime > 0 {
		return p.RunTime
	}
	return time.Duration(partOfLimit * float64(j.TimeLimit))
}

// meanRun is the mean run time of the pending GPU jobs of which something is
// known.
func (b *board) meanRun() time.Duration {
	if b.mean != 0 {
		return max(0, b.mean)
	}
	b.mean = -1
	n, sum := 0, time.Duration(0)
	for i := range b.in.Snapshot.Jobs {
		if j := &b.in.Snapshot.Jobs[i]; j.Pending() && j.WantsGPU() {
			if t := runOf(j, b.in.Profiles[j.ID]); t > 0 {
				n, sum = n+1, sum+t
			}
		}
	}
	if n > 0 {
		b.mean = sum / time.Duration(n)
	}
	return max(0, b.mean)
}

// partOfLimit is the run time taken of a job without a prediction, as a part of
// its time limit: users ask for two to five times of what they need.
const partOfLimit = 0.3

// settle writes the chosen offer into the decision and returns what it takes
// from the board.
func (f *fit) settle(d *Decision, o, leave offer, p profile.Profile) map[string]int {
	d.Action, d.Candidates, d.Target = o.action, f.names(o.candidates), o.target
	d.Reason = reason(f, p, o, leave, d)
	if o.action == Wait {
		d.Deadline = deadline(f.j, f.b.in)
		f.b.claim(f, o.target, o.ready, f.run(p))
		return nil
	}
	if o.shape == nil {
		if nodes, at := f.soonest(f.all); nodes != nil {
			f.b.claim(f, nodes, at, f.run(p))
		}
	}
	return o.shape
}
