// SPDX-License-Identifier: Apache-2.0

package main

import "rifling/sim"

// truth is what a job really did, from the speed model and its own clock: what
// the estimates made from counters are measured against. Times are the model's.
type truth struct {
	ComputeSeconds float64 `json:"compute_seconds"` // computing, on each GPU
	CommSeconds    float64 `json:"comm_seconds"`    // communicating as it ran, waiting for neighbours included
	// LinkSeconds is communicating across nodes with the NICs to itself: of a
	// run on several nodes as it ran there, of one on a single node what the
	// same job would have on two. docs/design/profile.md defines cc by it.
	LinkSeconds float64 `json:"link_seconds"`
	CC          float64 `json:"cc"`        // ComputeSeconds / LinkSeconds; 0 when it does not communicate
	GPUBytes    float64 `json:"gpu_bytes"` // sent by each GPU, and received there
	NICBytes    float64 `json:"nic_bytes"` // sent by its busiest node; 0 on one node
}

// truthOf works the truth out from the iterations done and the time they took.
func truthOf(m sim.Model, gpusByNode map[string]int, speeds map[string]float64, iterations, seconds float64) truth {
	total := gpuCount(gpusByNode)
	t := truth{
		ComputeSeconds: iterations * m.ComputeSeconds,
		GPUBytes:       iterations * sim.RingBytes(m, total),
	}
	t.CommSeconds = max(0, seconds-t.ComputeSeconds)
	spread := gpusByNode
	if len(gpusByNode) == 1 {
		spread = map[string]int{"": (total + 1) / 2, "other": total / 2}
	} else {
		for _, gpus := range gpusByNode {
			t.NICBytes = max(t.NICBytes, t.GPUBytes*float64(gpus))
		}
	}
	slowest := 0.0
	for _, speed := range speeds {
		if slowest == 0 || speed < slowest {
			slowest = speed
		}
	}
	t.LinkSeconds = iterations * sim.CommSeconds(m, spread, func(node string) (float64, int) {
		if speed, ok := speeds[node]; ok {
			return speed, 1
		}
		return slowest, 1 // a node that the job could have had
	})
	if t.LinkSeconds > 0 {
		t.CC = t.ComputeSeconds / t.LinkSeconds
	}
	return t
}
