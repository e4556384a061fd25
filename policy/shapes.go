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
// give it now.
type fit struct {
	b     *board
	j     *slurm.Job
	r     request
	hosts []string       // open nodes that could ever serve a share of the job
	now   map[string]int // GPUs of the job that a host could serve now
	need  int            // nodes at best
	share int            // GPUs a node then serves
}

// offer is an action with what it would bring about.
type offer struct {
	action     Action
	candidates []string       // nil: all nodes
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
	f := &fit{b: b, j: j, r: r, now: map[string]int{}}
	largest := 0
	for _, name := range openNodes(j, b.in) {
		n := b.node[name]
		if !r.suits(n, max(1, r.perNode)) {
			continue
		}
		f.hosts = append(f.hosts, name)
		f.now[name] = r.fits(n, b.free[name])
		largest = max(largest, n.GPUs)
	}
	f.need = r.nodesAtBest(largest)
	f.share = r.perNode
	if f.share == 0 {
		f.share = ceilDiv(r.total, f.need)
	}
	return f, len(f.hosts) >= f.need && (r.maxNodes == 0 || f.need <= r.maxNodes)
}

// slurmFit models which nodes Slurm picks inside a set for a start now: a
// request with fixed GPUs per node takes the least free nodes that serve it; an
// open one takes a single node when one serves it all, else the most free
// nodes first. Nil when the job cannot start there now.
func (f *fit) slurmFit(set []string) map[string]int {
	if f.r.perNode > 0 {
		return f.pick(set, f.need, f.r.perNode)
	}
	if f.need == 1 {
		if one := f.pick(set, 1, f.r.total); one != nil {
			return one
		}
	}
	most := slices.Clone(set)
	slices.SortStableFunc(most, func(a, b string) int { return cmp.Compare(f.now[b], f.now[a]) })
	out, left := map[string]int{}, f.r.total
	for _, n := range most {
		g := min(left, f.now[n])
		if g <= 0 || f.r.maxNodes > 0 && len(out) == f.r.maxNodes {
			break
		}
		out[n] = g
		left -= g
	}
	if left > 0 || len(out) < f.r.minNodes {
		return nil
	}
	return out
}

// pick takes n nodes of the set that serve gpus each now, those that are left
// with the fewest free GPUs first, so that whole slots stay whole.
func (f *fit) pick(set []string, n, gpus int) map[string]int {
	var able []string
	for _, name := range set {
		if f.now[name] >= gpus {
			able = append(able, name)
		}
	}
	if len(able) < n {
		return nil
	}
	slices.SortStableFunc(able, func(a, b string) int { return cmp.Compare(f.b.free[a], f.b.free[b]) })
	out := map[string]int{}
	for _, name := range able[:n] {
		out[name] = gpus
	}
	if over := n*gpus - f.r.total; over > 0 && f.r.open() {
		out[able[n-1]] -= over
	}
	return out
}

// leafPick is pick under the leaf switch where it leaves the fewest free GPUs.
func (f *fit) leafPick(set []string) map[string]int {
	var best map[string]int
	left := 0
	for _, leaf := range f.b.leafs(set) {
		shape := f.pick(leaf, f.need, f.share)
		if shape == nil && f.r.open() {
			shape = f.slurmFit(leaf)
		}
		if shape == nil {
			continue
		}
		free := 0
		for _, n := range leaf {
			free += f.b.free[n]
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
func (f *fit) evenPick(set []string) map[string]int {
	if !f.r.open() {
		return nil
	}
	for most := 1; most < f.share; most++ {
		var thin []string
		sum := 0
		for _, n := range set {
			if g := f.now[n]; g > 0 && g <= most {
				thin = append(thin, n)
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
func (f *fit) quietHosts() []string {
	return slices.DeleteFunc(slices.Clone(f.hosts), func(n string) bool { return f.b.busy[n] })
}

// offers lists what can be done for the job, Leave first. Actions that would
// come to the same candidates as one before are left out.
func (f *fit) offers(canWait bool) []offer {
	out := []offer{{action: Leave, shape: f.slurmFit(f.hosts)}}
	add := func(a Action, shape map[string]int, among []string) {
		if shape == nil {
			return
		}
		o := offer{action: a, shape: shape, target: keys(shape), candidates: f.around(shape, among)}
		if o.candidates == nil || !f.comesTrue(o) {
			return
		}
		for _, have := range out[1:] {
			if SameNodes(have.candidates, o.candidates) {
				return
			}
		}
		out = append(out, o)
	}
	add(Pack, f.pick(f.hosts, f.need, f.share), f.hosts)
	if f.need > 1 || f.r.open() {
		add(Leaf, f.leafPick(f.hosts), f.hosts)
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
func (f *fit) around(shape map[string]int, among []string) []string {
	in := map[string]bool{}
	for n := range shape {
		in[n] = true
	}
	for _, n := range among {
		harmless := f.now[n] < f.share
		if f.r.open() {
			harmless = f.now[n] == 0
		}
		if harmless && f.r.fits(f.b.node[n], f.b.node[n].FreeGPUs()) == f.now[n] {
			in[n] = true
		}
	}
	f.addSlack(in, among, max(f.need, len(shape))+f.b.in.Limits.SlackNodes)
	return f.ordered(in)
}

// addSlack fills the set up to want nodes.
func (f *fit) addSlack(in map[string]bool, among []string, want int) {
	rest := slices.DeleteFunc(slices.Clone(among), func(n string) bool { return in[n] })
	slices.SortStableFunc(rest, func(a, b string) int {
		// Nodes that serve the whole share come first, the fuller the better.
		wa, wb := f.now[a] >= f.share, f.now[b] >= f.share
		if wa != wb {
			if wa {
				return -1
			}
			return 1
		}
		return cmp.Compare(f.b.free[a], f.b.free[b])
	})
	for _, n := range rest {
		if len(in) >= want {
			return
		}
		in[n] = true
	}
}

// ordered lists the set in the hosts' order; nil when it is all of them.
func (f *fit) ordered(in map[string]bool) []string {
	if len(in) >= len(f.hosts) {
		return nil
	}
	out := make([]string, 0, len(in))
	for _, n := range f.hosts {
		if in[n] {
			out = append(out, n)
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
	case f.need == 1 && f.pick(f.hosts, 1, f.share) != nil:
		return "one"
	case f.leafPick(f.hosts) != nil:
		return "leaf"
	case f.slurmFit(f.hosts) != nil:
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
