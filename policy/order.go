// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"

	"rifling/slurm"
)

// orderFCFS sets the offsets that bring the plan's jobs into the order of their
// submission, as the paper schedules, by raising only and no more than needed:
// each job must lead the next by one point. A job that the bound keeps from
// passing the next is not raised at all: the site's own weights are stronger.
// Jobs are compared only within the same partition and QOS, so nobody is lifted
// over another QOS by this. An offset that is already set and still does its
// work is kept, so that ageing alone causes no writes.
func orderFCFS(p *Plan, in Input) {
	type member struct {
		j *slurm.Job
		d *Decision
	}
	classes := map[[2]string][]member{}
	for i := range p.Decisions {
		d := &p.Decisions[i]
		if j := in.Snapshot.Job(d.JobID); j != nil && d.Skipped == "" {
			key := [2]string{j.Partition, j.QOS}
			classes[key] = append(classes[key], member{j, d})
		}
	}
	for _, class := range classes {
		slices.SortStableFunc(class, func(a, b member) int {
			if c := a.j.SubmitTime.Compare(b.j.SubmitTime); c != 0 {
				return c
			}
			return cmp.Compare(a.j.ID, b.j.ID)
		})
		behind := int64(-1) // priority that the job after this one will have
		for i := len(class) - 1; i >= 0; i-- {
			m := class[i]
			base := basePriority(m.j, in)
			need := max(0, behind+1-base)
			if need > in.Limits.MaxOffset {
				need = 0 // out of reach: raising it part of the way would change nothing
			} else if have := currentOffset(m.j, in); have >= need && have <= min(need+keepWithin, in.Limits.MaxOffset) {
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
