// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"

	"rifling/slurm"
)

// standing is the queue as Slurm has it, with what rifling has added.
func standing(in Input) []*slurm.Job {
	out := queue(in, false)
	slices.SortStableFunc(out, func(a, b *slurm.Job) int { return cmp.Compare(b.Priority, a.Priority) })
	return out
}

// Heads tells since when each pending job stands at the head of its
// partition's queue: the first that may be touched, and those behind it as long
// as all before them were told to wait. A waiting deadline counts from then,
// not from submission, or a long queue would use it up. What was known before
// stays; jobs that left the queue are dropped.
func Heads(in Input, before map[slurm.JobID]time.Time) map[slurm.JobID]time.Time {
	out := map[slurm.JobID]time.Time{}
	closed := map[string]bool{}
	for _, j := range standing(in) {
		if at, ok := before[j.ID]; ok {
			out[j.ID] = at
		}
		if closed[j.Partition] || Untouchable(j, in) != "" {
			continue
		}
		if _, ok := out[j.ID]; !ok {
			out[j.ID] = in.Snapshot.TakenAt
		}
		closed[j.Partition] = in.Previous[j.ID].Action != Wait
	}
	return out
}
