// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math"
	"math/bits"
	"slices"
	"time"
)

// fitter picks nodes as select/cons_tres does.
//
// A request with a fixed number of GPUs on each node sees all nodes that can
// serve it as equal. An open one (--gpus) prefers nodes that can serve more of
// it: a group of nodes that could serve the same number of its GPUs is used up
// before the next is looked at. What a node has free beyond the request does not
// count.
//
// With topology/tree the leaf switch is chosen that has the fewest usable nodes
// of those with enough nodes, else the one with the most, and its nodes are
// taken in their order. How many GPUs are free there does not count.
//
// Without switches, nodes that stand next to each other in the configuration
// and are equal form a set. Of the preferred sets the tightest that suffices is
// taken, then the largest; within one a single node that suffices and has the
// fewest CPUs free, else the nodes in their order.
type fitter struct {
	c     *cluster
	cores bool
	tree  bool

	able   NodeSet
	serve  []int32 // by node, GPUs of the job that it could serve; valid for able nodes
	picked []int32 // nodes chosen
	runs   []nodeRun
	group  []int32 // able nodes of an open request, the most free first
	leafN  []int32
	used   []bool // leaf switches
	out    []Alloc
}

// view is what is free on each node, now or at another time.
type view struct{ free, cpus []int32 }

// nodeRun is a set of able nodes that stand next to each other.
type nodeRun struct {
	first, last int32
	nodes, cpus int32
	gpus        int32
	weight      int32
}

func (f *fitter) init(c *cluster, cores bool) {
	f.c, f.cores, f.tree = c, cores, c.leaves > 1
	f.able = NewNodeSet(len(c.free))
	f.serve = make([]int32, len(c.free))
	f.leafN = make([]int32, c.leaves)
	f.used = make([]bool, c.leaves)
}

// now is the view of the present.
func (c *cluster) now() view { return view{c.free, c.freeCPUs} }

// simple reports whether a node's free GPUs alone tell what it can serve: one
// CPU a GPU and shared nodes.
func (j *JobState) simple() bool {
	r := &j.Request
	return (r.CPUs == 0 || r.CPUs == j.GPUs) && !r.Exclusive
}

// mark finds the nodes of avail that can serve the job.
func (f *fitter) mark(j *JobState, avail NodeSet, v view) {
	each := j.perNode()
	f.able.clear()
	if each > 0 && &v.free[0] == &f.c.free[0] {
		for g := each; g <= f.c.most; g++ {
			f.able.or(f.c.byFree[g])
		}
		f.able.and(avail)
		if j.simple() && !f.c.tight {
			return
		}
	} else {
		f.able.copyFrom(avail)
	}
	for i, w := range f.able {
		for ; w != 0; w &= w - 1 {
			n := i<<6 + bits.TrailingZeros64(w)
			g := f.c.serves(j, n, v.free[n], v.cpus[n])
			f.serve[n] = int32(g)
			if g == 0 {
				f.able.Remove(n)
			}
		}
	}
}

// try returns where the job would start inside avail, nil for nowhere. The
// slice is the fitter's own until the next call.
func (f *fitter) try(j *JobState, avail NodeSet, v view) []Alloc {
	least, most := j.nodeRange()
	if p := f.c.partitions[j.part].MaxNodes; p > 0 {
		most = min(most, p)
	}
	f.mark(j, avail, v)
	if f.able.Len() < least || least > most {
		return nil
	}
	f.picked = f.picked[:0]
	if each := j.perNode(); each > 0 {
		if !f.fixed(j, least, each, v) {
			return nil
		}
		return f.allot(j, each)
	}
	if !f.open(j, least, most, v) && !f.openLess(j, least, most, v) {
		return nil
	}
	return f.allot(j, 0)
}

// openLess tries again without the nodes that have least to offer, more and
// more of them: with a bound on the nodes they may be in the way.
func (f *fitter) openLess(j *JobState, least, most int, v view) bool {
	if len(f.group) == 0 || most >= len(f.group) {
		return false
	}
	offer := func(n int) int { return int(v.free[n] + v.cpus[n]) }
	top := 0
	for n := range f.able.All() {
		top = max(top, offer(n))
	}
	for count, left := 1, f.able.Len(); count < top && left > least; count++ {
		before := left
		for n := range f.able.All() {
			if offer(n) <= count && left > least {
				f.able.Remove(n)
				left--
			}
		}
		f.picked = f.picked[:0]
		if left < before && f.open(j, least, most, v) {
			return true
		}
	}
	return false
}

