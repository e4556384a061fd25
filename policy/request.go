// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"
	"strings"

	"rifling/slurm"
)

// request is what a job's own options leave open and what they fix.
type request struct {
	total    int // GPUs in all
	perNode  int // GPUs on each node where the request fixes them; else 0
	minNodes int
	maxNodes int // 0: no bound
	kind     string
	cpus     float64 // CPUs per GPU
	memMB    float64 // MiB per GPU
	memNode  int64   // MiB per node, whatever the GPUs
	features []string
}

// readRequest reads a job's request; ok is false for requests whose shape
// rifling does not model (GPUs per socket, feature expressions, GPUs per node
// with a number of nodes that follows from the tasks). Such jobs are left to
// Slurm.
func readRequest(j *slurm.Job) (r request, ok bool) {
	r = request{minNodes: max(1, j.MinNodes), maxNodes: j.MaxNodes, kind: j.Request.Type, memNode: j.MemPerNodeMB}
	if r.features, ok = plainFeatures(j.Features); !ok || j.Request.PerSocket > 0 {
		return r, false
	}
	q := j.Request
	switch {
	case q.PerNode > 0:
		r.perNode = q.PerNode
		if r.maxNodes == 0 && j.Tasks > 1 {
			return r, false
		}
		if r.maxNodes == 0 {
			r.maxNodes = r.minNodes
		}
		r.total = q.PerNode * r.minNodes
		if q.PerJob > 0 {
			r.total = q.PerJob
			r.minNodes = max(r.minNodes, ceilDiv(q.PerJob, q.PerNode))
			r.maxNodes = r.minNodes
		}
	case q.PerJob > 0:
		r.total = q.PerJob
	case q.PerTask > 0:
		r.total = q.PerTask * max(1, j.Tasks)
	default:
		return r, false
	}
	if r.perNode == 0 && r.minNodes == 1 && r.maxNodes == 1 {
		r.perNode = r.total
	}
	if j.CPUs > 0 {
		r.cpus = float64(j.CPUs) / float64(r.total)
	}
	r.memMB = float64(j.MemPerCPUMB) * r.cpus
	return r, true
}

// plainFeatures splits a constraint that is a plain word or words joined by
// "&"; anything more is not understood.
func plainFeatures(s string) ([]string, bool) {
	if s == "" {
		return nil, true
	}
	if strings.ContainsAny(s, "|[]()*,!") {
		return nil, false
	}
	return strings.Split(s, "&"), true
}

// open reports whether the number of nodes is Slurm's to choose.
func (r request) open() bool { return r.perNode == 0 }

// suits reports whether the node could ever serve gpus of the job's GPUs.
func (r request) suits(n *slurm.Node, gpus int) bool {
	if r.kind != "" && r.kind != n.GPUType || n.GPUs < gpus {
		return false
	}
	for _, f := range r.features {
		if !slices.Contains(n.Features, f) {
			return false
		}
	}
	return float64(n.CPUs) >= r.cpus*float64(gpus) && n.MemoryMB >= r.memNode &&
		float64(n.MemoryMB) >= r.memMB*float64(gpus)
}

// fits returns how many of the job's GPUs the node could serve now, when gpus
// of its GPUs are free.
func (r request) fits(n *slurm.Node, gpus int) int {
	if !r.suits(n, 1) || n.MemoryMB-n.MemUsedMB < r.memNode {
		return 0
	}
	if r.cpus > 0 {
		gpus = min(gpus, int(float64(n.CPUs-n.CPUsUsed)/r.cpus+1e-9))
	}
	if r.memMB > 0 {
		gpus = min(gpus, int(float64(n.MemoryMB-n.MemUsedMB)/r.memMB+1e-9))
	}
	return max(0, gpus)
}

// nodesAtBest returns the fewest nodes that the request can be served on when
// a node serves at most largest GPUs.
func (r request) nodesAtBest(largest int) int {
	if r.perNode > 0 {
		return r.minNodes
	}
	return max(r.minNodes, ceilDiv(r.total, max(1, largest)))
}

// NodesNeeded returns the fewest nodes on which the job can run on this
// cluster, by what its request fixes; at least 1.
func NodesNeeded(j *slurm.Job, s *slurm.Snapshot) int {
	r, ok := readRequest(j)
	if !ok {
		return max(1, j.MinNodes)
	}
	if !r.open() {
		return r.nodesAtBest(0)
	}
	in := map[string]bool{}
	for _, name := range s.JobNodes(j) {
		in[name] = true
	}
	largest := 0
	for i := range s.Nodes {
		if n := &s.Nodes[i]; in[n.Name] && r.suits(n, 1) {
			largest = max(largest, n.GPUs)
		}
	}
	return r.nodesAtBest(largest)
}

func ceilDiv(a, b int) int { return int(math.Ceil(float64(a) / float64(b))) }
