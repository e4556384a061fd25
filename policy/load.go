// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"

	"rifling/slurm"
)

// LoadShape says how the load lies on the usable nodes with GPUs: how many free
// GPUs are on nodes of which jobs have a part, and the standard deviation over
// the nodes of the part of their GPUs that is in use: 0 when all are equally
// busy, at most 0.5, when one half is full and the other empty.
func LoadShape(snap *slurm.Snapshot) (freeSplit int, unevenness float64) {
	var n, sum, squares float64
	for i := range snap.Nodes {
		node := &snap.Nodes[i]
		if !node.Usable() || node.GPUs == 0 {
			continue
		}
		if node.GPUsUsed > 0 {
			freeSplit += node.FreeGPUs()
		}
		part := min(1, float64(node.GPUsUsed)/float64(node.GPUs))
		n, sum, squares = n+1, sum+part, squares+part*part
	}
	if n == 0 {
		return 0, 0
	}
	mean := sum / n
	return freeSplit, math.Sqrt(max(0, squares/n-mean*mean))
}
