// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// The order gives what a look at each node gives, whatever nodes moved before.
func TestReadyOrderIsALookAtEachNode(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 150).Draw(t, "nodes")
		when := rapid.SampledFrom([]time.Duration{0, 1, 2, 3, 5, 8, 13, never})
		at := make([]time.Duration, n)
		for i := range at {
			at[i] = when.Draw(t, "at")
		}
		order := newReadyOrder(at)
		for range rapid.IntRange(0, 60).Draw(t, "moves") {
			node := rapid.IntRange(0, n-1).Draw(t, "node")
			at[node] = when.Draw(t, "to")
			order.move(node)
		}
		avail, got := NewNodeSet(n), NewNodeSet(n)
		for i := range n {
			if rapid.Bool().Draw(t, "avail") {
				avail.Add(i)
			}
		}
		var times []time.Duration
		for i := range avail.All() {
			times = append(times, at[i])
		}
		slices.Sort(times)
		need := rapid.IntRange(1, n+1).Draw(t, "need")
		want := never
		if need <= len(times) {
			want = times[need-1]
		}
		if nth := order.nth(avail, need); nth != want {
			t.Fatalf("%d nodes are ready at %v, want %v", need, nth, want)
		}
		limit := when.Draw(t, "limit")
		order.until(got, avail, limit)
		for i := range n {
			if got.Has(i) != (avail.Has(i) && at[i] <= limit) {
				t.Fatalf("node %d, ready at %v: in the set until %v is %v", i, at[i], limit, got.Has(i))
			}
		}
	})
}
