// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"rifling/slurm"
)

// GPU is one reading of one GPU.
type GPU struct {
	UUID  string
	Index int // NVML's
	MIG   bool
	PIDs  []int // of the processes that compute there

	Activity float64 // 0..1
	Source   Source  // SourceNone when Activity could not be read

	NVLinkTx, NVLinkRx *reading // nil when not read
	NVLinkSpeed        float64  // bytes per second in one direction, all links; 0 unknown
	PCIeRate           float64  // bytes per second in the busier direction
	PCIeSpeed          float64  // 0 unknown
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
}

// JobSource tells which job a process belongs to, if any.
type JobSource interface {
	Job(pid int) (JobRef, bool)
}
