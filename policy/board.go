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
	// Of jobs before in this pass that cannot start yet: the GPUs that they are
	// expected to take, by node, and when they give them back.
	claims map[string][]event
	sorted map[string][]event // see endsOn
	mean   time.Duration      // see meanRun; 0: not worked out, -1: unknown
	want   int                // GPUs that pending jobs ask for in all
	uses   map[string]float64 // see use; nil: not worked out
}

func newBoard(in Input) *board {
	in = in.indexed()
	b := &board{
		in: in, free: map[string]int{}, busy: map[string]bool{},
		runs: map[string][]*slurm.Job{}, node: map[string]*slurm.Node{}, ends: map[slurm.JobID]time.Time{},
		claims: map[string][]event{}, sorted: map[string][]event{},
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

// event is a number of GPUs that become free on a node.
type event struct {
	at   time.Time
	gpus int
}

// endsOn lists what the jobs that run on the node give back, the first first.
func (b *board) endsOn(name string) []event {
	if out, ok := b.sorted[name]; ok {
		return out
	}
	out := make([]event, 0, len(b.runs[name]))
	for _, j := range b.runs[name] {
		out = append(out, event{b.ends[j.ID], gpusOn(j, name)})
	}
	slices.SortStableFunc(out, func(x, y event) int { return x.at.Compare(y.at) })
	b.sorted[name] = out
	return out
}

// freeAt returns when the node is expected to have gpus GPUs free that no job
// before in this pass counts on; the zero time when that cannot be told.
func (b *board) freeAt(name string, gpus int) time.Time {
	have, claims := b.free[name], b.claims[name]
	if have >= gpus && len(claims) == 0 {
		return b.in.Snapshot.TakenAt
	}
	ends := b.endsOn(name)
	if len(claims) > 0 {
		ends = append(slices.Clone(ends), claims...)
		slices.SortStableFunc(ends, func(x, y event) int { return x.at.Compare(y.at) })
		for _, c := range claims {
			have -= c.gpus
		}
	}
	if have >= gpus {
		return b.in.Snapshot.TakenAt
	}
	for _, e := range ends {
		if have += e.gpus; have >= gpus {
			return e.at
		}
	}
	return time.Time{}
}

// claim notes that a job which cannot start yet is expected to take its share
// of these nodes at that time: whoever comes after it in the queue looks for
// other nodes, or for a later time. Without a run time it never gives them back.
func (b *board) claim(f *fit, nodes []string, at time.Time, run time.Duration) {
	until := never
	if run > 0 {
		until = at.Add(run)
	}
	for _, n := range nodes {
		b.claims[n] = append(b.claims[n], event{until, f.share})
	}
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

// leafCount is the number of leaf switches above the nodes. Nodes without a
// known switch are taken as under one.
func (b *board) leafCount(names []string) int {
	var leafs []string
	for _, n := range names {
		if leaf := b.node[n].Leaf; !slices.Contains(leafs, leaf) {
			leafs = append(leafs, leaf)
		}
	}
	return len(leafs)
}

// queue returns the pending GPU jobs in the order in which a policy looks at
// them: by priority as Slurm would have it without rifling's offsets, or by
// submission.
func queue(in Input, fcfs bool) []*slurm.Job {
	type ranked struct {
		j    *slurm.Job
		rank int64 // ascending
	}
	var all []ranked
	for i := range in.Snapshot.Jobs {
		j := &in.Snapshot.Jobs[i]
		switch {
		case !j.Pending() || !j.WantsGPU():
		case fcfs:
			all = append(all, ranked{j, j.SubmitTime.UnixMicro()})
		default:
			all = append(all, ranked{j, -basePriority(j, in)})
		}
	}
	slices.SortStableFunc(all, func(x, y ranked) int {
		return cmp.Or(cmp.Compare(x.rank, y.rank), cmp.Compare(x.j.ID, y.j.ID))
	})
	out := make([]*slurm.Job, len(all))
	for i := range all {
		out[i] = all[i].j
	}
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
