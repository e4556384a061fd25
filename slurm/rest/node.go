// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"strings"
	"time"

	"rifling/slurm"
)

// nodeRecord reads one record of GET /nodes.
func (c *Client) nodeRecord(r *record) (n slurm.Node, key string) {
	n = slurm.Node{
		Name:      r.text("name"),
		Reason:    r.text("reason"),
		CPUs:      r.count("cpus"),
		CPUsUsed:  r.count("alloc_cpus"),
		MemoryMB:  max(0, r.num("real_memory").n),
		MemUsedMB: max(0, r.num("alloc_memory").n),
		Features:  features(r),
	}
	// v0.0.38: "idle" with state_flags beside it; later one list.
	n.State = slurm.ParseState(append(r.words("state"), r.words("state_flags")...))
	if n.Name != "" && n.State.Base == "" {
		r.fail("state", "missing")
	}
	n.GPUs, n.GPUType = gpus(r, "gres", r.text("gres"))
	n.GPUsUsed, _ = gpus(r, "gres_used", r.text("gres_used"))
	n.Leaf = c.opt.Topology.LeafOf(n.Name)
	return n, n.Name
}

// features returns the features that are active now, which are those that
// requests are matched with.
func features(r *record) []string {
	var out []string
	for _, w := range r.words("active_features") {
		for f := range strings.SplitSeq(w, ",") {
			if f != "" {
				out = append(out, f)
			}
		}
	}
	return out
}

// partition is a slurm.Partition with the time limit that jobs get which name
// none.
type partition struct {
	slurm.Partition
	defaultTime time.Duration
}

// partitionRecord reads one record of GET /partitions: flat on v0.0.38, in
// nested objects later. From v0.0.40 the answer does not tell the default
// partition.
func partitionRecord(r *record) (p partition, key string) {
	p.Name = r.text("name")
	var longest, usual number
	if r.has("partition") { // the state's object, v0.0.40 and later
		nodes, state, prio := r.sub("nodes"), r.sub("partition"), r.sub("priority")
		most, unasked := r.sub("maximums"), r.sub("defaults")
		p.Nodes = nodes.hosts("configured")
		p.Up = state.hasWord("state", "UP")
		p.PriorityTier = prio.count("tier")
		longest, usual = most.num("time"), unasked.num("time")
		r.inherit(nodes, state, prio, most, unasked)
	} else {
		p.Nodes = r.hosts("nodes")
		p.Up = r.hasWord("state", "UP")
		p.PriorityTier = r.count("priority_tier")
		longest, usual = r.num("max_time_limit"), r.num("default_time_limit")
	}
	p.Default = r.hasWord("flags", "default")
	if longest.set && !longest.infinite {
		p.MaxTime = time.Duration(longest.n) * time.Minute
	}
	p.defaultTime = p.MaxTime
	if usual.set && !usual.infinite && usual.n > 0 {
		p.defaultTime = time.Duration(usual.n) * time.Minute
	}
	return p, p.Name
}
