// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"slices"
	"time"
)

// JobID is Slurm's raw job id (JobIDRaw of sacct, SLURM_JOB_ID of a job's
// environment). An array's pending tasks share one record whose JobID equals
// its ArrayJobID.
type JobID uint32

// Job is one job record of slurmctld.
type Job struct {
	ID        JobID
	Name      string
	User      string
	UserID    uint32
	Account   string
	Partition string // as Slurm gives it: a pending job may name several, comma separated
	QOS       string
	Comment   string
	Command   string // path of the batch script and its arguments
	WorkDir   string

	State       State
	Reason      string // state_reason, Slurm's word: "Priority", "Resources", "BadConstraints", ...
	Description string // state_description, free text, often empty

	SubmitTime   time.Time
	EligibleTime time.Time
	StartTime    time.Time // of a pending job: Slurm's estimate; zero when unknown
	EndTime      time.Time // of a running job: the latest end that its limit allows
	TimeLimit    time.Duration
	Unlimited    bool // TimeLimit is INFINITE

	Priority int64 // 0 means held
	Nice     int64 // the user's and rifling's together, relative to 0
	Held     bool

	Dependency    string
	Reservation   string
	Features      string
	Switches      int // --switches; 0 when not asked for
	RequiredNodes []string
	ExcludedNodes []string
	Exclusive     bool // asks for whole nodes, by --exclusive in any form
	Contiguous    bool // asks for nodes that follow one another, by --contiguous
	Cron          bool // belongs to scrontab
	Het           bool // a component of a heterogeneous job
	Restarts      int

	ArrayJobID      JobID // 0 when the job is no array
	ArrayTaskID     int64 // -1 for an array's record of pending tasks and for jobs that are no array
	ArrayTaskString string
	ArrayMaxTasks   int // %N throttle; 0 when there is none

	MinNodes int // of a pending job a lower bound, of a started one the number of nodes
	MaxNodes int // 0 when the request sets none
	Tasks    int
	CPUs     int
	Request  GPURequest

	MemPerNodeMB int64 // --mem, MiB; 0 when not asked for
	MemPerCPUMB  int64 // --mem-per-cpu, MiB; 0 when not asked for

	Nodes    []string       // nodes of a started job
	NodeGPUs map[string]int // GPUs by node of a started job; nil when Slurm does not say
}

// GPURequest is what a job asks for, in the ways that sbatch offers. Each count
// is 0 when that option was not used.
type GPURequest struct {
	PerJob    int // --gpus
	PerNode   int // --gpus-per-node, --gres=gpu:N
	PerTask   int // --gpus-per-task
	PerSocket int // --gpus-per-socket
	Type      string
}

// Total returns the number of GPUs that the job asks for in all, or that it
// has when it has started. minNodes and tasks are lower bounds in a pending
// record, so the result is one as well; an open node range with a per-node
// request grows with the nodes that Slurm picks.
func (j *Job) Total() int {
	if len(j.NodeGPUs) > 0 {
		n := 0
		for _, g := range j.NodeGPUs {
			n += g
		}
		return n
	}
	nodes := max(1, j.MinNodes)
	r := j.Request
	switch {
	case r.PerJob > 0:
		return r.PerJob
	case r.PerNode > 0:
		return r.PerNode * nodes
	case r.PerTask > 0:
		return r.PerTask * max(1, j.Tasks)
	case r.PerSocket > 0:
		return r.PerSocket * nodes
	}
	return 0
}

// WantsGPU reports whether the job asks for GPUs in any way.
func (j *Job) WantsGPU() bool { return j.Request != (GPURequest{Type: j.Request.Type}) }

// Pending reports whether the job waits for its start.
func (j *Job) Pending() bool { return j.State.Base == "PENDING" }

// Running reports whether the job holds nodes and computes.
func (j *Job) Running() bool { return j.State.Base == "RUNNING" }

// Done reports whether the job has ended, in whatever way.
func (j *Job) Done() bool {
	switch j.State.Base {
	case "", "PENDING", "RUNNING", "SUSPENDED":
		return false
	}
	return true
}

// IsArray reports whether the record stands for tasks of a job array.
func (j *Job) IsArray() bool { return j.ArrayJobID != 0 }

// State is a job's or node's state: one base word and any number of flags
// (COMPLETING, REQUEUED; DRAIN, PLANNED). Words that rifling does not know are
// kept as they are.
type State struct {
	Base  string
	Flags []string
}

// Has reports whether the flag is set.
func (s State) Has(flag string) bool { return slices.Contains(s.Flags, flag) }

// String joins base and flags in the manner of scontrol: "IDLE+DRAIN".
func (s State) String() string {
	out := s.Base
	for _, f := range s.Flags {
		out += "+" + f
	}
	return out
}
