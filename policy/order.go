// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"math"
	"slices"

	"rifling/slurm"
)

// orderFCFS sets the offsets that bring the plan's jobs into the order of their
// submission, as the paper schedules.
func orderFCFS(p *Plan, in Input) {
	arrange(p, in, nil, func(a, b *slurm.Job) int {
		return cmp.Or(a.SubmitTime.Compare(b.SubmitTime), cmp.Compare(a.ID, b.ID))
	})
}

// arrange sets the offsets that bring the plan's jobs into an order, by raising
// only and no more than needed: each job must lead the next by one point. A job
// that the bound keeps from passing the next is not raised at all: the site's
// own weights are stronger. Jobs are compared only within the same partition
// and QOS, so nobody is lifted over another QOS by this. An offset that is
// already set and still does its work is kept, so that ageing alone causes no
// writes.
//
// rest are pending jobs that the plan does not order. Those that may be touched
// stand behind all that it does; those that have waited so long that they are
// left to Slurm alone are not passed. It may be nil.
func arrange(p *Plan, in Input, rest []*slurm.Job, order func(a, b *slurm.Job) int) {
	type member struct {
		j *slurm.Job
		d *Decision
	}
	classes := map[class][]member{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if j := in.Snapshot.Job(d.JobID); j != nil && d.Skipped == "" {
			c := class{j.QOS, j.Partition}
			classes[c] = append(classes[c], member{j, d})
		}
	}
	floor, ceiling := bounds(rest, in)
	for c, members := range classes {
		slices.SortStableFunc(members, func(a, b member) int { return order(a.j, b.j) })
		behind := int64(-1) // priority that the job after this one will have
		if f, ok := floor[c]; ok {
			behind = f
		}
		for i := len(members) - 1; i >= 0; i-- {
			m := members[i]
			base := basePriority(m.j, in)
			need := max(0, behind+1-base)
			if need > in.Limits.MaxOffset || need > 0 && passes(base, base+need, ceiling[c]) {
				need = 0 // out of reach: raising it part of the way would change nothing
			} else if have := currentOffset(m.j, in); have >= need && have <= min(need+keepWithin, in.Limits.MaxOffset) &&
				!passes(base, base+have, ceiling[c]) {
				need = have
			}
			m.d.Offset = need
			behind = base + need
		}
	}
}

// keepWithin is by how many points a set offset may exceed what is needed
// before it is written anew.
const keepWithin = 100

// bounds returns, by class, the highest priority of the jobs that an order
// leaves behind, and the priorities of those that it must not pass.
func bounds(rest []*slurm.Job, in Input) (floor map[class]int64, ceiling map[class][]int64) {
	floor, ceiling = map[class]int64{}, map[class][]int64{}
	for _, j := range rest {
		c, base := class{j.QOS, j.Partition}, basePriority(j, in)
		switch why := Untouchable(j, in); {
		case why == "":
			if f, ok := floor[c]; !ok || base > f {
				floor[c] = base
			}
		case starved(j, in) && base > 0:
			ceiling[c] = append(ceiling[c], base)
		}
	}
	return floor, ceiling
}

// starved tells a job that has waited so long that Slurm alone decides.
func starved(j *slurm.Job, in Input) bool {
	s, since := in.Limits.Starvation, eligibleSince(j)
	return s > 0 && j.Pending() && !since.IsZero() && in.Snapshot.TakenAt.Sub(since) > s
}

// passes reports whether a rise from one priority to another passes one of these.
func passes(from, to int64, over []int64) bool {
	least := int64(math.MaxInt64)
	for _, p := range over {
		if p >= from {
			least = min(least, p)
		}
	}
	return to >= least
}
