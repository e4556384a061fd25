// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"rifling/slurm"
)

// fit is one job on the board: what it asks for and what each open node could
// give it now. Sets of hosts are lists of places in hosts, ascending unless
// they say otherwise.
type fit struct {
	b     *board
	j     *slurm.Job
	r     request
	hosts []string // open nodes that could ever serve a share of the job
	all   []int    // the places of all of them
	now   []int    // GPUs of the job that a host could serve now
	free  []int    // GPUs free on a host, whatever the job wants
	idle  []bool   // what it could serve is what is free there: no job before in this pass counts on it
	need  int      // nodes at best
	share int      // GPUs a node then serves

	leafs [][]int // places by leaf switch; see byLeaf
}

// offer is an action with what it would bring about.
type offer struct {
	action     Action
	candidates []int          // places; nil: all nodes
	target     []string       // nodes that are meant: of the shape, or those waited for
	shape      map[string]int // GPUs by node if it starts now; nil if it cannot
	note       string
	ready      time.Time // for Wait: when the shape is expected
}

func (b *board) fit(j *slurm.Job) (*fit, bool) {
	r, ok := readRequest(j)
	if !ok {
		return nil, false
	}
	f := &fit{b: b, j: j, r: r}
	open := openNodes(j, b.in)
	f.hosts, f.all = make([]string, 0, len(open)), make([]int, 0, len(open))
	f.now, f.free, f.idle = make([]int, 0, len(open)), make([]int, 0, len(open)), make([]bool, 0, len(open))
	largest := 0
	for _, name := range open {
		n := b.node[name]
		if !r.suits(n, max(1, r.perNode)) {
			continue
		}
		free := b.free[name]
		now := r.fits(n, free)
		f.all = append(f.all, len(f.hosts))
		f.hosts, f.now, f.free = append(f.hosts, name), append(f.now, now), append(f.free, free)
		f.idle = append(f.idle, r.fits(n, n.FreeGPUs()) == now)
		largest = max(largest, n.GPUs)
	}
	f.need = r.nodesAtBest(largest)
	f.share = r.perNode
	if f.share == 0 {
		f.share = ceilDiv(r.total, f.need)
	}
	return f, len(f.hosts) >= f.need && (r.maxNodes == 0 || f.need <= r.maxNodes)
}

// names are the hosts at these places; nil for nil.
func (f *fit) names(set []int) []string {
	if set == nil {
		return nil
	}
	out := make([]string, len(set))
	for i, h := range set {
		out[i] = f.hosts[h]
	}
	return out
}

// places are those of the names, ascending; ok is false when one is no host.
func (f *fit) places(names []string) (set []int, ok bool) {
	in := f.b.in.marked(names)
	for _, h := range f.all {
		if in[f.b.in.index.at[f.hosts[h]]] {
			set = append(set, h)
		}
	}
	return set, len(set) == len(names)
}

// slurmFit models which nodes Slurm picks inside a set for a start now, as
// recordings of slurmctld 22.05 to 26.05 with topology/tree show it (see
// docs/design/simulator.md): the leaf switch with the fewest usable nodes that
// are enough, else the one with the most; there the first nodes, whatever else
// is free. An open request takes nodes that can serve more of it before others.
// Nil when the job cannot start there now.
func (f *fit) slurmFit(set []int) map[string]int {
	most := f.r.maxNodes
	if most == 0 {
		most = len(set)
	}
	out, left := map[string]int{}, f.r.total
	give := func(hosts []int, each int) {
		for _, h := range hosts {
			g := min(left, each)
			out[f.hosts[h]] = g
			left -= g
		}
	}
	if each := f.r.perNode; each > 0 {
		able := slices.DeleteFunc(slices.Clone(set), func(h int) bool { return f.now[h] < each })
		if len(able) < f.need {
			return nil
		}
		give(f.byUse(able, out, f.need, f.need), each)
		return out
	}
	var groups [][]int // by what they could serve of the job
	for _, h := range set {
		serves := min(f.now[h], f.r.total)
		for len(groups) <= serves {
			groups = append(groups, nil)
		}
		groups[serves] = append(groups[serves], h)
	}
	for serves := len(groups) - 1; serves > 0 && left > 0; serves-- {
		nodes := f.r.minNodes - len(out)
		give(f.byUse(groups[serves], out, nodes, min(most-len(out), max(nodes, ceilDiv(left, serves)))), serves)
	}
	if left > 0 || len(out) < f.r.minNodes {
		return nil
	}
	return out
}

