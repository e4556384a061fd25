// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"rifling/slurm"
)

// In the interval in which a job that spans nodes comes or goes, its bytes
// would be taken for its neighbour's. One node's own jobs do not care.
func TestTurnoverOnTheNIC(t *testing.T) {
	n := &node{jobs: map[int]JobRef{10: {ID: 7, Nodes: 2}, 20: {ID: 8, Nodes: 2}, 30: {ID: 9, Nodes: 1}}}
	s := n.sampler()
	for i, step := range []struct {
		pids []int
		want []slurm.JobID
	}{
		{[]int{10, 30}, nil},
		{[]int{10, 30}, []slurm.JobID{7, 9}},
		{[]int{10, 30, 20}, []slurm.JobID{9}}, // 8 came
		{[]int{10, 30, 20}, []slurm.JobID{7, 8, 9}},
		{[]int{10, 20}, []slurm.JobID{7, 8}}, // 9 went: nothing of the network was its
		{[]int{10}, nil},                     // 8 went
		{[]int{10}, []slurm.JobID{7}},
	} {
		n.gpus = nil
		for _, pid := range step.pids {
			n.gpus = append(n.gpus, gpu(string(rune('a'+pid/10)), pid, 0.5))
		}
		n.ports = []Port{port(uint64(1000*(i+1)), at(float64(i)))}
		var got []slurm.JobID
		for _, x := range sample(t, s, at(float64(i))) {
			got = append(got, x.JobID)
		}
		if diff := cmp.Diff(step.want, got); diff != "" {
			t.Errorf("reading %d (-want +got):\n%s", i, diff)
		}
	}
}
