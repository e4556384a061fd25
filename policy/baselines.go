// SPDX-License-Identifier: Apache-2.0

package policy

import "rifling/slurm"

// Slurm is the policy that changes nothing: the baseline, and what every job
// gets that rifling leaves alone.
type Slurm struct{}

// Decide leaves every job to Slurm.
func (Slurm) Decide(in Input) Plan {
	return decide("slurm", in, false, func(_ *board, _ *slurm.Job, d *Decision) map[string]int {
		d.Reason = "policy slurm changes nothing"
		return nil
	})
}

// Packed is the fixed policy "pack": each job on the fewest nodes that are free
// now, best fit; it never waits for a better shape than Slurm finds.
type Packed struct{}

// Decide narrows each job that a packed shape is free for.
func (Packed) Decide(in Input) Plan {
	return decide("pack", in, false, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, ok := b.fit(j)
		if !ok {
			d.Reason = notModelled
			return nil
		}
		offers := f.offers(false)
		chosen := offers[0]
		for _, o := range offers {
			if o.action == Pack || o.action == Leaf && chosen.action == Leave {
				chosen = o
			}
		}
		d.Action, d.Candidates, d.Target = chosen.action, f.names(chosen.candidates), chosen.target
		d.Considered = considered(f, offers, nil)
		d.Reason = "fewest nodes that are free now: " + b.words(chosen.shape)
		if chosen.action == Leave {
			d.Reason = "no packed shape to choose: " + b.words(chosen.shape)
		}
		return chosen.shape
	})
}

const notModelled = "the shape of its request is not modelled, so Slurm alone decides"

// decide walks the queue and lets choose fill in one decision per job that may
// be touched, until Limits.Depth of them. What choose returns is booked, so
// that the next job sees what this one is expected to take.
func decide(name string, in Input, fcfs bool, choose func(*board, *slurm.Job, *Decision) map[string]int) Plan {
	return newBoard(in).decide(name, queue(in, fcfs), choose)
}

// decide is decide for the queue in an order that is given.
func (b *board) decide(name string, queue []*slurm.Job, choose func(*board, *slurm.Job, *Decision) map[string]int) Plan {
	in := b.in
	p := Plan{Policy: name, At: in.Snapshot.TakenAt}
	left := in.Limits.Depth
	for _, j := range queue {
		d := Decision{JobID: j.ID, Action: Leave}
		if why := Untouchable(j, in); why != "" {
			p.Decisions = append(p.Decisions, leaveAlone(d, why))
			continue
		}
		if left--; left < 0 {
			break
		}
		shape := choose(b, j, &d)
		b.take(shape, in.Profiles[j.ID].CommBound)
		p.Decisions = append(p.Decisions, d)
	}
	return p
}

// considered turns offers into what the record shows.
func considered(f *fit, offers []offer, value func(Action) (float64, int)) []Option {
	out := make([]Option, 0, len(offers))
	for _, o := range offers {
		opt := Option{Action: o.action, Nodes: f.names(o.candidates), Shape: f.b.words(o.shape), Note: o.note}
		if value != nil {
			opt.Value, opt.Visits = value(o.action)
		}
		out = append(out, opt)
	}
	return out
}
