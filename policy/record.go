// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// Names of the plans that no policy made: of the first cycle, which takes back
// what an earlier process left, and of a clean stop.
const (
	PlanRecover = "recover"
	PlanStop    = "stop"
)

// Record is what a cycle leaves in the history before its first write.
type Record struct {
	At       time.Time // Snapshot.TakenAt
	Mode     string    // "observe" or "steer"
	Seed     uint64
	Jobs     []slurm.Job // GPU jobs of managed partitions, pending, running and just ended
	Profiles map[slurm.JobID]profile.Profile
	Samples  []profile.Sample
	Plan     Plan
	Changes  []Change
	Forget   []slurm.JobID // owner records of jobs that are gone from Slurm
	Renew    []Owner       // owner records whose life is prolonged without a write to Slurm
	GPUs     int           // of usable managed nodes
	GPUsUsed int
	// FreeSplit is how many of the free GPUs lie on usable nodes that jobs have
	// a part of: whole-node jobs cannot have them. Unevenness is the standard
	// deviation, over usable nodes with GPUs, of the part of each that is in use.
	FreeSplit  int
	Unevenness float64
	ANPR       float64 // GPU-weighted mean NPR of the running jobs that have one; 0 when none has
	ANPRGPUs   int     // GPUs behind ANPR
	Odd        map[string]int
}
