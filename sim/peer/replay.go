// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"fmt"
	"math"
	"slices"
)

// Work is one job as the published simulators know it. Times are seconds.
type Work struct {
	ID     string
	GPUs   int
	Submit float64
	// Iterations of IterSeconds each are the run time. Both are kept since the
	// simulators count in iterations and so round as they do.
	Iterations  float64
	IterSeconds float64
	// Run is the run time by the trace, which the non-preemptive simulators use.
	Run float64
	// Restart is what Options.RestartInEveryInterval takes, in seconds.
	Restart float64
	// Estimate is a predicted number of GPU seconds, for QSSF.
	Estimate float64
}

// Done is what became of one job, in seconds since the trace's zero.
type Done struct {
	Start, End float64 // first start, end
	Wait       float64 // all time without GPUs
	Preempted  int
}

// Machine is a homogeneous cluster.
type Machine struct{ Nodes, GPUs int }

// Order is the order in which a replay serves jobs.
type Order uint8

// The orders.
const (
	FIFO     Order = iota // by submission; nothing passes the first job that does not fit
	FitFirst              // by submission; what fits may pass
	SRTF                  // shortest remaining time, preemptive
	SRSF                  // shortest remaining GPU time, preemptive
	LAS                   // least attained GPU time in queues, preemptive: Tiresias
	SJF                   // shortest run time, true; nothing passes the first job that does not fit
	QSSF                  // least estimated GPU time, likewise: Helios
)

// Placement says which GPUs a job may take.
type Placement uint8

// The placements.
const (
	// FirstWhole places a job in one node or, when larger than a node, on whole
	// free nodes and one rest: the first that fit by number.
	FirstWhole Placement = iota
	// BestWhole does so with the fullest node that fits. The rest of a job
	// that is larger than a node goes to the emptiest.
	BestWhole
	// Counted takes free GPUs wherever they are.
	Counted
)

// Options are the semantics of the simulators of Tiresias, of Muri, which is
// built on it, and of Helios. In the first two, with a preemptive order, every
// event empties the cluster and places all jobs anew; what was running and does
// not fit now is preempted, at no cost of its own, and moves are free.
type Options struct {
	Order Order
	// Placement of all jobs. Tiresias and Muri count GPUs in LAS, FIFO and
	// FitFirst and place jobs by FirstWhole in SRTF and SRSF; Helios places
	// by BestWhole.
	Placement Placement
	// RestartInEveryInterval is Muri's: whenever an event interrupts the work,
	// every running job has lost Restart seconds since the event before it,
	// but no more than that interval. What ends undisturbed loses nothing.
	RestartInEveryInterval bool
	// Limits are the GPU seconds at which LAS moves a job to the next queue.
	Limits []float64
	// DemoteLate is Tiresias' own reckoning of when a queue's limit is
	// reached: the limit less the job's seconds, over its GPUs, rounded down.
	// Muri's is right: the limit over the GPUs, rounded up, less the seconds.
	DemoteLate bool
	// EstimateLate is Helios's: jobs that come to an empty queue have no
	// estimates yet and are served in the order of their GPUs.
	EstimateLate bool
}

// Replay runs the jobs, ordered by Submit, and returns what became of each.
// It fails when a job can never fit.
func Replay(m Machine, jobs []Work, o Options) ([]Done, error) {
	r := &replay{m: m, o: o, free: make([]int, m.Nodes), done: make([]Done, len(jobs))}
	if o.Order == LAS {
		r.queues = make([][]*task, len(o.Limits)+1)
	}
	for i := range jobs {
		if i > 0 && jobs[i].Submit < jobs[i-1].Submit {
			return nil, fmt.Errorf("job %s is submitted before the one above it", jobs[i].ID)
		}
		r.clear()
		if !r.place(jobs[i].GPUs, nil) {
			return nil, fmt.Errorf("job %s never fits: %d GPUs on %d nodes with %d each", jobs[i].ID, jobs[i].GPUs, m.Nodes, m.GPUs)
		}
	}
	switch o.Order {
	case SRTF, SRSF, LAS:
		r.runPreemptive(jobs)
	default:
		r.runOnce(jobs)
	}
	return r.done, nil
}

// task is a job in the simulation.
type task struct {
	*Work
	seq      int
	left     float64 // iterations
	key      float64 // of the order
	at       float64 // time up to which it is accounted for
	attained float64 // seconds with GPUs
	queue    int     // of LAS
	started  bool
	running  bool
	nodes    []taken // of runOnce
	end      float64 // of runOnce
}

type replay struct {
	m      Machine
	o      Options
	free   []int
	count  int // free GPUs in all
	done   []Done
	live   []*task
	queues [][]*task
	ending []*task // the next to end, all at endAt
	endAt  float64
	jumpAt float64 // when LAS next moves a job to another queue
}