// later is try at another time for a request with a fixed number of GPUs on each
// node: ready tells when each node will serve it.
func (f *fitter) later(j *JobState, avail NodeSet, ready *readyOrder, at time.Duration) []Alloc {
	ready.until(f.able, avail, at)
	least, _ := j.nodeRange()
	f.picked = f.picked[:0]
	if each := j.perNode(); f.able.Len() < least || !f.fixed(j, least, each, view{}) {
		return nil
	}
	return f.allot(j, j.perNode())
}

// allot turns the chosen nodes into a placement, by ascending node.
func (f *fitter) allot(j *JobState, each int) []Alloc {
	slices.Sort(f.picked)
	f.out = f.out[:0]
	left := j.GPUs
	for i, n := range f.picked {
		g := each
		if each == 0 {
			g = min(int(f.serve[n]), left-(len(f.picked)-1-i)) // one for each that follows
		} else if j.Request.GPUs > 0 {
			g = min(each, left-(len(f.picked)-1-i))
		}
		f.out = append(f.out, Alloc{Node: n, GPUs: int32(g)})
		left -= g
	}
	if left > 0 {
		return nil
	}
	return f.out
}

func (f *fitter) fixed(j *JobState, need, each int, v view) bool {
	if f.tree {
		return f.byLeaf(need)
	}
	cpus := j.cpusFor(each)
	cpusOf := func(n int) int32 {
		if f.cores {
			return v.cpus[n]
		}
		return cpus // generic resources: cores beyond those needed are not counted
	}
	f.findRuns(func(int) int32 { return 0 }, cpusOf, nil)
	return f.byRun(need, need, int(cpus)*need, 0, cpusOf, int(cpus))
}

// byLeaf takes need of the able nodes, leaf switch by leaf switch.
func (f *fitter) byLeaf(need int) bool {
	f.countLeaves()
	for need > 0 {
		best := f.bestLeaf(need)
		if best < 0 {
			return false
		}
		f.used[best] = true
		need -= f.takeLeaf(best, need)
	}
	return true
}

// countLeaves counts the able nodes under each leaf switch.
func (f *fitter) countLeaves() {
	clear(f.used)
	for l, set := range f.c.leafSets {
		f.leafN[l] = 0
		for i, w := range set.words {
			f.leafN[l] += int32(bits.OnesCount64(w & f.able[set.from+i]))
		}
	}
}

// bestLeaf is the switch whose able nodes suffice with the fewest, else the one
// with the most; -1 when none is left.
func (f *fitter) bestLeaf(need int) int {
	best, bestN, bestFits := -1, int32(0), false
	for l, n := range f.leafN {
		if f.used[l] || n == 0 {
			continue
		}
		fits := int(n) >= need
		if best < 0 || fits && (!bestFits || n < bestN) || !fits && !bestFits && n > bestN {
			best, bestN, bestFits = l, n, fits
		}
	}
	return best
}

func (f *fitter) takeLeaf(leaf, most int) int {
	took := 0
	set := &f.c.leafSets[leaf]
	for i, w := range set.words {
		for w &= f.able[set.from+i]; w != 0 && took < most; w &= w - 1 {
			f.picked = append(f.picked, int32((set.from+i)<<6+bits.TrailingZeros64(w)))
			took++
		}
	}
	return took
}

// findRuns lists the sets of able nodes that stand next to each other and have
// the same weight.
func (f *fitter) findRuns(weight, cpus, gpus func(n int) int32) {
	f.runs = f.runs[:0]
	prev := -2
	for n := range f.able.All() {
		w := weight(n)
		if k := len(f.runs) - 1; n != prev+1 || f.runs[k].weight != w {
			f.runs = append(f.runs, nodeRun{first: int32(n), weight: w})
		}
		r := &f.runs[len(f.runs)-1]
		r.last = int32(n)
		r.nodes++
		r.cpus += cpus(n)
		if gpus != nil {
			r.gpus += gpus(n)
		}
		prev = n
	}
}

// byRun takes nodes from the sets until need nodes, cpus CPUs and gpus GPUs are
// there; each is what a node's CPUs count at most once taken.
func (f *fitter) byRun(need, most, cpus, gpus int, cpusOf func(n int) int32, each int) bool {
	for most > 0 {
		best := f.bestRun(need, cpus, gpus)
		if best < 0 {
			return false
		}
		r := f.runs[best]
		f.runs[best].nodes = 0
		if need <= 1 {
			if n := f.single(r, cpus, gpus, cpusOf); n >= 0 {
				f.picked = append(f.picked, int32(n))
				return true
			}
		}
		for n := r.first; n <= r.last && most > 0; n++ {
			if !f.able.Has(int(n)) || most == 1 && (int(cpusOf(int(n))) < cpus || gpus > 0 && int(f.serve[n]) < gpus) {
				continue
			}
			f.picked = append(f.picked, n)
			need, most, cpus = need-1, most-1, cpus-min(int(cpusOf(int(n))), each)
			if gpus > 0 {
				gpus = max(0, gpus-int(f.serve[n]))
			}
			if need <= 0 && cpus <= 0 && gpus <= 0 {
				return true
			}
		}
	}
	return false
}

