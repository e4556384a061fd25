// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"time"

	"rifling/slurm"
)

// Book remembers what was seen of jobs and their families. It is not safe for
// concurrent use.
type Book struct {
	opts   Options
	groups []Group
}

// NewBook returns an empty book. Options must be valid: see Options.Validate.
func NewBook(o Options) *Book { return &Book{opts: o} }

// Track learns the jobs of a snapshot: their families, their placements, and,
// of those that have ended, their run times. Call it once a cycle, before Add.
func (b *Book) Track(s *slurm.Snapshot) {}

// History learns the run times of ended jobs from accounting; jobs that Track
// has seen to their end are not counted twice.
func (b *Book) History(jobs []slurm.Job) {}

// Add takes counters in and returns how many samples it refused, by reason.
func (b *Book) Add(samples []Sample) (rejected map[string]int) { return nil }

// Regroup groups the families by log cc when the interval has passed and
// enough of them are known; changed tells whether the groups are others now.
func (b *Book) Regroup(now time.Time) (groups []Group, changed bool) { return b.Groups(), false }

// Groups returns the groups, the most communication-bound first.
func (b *Book) Groups() []Group { return append([]Group(nil), b.groups...) }

// Profiles returns what is known of each pending or running GPU job.
func (b *Book) Profiles(s *slurm.Snapshot) map[slurm.JobID]Profile {
	return map[slurm.JobID]Profile{}
}

// Rate returns the recent NPR of a job that runs or has ended not longer than
// Options.KeepEnded ago; count is the number of intervals behind it, 1 when
// only the model of the job's own run supports it. Not ok: no evidence.
func (b *Book) Rate(id slurm.JobID) (npr float64, count int, ok bool) { return 0, 0, false }

// MeanNPR is Rate over the whole run so far; count 0 means no evidence.
func (b *Book) MeanNPR(id slurm.JobID) (npr float64, count int) { return 0, 0 }

// ANPR returns the GPU-weighted mean NPR of the running jobs that have one, and
// how many GPUs those hold.
func (b *Book) ANPR(s *slurm.Snapshot) (anpr float64, gpus int) { return 0, 0 }

// Member is one family, for reports.
type Member struct {
	Family string // printable key
	LogCC  float64
	Var    float64 // of LogCC
	Count  int     // intervals that support LogCC, the older ones weighing less
	Spread bool    // seen across nodes; else scaled from runs on one node
	Group  int     // index, or GroupUnknown
	Runs   int     // run times remembered
	Seen   time.Time
}

// Members returns the families, by key.
func (b *Book) Members() []Member { return nil }

// MarshalJSON writes a check-point of the book, without its options.
func (b *Book) MarshalJSON() ([]byte, error) { return []byte("{}"), nil }

// UnmarshalJSON reads a check-point; the options stay those of NewBook. On an
// error the book is as it was.
func (b *Book) UnmarshalJSON(data []byte) error { return nil }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
