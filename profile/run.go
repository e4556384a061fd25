// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"maps"
	"slices"
	"time"

	"rifling/slurm"
)

// run is one run of a job on one set of nodes. A requeue, or a change of the
// nodes, begins another.
type run struct {
	JobID slurm.JobID
	ID    identity
	GPUs  int
	Nodes []string
	Few   bool   // on as few nodes as can hold it
	Class string // GPU type: rates compare within one only
	Start time.Time
	Ended time.Time // zero while it runs
	// Suspended runs say nothing of run times; Recorded ones have said it.
	Suspended, Recorded bool

	CC     evidence
	Source Source
	Recent []point // of the rate window, oldest first
	Whole  []point // of the whole run, thinned out evenly
	Stride int     // of the intervals, every Stride-th is in Whole
	Seen   int     // intervals since the first in which the job did anything

	// Intervals that still wait for samples of some nodes, by their number.
	open    map[int64][]Sample
	Settled int64         // number of the last interval that is done with
	Width   time.Duration // of an interval, as the first sample has it
}

func (r *run) spread() bool { return len(r.Nodes) > 1 }

// number returns the number of the interval that a sample falls into. All
// nodes share the numbering, so samples of one interval meet though the
// collectors' clocks tick apart.
func (r *run) number(at time.Time) int64 { return at.UnixNano() / int64(r.Width) }

// put keeps a sample until its interval is complete, and reports whether it
// still could.
func (r *run) put(s Sample) bool {
	if r.Width == 0 {
		r.Width = max(s.Interval, time.Second)
	}
	n := r.number(s.At)
	if n <= r.Settled || slices.ContainsFunc(r.open[n], func(o Sample) bool { return o.Node == s.Node }) {
		return false
	}
	if r.open == nil {
		r.open = map[int64][]Sample{}
	}
	r.open[n] = append(r.open[n], s)
	return true
}

// grace is how many intervals the first node's sample waits for the last's.
const grace = 3

// settle takes the open intervals out that are complete, or too old to become
// so as seen from the newest one and from now, in their order. Those that
// stand for less than half of the job's GPUs are dropped.
func (r *run) settle(now time.Time) [][]Sample {
	if len(r.open) == 0 {
		return nil
	}
	numbers := slices.Sorted(maps.Keys(r.open))
	newest := max(numbers[len(numbers)-1], r.number(now))
	var out [][]Sample
	for _, n := range numbers {
		parts := r.open[n]
		if len(parts) < len(r.Nodes) && newest-n < grace {
			break
		}
		delete(r.open, n)
		r.Settled = n
		gpus := 0
		for i := range parts {
			gpus += parts[i].GPUs
		}
		if 2*gpus >= r.GPUs {
			out = append(out, parts)
		}
	}
	return out
}

// keepPoints bounds the intervals kept of a run, recent and whole each.
const keepPoints = 64

// addPoint takes the rate of one interval in.
func (r *run) addPoint(p point, window time.Duration) {
	if r.Source != p.Source {
		// Activities of two sources do not compare: begin afresh.
		r.Source, r.Recent, r.Whole, r.Seen, r.Stride = p.Source, nil, nil, 0, 1
	}
	if r.Seen == 0 && p.idle() {
		return // still loading
	}
	r.Recent = append(r.Recent, p)
	from := p.At.Add(-window)
	r.Recent = slices.DeleteFunc(r.Recent, func(o point) bool { return o.At.Before(from) })
	if n := len(r.Recent); n > keepPoints {
		r.Recent = slices.Delete(r.Recent, 0, n-keepPoints)
	}
	if r.Seen%r.Stride == 0 {
		r.Whole = append(r.Whole, p)
		if len(r.Whole) == keepPoints {
			r.Whole = everySecond(r.Whole)
			r.Stride *= 2
		}
	}
	r.Seen++
}

func everySecond(p []point) []point {
	out := make([]point, 0, keepPoints)
	for i := 0; i < len(p); i += 2 {
		out = append(out, p[i])
	}
	return out
}
