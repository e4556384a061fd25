// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"slices"
	"strings"
	"time"
)

// Node is one compute node.
type Node struct {
	Name      string
	State     State
	Reason    string
	GPUs      int // configured
	GPUsUsed  int
	GPUType   string // the type of most of its GPUs; empty when untyped
	CPUs      int
	CPUsUsed  int
	MemoryMB  int64 // configured, MiB
	MemUsedMB int64 // allocated to jobs, MiB
	Features  []string
	Leaf      string // leaf switch, from the topology; empty when unknown
}

// Usable reports whether Slurm would start a job there now or when its present
// jobs have ended: not down, drained, failing, in maintenance, reserved or
// powered away.
func (n *Node) Usable() bool {
	switch n.State.Base {
	case "IDLE", "MIXED", "ALLOCATED":
	default:
		return false
	}
	for _, f := range n.State.Flags {
		switch f {
		case "DRAIN", "FAIL", "MAINTENANCE", "RESERVED", "NOT_RESPONDING", "INVALID_REG",
			"POWERED_DOWN", "POWERING_DOWN", "POWER_DOWN", "POWERING_UP", "POWER_UP",
			"REBOOT_REQUESTED", "REBOOT_ISSUED", "DYNAMIC_FUTURE", "FUTURE":
			return false
		}
	}
	return true
}

// FreeGPUs returns the GPUs that no job holds; 0 on a node that is not usable.
func (n *Node) FreeGPUs() int {
	if !n.Usable() {
		return 0
	}
	return max(0, n.GPUs-n.GPUsUsed)
}

// Partition is one partition.
type Partition struct {
	Name         string
	Nodes        []string
	Up           bool
	Default      bool
	PriorityTier int
	MaxTime      time.Duration // 0 when unlimited
}

// Snapshot is the cluster at one instant. It is the clock for all that follows:
// TakenAt is now, by slurmctld's own clock. It is never changed after it was made.
type Snapshot struct {
	TakenAt    time.Time
	Cluster    string
	Release    Release
	Jobs       []Job // by ascending id
	Nodes      []Node
	Partitions []Partition
	// Odd counts records that could not be read and were left out, by what
	// was wrong with them.
	Odd map[string]int
}

// Job returns the record with the given id, or nil.
func (s *Snapshot) Job(id JobID) *Job {
	i, ok := slices.BinarySearchFunc(s.Jobs, id, func(j Job, id JobID) int {
		return int(int64(j.ID) - int64(id))
	})
	if !ok {
		return nil
	}
	return &s.Jobs[i]
}

// Node returns the node with the given name, or nil.
func (s *Snapshot) Node(name string) *Node {
	for i := range s.Nodes {
		if s.Nodes[i].Name == name {
			return &s.Nodes[i]
		}
	}
	return nil
}

// Partition returns the partition with the given name, or nil.
func (s *Snapshot) Partition(name string) *Partition {
	for i := range s.Partitions {
		if s.Partitions[i].Name == name {
			return &s.Partitions[i]
		}
	}
	return nil
}

// JobNodes returns the nodes of all partitions that the job names, each once,
// in the snapshot's order of nodes.
func (s *Snapshot) JobNodes(j *Job) []string {
	in := map[string]bool{}
	for name := range strings.SplitSeq(j.Partition, ",") {
		if p := s.Partition(name); p != nil {
			for _, n := range p.Nodes {
				in[n] = true
			}
		}
	}
	var out []string
	for i := range s.Nodes {
		if in[s.Nodes[i].Name] {
			out = append(out, s.Nodes[i].Name)
		}
	}
	return out
}
