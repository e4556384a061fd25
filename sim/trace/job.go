// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math"
	"time"
)

// Job is one job of a trace. What a trace does not tell is zero, but for the
// fields that say otherwise.
type Job struct {
	Line int    // of the file, from 1; 0 in formats without lines
	ID   string // as the trace has it

	Submit   time.Duration // since the trace's zero
	Duration time.Duration // run time as recorded, or alone and packed where the trace is a model's
	Limit    time.Duration // what the user asked for; 0 not told
	Wait     time.Duration // what the job really waited; negative when not told

	// GPUs are processors in traces of CPU clusters; 0 only for a job that
	// asks for CPUs alone beside jobs with GPUs.
	GPUs  int
	Nodes int // asked for; 0 not told
	// Milli is the part of one GPU in thousandths that a job with GPUs = 1
	// asks for; 1000 in all others.
	Milli  int
	CPUs   int     // asked for; 0 not told
	Memory float64 // bytes; 0 not told

	User, Group, Name, Queue string
	Completed                bool // false where it failed or was cancelled

	Model      string  // the program, in traces that name it
	Batch      int     // of the program, per job
	Iterations float64 // work in iterations or samples, where Duration does not tell
	// Stages are the model's parts of an iteration in seconds (Muri: storage,
	// CPU, GPU); nil where not told.
	Stages []float64
	// Estimate is a predicted amount of GPU time in seconds, with its errors;
	// NaN where the trace has none.
	Estimate float64
	Priority int
}

// check says what makes a job impossible, or "".
func (j *Job) check(o Options) string {
	switch {
	case j.Submit < 0:
		return "negative submit time"
	case j.Duration < 0:
		return "negative duration"
	case j.Duration == 0 && j.Iterations == 0:
		return "no duration"
	case j.Limit < 0:
		return "negative time limit"
	case j.GPUs < 0 || j.GPUs == 0 && j.CPUs == 0:
		return "no GPUs or processors"
	case o.MaxGPUs > 0 && j.GPUs > o.MaxGPUs:
		return "larger than the cluster"
	case j.Iterations < 0 || math.IsNaN(j.Iterations) || math.IsInf(j.Iterations, 0):
		return "odd number of iterations"
	case j.ID == "":
		return "no job id"
	}
	return ""
}

// RowError is a row that cannot be right.
type RowError struct {
	Line int
	What string
}

func (p RowError) Error() string { return fmt.Sprintf("line %d: %s", p.Line, p.What) }

// Report is what was read and what was left out.
type Report struct {
	Rows int // data rows seen
	Jobs int // handed on
	// Left counts rows that were left out, by what was wrong with them, and
	// First has the first few of them.
	Left  map[string]int
	First []RowError
	// Unsorted counts rows that were submitted before the row above them. They
	// are handed on; ReadAll sorts.
	Unsorted int
}

// keepProblems bounds Report.First.
const keepProblems = 20

func (r *Report) leave(line int, what string) {
	if r.Left == nil {
		r.Left = map[string]int{}
	}
	r.Left[what]++
	if len(r.First) < keepProblems {
		r.First = append(r.First, RowError{line, what})
	}
}

// Seconds turns a number of seconds into a duration of whole microseconds; ok
// is false for what is no number or does not fit.
func Seconds(s float64) (d time.Duration, ok bool) {
	const most = math.MaxInt64 / 1e9 / 2
	if math.IsNaN(s) || s > most || s < -most {
		return 0, false
	}
	return time.Duration(math.Round(s*1e6)) * time.Microsecond, true
}
