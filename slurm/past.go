// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"math"
	"time"
)

// PastJob is one run of a job as Slurm's accounting has it. A job that was
// requeued has one for each run; each task of an array has its own. Cluster,
// ID and Submit name it: the accounting database knows no two runs with the
// same (a requeue moves the submit time).
type PastJob struct {
	ID          JobID
	ArrayJobID  JobID // 0 when the job is no array
	ArrayTaskID int64 // -1 when it is no array, and for tasks that never started
	HetJobID    JobID // 0 when it is no component of a heterogeneous job

	Name, User, Account, Partition, QOS, Cluster string
	Command                                      string // SubmitLine where the release has one; may be empty

	// State of the run. One that ended in a requeue is REQUEUED by its base.
	State    State
	ExitCode int // 128 + signal where a signal ended it

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

// Final reports whether accounting will say nothing more of the run: it has
// ended, in whatever way.
func (p *PastJob) Final() bool { return !p.End.IsZero() }

// PastSink takes what a reader of accounting finds.
type PastSink struct {
	// Run is given each run, and stops the reading by an error. It must not
	// keep the value that it is given the pointer of.
	Run func(*PastJob) error
	// Odd is told of each record that was left out, or of which a field was,
	// with a reason that is the same for all of its kind and the place.
	Odd func(reason, where string)
}

// ErrTooWide is what a source answers to a time range that the accounting
// database will not serve at once (MaxQueryTimeRange, or too many rows).
var ErrTooWide = errors.New("time range is too wide")

// SetResources takes over what was allocated to the run, or, where nothing
// was, what was asked for. Typed GPUs are part of the untyped count.
func (p *PastJob) SetResources(allocated, asked TRES) {
	pick := func(name string) int {
		if n := allocated[name]; n > 0 {
			return int(min(n, math.MaxInt32))
		}
		return int(min(asked[name], math.MaxInt32))
	}
	p.CPUs, p.NodeCount = pick("cpu"), pick("node")
	from := allocated
	if len(allocated) == 0 {
		from = asked
	}
	p.GPUs, p.GPUType = from.GPUs(), ""
	most := 0
	for kind, n := range from.GPUsByType() {
		if n > most || n == most && kind < p.GPUType {
			most, p.GPUType = n, kind
		}
	}
}

// SetGPUUsage takes over what the run's steps have used: gres/gpuutil in
// percent and gres/gpumem in bytes, each a sum over the tasks of a step and
// their GPUs (sacct's TRESUsageInTot). Call it after SetResources.
func (p *PastJob) SetGPUUsage(steps []StepUsage) {
	p.GPUUtil, p.GPUMemory = -1, -1
	used := MaxUsage(steps)
	if n, told := used["gres/gpuutil"]; told && p.GPUs > 0 {
		p.GPUUtil = min(1, float64(n)/100/float64(p.GPUs))
	}
	if n, told := used["gres/gpumem"]; told && p.GPUs > 0 {
		p.GPUMemory = float64(n)
	}
}

// Tidy makes one meaning of what releases write in several, and returns what
// cannot be right in it, as words that are the same for all of a kind.
func (p *PastJob) Tidy() (odd []string) {
	// A run that ended before it had nodes carries that time as its start too.
	if len(p.Nodes) == 0 && p.Elapsed == 0 && p.Final() && !p.Start.Before(p.End) {
		p.Start = time.Time{}
	}
	// A run that ended in a requeue is no pending job.
	if p.Final() && p.State.Base == "PENDING" && len(p.State.Flags) > 0 {
		p.State = State{Base: p.State.Flags[0], Flags: p.State.Flags[1:]}
		if len(p.State.Flags) == 0 {
			p.State.Flags = nil
		}
	}
	switch wall := p.End.Sub(p.Start); {
	case p.Start.IsZero() || p.End.IsZero():
	case wall < 0:
		odd = append(odd, "ends before it starts")
		p.Elapsed = 0
	case p.Elapsed > wall:
		odd = append(odd, "ran longer than from start to end")
		p.Elapsed = wall
	}
	if p.Start.IsZero() {
		p.Elapsed = 0
	}
	return odd
}
