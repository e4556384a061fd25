// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"slices"
	"time"
)

// Placer finds GPUs for a job now, written over out; nil when the job must wait.
type Placer func(st *State, j *JobState, out []Alloc) []Alloc

// Ordered is a scheduler that goes through the waiting jobs in the order of a
// key: the simplest form of many published ones.
type Ordered struct {
	Label string
	// Key orders the jobs, the smallest first, equal ones by arrival. Nil is
	// first come, first served.
	Key func(st *State, j *JobState) float64
	// Place finds its GPUs; nil is PlaceFewest.
	Place Placer
	// Skip passes over a job that does not fit; else it closes the queue.
	Skip bool
	// Preempt lets the jobs that come first by the key run, and takes GPUs
	// from the rest; each start after a preemption costs Cost.
	Preempt bool
	Cost    time.Duration

	jobs []keyed
	out  []Alloc
}

type keyed struct {
	key float64
	job *JobState
}

// Name is the label.
func (o *Ordered) Name() string { return o.Label }

// Pass starts what can start.
func (o *Ordered) Pass(st *State, _ Change) {
	switch {
	case o.Preempt:
		o.preemptive(st)
	case o.Key == nil:
		for j := range st.Pending() {
			if !o.start(st, j) && !o.Skip {
				return
			}
		}
	default:
		o.jobs = o.jobs[:0]
		for j := range st.Pending() {
			o.jobs = append(o.jobs, keyed{o.Key(st, j), j})
		}
		o.sort()
		for _, k := range o.jobs {
			if !o.start(st, k.job) && !o.Skip {
				return
			}
		}
	}
}

func (o *Ordered) sort() {
	slices.SortFunc(o.jobs, func(a, b keyed) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.job.Seq, b.job.Seq))
	})
}

func (o *Ordered) start(st *State, j *JobState) bool {
	fit := o.Place
	if fit == nil {
		fit = PlaceFewest
	}
	on := fit(st, j, o.out[:0])
	if on == nil {
		return false
	}
	o.out = on
	st.Start(j, on)
	return true
}

// preemptive keeps those jobs that come first and fill the cluster; of the rest
// the running ones go back to the queue.
func (o *Ordered) preemptive(st *State) {
	o.jobs = o.jobs[:0]
	for j := range st.Running() {
		o.jobs = append(o.jobs, keyed{o.Key(st, j), j})
	}
	for j := range st.Pending() {
		o.jobs = append(o.jobs, keyed{o.Key(st, j), j})
	}
	o.sort()
	free := st.TotalGPUs()
	keep := o.jobs[:0]
	for _, k := range o.jobs {
		switch {
		case k.job.GPUs <= free:
			free -= k.job.GPUs
			keep = append(keep, k)
		case k.job.Status == Running:
			st.Preempt(k.job, o.Cost)
		}
	}
	for _, k := range keep {
		if k.job.Status == Pending {
			o.start(st, k.job)
		}
	}
}

// Remaining is a key: the work left, known beforehand (SRTF; with Preempt off,
// SJF).
func Remaining(st *State, j *JobState) float64 {
	left := j.Work - j.Done
	if j.Status == Running && st.now > j.LastAt {
		left -= time.Duration(float64(st.now-j.LastAt) * j.Rate)
	}
	return float64(left)
}

// RemainingService is a key: the work left times GPUs (SRSF; with Preempt off,
// shortest GPU time first).
func RemainingService(st *State, j *JobState) float64 {
	return Remaining(st, j) * float64(j.GPUs)
}

// PlaceFewest waits for the fewest nodes that can hold the job, and takes those
// that are left with the fewest free GPUs: strict consolidation.
func PlaceFewest(st *State, j *JobState, out []Alloc) []Alloc {
	each := j.perNode()
	if each == 0 {
		each = min(j.GPUs, st.c.most)
	}
	for left := j.GPUs; left > 0; {
		g := min(each, left)
		n := bestNode(st, j, g, out)
		if n < 0 {
			return nil
		}
		out = append(out, Alloc{Node: int32(n), GPUs: int32(g)})
		left -= g
	}
	return out
}

// PlaceAnywhere takes a single node as PlaceFewest does when one is free, else
// the nodes with the most free GPUs: it packs, but never waits for packing.
func PlaceAnywhere(st *State, j *JobState, out []Alloc) []Alloc {
	if packed := PlaceFewest(st, j, out); packed != nil || j.perNode() > 0 {
		return packed
	}
	_, most := j.nodeRange()
	left := j.GPUs
	for g := st.c.most; g > 0 && left > 0; g-- {
		for n := range st.c.byFree[g].All() {
			take := min(left, st.Serves(j, n))
			if take == 0 || len(out) == most {
				continue
			}
			if out = append(out, Alloc{Node: int32(n), GPUs: int32(take)}); take == left {
				return out
			}
			left -= take
		}
	}
	return nil
}

// bestNode is the node that serves so many GPUs and has the fewest free, not
// one of those taken already; -1 for none.
func bestNode(st *State, j *JobState, gpus int, taken []Alloc) int {
	for f := gpus; f <= st.c.most; f++ {
		for n := range st.c.byFree[f].All() {
			if st.Serves(j, n) >= gpus && !slices.ContainsFunc(taken, func(a Alloc) bool { return int(a.Node) == n }) {
				return n
			}
		}
	}
	return -1
}
