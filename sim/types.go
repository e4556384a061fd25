// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"time"

	"rifling/slurm"
)

// Spec is a simulated cluster. All times in package sim are durations since
// the start of the simulation.
type Spec struct {
	Nodes      []NodeSpec
	Partitions []PartitionSpec // empty: one partition "gpu" with all nodes
	QOS        []QOSSpec
	// Users that accounting knows whether or not they have jobs: fair share
	// ranks them too.
	Users []UserSpec
	// StartOverhead is how long a job holds its GPUs before its work begins
	// (prolog, launch). It counts as run time, as Slurm counts it.
	StartOverhead time.Duration
	// EndDelay is how long the GPUs stay taken after a job's end (epilog,
	// COMPLETING).
	EndDelay time.Duration
	// IgnoreLimits lets jobs run past their time limit. Slurm does not; some
	// published simulators do.
	IgnoreLimits bool
	// Outages are times at which nodes are down. Jobs there are requeued.
	Outages []Outage
}

// NodeSpec is one node.
type NodeSpec struct {
	Name     string
	GPUs     int
	GPUType  string
	CPUs     int     // 0: one per GPU
	Leaf     string  // leaf switch; empty on all nodes: no topology plugin
	NICSpeed float64 // bytes per second and direction; 0: DefaultNICBytesPerSecond
}

// PartitionSpec is one partition.
type PartitionSpec struct {
	Name        string
	Nodes       []string      // empty: all
	Tier        int           // PriorityTier: a higher one is scheduled first
	JobFactor   int           // PriorityJobFactor
	MaxTime     time.Duration // 0: no limit
	DefaultTime time.Duration // of jobs without a limit; 0: MaxTime
	MaxNodes    int           // 0: no limit
}

// QOSSpec is one quality of service.
type QOSSpec struct {
	Name           string
	Priority       int
	MaxGPUsPerUser int // 0: no limit
	MaxJobsPerUser int // running at once; 0: no limit
}

// UserSpec is one user's association with an account.
type UserSpec struct{ Name, Account string }

// Outage takes a node away for a while.
type Outage struct {
	Node     string
	Down, Up time.Duration // Up 0: for ever
}

// Job is one job as a trace tells it.
type Job struct {
	ID        slurm.JobID // 0: numbered by the engine, from 1
	Name      string
	User      string
	Account   string
	Partition string // empty: the first
	QOS       string
	Nice      int64
	ArrayID   slurm.JobID // 0: no array
	ArrayTask int64
	// ArrayMax is the most tasks of the array that run at once; 0: no limit.
	ArrayMax int
	Submit   time.Duration
	// Work is the run time at the model's PackedRate, the best there is.
	// Without a model it is the run time anywhere.
	Work time.Duration
	// Limit is the time limit; 0: the partition's.
	Limit time.Duration
	// Estimate is what a predictor says of Work, right or wrong; 0: nothing.
	// GPUSecondsEstimate is the same in GPU seconds and may be negative, as
	// published noisy estimates are.
	Estimate           time.Duration
	GPUSecondsEstimate float64
	Request            Request
	Model              *Model // nil: placement does not change its speed
	// FailAfter is the run time after which the first run fails; 0: never. A
	// job that fails starts anew when Requeue is set.
	FailAfter time.Duration
	Requeue   bool
	Comment   string
}

// Request is what a job asks for, in the ways that sbatch offers: GPUs or
// GPUsPerNode, or both. Processors of clusters without GPUs are given as GPUs.
type Request struct {
	GPUs        int // in all (--gpus); open shape unless the nodes fix it
	GPUsPerNode int // on each node (--gres=gpu:N, --gpus-per-node)
	MinNodes    int // 0: 1
	MaxNodes    int // 0: open with GPUs, MinNodes with GPUsPerNode
	CPUs        int // in all; 0: one per GPU
	Exclusive   bool
	GPUType     string
	Exclude     []string // nodes that the user excluded
}

// Total returns the GPUs that the request comes to, with the fewest nodes that
// it allows.
func (r Request) Total() int {
	if r.GPUs > 0 {
		return r.GPUs
	}
	return r.GPUsPerNode * max(1, r.MinNodes)
}

// Alloc is a job's part on one node, by the node's index in Spec.Nodes.
type Alloc struct{ Node, GPUs, CPUs int32 }

