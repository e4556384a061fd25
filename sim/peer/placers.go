// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math/rand/v2"
	"slices"
	"time"

	"rifling/sim"
)

// placer finds GPUs for a job now, written over out; empty when it must wait.
type placer func(st *sim.State, j *sim.JobState, out []sim.Alloc) []sim.Alloc

// parts is the shape with the fewest nodes that the job's request allows.
func parts(st *sim.State, j *sim.JobState) []int {
	each := st.MostGPUs()
	switch {
	case j.Request.GPUsPerNode > 0:
		each = j.Request.GPUsPerNode
	case j.Request.MinNodes > 1:
		each = max(1, j.GPUs/j.Request.MinNodes)
	}
	var out []int
	for left := j.GPUs; left > 0; left -= each {
		out = append(out, min(each, left))
	}
	return out
}

// placeFewest takes the fewest nodes that can hold the job, those that are left
// with the fewest free GPUs, or waits.
func placeFewest(st *sim.State, j *sim.JobState, out []sim.Alloc) []sim.Alloc {
	for _, g := range parts(st, j) {
		n := pick(st, j, g, out, func(free int) int { return free })
		if n < 0 {
			return nil
		}
		out = append(out, sim.Alloc{Node: int32(n), GPUs: int32(g)})
	}
	return out
}

// pick returns the node that serves so many GPUs with the least cost by its
// free GPUs, besides those taken already; -1 for none.
func pick(st *sim.State, j *sim.JobState, gpus int, taken []sim.Alloc, cost func(free int) int) int {
	best, least := -1, 0
	for f := gpus; f <= st.MostGPUs(); f++ {
		c := cost(f)
		if best >= 0 && c >= least {
			continue
		}
		for n := range st.NodesWith(f).All() {
			if st.Serves(j, n) >= gpus && !slices.ContainsFunc(taken, func(a sim.Alloc) bool { return int(a.Node) == n }) {
				best, least = n, c
				break
			}
		}
	}
	return best
}

// placeBest packs where it can and else gathers GPUs, the largest parts first.
func placeBest(st *sim.State, j *sim.JobState, out []sim.Alloc) []sim.Alloc {
	if packed := placeFewest(st, j, out); len(packed) > 0 || fixed(j) {
		return packed
	}
	return gather(st, j, out[:0], emptiest(st))
}

// fixed reports whether the request leaves no choice of shapes.
func fixed(j *sim.JobState) bool { return j.Request.GPUsPerNode > 0 || j.Request.MinNodes > 1 }

// placeSpread takes one GPU of each of the emptiest nodes in turn.
func placeSpread(st *sim.State, j *sim.JobState, out []sim.Alloc) []sim.Alloc {
	if fixed(j) {
		return placeFewest(st, j, out)
	}
	nodes := emptiest(st)
	most := len(nodes)
	if j.Request.MaxNodes > 0 {
		most = min(most, j.Request.MaxNodes)
	}
	for left := j.GPUs; left > 0; {
		before := left
		for _, n := range nodes {
			if left == 0 {
				break
			}
			i := slices.IndexFunc(out, func(a sim.Alloc) bool { return int(a.Node) == n })
			switch {
			case i < 0 && len(out) < most && st.Serves(j, n) > 0:
				out = append(out, sim.Alloc{Node: int32(n), GPUs: 1})
				left--
			case i >= 0 && int(out[i].GPUs) < st.Serves(j, n):
				out[i].GPUs++
				left--
			}
		}
		if left == before {
			return nil
		}
	}
	return out
}

// placeRandom takes all that nodes drawn one by one have free.
func placeRandom(r *rand.Rand) placer {
	return func(st *sim.State, j *sim.JobState, out []sim.Alloc) []sim.Alloc {
		if fixed(j) {
			return placeFewest(st, j, out)
		}
		return gather(st, j, out, r.Perm(st.Nodes()))
	}
}

// gather takes what the nodes have free, in their order.
func gather(st *sim.State, j *sim.JobState, out []sim.Alloc, nodes []int) []sim.Alloc {
	left := j.GPUs
	for _, n := range nodes {
		if left == 0 || j.Request.MaxNodes > 0 && len(out) == j.Request.MaxNodes {
			break
		}
		if g := min(left, st.Serves(j, n)); g > 0 {
			out = append(out, sim.Alloc{Node: int32(n), GPUs: int32(g)})
			left -= g
		}
	}
	if left > 0 {
		return nil
	}
	return out
}

// emptiest lists the nodes with free GPUs, those with the most first.
func emptiest(st *sim.State) []int {
	var out []int
	for f := st.MostGPUs(); f > 0; f-- {
		for n := range st.NodesWith(f).All() {
			out = append(out, n)
		}
	}
	return out
}

// fragments is FGD for whole GPUs: what jobs ask for is learned from what came.
type fragments struct {
	count []float64 // jobs by GPUs, larger than a node counted as a node
	all   float64
}

func (f *fragments) see(st *sim.State) {
	if f.count == nil {
		f.count = make([]float64, st.MostGPUs()+1)
	}
	for _, j := range st.Arrived() {
		f.count[min(j.GPUs, st.MostGPUs())]++
		f.all++
	}
}

// of is how many of a node's free GPUs a job that may come cannot use, in the
// mean.
func (f *fragments) of(free int) float64 {
	larger := 0.0
	for g := free + 1; g < len(f.count); g++ {
		larger += f.count[g]
	}
	return float64(free) * larger / max(1, f.all)
}

func (f *fragments) place(st *sim.State, j *sim.JobState, out []sim.Alloc) []sim.Alloc {
	for _, g := range parts(st, j) {
		n := pick(st, j, g, out, func(free int) int { return int(1000 * (f.of(free-g) - f.of(free))) })
		if n < 0 {
			return nil
		}
		out = append(out, sim.Alloc{Node: int32(n), GPUs: int32(g)})
	}
	return out
}

// delay waits for the fewest nodes for a while.
type delay struct {
	patience time.Duration
	since    map[*sim.JobState]time.Duration // when a job could first start anywhere
}

func (d *delay) see(*sim.State) {
	for j := range d.since {
		if j.Status != sim.Pending {
			delete(d.since, j)
		}
	}
}

func (d *delay) place(st *sim.State, j *sim.JobState, out []sim.Alloc) []sim.Alloc {
	if packed := placeFewest(st, j, out); len(packed) > 0 {
		return packed
	}
	anywhere := placeBest(st, j, out[:0])
	if len(anywhere) == 0 {
		return nil
	}
	since, ok := d.since[j]
	if !ok {
		since = st.Now()
		d.since[j] = since
	}
	if st.Now() < since+d.patience {
		st.Wake(since + d.patience)
		return nil
	}
	return anywhere
}
