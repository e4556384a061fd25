// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// board is the cluster as one decision pass sees it: what is free now, less
// what the jobs decided before in this pass are expected to take.
type board struct {
	in   Input
	free map[string]int            // GPUs, after the decisions so far
	busy map[string]bool           // nodes whose NIC a communication-bound job across nodes uses
	runs map[string][]*slurm.Job   // running jobs by node
	node map[string]*slurm.Node    // by name
	ends map[slurm.JobID]time.Time // predicted end of running jobs
	gpus int                       // usable GPUs in all
	want int                       // GPUs that pending jobs ask for in all
}

func newBoard(in Input) *board {
	b := &board{
		in: in, free: map[string]int{}, busy: map[string]bool{},
		runs: map[string][]*slurm.Job{}, node: map[string]*slurm.Node{}, ends: map[slurm.JobID]time.Time{},
	}
	s := in.Snapshot
	for i := range s.Nodes {
		n := &s.Nodes[i]
		b.node[n.Name] = n
		b.free[n.Name] = n.FreeGPUs()
		if n.Usable() {
			b.gpus += n.GPUs
		}
	}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		switch {
		case j.Pending() && j.WantsGPU():
			b.want += j.Total()
		case j.Running():
			b.addRunning(j, in.Profiles[j.ID])
		}
	}
	return b
}

func (b *board) addRunning(j *slurm.Job, p profile.Profile) {
	b.ends[j.ID] = predictedEnd(j, p, b.in.Snapshot.TakenAt)
	for _, n := range j.Nodes {
		b.runs[n] = append(b.runs[n], j)
		if p.CommBound && len(j.Nodes) > 1 {
			b.busy[n] = true
		}
	}
}

// predictedEnd is the start plus the predicted run time; the limit bounds it,
// and serves when there is no prediction or the job has outlived it.
func predictedEnd(j *slurm.Job, p profile.Profile, now time.Time) time.Time {
	if p.RunTime > 0 && !j.StartTime.IsZero() {
		if end := j.StartTime.Add(p.RunTime); end.After(now) && (j.EndTime.IsZero() || end.Before(j.EndTime)) {
			return end
		}
	}
	return j.EndTime
}

// freeAt returns when the node is expected to have gpus GPUs free; the zero
// time when that cannot be told.
func (b *board) freeAt(name string, gpus int) time.Time {
	have := b.free[name]
	if have >= gpus {
		return b.in.Snapshot.TakenAt
	}
	jobs := slices.Clone(b.runs[name])
	slices.SortStableFunc(jobs, func(x, y *slurm.Job) int { return b.ends[x.ID].Compare(b.ends[y.ID]) })
	for _, j := range jobs {
		have += gpusOn(j, name)
		if have >= gpus {
			return b.ends[j.ID]
		}
	}
	return time.Time{}
}

func gpusOn(j *slurm.Job, node string) int {
	if g, ok := j.NodeGPUs[node]; ok {
		return g
	}
	return j.Total() / max(1, len(j.Nodes))
}

// take books the shape on the board.
func (b *board) take(shape map[string]int, comm bool) {
	for n, g := range shape {
		b.free[n] -= g
		if comm && len(shape) > 1 {
			b.busy[n] = true
		}
	}
}

// pressure is the GPUs asked for by pending jobs over those of the cluster:
// 0 below a quarter, 1 below one, 2 from there on.
func (b *board) pressure() int {
	switch r := float64(b.want) / float64(max(1, b.gpus)); {
	case r < 0.25:
		return 0
	case r < 1:
		return 1
	}
	return 2
}

// leafs returns the names grouped by leaf switch, in the order in which the
// switches first appear. Nodes without a known switch are taken as one group.
func (b *board) leafs(names []string) [][]string {
	var order []string
	by := map[string][]string{}
	for _, n := range names {
		leaf := b.node[n].Leaf
		if _, ok := by[leaf]; !ok {
			order = append(order, leaf)
		}
		by[leaf] = append(by[leaf], n)
	}
	out := make([][]string, 0, len(order))
	for _, l := range order {
		out = append(out, by[l])
	}
	return out
}

func (b *board) leafCount(names []string) int { return len(b.leafs(names)) }

// queue returns the pending GPU jobs in the order in which a policy looks at
// them: by priority as Slurm would have it without rifling's offsets, or by
// submission.
func queue(in Input, fcfs bool) []*slurm.Job {
	var out []*slurm.Job
	for i := range in.Snapshot.Jobs {
		if j := &in.Snapshot.Jobs[i]; j.Pending() && j.WantsGPU() {
			out = append(out, j)
		}
	}
	slices.SortStableFunc(out, func(x, y *slurm.Job) int {
		if fcfs {
			if c := x.SubmitTime.Compare(y.SubmitTime); c != 0 {
				return c
			}
		} else if c := cmp.Compare(basePriority(y, in), basePriority(x, in)); c != 0 {
			return c
		}
		return cmp.Compare(x.ID, y.ID)
	})
	return out
}

// basePriority is the job's priority without what rifling added to it.
func basePriority(j *slurm.Job, in Input) int64 {
	return j.Priority - currentOffset(j, in)
}

// currentOffset is the priority offset that rifling's own writes left on the job.
func currentOffset(j *slurm.Job, in Input) int64 {
	o, ok := in.Owned[j.ID]
	switch {
	case !ok:
		return 0
	case in.Snapshot.Release.HasSiteFactor():
		if o.SetSiteFactor != nil {
			return *o.SetSiteFactor
		}
	case o.SetNice != nil && j.Nice == *o.SetNice:
		return o.UserNice - *o.SetNice
	}
	return 0
}