// byUse takes up to n hosts of the set, leaf switch by leaf switch: first under
// those that used has hosts of, then by the number of hosts there, the fewest of
// those with the nodes that are still needed.
func (f *fit) byUse(set []int, used map[string]int, need, n int) (took []int) {
	type leaf struct {
		hosts []int
		used  bool
	}
	if len(set) == 0 || n <= 0 {
		return nil
	}
	at := map[string]*leaf{}
	var leafs []*leaf
	slices.Sort(set)
	for _, h := range set {
		name := f.b.node[f.hosts[h]].Leaf
		if at[name] == nil {
			at[name] = &leaf{}
			leafs = append(leafs, at[name])
		}
		at[name].hosts = append(at[name].hosts, h)
	}
	for name := range used {
		if l := at[f.b.node[name].Leaf]; l != nil {
			l.used = true
		}
	}
	for len(leafs) > 0 && len(took) < n {
		missing := need - len(took)
		before := func(a, b *leaf) int {
			fits, fitsB := len(a.hosts) >= missing, len(b.hosts) >= missing
			switch {
			case a.used || b.used:
				return first(a.used, b.used)
			case fits && fitsB:
				return cmp.Compare(len(a.hosts), len(b.hosts))
			case fits || fitsB:
				return first(fits, fitsB)
			}
			return cmp.Compare(len(b.hosts), len(a.hosts))
		}
		best := slices.MinFunc(leafs, before)
		took = append(took, best.hosts[:min(len(best.hosts), n-len(took))]...)
		leafs = slices.DeleteFunc(leafs, func(l *leaf) bool { return l == best })
	}
	return took
}

// first orders what is true before what is not.
func first(a, b bool) int {
	switch {
	case a && !b:
		return -1
	case b && !a:
		return 1
	}
	return 0
}

// pick takes n nodes of the set that serve gpus each now, those that are left
// with the fewest free GPUs first, so that whole slots stay whole.
func (f *fit) pick(set []int, n, gpus int) map[string]int {
	best := make([]int, 0, n) // by free GPUs, ascending
	for _, h := range set {
		if f.now[h] < gpus {
			continue
		}
		i := len(best)
		for i > 0 && f.free[best[i-1]] > f.free[h] {
			i--
		}
		switch {
		case len(best) < n:
			best = slices.Insert(best, i, h)
		case i < n:
			copy(best[i+1:], best[i:n-1])
			best[i] = h
		}
	}
	if len(best) < n {
		return nil
	}
	out := make(map[string]int, n)
	for _, h := range best {
		out[f.hosts[h]] = gpus
	}
	if over := n*gpus - f.r.total; over > 0 && f.r.open() {
		out[f.hosts[best[n-1]]] -= over
	}
	return out
}

// byLeaf groups the hosts by leaf switch, in the order in which the switches
// first appear.
func (f *fit) byLeaf() [][]int {
	if f.leafs != nil {
		return f.leafs
	}
	at := map[string]int{}
	for _, h := range f.all {
		leaf := f.b.node[f.hosts[h]].Leaf
		i, ok := at[leaf]
		if !ok {
			i = len(f.leafs)
			at[leaf] = i
			f.leafs = append(f.leafs, nil)
		}
		f.leafs[i] = append(f.leafs[i], h)
	}
	return f.leafs
}

// leafPick is pick under the leaf switch where it leaves the fewest free GPUs.
func (f *fit) leafPick() map[string]int {
	var best map[string]int
	left := 0
	for _, leaf := range f.byLeaf() {
		shape := f.pick(leaf, f.need, f.share)
		if shape == nil && f.r.open() {
			shape = f.slurmFit(leaf)
		}
		if shape == nil {
			continue
		}
		free := 0
		for _, h := range leaf {
			free += f.free[h]
		}
		if best == nil || len(shape) < len(best) || len(shape) == len(best) && free < left {
			best, left = shape, free
		}
	}
	return best
}

// evenPick takes thin parts: over more nodes than needed, none of them with
// more GPUs of the job than must be. Slurm's fit takes all that is free on the
// nodes with the most free first, so the set is of nodes that have no more than
// that free. It fills what is left over on nodes and keeps whole slots whole.
func (f *fit) evenPick(set []int) map[string]int {
	if !f.r.open() {
		return nil
	}
	for most := 1; most < f.share; most++ {
		var thin []int
		sum := 0
		for _, h := range set {
			if g := f.now[h]; g > 0 && g <= most {
				thin = append(thin, h)
				sum += g
			}
		}
		if sum < f.r.total {
			continue
		}
		if shape := f.slurmFit(thin); len(shape) > f.need {
			return shape
		}
	}
	return nil
}

// quietHosts are the hosts whose NIC no communication-bound job uses.
func (f *fit) quietHosts() []int {
	if len(f.b.busy) == 0 {
		return f.all
	}
	return slices.DeleteFunc(slices.Clone(f.all), func(h int) bool { return f.b.busy[f.hosts[h]] })
}

