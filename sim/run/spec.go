// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"strconv"
	"strings"

	"rifling/sim"
)

// mostNodes bounds a described cluster; a typing error must not fill memory.
const mostNodes = 100_000

// Nodes makes the nodes of a description such as "8x8" (8 nodes with 8 GPUs)
// or "16x8:a100,4x4:v100". leaf is the nodes under each leaf switch, 0 for no
// switches; gbit the speed of a node's NIC in Gb/s.
func Nodes(description string, leaf int, gbit float64) ([]sim.NodeSpec, error) {
	if leaf < 0 || !(gbit > 0) {
		return nil, fmt.Errorf("%d nodes a switch and %v Gb/s cannot be", leaf, gbit)
	}
	var out []sim.NodeSpec
	for part := range strings.SplitSeq(description, ",") {
		size, kind, _ := strings.Cut(strings.TrimSpace(part), ":")
		n, g, ok := strings.Cut(size, "x")
		nodes, err1 := strconv.Atoi(n)
		gpus, err2 := strconv.Atoi(g)
		if !ok || err1 != nil || err2 != nil || nodes < 1 || gpus < 1 || gpus > 1024 || len(out)+nodes > mostNodes {
			return nil, fmt.Errorf("nodes %q: %q is not NODESxGPUS, such as 8x8 or 16x8:a100", description, part)
		}
		for range nodes {
			out = append(out, sim.NodeSpec{Name: fmt.Sprintf("node%04d", len(out)+1), GPUs: gpus, GPUType: kind})
		}
	}
	Wire(out, leaf, gbit)
	return out, nil
}

// Wire gives nodes leaf switches, in their order, and NICs.
func Wire(nodes []sim.NodeSpec, leaf int, gbit float64) {
	for i := range nodes {
		if leaf > 0 {
			nodes[i].Leaf = fmt.Sprintf("leaf%03d", i/leaf+1)
		}
		nodes[i].NICSpeed = gbit * 1e9 / 8
	}
}