// Status is where a job stands in the simulation.
type Status uint8

// The states, in the order in which a job passes them.
const (
	Pending Status = iota
	Running
	Completing // ended, its GPUs not yet free
	Ended
)

// JobState is a job inside the engine. Schedulers read it; what they may write
// is Data and, for Slurm's model, the fields under "Steering".
type JobState struct {
	Job
	Seq    int // 0, 1, 2, ... in the order of arrival: what breaks ties
	GPUs   int // Request.Total()
	Status Status
	// Bound is the time limit that holds: the job's own or the partition's;
	// 0: none.
	Bound     time.Duration
	Start     time.Duration // of the present or last run
	FirstRun  time.Duration // start of the first run; -1 before it
	End       time.Duration // of a running job: when it will end if nothing changes
	Alloc     []Alloc       // of the present or last run
	Restarts  int           // requeues after failures
	Preempted int
	// Done is the work done up to LastAt, in time at the best rate; Rate is
	// the present speed, 1 the best.
	Done   time.Duration
	LastAt time.Duration
	Rate   float64
	// Ran is the time that earlier runs took.
	Ran time.Duration

	// Steering: what slurmctld would keep on the job. See State.Update.
	SiteFactor int64
	NiceNow    int64
	Excluded   NodeSet // nil: none
	Priority   int64   // by Slurm's model; its own units

	Data any // the scheduler's own

	part       int           // index of its partition
	begins     time.Duration // when the work of this run begins
	endAt      time.Duration // when it leaves the heap: its end, or the release of its GPUs
	pos        int           // in the heap of ends; -1: not there
	slot       int           // in the list of its status
	how        Outcome       // how the run that is in the heap will end
	penalty    time.Duration // what the next run pays for a preemption
	doneBefore time.Duration // work done by earlier runs
	contends   bool
	backfilled bool
	looked     bool // slurmctld has looked for a place for it
}

// Outcome is how a job ended.
type Outcome uint8

// The outcomes.
const (
	Completed Outcome = iota
	TimedOut
	Failed
	Impossible // can never start on this cluster; Start and End are Submit
)

// Result is what became of one job.
type Result struct {
	Job
	Seq      int
	GPUs     int
	Outcome  Outcome
	FirstRun time.Duration // start of the first run
	Start    time.Duration // start of the last run
	End      time.Duration
	Alloc    []Alloc // of the last run
	// Ran is the time with GPUs, over all runs, overhead included.
	Ran time.Duration
	// NPR is the time that the last run's work takes at the packed rate over
	// the time it took without overhead: 0..1, or a little more where single
	// GPUs on several nodes beat slow links inside one.
	NPR        float64
	Restarts   int
	Preempted  int
	Backfilled bool
}

// JCT is the job completion time: from submission to end.
func (r *Result) JCT() time.Duration { return r.End - r.Submit }

// Wait is the queueing delay: all the time between submission and end in which
// the job did not run.
func (r *Result) Wait() time.Duration { return r.End - r.Submit - r.Ran }

// Change is a set of what happened at an instant.
type Change uint16

// What may have happened.
const (
	Submitted Change = 1 << iota
	Finished         // a job ended
	Freed            // GPUs became free
	Woken            // a time asked for by State.Wake has come
	NodesDown
	NodesUp
	Requeued // a job came back to the queue
	Updated  // State.Update changed a job
)

// Scheduler decides what starts. The engine calls Pass once for each instant
// at which something happened, after all that happened then. It is the one
// interface of Slurm's model and of every peer's policy.
type Scheduler interface {
	// Name is what tables call it.
	Name() string
	// Pass starts (State.Start), preempts (State.Preempt) and asks for
	// further calls (State.Wake).
	Pass(st *State, what Change)
}

// Source hands out jobs by ascending Submit, one at a time, so that a trace
// need not fit into memory; ok is false at its end.
type Source func() (j Job, ok bool)

// Sink takes results in the order of the jobs' ends. The result is the engine's:
// copy it to keep it.
type Sink func(r *Result)

// Stats counts what a run did.
type Stats struct {
	Jobs, Events, Passes int
	MostLive             int // jobs pending and running at once
	End                  time.Duration
	// Idle and Scattered are GPU time that was free while jobs waited, and
	// that part of it which lay on nodes that were partly taken.
	Idle, Scattered float64 // GPU seconds
}
