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
	Name string // InfiniBand and RoCE: device and port, "mlx5_0/1"; else the interface, "eth0"
	Kind PortKind
	Up   bool // the rest is read of ports that are up only
	// Used tells whether the port counts as a part of the network that jobs
	// train over.
	Used bool
	// Twin is the RoCE port that this interface is the other face of: RDMA is
	// counted there, TCP here. The busier of the two is what the port does.
	Twin string
	// Changes counts how often the link was lost or came, since boot; negative
	// when not known.
	Changes   int64
	Xmit, Rcv reading
	Speed     float64 // bytes per second in one direction; 0 unknown
}

// PortKind is the kind of a network port.
type PortKind string

// The kinds of ports.
const (
	InfiniBand PortKind = "infiniband"
	RoCE       PortKind = "roce"
	Ethernet   PortKind = "ethernet"
)

// NetSource reads a node's network ports.
type NetSource interface {
	Read(odd Odd) ([]Port, error)
}

// Way says how a job was found.
type Way string

// The ways, the surest first, and why there is no job.
const (
	WayCgroup  Way = "cgroup"        // the process's control group names it
	WayEnviron Way = "environ"       // SLURM_JOB_ID of the process
	WayList    Way = "slurm's list"  // Slurm's list of the job's GPUs, of one of its processes
	WayNone    Way = "none"          // a process that is seen, and of no job
	WayHidden  Way = "hidden"        // a process that is not below procfs: gone, or of another PID namespace
	WayClosed  Way = "not permitted" // a process of Slurm whose environment is needed and must not be read
)

// JobRef is the job that a process belongs to.
type JobRef struct {
	ID    slurm.JobID
	Way   Way
	Nodes int    // nodes of the job; 0 when unknown
	Node  string // Slurm's name of the node that it runs as part of; "" unknown
	// NodeSure tells that the control group names Node, as where several slurmd
	// share a machine; else the environment does.
	NodeSure bool
	// GPUs are the minor numbers of the GPUs that Slurm gave the job on this
	// node, UUIDs those that it names so; nil when not known.
	GPUs  []int
	UUIDs []string
}

// JobSource tells which job a process belongs to, if any.
type JobSource interface {
	// Job returns a process's job. Without one, Way says why.
	Job(pid int) (ref JobRef, ok bool)
	// Jobs lists the jobs that have processes on this node, with their GPUs
	// where known: for GPUs whose processes cannot be seen.
	Jobs() []JobRef
	// Next begins a new reading: what was kept of processes that the last one
	// did not ask for is forgotten.
	Next()
}
