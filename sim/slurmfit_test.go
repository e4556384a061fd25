// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"slices"
	"testing"
)

// Choices that slurmctld 22.05 and 24.11 made on the lab's 8 nodes with 8 GPUs,
// four under each leaf switch, by the GPUs that were free. Nodes that waiting
// jobs kept are left out.
func TestFitAsRecorded(t *testing.T) {
	open := func(gpus int) Request { return Request{GPUs: gpus} }
	one := func(gpus int) Request { return Request{GPUs: gpus, MaxNodes: 1} }
	for _, tc := range []struct {
		name string
		ask  Request
		free [8]int32
		out  []int // kept by waiting jobs
		want []int32
	}{
		{"open: under the switch with fewer nodes that serve it", open(4), [8]int32{0, 6, 8, 4, 0, 8, 6, 8}, []int{2, 4, 5, 7}, []int32{6}},
		{"open: the first node under a switch, not the one with most free", open(1), [8]int32{2, 6, 0, 4, 0, 0, 5, 0}, []int{3, 6}, []int32{0}},
		{"open: a node that could serve only a part does not count", open(2), [8]int32{1, 2, 0, 4, 0, 0, 4, 0}, []int{3}, []int32{1}},
		{"open: those that serve most first, over both switches", open(4), [8]int32{1, 2, 0, 0, 0, 0, 3, 0}, nil, []int32{1, 6}},
		{"open: of equals, switches by their nodes, not by their GPUs", open(8), [8]int32{2, 4, 0, 4, 8, 4, 0, 2}, []int{4}, []int32{1, 5}},
		{"open: one node that serves all", open(8), [8]int32{0, 2, 0, 0, 0, 0, 8, 0}, nil, []int32{6}},
		{"open: four whole nodes and what is left", open(32), [8]int32{4, 0, 0, 8, 8, 8, 7, 6}, nil, []int32{3, 4, 5, 6, 7}},
		{"fixed: the first node under the switch with fewer", one(2), [8]int32{0, 2, 4, 4, 0, 0, 8, 8}, nil, []int32{6}},
		{"fixed: whole nodes under one switch", Request{GPUsPerNode: 8, MinNodes: 2}, [8]int32{8, 8, 8, 0, 8, 8, 0, 0}, nil, []int32{4, 5}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var spec Spec
			for i := range 8 {
				spec.Nodes = append(spec.Nodes, NodeSpec{Name: fmt.Sprint("n", i), GPUs: 8, CPUs: 16, Leaf: fmt.Sprint(i / 4)})
			}
			c, err := newCluster(spec)
			if err != nil {
				t.Fatal(err)
			}
			for n, free := range tc.free {
				c.move(n, free-8, free-8)
			}
			var f fitter
			f.init(c, false)
			avail := slices.Clone(c.all)
			for _, n := range tc.out {
				avail.Remove(n)
			}
			j := &JobState{GPUs: max(tc.ask.GPUs, tc.ask.GPUsPerNode*tc.ask.MinNodes)}
			j.Request = tc.ask
			var got []int32
			for _, a := range f.try(j, avail, c.now()) {
				got = append(got, a.Node)
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("nodes %v, want %v", got, tc.want)
			}
		})
	}
}
