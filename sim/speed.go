// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Model is one kind of data-parallel training job, described by what decides
// its speed. The numbers of a fitted model belong to the hardware of Source;
// what they mean elsewhere is a ratio of computing to communicating.
type Model struct {
	Name           string
	ComputeSeconds float64 // computing per iteration, on each GPU
	// Bytes is what one iteration reduces across the job's GPUs. It is fitted
	// at the NIC's nominal speed and so is larger than the gradients are where
	// the transport falls short of that speed.
	Bytes        float64
	IntraSeconds float64 // communicating per iteration when all GPUs are in one node
	Source       string  // where the numbers come from
	// Law is how communication between nodes grows with the placement; the
	// zero value is a NIC that is the brake.
	Law Law
}

// Law is how the time on the NIC grows with a job's GPUs there. A NIC that is
// the brake carries every GPU's ring traffic: linear in the GPUs on the node,
// whatever the number of nodes. Measured clusters whose transport stays below
// the NIC's speed show less growth, and a surcharge for exactly two nodes,
// where each has one peer only. See docs/design/speed-model.md.
type Law struct {
	Exponent float64 // of the GPUs on the node; 0 means 1
	TwoNodes float64 // factor for a job on two nodes; 0 means 1
}

// Load is what a node's NIC carries, in units of one GPU's ring bytes, for a
// job with that many GPUs there and on that many nodes.
func (l Law) Load(gpus, nodes int) float64 {
	load := float64(gpus)
	if l.Exponent != 0 {
		load = math.Pow(load, l.Exponent)
	}
	if nodes == 2 && l.TwoNodes != 0 {
		load *= l.TwoNodes
	}
	return load
}

// NodeShare is a job's part on one node.
type NodeShare struct {
	Node string
	GPUs int
}

// Placement is where a job runs, by node.
type Placement []NodeShare

// ByNode returns the GPUs by node, the form that Rate takes.
func (p Placement) ByNode() map[string]int {
	out := make(map[string]int, len(p))
	for _, s := range p {
		out[s.Node] += s.GPUs
	}
	return out
}

// Shape writes the placement without its nodes' names, largest part first:
// "4+4", "2+1+1".
func (p Placement) Shape() string {
	gpus := slices.Sorted(maps.Values(p.ByNode()))
	slices.Reverse(gpus)
	parts := make([]string, len(gpus))
	for i, g := range gpus {
		parts[i] = strconv.Itoa(g)
	}
	return strings.Join(parts, "+")
}

// DefaultNICBytesPerSecond is 50 Gb/s in one direction, the NIC of the nodes
// that Models was fitted to.
const DefaultNICBytesPerSecond = 50e9 / 8

// ContendShare is the part of an iteration that a job must spend on its NIC,
// when it is alone there, to count as one that other jobs share the NIC with.
const ContendShare = 0.1

// Rate returns iterations per second of a job with the given GPUs by node:
// 1 / (compute + communication). nic tells a node's NIC speed in bytes per
// second and direction, and how many jobs share it, this one included; it is
// asked only for jobs that span nodes. A job without GPUs does not move.
func Rate(m Model, gpusByNode map[string]int, nic func(node string) (bytesPerSecond float64, sharers int)) float64 {
	if totalGPUs(gpusByNode) == 0 {
		return 0
	}
	seconds := m.ComputeSeconds + CommSeconds(m, gpusByNode, nic)
	if seconds <= 0 {
		return 0
	}
	return 1 / seconds
}

// CommSeconds is the communication part of one iteration. A ring moves
// 2(K-1)/K times the bytes past each of the job's K GPUs; a node's NIC carries
// that for each GPU the job has there, at the job's fair share of its speed,
// and the slowest node holds up the ring. The links inside a node are one more
// segment of the ring.
func CommSeconds(m Model, gpusByNode map[string]int, nic func(node string) (bytesPerSecond float64, sharers int)) float64 {
	total := totalGPUs(gpusByNode)
	if total < 2 {
		return 0
	}
	nodes := 0
	for _, gpus := range gpusByNode {
		if gpus > 0 {
			nodes++
		}
	}
	worst := 0.0
	for node, gpus := range gpusByNode {
		if gpus > 1 {
			worst = max(worst, m.IntraSeconds)
		}
		if gpus > 0 && gpus < total {
			speed, sharers := nic(node)
			worst = max(worst, RingBytes(m, total)*m.Law.Load(gpus, nodes)*float64(max(1, sharers))/speed)
		}
	}
	return worst
}

// RingBytes is what one iteration sends past each GPU, and receives there, in
// a ring of that many GPUs.
func RingBytes(m Model, gpus int) float64 {
	if gpus < 2 {
		return 0
	}
	return m.Bytes * 2 * float64(gpus-1) / float64(gpus)
}

// PackedRate is the rate of the job alone inside one node, the best that the
// model knows and the denominator of the normalized processing rate.
func PackedRate(m Model, gpus int) float64 {
	return Rate(m, map[string]int{"": gpus}, nil)
}

// Contends reports whether the job, so placed and alone, would use its busiest
// NIC enough to slow others there: at least ContendShare of the time. Callers
// count those jobs as sharers; the rest pass in the gaps.
func Contends(m Model, gpusByNode map[string]int, nicBytesPerSecond float64) bool {
	spans := 0
	for _, g := range gpusByNode {
		if g > 0 {
			spans++
		}
	}
	if spans < 2 {
		return false
	}
	comm := CommSeconds(m, gpusByNode, func(string) (float64, int) { return nicBytesPerSecond, 1 })
	return comm >= ContendShare*(m.ComputeSeconds+comm)
}

// FindModel returns the model of that name.
func FindModel(name string) (Model, bool) {
	for _, m := range Models {
		if m.Name == name {
			return m, true
		}
	}
	return Model{}, false
}

func totalGPUs(gpusByNode map[string]int) int {
	n := 0
	for _, g := range gpusByNode {
		n += max(0, g)
	}
	return n
}