// bestRun is the set to take nodes from next; -1 when none is left.
func (f *fitter) bestRun(need, cpus, gpus int) int {
	best, enough := -1, false
	for i := range f.runs {
		r := &f.runs[i]
		if r.nodes == 0 {
			continue
		}
		suffices := int(r.cpus) >= cpus && int(r.nodes) >= need && int(r.gpus) >= gpus
		if best < 0 || r.weight < f.runs[best].weight ||
			r.weight == f.runs[best].weight && (suffices && (!enough || r.cpus < f.runs[best].cpus) ||
				!suffices && !enough && r.cpus > f.runs[best].cpus) {
			best, enough = i, suffices
		}
	}
	return best
}

// single is the node of the set that suffices alone and has the fewest CPUs
// free; -1 when none does.
func (f *fitter) single(r nodeRun, cpus, gpus int, cpusOf func(n int) int32) int {
	best, size := -1, int32(math.MaxInt32)
	for n := int(r.first); n <= int(r.last); n++ {
		if !f.able.Has(n) || int(cpusOf(n)) < cpus || gpus > 0 && int(f.serve[n]) < gpus {
			continue
		}
		if c := cpusOf(n); c < size {
			best, size = n, c
		}
	}
	return best
}

// open picks nodes for a request that leaves their number open.
func (f *fitter) open(j *JobState, least, most int, v view) bool {
	total, nodes := 0, 0
	f.group = f.group[:0]
	for n := range f.able.All() {
		total += int(f.serve[n])
		nodes++
		f.group = append(f.group, int32(n))
	}
	if total < j.GPUs || nodes < least {
		return false
	}
	if f.tree {
		return f.openTree(j, least, most)
	}
	weight := func(n int) int32 { return -f.serve[n] }
	if f.cores {
		weight = func(int) int32 { return 0 }
	}
	cpusOf := func(n int) int32 { return v.cpus[n] }
	f.findRuns(weight, cpusOf, func(n int) int32 { return f.serve[n] })
	return f.byRun(least, most, least, j.GPUs, cpusOf, 1)
}

// openTree takes whole groups of nodes that could serve the same number of the
// job's GPUs, the most first, until the last group that is needed; of that,
// nodes under the switches that are used already come first.
func (f *fitter) openTree(j *JobState, need, most int) bool {
	slices.SortStableFunc(f.group, func(a, b int32) int { return cmp.Compare(f.serve[b], f.serve[a]) })
	clear(f.used)
	clear(f.leafN)
	gpus := j.GPUs
	for i := 0; i < len(f.group); {
		k, sum := i, 0
		for k < len(f.group) && f.serve[f.group[k]] == f.serve[f.group[i]] {
			sum += int(f.serve[f.group[k]])
			k++
		}
		if sum >= gpus && k-i >= need {
			return f.openLast(f.group[i:k], gpus, need, most)
		}
		for _, n := range f.group[i:k] {
			f.picked = append(f.picked, n)
			f.used[f.c.leaf[n]] = true
			gpus, need, most = gpus-int(f.serve[n]), need-1, most-1
		}
		// Taken whole, the group may have brought more than enough GPUs.
		gpus = max(gpus, 0)
		if most <= 0 {
			return gpus <= 0 && need <= 0 && most == 0
		}
		i = k
	}
	return gpus <= 0 && need <= 0
}

// openLast takes from one group what is still missing. Which switch comes next
// is decided by the number of its nodes alone, whatever GPUs they have.
func (f *fitter) openLast(group []int32, gpus, need, most int) bool {
	take := func(leaf int) bool {
		for _, n := range group {
			if most == 0 || gpus <= 0 && need <= 0 {
				break
			}
			if int(f.c.leaf[n]) == leaf {
				f.picked = append(f.picked, n)
				gpus, need, most = gpus-int(f.serve[n]), need-1, most-1
			}
		}
		return gpus <= 0 && need <= 0
	}
	for leaf, used := range f.used {
		if used && take(leaf) {
			return true
		}
	}
	for _, n := range group {
		if !f.used[f.c.leaf[n]] {
			f.leafN[f.c.leaf[n]]++
		}
	}
	for most > 0 {
		leaf := f.bestLeaf(need)
		if leaf < 0 {
			return false
		}
		f.used[leaf] = true
		if take(leaf) {
			return true
		}
	}
	return false
}
