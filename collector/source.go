// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"rifling/slurm"
)

// GPU is one reading of one device that Slurm can give to a job: a card, or one
// MIG instance of it.
type GPU struct {
	UUID  string
	Model string // as NVML names the card; "" unknown
	Index int    // NVML's, of the card
	Minor int    // N of /dev/nvidiaN, by which Slurm counts; -1 unknown
	// Card is the UUID of the card that a MIG instance is a part of, "" for a
	// whole card. Part is the instance's part of the card's compute slices, 1
	// for a whole card.
	Card string
	Part float64

	// Processes that compute there. ProcessesKnown is false where NVML cannot
	// list them, as on some vGPUs: no process then means nothing.
	Processes      []Process
	ProcessesKnown bool

	Activity float64 // 0..1
	Source   Source  // SourceNone when Activity could not be read
	// Throttled is the part of the interval in which heat or power held the
	// clocks down, 0..1; negative when not known.
	Throttled float64

	NVLinkTx, NVLinkRx *reading // nil when not read
	NVLinkSpeed        float64  // bytes per second in one direction, all links; 0 unknown
	PCIeTx, PCIeRx     *reading // counters, nil where there are none
	PCIeRate           float64  // bytes per second in the busier direction, where there are no counters
	PCIeSpeed          float64  // 0 unknown
}

// Process is one process on a GPU.
type Process struct {
	PID int
	// Busy is the process's part of the GPU's time in the interval, 0..1;
	// negative when not known.
	Busy float64
}

// GPUSource reads a node's GPUs. What one GPU lacks is left out of its
// reading and counted in odd.
type GPUSource interface {
	Read(now time.Time, odd Odd) ([]GPU, error)
	Close() error
}

// Port is one reading of one network port.
type Port struct {
	Name      string // device and port: "mlx5_0/1"
	Xmit, Rcv reading
	Speed     float64 // bytes per second in one direction; 0 unknown
}

// NetSource reads a node's network ports that are up.
type NetSource interface {
	Read(odd Odd) ([]Port, error)
}

// JobRef is the job that a process belongs to.
type JobRef struct {
	ID    slurm.JobID
	Nodes int // nodes of the job; 0 when unknown
	// GPUs are the minor numbers of the GPUs that Slurm gave the job on this
	// node (SLURM_JOB_GPUS); nil when not known.
	GPUs []int
}

// JobSource tells which job a process belongs to, if any.
type JobSource interface {
	Job(pid int) (JobRef, bool)
	// Jobs lists the jobs that have processes on this node, with their GPUs
	// where known: for GPUs whose processes cannot be seen.
	Jobs() []JobRef
}