// offers lists what can be done for the job, Leave first. Actions that would
// come to the same candidates as one before are left out.
func (f *fit) offers(canWait bool) []offer {
	out := []offer{{action: Leave, shape: f.slurmFit(f.all)}}
	add := func(a Action, shape map[string]int, among []int) {
		if shape == nil {
			return
		}
		o := offer{action: a, shape: shape, target: keys(shape), candidates: f.around(shape, among)}
		if o.candidates == nil || !f.comesTrue(o) {
			return
		}
		for _, have := range out[1:] {
			if slices.Equal(have.candidates, o.candidates) {
				return
			}
		}
		out = append(out, o)
	}
	add(Pack, f.pick(f.all, f.need, f.share), f.all)
	if f.need > 1 || f.r.open() {
		add(Leaf, f.leafPick(), f.all)
		quiet := f.quietHosts()
		add(Even, f.evenPick(quiet), quiet)
		if len(quiet) < len(f.hosts) {
			add(Quiet, f.slurmFit(quiet), quiet)
		}
	}
	if canWait {
		if o, ok := f.waitOffer(); ok {
			out = append(out, o)
		}
	}
	return out
}

// around returns the shape's nodes and those of among that do no harm in the
// set: nodes that cannot serve the job now, so that Slurm's fit inside the set
// is the shape itself, and that may serve it should the shape be taken
// meanwhile. When they are fewer than the limits' slack, the next best join.
// Nil when that is all hosts.
func (f *fit) around(shape map[string]int, among []int) []int {
	in, n := make([]bool, len(f.hosts)), 0
	harmless := f.share - 1 // GPUs that a node may serve now and do no harm
	if f.r.open() {
		harmless = 0
	}
	for _, h := range among {
		if f.now[h] <= harmless && f.idle[h] {
			in[h] = true
			n++
		}
	}
	left := len(shape)
	for _, h := range f.all {
		if left == 0 {
			break
		}
		if _, ok := shape[f.hosts[h]]; ok {
			left--
			if !in[h] {
				in[h] = true
				n++
			}
		}
	}
	n = f.addSlack(in, n, among, max(f.need, len(shape))+f.b.in.Limits.SlackNodes)
	return f.members(in, n)
}

// addSlack fills the set of n up to want nodes and returns how many it has.
func (f *fit) addSlack(in []bool, n int, among []int, want int) int {
	if n >= want {
		return n
	}
	rest := slices.DeleteFunc(slices.Clone(among), func(h int) bool { return in[h] })
	slices.SortStableFunc(rest, func(a, b int) int {
		// Nodes that serve the whole share come first, the fuller the better.
		wa, wb := f.now[a] >= f.share, f.now[b] >= f.share
		if wa != wb {
			if wa {
				return -1
			}
			return 1
		}
		return cmp.Compare(f.free[a], f.free[b])
	})
	rest = rest[:min(len(rest), want-n)]
	for _, h := range rest {
		in[h] = true
	}
	return n + len(rest)
}

// members lists the n places that are in the set; nil when they are all.
func (f *fit) members(in []bool, n int) []int {
	if n >= len(f.hosts) {
		return nil
	}
	out := make([]int, 0, n)
	for h, yes := range in {
		if yes {
			out = append(out, h)
		}
	}
	return out
}

// comesTrue reports whether Slurm's fit inside the candidates makes a shape as
// good as the one that is meant: no more nodes, and no more leaf switches.
func (f *fit) comesTrue(o offer) bool {
	got := f.slurmFit(o.candidates)
	if got == nil {
		return false
	}
	if o.action == Even {
		return len(got) == len(o.shape)
	}
	return len(got) <= len(o.shape) && f.b.leafCount(keys(got)) <= max(1, f.b.leafCount(keys(o.shape)))
}

// bestShape names the best shape that is free now.
func (f *fit) bestShape() string {
	switch {
	case f.need == 1 && f.pick(f.all, 1, f.share) != nil:
		return "one"
	case f.leafPick() != nil:
		return "leaf"
	case f.slurmFit(f.all) != nil:
		return "scattered"
	}
	return "none"
}

// words says a shape as an admin would.
func (b *board) words(shape map[string]int) string {
	switch len(shape) {
	case 0:
		return cannotStart
	case 1:
		return "1 node"
	}
	if l := b.leafCount(keys(shape)); l > 1 {
		return fmt.Sprintf("%d nodes, %d leaf switches", len(shape), l)
	}
	return fmt.Sprintf("%d nodes, one leaf switch", len(shape))
}

func keys(m map[string]int) []string {
	out := make([]string, 0, len(m))
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

const cannotStart = "cannot start now"
