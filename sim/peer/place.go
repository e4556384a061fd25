// SPDX-License-Identifier: Apache-2.0

package peer

import "slices"

// taken is a job's part on a node.
type taken struct{ node, gpus int }

// place takes GPUs by the options' rule and notes where, when asked to.
func (r *replay) place(gpus int, note *[]taken) bool {
	if gpus > r.count {
		return false
	}
	if r.o.Placement == Counted {
		r.count -= gpus
		return true
	}
	whole, rest := gpus/r.m.GPUs, gpus%r.m.GPUs
	if gpus <= r.m.GPUs {
		whole, rest = 0, gpus
	}
	full, ok := r.wholeNodes(whole)
	if !ok {
		return false
	}
	last := -1
	if rest > 0 {
		if last = r.nodeFor(rest, full); last < 0 {
			return false
		}
	}
	take := func(node, n int) {
		r.free[node] -= n
		if note != nil {
			*note = append(*note, taken{node, n})
		}
	}
	for _, i := range full {
		take(i, r.m.GPUs)
	}
	if last >= 0 {
		take(last, rest)
	}
	r.count -= gpus
	return true
}

// wholeNodes finds that many nodes of which all GPUs are free.
func (r *replay) wholeNodes(n int) (nodes []int, ok bool) {
	for i := 0; i < len(r.free) && len(nodes) < n; i++ {
		if r.free[i] == r.m.GPUs {
			nodes = append(nodes, i)
		}
	}
	return nodes, len(nodes) == n
}

// nodeFor finds a node for what needs less than one, besides those given.
func (r *replay) nodeFor(gpus int, besides []int) int {
	best := -1
	for i, free := range r.free {
		if free < gpus || slices.Contains(besides, i) {
			continue
		}
		switch {
		case r.o.Placement == FirstWhole:
			return i
		case best < 0, len(besides) == 0 && free < r.free[best], len(besides) > 0 && free > r.free[best]:
			best = i
		}
	}
	return best
}

// release gives back what place noted.
func (r *replay) release(gpus int, where []taken) {
	for _, n := range where {
		r.free[n.node] += n.gpus
	}
	r.count += gpus
}
