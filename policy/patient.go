// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"rifling/slurm"
)

// Patient is the baseline that waits for the fewest nodes that the request
// permits, for so long at most, from the queue's head; then Slurm may start it
// anywhere. It takes the packed nodes by best fit.
type Patient struct {
	Name string
	// Patience is the longest wait; 0: as long as Limits.MaxWait allows.
	Patience time.Duration
}

// Strict is strict consolidation: it always waits for the fewest nodes, the
// strongest simple baseline. Limits.MaxWait and Limits.Starvation bound it as
// any policy; a benchmark that wants it unbounded sets them so.
func Strict() Policy { return Patient{Name: "strict"} }

// Delay is delay scheduling: it waits a fixed time for locality. Published
// versions wait for seconds where tasks are short; jobs of hours want minutes.
func Delay(patience time.Duration) Policy { return Patient{Name: "delay", Patience: patience} }

// Decide packs, else waits, else leaves the job to Slurm.
func (s Patient) Decide(in Input) Plan {
	return decide(s.Name, in, false, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, ok := b.fit(j)
		if !ok || severalTasks(j) {
			d.Reason = notModelled
			return nil
		}
		wait := !waitedOut(j, in)
		if s.Patience > 0 {
			wait = wait && in.Snapshot.TakenAt.Sub(f.head()) < s.Patience
		}
		offers := f.offers(wait)
		d.Considered = considered(f, offers, nil)
		o := f.keep(packedOrWait(f, offers), in.Previous[j.ID])
		shape := f.settle(d, o, offers[0], in.Profiles[j.ID])
		if o.action == Wait && s.Patience > 0 {
			d.Deadline = f.head().Add(s.Patience)
		}
		d.Reason = s.Name + ": " + d.Reason
		return shape
	})
}

func packedOrWait(f *fit, offers []offer) offer {
	chosen := offers[0]
	packed := func(o offer) bool { return o.shape != nil && len(o.shape) <= f.need }
	for _, o := range offers[1:] {
		switch {
		case o.action == Pack, o.action == Leaf && packed(o) && chosen.action != Pack:
			chosen = o
		case o.action == Wait && f.r.open() && !packed(chosen):
			chosen = o
		}
	}
	return chosen
}
