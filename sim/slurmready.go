// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math/bits"
	"slices"
	"time"
)

// readyOrder has the nodes in the order of when they will have some number of
// GPUs free. With a set of the first nodes for every few places, a question
// about any set of nodes costs a handful of its words, not a look at each node.
type readyOrder struct {
	at    []time.Duration // by node, shared with plan.ready
	order []int32         // nodes, the earliest first
	place []int32         // in order, by node
	first []NodeSet       // first[k]: the nodes at the first k*readyBlock places
}

// readyBlock is how many places lie between two sets of first nodes.
const readyBlock = 32

func newReadyOrder(at []time.Duration) *readyOrder {
	n := len(at)
	r := &readyOrder{at: at, order: make([]int32, n), place: make([]int32, n)}
	for i := range r.order {
		r.order[i] = int32(i)
	}
	slices.SortStableFunc(r.order, func(a, b int32) int { return cmp.Compare(at[a], at[b]) })
	sofar := NewNodeSet(n)
	for i, node := range r.order {
		if i%readyBlock == 0 {
			r.first = append(r.first, slices.Clone(sofar))
		}
		r.place[node] = int32(i)
		sofar.Add(int(node))
	}
	return r
}

// move puts a node, whose time has changed, where it belongs.
func (r *readyOrder) move(node int) {
	p := int(r.place[node])
	for p+1 < len(r.order) && r.at[r.order[p+1]] < r.at[node] {
		r.swap(p)
		p++
	}
	for p > 0 && r.at[r.order[p-1]] > r.at[node] {
		p--
		r.swap(p)
	}
}

// swap exchanges places p and p+1.
func (r *readyOrder) swap(p int) {
	a, b := r.order[p], r.order[p+1]
	r.order[p], r.order[p+1] = b, a
	r.place[a], r.place[b] = int32(p+1), int32(p)
	if (p+1)%readyBlock == 0 {
		first := r.first[(p+1)/readyBlock]
		first.Remove(int(a))
		first.Add(int(b))
	}
}

// nth returns when need nodes of avail will be ready; never when there are
// fewer.
func (r *readyOrder) nth(avail NodeSet, need int) time.Duration {
	low, high, before := 0, len(r.first), 0 // the first low blocks do not suffice
	for high-low > 1 {
		mid := (low + high) / 2
		count := 0
		for i, w := range r.first[mid] {
			count += bits.OnesCount64(w & avail[i])
		}
		if count >= need {
			high = mid
		} else {
			low, before = mid, count
		}
	}
	for _, node := range r.order[low*readyBlock : min(len(r.order), high*readyBlock)] {
		if avail.Has(int(node)) {
			if before++; before == need {
				return r.at[node]
			}
		}
	}
	return never
}

// until makes set those nodes of avail that will be ready at the given time.
func (r *readyOrder) until(set, avail NodeSet, at time.Duration) {
	count, _ := slices.BinarySearchFunc(r.order, at, func(node int32, at time.Duration) int {
		if r.at[node] <= at {
			return -1
		}
		return 1
	})
	k := min(count/readyBlock, len(r.first)-1)
	set.copyFrom(avail)
	set.and(r.first[k])
	for _, node := range r.order[k*readyBlock : count] {
		if avail.Has(int(node)) {
			set.Add(int(node))
		}
	}
}
