// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"testing"

	"rifling/slurm"
)

func TestLoadShape(t *testing.T) {
	node := func(gpus, used int, state string) slurm.Node {
		return slurm.Node{GPUs: gpus, GPUsUsed: used, State: slurm.State{Base: state}}
	}
	tests := map[string]struct {
		nodes  []slurm.Node
		split  int
		uneven float64
	}{
		"no nodes":              {},
		"all idle":              {[]slurm.Node{node(8, 0, "IDLE"), node(8, 0, "IDLE")}, 0, 0},
		"half full, half empty": {[]slurm.Node{node(8, 8, "ALLOCATED"), node(8, 0, "IDLE")}, 0, 0.5},
		"each half taken":       {[]slurm.Node{node(8, 4, "MIXED"), node(4, 2, "MIXED")}, 6, 0},
		"a down node counts not": {[]slurm.Node{node(8, 2, "MIXED"), node(8, 0, "DOWN"), {State: slurm.State{Base: "IDLE"}}},
			6, 0},
		"three of four parts": {[]slurm.Node{node(4, 3, "MIXED"), node(4, 1, "MIXED")}, 4, 0.25},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			split, uneven := LoadShape(&slurm.Snapshot{Nodes: tc.nodes})
			if split != tc.split || math.Abs(uneven-tc.uneven) > 1e-12 {
				t.Errorf("got %d, %v, want %d, %v", split, uneven, tc.split, tc.uneven)
			}
		})
	}
}
