// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"iter"
	"math/bits"
)

// NodeSet is a set of nodes by their index in Spec.Nodes, one bit each. All
// sets of one simulation have the same length; nil is the empty set only where
// a comment says so.
type NodeSet []uint64

// NewNodeSet returns an empty set for n nodes.
func NewNodeSet(n int) NodeSet { return make(NodeSet, (n+63)/64) }

// Has reports whether node i is in the set.
func (s NodeSet) Has(i int) bool { return s[i>>6]&(1<<(i&63)) != 0 }

// Add puts node i into the set.
func (s NodeSet) Add(i int) { s[i>>6] |= 1 << (i & 63) }

// Remove takes node i out of the set.
func (s NodeSet) Remove(i int) { s[i>>6] &^= 1 << (i & 63) }

// Len counts the nodes.
func (s NodeSet) Len() int {
	n := 0
	for _, w := range s {
		n += bits.OnesCount64(w)
	}
	return n
}

// All goes through the nodes by ascending index.
func (s NodeSet) All() iter.Seq[int] {
	return func(yield func(int) bool) {
		for i, w := range s {
			for ; w != 0; w &= w - 1 {
				if !yield(i<<6 + bits.TrailingZeros64(w)) {
					return
				}
			}
		}
	}
}

// copyFrom makes the set equal to o.
func (s NodeSet) copyFrom(o NodeSet) { copy(s, o) }

// and keeps what is also in o.
func (s NodeSet) and(o NodeSet) {
	for i := range s {
		s[i] &= o[i]
	}
}

// andNot removes what is in o.
func (s NodeSet) andNot(o NodeSet) {
	for i := range s {
		s[i] &^= o[i]
	}
}

// or adds what is in o.
func (s NodeSet) or(o NodeSet) {
	for i := range s {
		s[i] |= o[i]
	}
}

// clear empties the set.
func (s NodeSet) clear() { clear(s) }

// equal reports whether the sets are the same.
func (s NodeSet) equal(o NodeSet) bool {
	for i := range s {
		if s[i] != o[i] {
			return false
		}
	}
	return true
}
