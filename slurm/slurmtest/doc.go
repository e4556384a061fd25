// SPDX-License-Identifier: Apache-2.0

// Package slurmtest makes tests of what stands on Slurm short: builders for
// jobs, nodes, partitions and snapshots, and a slurmrestd that behaves like
// one, in memory, with updates that take effect and faults on request.
//
//	s := slurmtest.Snapshot().Nodes("gpu[01-08]", 8).
//		Jobs(slurmtest.Job(7).GPUs(4).User("alice")).Obj()
//	srv := slurmtest.NewServer(t, s)
package slurmtest
