// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"math"
	"slices"
	"time"

	"rifling/sim"
)

// queued is a scheduler that never takes GPUs back.
type queued struct {
	name  string
	key   keyFunc // nil: by arrival
	place placer
	see   func(st *sim.State) // learns from what came, before each pass
	skip  bool                // a job that does not fit is passed over
	// backfill holds a place for the first job that does not fit.
	backfill bool

	jobs []ranked
	out  []sim.Alloc
	free []int // scratch of shadow
}

type ranked struct {
	key float64
	job *sim.JobState
}

// Name is what tables call it.
func (q *queued) Name() string { return q.name }

// Pass starts what can start.
func (q *queued) Pass(st *sim.State, _ sim.Change) {
	if q.see != nil {
		q.see(st)
	}
	if st.PendingLen() == 0 || st.InUse() == st.TotalGPUs() {
		return
	}
	q.jobs = q.jobs[:0]
	for j := range st.Pending() {
		r := ranked{job: j}
		if q.key != nil {
			r.key = q.key(st, j)
		}
		q.jobs = append(q.jobs, r)
	}
	sortRanked(q.jobs)
	var at time.Duration
	var held []bool // nodes of the first that does not fit
	for _, r := range q.jobs {
		q.out = q.place(st, r.job, q.out[:0])
		switch {
		case len(q.out) > 0 && (held == nil || keepsOff(st, r.job, q.out, at, held)):
			st.Start(r.job, q.out)
			if st.InUse() == st.TotalGPUs() {
				return
			}
		case q.skip || held != nil:
		case !q.backfill:
			return
		default:
			at, held = q.shadow(st, r.job)
		}
	}
}

func sortRanked(jobs []ranked) {
	slices.SortFunc(jobs, func(a, b ranked) int {
		return cmp.Or(cmp.Compare(a.key, b.key), cmp.Compare(a.job.Seq, b.job.Seq))
	})
}

// keepsOff reports whether the job on these nodes does not hold up one that is
// to start at the given time on the nodes held.
func keepsOff(st *sim.State, j *sim.JobState, on []sim.Alloc, at time.Duration, held []bool) bool {
	if j.Bound > 0 && st.Now()+j.Bound <= at {
		return true
	}
	return !slices.ContainsFunc(on, func(a sim.Alloc) bool { return held[a.Node] })
}

// shadow finds when the job could start on the fewest nodes by the limits of
// what runs, and where.
func (q *queued) shadow(st *sim.State, j *sim.JobState) (time.Duration, []bool) {
	q.free = q.free[:0]
	for n := range st.Nodes() {
		q.free = append(q.free, st.FreeGPUs(n))
	}
	var running []*sim.JobState
	for r := range st.Running() {
		running = append(running, r)
	}
	slices.SortStableFunc(running, func(a, b *sim.JobState) int { return cmp.Compare(endByLimit(a), endByLimit(b)) })
	for i, r := range running {
		for _, a := range r.Alloc {
			q.free[a.Node] += int(a.GPUs)
		}
		at := endByLimit(r)
		if i+1 < len(running) && endByLimit(running[i+1]) == at {
			continue
		}
		if held := fewestOf(st, j, q.free); held != nil {
			return at, held
		}
	}
	return math.MaxInt64, make([]bool, st.Nodes())
}

func endByLimit(j *sim.JobState) time.Duration {
	if j.Bound == 0 {
		return math.MaxInt64
	}
	return j.Start + j.Bound
}

// fewestOf chooses nodes with so many GPUs free, the fullest that suffice; nil
// when there are none.
func fewestOf(st *sim.State, j *sim.JobState, free []int) []bool {
	held := make([]bool, len(free))
	for _, g := range parts(st, j) {
		best := -1
		for n, f := range free {
			if f >= g && !held[n] && (best < 0 || f < free[best]) {
				best = n
			}
		}
		if best < 0 {
			return nil
		}
		held[best] = true
	}
	return held
}

// preemptive lets the jobs that come first by the order have the GPUs, and
// takes them from the rest.
type preemptive struct {
	name   string
	key    keyFunc   // nil: by the queues of limits
	limits []float64 // attained GPU seconds
	cost   time.Duration

	jobs []ranked
	out  []sim.Alloc
}

// Name is what tables call it.
func (p *preemptive) Name() string { return p.name }

// Pass preempts and starts.
func (p *preemptive) Pass(st *sim.State, _ sim.Change) {
	p.jobs = p.jobs[:0]
	add := func(j *sim.JobState) {
		r := ranked{job: j}
		if p.key != nil {
			r.key = p.key(st, j)
		} else {
			r.key = p.level(st, j)
		}
		p.jobs = append(p.jobs, r)
	}
	for j := range st.Running() {
		add(j)
	}
	for j := range st.Pending() {
		add(j)
	}
	sortRanked(p.jobs)
	free, keep := st.TotalGPUs(), p.jobs[:0]
	for n := range st.Nodes() {
		if !st.Up(n) {
			free -= st.GPUs(n)
		}
	}
	for _, r := range p.jobs {
		switch {
		case r.job.GPUs <= free:
			free -= r.job.GPUs
			keep = append(keep, r)
		case r.job.Status == sim.Running:
			st.Preempt(r.job, p.cost)
		}
	}
	for _, r := range keep {
		if r.job.Status != sim.Pending {
			continue
		}
		if p.out = placeBest(st, r.job, p.out[:0]); len(p.out) > 0 {
			st.Start(r.job, p.out)
		}
	}
	p.wake(st)
}

// attained is the GPU time that a job had, in seconds.
func attained(st *sim.State, j *sim.JobState) float64 {
	ran := j.Ran
	if j.Status == sim.Running {
		ran += st.Now() - j.Start
	}
	return ran.Seconds() * float64(j.GPUs)
}

// level is the queue of a job; in each, those that run come first.
func (p *preemptive) level(st *sim.State, j *sim.JobState) float64 {
	had, q := attained(st, j), 0
	for q < len(p.limits) && had >= p.limits[q] {
		q++
	}
	level := 2 * float64(q)
	if j.Status != sim.Running {
		level++
	}
	return level
}

// wake asks for a pass when the next running job changes its queue.
func (p *preemptive) wake(st *sim.State) {
	next := math.Inf(1)
	for j := range st.Running() {
		had := attained(st, j)
		for _, l := range p.limits {
			if had < l {
				next = min(next, (l-had)/float64(max(1, j.GPUs)))
				break
			}
		}
	}
	if !math.IsInf(next, 1) && st.PendingLen() > 0 {
		st.Wake(st.Now() + time.Duration(math.Ceil(next*1e3))*time.Millisecond)
	}
}
