// SPDX-License-Identifier: Apache-2.0

// Package profile turns counters and accounting rows into what a scheduler
// wants to know of a job: how much it computes against how much it
// communicates, how fast it runs against the best that its family was seen to
// run, how long it will take, and which group of jobs it belongs to. It is
// pure: values in, values out, no clock, no input or output.
//
// Definitions are ours where the RIFLING paper (Chen, SP&E 2022, doi
// 10.1002/spe.3066) does not publish them: see docs/design/profile.md.
package profile

import (
	"time"

	"rifling/slurm"
)

// Source says where a compute activity was read from; better sources weigh more.
type Source string

// The sources of compute activity, best first.
const (
	SourceGPM         Source = "gpm"         // SM activity by GPM, Hopper and later
	SourcePower       Source = "power"       // power above idle over its range
	SourceUtilization Source = "utilization" // NVML utilization: counts collectives as busy, weak
)

// Sample is what one job did on one node over one interval, its GPUs there
// taken together. Rates are means over the interval.
type Sample struct {
	JobID    slurm.JobID
	Node     string
	At       time.Time // end of the interval, by the daemon's (Slurm's) clock
	Interval time.Duration
	GPUs     int

	Compute float64 // mean compute activity of the job's GPUs, 0..1
	Source  Source

	// Bytes per second in the busier direction, summed over the job's GPUs on
	// this node (NVLink, PCIe) or of the node's ports (Net).
	NVLinkRate, PCIeRate, NetRate float64
	// What the links carry at most in one direction; 0 when unknown. NVLink
	// and PCIe: summed over the job's GPUs here. Net: the node's ports.
	NVLinkSpeed, PCIeSpeed, NetSpeed float64
	// NetShared marks a NetRate that is the job's share by GPUs of a node
	// that other jobs use too: an estimate.
	NetShared bool

	Origin Origin
	// Weight is what the sample counts against one of rifling-collector's own,
	// 0..1; 0 means 1.
	Weight    float64
	Throttled float64 // part of the interval in which the clocks were held down, 0..1
	// GPUShared marks a sample of GPUs that other jobs use too: an estimate.
	GPUShared bool
}

// Origin says who measured a sample.
type Origin string

// The origins.
const (
	OriginCollector  Origin = ""           // rifling-collector
	OriginPrometheus Origin = "prometheus" // a site's own exporters
	OriginSacct      Origin = "sacct"      // Slurm's accounting, means over a step
)

// Level says how near to the job itself the evidence of a prediction is.
type Level string

// The levels of evidence, nearest first.
const (
	LevelJob     Level = "job"       // the job's own counters
	LevelFamily  Level = "family"    // same user, account, name, command, GPUs
	LevelName    Level = "user+name" // same user and normalized name
	LevelUser    Level = "user"
	LevelClass   Level = "class" // as many GPUs, but for a factor of two, of one type
	LevelCluster Level = "cluster"
	LevelNone    Level = "none"
)

// GroupUnknown is the group of jobs of which nothing is known.
const GroupUnknown = -1

// Profile is what is known of one job at one moment.
type Profile struct {
	JobID  slurm.JobID
	Family string // printable key of the exact family
	GPUs   int

	// LogCC is the natural logarithm of compute time over communication time,
	// as a run across nodes would show it. Count samples support it with
	// variance Var, found at Level. Meaningless when Level is LevelNone.
	LogCC float64
	Count int
	Var   float64
	Level Level

	// Group is the number of the job's group (Group.Index), or GroupUnknown.
	Group int
	// CommBound and ComputeBound tell whether the group's centre lies on that
	// side of the thresholds in Options; an unknown group is neither.
	CommBound, ComputeBound bool

	// NPR is the job's recent rate over its family's best at the same number
	// of GPUs, 0..1; only for running jobs, and only when NPRCount > 0. NPRSD
	// is its standard error, 0 of a single interval.
	NPR, NPRSD float64
	NPRCount   int

	// RunTime is the predicted run time from start to end (the median), never
	// above the time limit; 0 when nothing is known. RunTimeLow and RunTimeHigh
	// are its 0.1- and 0.9-quantiles. RunTimeLevel is the nearest level whose
	// runs are behind at least half of the prediction.
	RunTime, RunTimeLow, RunTimeHigh time.Duration
	RunTimeLevel                     Level
}

// Group is one group of jobs by log cc.
type Group struct {
	// Index is the group's number, >= 0. In the first grouping 0 is the most
	// communication-bound; later a number stays with its group, so that they
	// need not ascend with the centre.
	Index   int
	Center  float64 // mean log cc
	Spread  float64 // standard deviation of log cc
	Members int     // families
}
