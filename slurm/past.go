// SPDX-License-Identifier: Apache-2.0

package slurm

import "time"

// PastJob is one run of a job as Slurm's accounting has it. A job that was
// requeued has one for each run; each task of an array has its own.
type PastJob struct {
	ID          JobID
	ArrayJobID  JobID // 0 when the job is no array
	ArrayTaskID int64 // -1 when it is no array
	HetJobID    JobID // 0 when it is no component of a heterogeneous job

	Name, User, Account, Partition, QOS, Cluster string
	Command                                      string // SubmitLine where the release has one; may be empty

	State    State
	ExitCode int

	// Times of this run; zero when it never came to that.
	Submit, Eligible, Start, End time.Time
	// Elapsed is the run time without suspension; Suspended the time of that.
	Elapsed, Suspended time.Duration
	TimeLimit          time.Duration
	Unlimited          bool
	Restarts           int

	GPUs      int    // allocated, or asked for by one that never started
	GPUType   string // "" when not told
	NodeCount int
	Nodes     []string
	CPUs      int
	Priority  int64

	// GPUUtil is the mean utilization of the job's GPUs, 0..1, and GPUMemory
	// the bytes used, where the release and the site record them (gres/gpuutil,
	// gres/gpumem); negative when not told.
	GPUUtil, GPUMemory float64
}