func (r *replay) clear() {
	for i := range r.free {
		r.free[i] = r.m.GPUs
	}
	r.count = r.m.Nodes * r.m.GPUs
}

// runPreemptive is the loop of SRTF, SRSF and LAS.
func (r *replay) runPreemptive(jobs []Work) {
	next := 0
	r.endAt, r.jumpAt = math.Inf(1), math.Inf(1)
	for next < len(jobs) || len(r.live) > 0 {
		arrive := math.Inf(1)
		if next < len(jobs) {
			arrive = jobs[next].Submit
		}
		now := min(arrive, r.endAt)
		if r.jumpAt < now {
			now = r.jumpAt
		} else {
			if r.endAt == now {
				r.finish(now)
			}
			for ; next < len(jobs) && jobs[next].Submit == now; next++ {
				r.submit(&jobs[next], next)
			}
		}
		r.account(now)
		r.choose(now)
		r.lookAhead(now)
	}
}

func (r *replay) submit(w *Work, seq int) {
	t := &task{Work: w, seq: seq, left: w.Iterations, at: w.Submit}
	t.key = r.keyOf(t)
	r.live = append(r.live, t)
	if r.o.Order == LAS {
		r.queues[0] = append(r.queues[0], t)
	}
}

func (r *replay) keyOf(t *task) float64 {
	switch r.o.Order {
	case SRTF:
		return t.left * t.IterSeconds
	case SRSF:
		return t.left * t.IterSeconds * float64(t.GPUs)
	}
	return 0
}

func (r *replay) finish(now float64) {
	for _, t := range r.ending {
		r.done[t.seq].End = now
		r.live = without(r.live, t)
		if r.o.Order == LAS {
			r.queues[t.queue] = without(r.queues[t.queue], t)
		}
	}
	r.ending = r.ending[:0]
}

func without(list []*task, t *task) []*task {
	if i := slices.Index(list, t); i >= 0 {
		return slices.Delete(list, i, i+1)
	}
	return list
}

// account brings all jobs up to now.
func (r *replay) account(now float64) {
	for _, t := range r.live {
		passed, before := now-t.at, t.at
		t.at = now
		if !t.running {
			r.done[t.seq].Wait += passed
			continue
		}
		t.attained = t.attained + now - before // rounds as the simulators do
		if r.o.RestartInEveryInterval {
			passed = max(passed-t.Restart, 0)
		}
		t.left -= passed / t.IterSeconds
		t.key = r.keyOf(t)
		if r.o.Order == LAS && t.queue < len(r.o.Limits) && t.attained*float64(t.GPUs) >= r.o.Limits[t.queue] {
			r.queues[t.queue] = without(r.queues[t.queue], t)
			t.queue++
			r.queues[t.queue] = append(r.queues[t.queue], t)
		}
	}
}

// choose empties the cluster and says anew what runs.
func (r *replay) choose(now float64) {
	r.clear()
	if r.o.Order != LAS {
		slices.SortStableFunc(r.live, func(a, b *task) int { return cmp.Compare(a.key, b.key) })
		r.serve(r.live, now)
		return
	}
	for i := range r.queues {
		r.serve(r.queues[i], now)
		// Those that run stand before those that do not, until the next event.
		slices.SortStableFunc(r.queues[i], func(a, b *task) int {
			switch {
			case a.running == b.running:
				return 0
			case a.running:
				return -1
			}
			return 1
		})
	}
}

func (r *replay) serve(list []*task, now float64) {
	for _, t := range list {
		fits := r.place(t.GPUs, nil)
		switch {
		case fits && !t.started:
			t.started = true
			r.done[t.seq].Start = now
		case !fits && t.running:
			r.done[t.seq].Preempted++
		}
		t.running = fits
	}
}

// lookAhead finds the next ends and the next move between queues.
func (r *replay) lookAhead(now float64) {
	r.ending, r.endAt, r.jumpAt = r.ending[:0], math.Inf(1), math.Inf(1)
	for _, t := range r.live {
		if !t.running {
			continue
		}
		end := now + t.left*t.IterSeconds
		if end < r.endAt {
			r.ending, r.endAt = r.ending[:0], end
		}
		if end == r.endAt {
			r.ending = append(r.ending, t)
		}
		if r.o.Order == LAS && t.queue < len(r.o.Limits) {
			// Rounding may put it at this very instant: the next event sees to it.
			if at := now + r.untilDemoted(t); at > now {
				r.jumpAt = min(r.jumpAt, at)
			}
		}
	}
}

func (r *replay) untilDemoted(t *task) float64 {
	limit, gpus := r.o.Limits[t.queue], float64(t.GPUs)
	if r.o.DemoteLate {
		return math.Floor((limit - t.attained) / gpus)
	}
	return math.Ceil(limit/gpus) - t.attained
}
