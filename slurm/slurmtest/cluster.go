// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"cmp"
	"slices"
	"time"

	"rifling/slurm"
)

// NodeBuilder builds a slurm.Node step by step.
type NodeBuilder struct{ n slurm.Node }

// Node starts with an idle node of 8 untyped GPUs, 64 CPUs and 512 GiB.
func Node(name string) *NodeBuilder {
	return &NodeBuilder{slurm.Node{
		Name: name, State: slurm.State{Base: "IDLE"}, GPUs: 8, CPUs: 64, MemoryMB: 512 << 10,
	}}
}

// Obj returns the node.
func (b *NodeBuilder) Obj() slurm.Node { return b.n }

// GPUs sets how many GPUs the node has.
func (b *NodeBuilder) GPUs(n int) *NodeBuilder { b.n.GPUs = n; return b }

// GPUType names the type of the GPUs.
func (b *NodeBuilder) GPUType(t string) *NodeBuilder { b.n.GPUType = t; return b }

// Used sets how many GPUs are in use, and the state that goes with it.
func (b *NodeBuilder) Used(gpus int) *NodeBuilder {
	b.n.GPUsUsed = gpus
	switch {
	case gpus >= b.n.GPUs:
		b.n.State.Base = "ALLOCATED"
	case gpus > 0:
		b.n.State.Base = "MIXED"
	default:
		b.n.State.Base = "IDLE"
	}
	return b
}

// Leaf names the leaf switch.
func (b *NodeBuilder) Leaf(s string) *NodeBuilder { b.n.Leaf = s; return b }

// Features sets the active features.
func (b *NodeBuilder) Features(f ...string) *NodeBuilder { b.n.Features = f; return b }

// State sets the state's words as they are.
func (b *NodeBuilder) State(base string, flags ...string) *NodeBuilder {
	b.n.State = slurm.State{Base: base, Flags: flags}
	return b
}

// Drained takes the node out of service.
func (b *NodeBuilder) Drained() *NodeBuilder {
	b.n.State.Flags, b.n.Reason = []string{"DRAIN"}, "test"
	return b
}

// PartitionBuilder builds a slurm.Partition step by step.
type PartitionBuilder struct{ p slurm.Partition }

// Partition starts with a partition that is up, of tier 1 and without a limit.
func Partition(name string, nodes ...string) *PartitionBuilder {
	return &PartitionBuilder{slurm.Partition{Name: name, Nodes: nodes, Up: true, PriorityTier: 1}}
}

// Obj returns the partition.
func (b *PartitionBuilder) Obj() slurm.Partition { return b.p }

// Default makes it the default partition.
func (b *PartitionBuilder) Default() *PartitionBuilder { b.p.Default = true; return b }

// Down closes the partition.
func (b *PartitionBuilder) Down() *PartitionBuilder { b.p.Up = false; return b }

// Tier sets the priority tier.
func (b *PartitionBuilder) Tier(n int) *PartitionBuilder { b.p.PriorityTier = n; return b }

// MaxTime bounds the jobs' time limits.
func (b *PartitionBuilder) MaxTime(d time.Duration) *PartitionBuilder { b.p.MaxTime = d; return b }

// SnapshotBuilder builds a slurm.Snapshot step by step.
type SnapshotBuilder struct {
	s slurm.Snapshot
	// partitioned is set once partitions were named.
	partitioned bool
}

// Snapshot starts with an empty cluster at Now under Slurm 24.11.5 (v0.0.42).
func Snapshot() *SnapshotBuilder {
	return &SnapshotBuilder{s: slurm.Snapshot{
		TakenAt: Now, Cluster: "test",
		Release: slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42},
		Odd:     map[string]int{},
	}}
}

// At sets the instant.
func (b *SnapshotBuilder) At(t time.Time) *SnapshotBuilder { b.s.TakenAt = t; return b }

// Release sets Slurm's release and the REST version.
func (b *SnapshotBuilder) Release(r slurm.Release) *SnapshotBuilder { b.s.Release = r; return b }

// Nodes adds idle nodes with the given number of GPUs each, in two halves under
// leaf switches leaf1 and leaf2. It panics on a host list that is none.
func (b *SnapshotBuilder) Nodes(hosts string, gpus int) *SnapshotBuilder {
	names, err := slurm.ExpandHosts(hosts)
	if err != nil {
		panic(err)
	}
	for i, name := range names {
		leaf := "leaf1"
		if i >= (len(names)+1)/2 {
			leaf = "leaf2"
		}
		b.Node(Node(name).GPUs(gpus).Leaf(leaf))
	}
	return b
}

// Node adds a node, or replaces the one of that name.
func (b *SnapshotBuilder) Node(n *NodeBuilder) *SnapshotBuilder {
	if old := b.s.Node(n.n.Name); old != nil {
		*old = n.Obj()
		return b
	}
	b.s.Nodes = append(b.s.Nodes, n.Obj())
	return b
}

// Partitions adds partitions. Without any, Obj makes one: gpu, with all nodes.
func (b *SnapshotBuilder) Partitions(ps ...*PartitionBuilder) *SnapshotBuilder {
	for _, p := range ps {
		b.s.Partitions = append(b.s.Partitions, p.Obj())
	}
	b.partitioned = true
	return b
}

// Jobs adds jobs.
func (b *SnapshotBuilder) Jobs(jobs ...*JobBuilder) *SnapshotBuilder {
	for _, j := range jobs {
		b.s.Jobs = append(b.s.Jobs, j.Obj())
	}
	return b
}

// Obj returns the snapshot: jobs by ascending id, and each node's use of GPUs
// no lower than that of the jobs that run there.
func (b *SnapshotBuilder) Obj() *slurm.Snapshot {
	s := b.s
	s.Jobs, s.Nodes, s.Partitions = slices.Clone(s.Jobs), slices.Clone(s.Nodes), slices.Clone(s.Partitions)
	slices.SortFunc(s.Jobs, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	if !b.partitioned {
		var names []string
		for _, n := range s.Nodes {
			names = append(names, n.Name)
		}
		s.Partitions = append(s.Partitions, Partition("gpu", names...).Default().Obj())
	}
	occupy(&s)
	return &s
}

// occupy raises the nodes' use to that of the running jobs.
func occupy(s *slurm.Snapshot) {
	used := map[string]int{}
	for i := range s.Jobs {
		if s.Jobs[i].Running() {
			for node, n := range s.Jobs[i].NodeGPUs {
				used[node] += n
			}
		}
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		if used[n.Name] > n.GPUsUsed {
			flags := n.State.Flags
			*n = (&NodeBuilder{*n}).Used(used[n.Name]).Obj()
			n.State.Flags = flags
		}
	}
}
