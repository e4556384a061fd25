// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"rifling/slurm"
)

// Engine moves a simulated cluster from event to event. Nothing in it depends
// on the machine it runs on: the same jobs and scheduler give the same results,
// to the bit. An Engine is used once and by one goroutine.
type Engine struct {
	st      State
	sched   Scheduler
	source  Source
	sink    Sink
	next    Job // the next of the source
	more    bool
	outages []outage
	result  Result
	stats   Stats
	ids     int
	idle    int // passes in a row that started nothing on an empty cluster
}

type outage struct {
	at   time.Duration
	node int
	up   bool
}

// maxIdle is after how many passes in a row without a start, with nothing
// running and nothing to come, the waiting jobs are taken to wait for ever.
const maxIdle = 20000

// NewEngine returns an engine for the cluster. sink may be nil.
func NewEngine(spec Spec, sched Scheduler, source Source, sink Sink) (*Engine, error) {
	c, err := newCluster(spec)
	if err != nil {
		return nil, err
	}
	if sink == nil {
		sink = func(*Result) {}
	}
	e := &Engine{st: State{c: c}, sched: sched, source: source, sink: sink}
	for _, o := range spec.Outages {
		e.outages = append(e.outages, outage{o.Down, c.index[o.Node], false})
		if o.Up > 0 {
			e.outages = append(e.outages, outage{o.Up, c.index[o.Node], true})
		}
	}
	slices.SortStableFunc(e.outages, func(a, b outage) int { return cmp.Compare(a.at, b.at) })
	e.next, e.more = source()
	return e, nil
}

// State is the cluster. Outside of a scheduler's Pass it may be read, and
// changed by State.Update.
func (e *Engine) State() *State { return &e.st }

// Run goes to the end: until every job has ended.
func (e *Engine) Run() (Stats, error) {
	for {
		if more, err := e.Step(); err != nil || !more {
			return e.Stats(), err
		}
	}
}

// Stats tells what was done so far.
func (e *Engine) Stats() Stats {
	s := e.stats
	s.End = e.st.now
	return s
}

// Done reports whether every job has ended.
func (e *Engine) Done() bool {
	return !e.more && e.st.pending.live == 0 && len(e.st.ends) == 0
}

// Next tells when something happens next; ok is false when nothing will.
func (e *Engine) Next() (at time.Duration, ok bool) {
	if e.Done() {
		return 0, false
	}
	at = math.MaxInt64
	if len(e.st.ends) > 0 {
		at = e.st.ends[0].endAt
	}
	if e.more {
		at = min(at, e.next.Submit)
	}
	if len(e.outages) > 0 {
		at = min(at, e.outages[0].at)
	}
	if len(e.st.wakes) > 0 {
		at = min(at, e.st.wakes[0])
	}
	return max(at, e.st.now), at < math.MaxInt64
}

// RunTo handles all that happens up to and at the given time, and makes that
// the time of the simulation.
func (e *Engine) RunTo(at time.Duration) error {
	for {
		next, ok := e.Next()
		if !ok || next > at {
			e.advance(max(e.st.now, at))
			return nil
		}
		if _, err := e.Step(); err != nil {
			return err
		}
	}
}

// Step handles the next instant at which something happens; more is false when
// all is done. Its errors are a scheduler's breach of the rules, a source that
// is not sorted, and jobs that wait for ever.
func (e *Engine) Step() (more bool, err error) {
	st := &e.st
	now, ok := e.Next()
	if !ok {
		if e.Done() {
			return false, nil
		}
		return false, e.stuck()
	}
	e.advance(now)
	st.pending.squeeze()
	st.running.squeeze()
	for len(st.ends) > 0 && st.ends[0].endAt <= now {
		e.end(st.ends[0])
	}
	for len(e.outages) > 0 && e.outages[0].at <= now {
		e.outage(e.outages[0])
		e.outages = e.outages[1:]
	}
	for e.more && e.next.Submit <= now {
		if err := e.submit(); err != nil {
			return false, err
		}
	}
	if len(st.wakes) > 0 && st.wakes[0] <= now {
		st.wakes = slices.Delete(st.wakes, 0, 1)
		st.changed |= Woken
	}
	return true, e.pass()
}

// advance moves the time on.
func (e *Engine) advance(to time.Duration) {
	if st := &e.st; st.pending.live > 0 {
		dt := (to - st.now).Seconds()
		e.stats.Idle += dt * float64(st.c.idle)
		e.stats.Scattered += dt * float64(st.c.scattered)
	}
	e.st.now = to
}

func (e *Engine) pass() error {
	st := &e.st
	what, before := st.changed, st.starts
	if what&^(Woken|Updated) != 0 {
		st.version++
	}
	if st.changed = 0; what == 0 {
		return st.err
	}
	e.stats.Passes++
	e.sched.Pass(st, what)
	clear(st.arrived)
	clear(st.gone)
	st.arrived, st.gone = st.arrived[:0], st.gone[:0]
	if st.starts != before {
		st.version++
	}
	if st.starts == before && !e.more && len(st.ends) == 0 && len(e.outages) == 0 && st.pending.live > 0 {
		if e.idle++; e.idle > maxIdle {
			return e.stuck()
		}
	} else {
		e.idle = 0
	}
	return st.err
}

// stuck is the error of jobs that wait for ever.
func (e *Engine) stuck() error {
	if e.st.err != nil {
		return e.st.err
	}
	var ids []slurm.JobID
	for j := range e.st.Pending() {
		if ids = append(ids, j.ID); len(ids) == 5 {
			break
		}
	}
	return fmt.Errorf("policy %s starts none of the %d waiting jobs (%v ...) though nothing runs",
		e.sched.Name(), e.st.pending.live, ids)
}

var errUnsorted = errors.New("jobs are not sorted by their submit times")

// submit takes the next job from the source into the queue.
func (e *Engine) submit() error {
	st := &e.st
	j := &JobState{Job: e.next, Seq: e.ids, FirstRun: -1, pos: -1, Rate: 1}
	e.ids++
	e.stats.Events++
	if j.ID == 0 {
		j.ID = slurm.JobID(e.ids)
	}
	e.next, e.more = e.source()
	if e.more && e.next.Submit < j.Submit {
		return fmt.Errorf("job %d at %v comes after one at %v: %w", e.ids+1, e.next.Submit, j.Submit, errUnsorted)
	}
	j.GPUs = j.Request.Total()
	j.NiceNow = j.Nice
	part, known := st.c.partIndex[j.Partition]
	j.part = part
	excluded, err := st.c.setOf(j.Request.Exclude)
	j.Excluded = excluded
	nowhere := err != nil || !known && j.Partition != ""
	if nowhere || j.GPUs < 1 || !st.c.could(j) {
		e.emit(j, Impossible)
		return nil
	}
	j.Bound = st.c.bound(&j.Job, part)
	st.c.tight = st.c.tight || !j.simple()
	st.pending.add(j)
	st.arrived = append(st.arrived, j)
	st.changed |= Submitted
	e.stats.MostLive = max(e.stats.MostLive, st.pending.live+st.running.live)
	return nil
}

// end handles a job whose time in the heap has come: its run ends, or its GPUs
// become free.
func (e *Engine) end(j *JobState) {
	st := &e.st
	e.stats.Events++
	if j.Status == Completing {
		st.ends.remove(j)
		for _, a := range j.Alloc {
			if st.c.completing[a.Node]--; st.c.completing[a.Node] == 0 {
				st.c.closing.Remove(int(a.Node))
			}
		}
		st.release(j)
		if j.how == Failed && j.Requeue {
			st.requeue(j)
		} else {
			j.Status = Ended
		}
		return
	}
	st.progress(j)
	st.stop(j)
	st.changed |= Finished
	again := j.how == Failed && j.Requeue
	if again {
		j.Restarts++
		j.Done, j.penalty = 0, 0
	} else {
		e.emit(j, j.how)
	}
	if delay := st.c.spec.EndDelay; delay > 0 {
		j.Status = Completing
		for _, a := range j.Alloc {
			st.c.completing[a.Node]++
			st.c.touched.Add(int(a.Node)) // it is expected back at another time now
			st.c.closing.Add(int(a.Node))
		}
		j.endAt = st.now + delay
		st.ends.push(j)
		return
	}
	st.release(j)
	j.Status = Ended
	if again {
		st.requeue(j)
	}
}

// outage takes a node out of service, with its jobs back to the queue, or in.
func (e *Engine) outage(o outage) {
	st := &e.st
	if o.up {
		st.c.setUp(o.node, true)
		st.changed |= NodesUp
		return
	}
	st.c.setUp(o.node, false)
	st.changed |= NodesDown
	for j := range st.Running() {
		if !j.on(o.node) {
			continue
		}
		st.stop(j)
		st.release(j)
		j.Restarts++
		j.Done, j.penalty = 0, 0
		st.requeue(j)
	}
}

func (j *JobState) on(node int) bool {
	for _, a := range j.Alloc {
		if int(a.Node) == node {
			return true
		}
	}
	return false
}

// emit hands the result over.
func (e *Engine) emit(j *JobState, how Outcome) {
	e.stats.Jobs++
	r := &e.result
	*r = Result{
		Job: j.Job, Seq: j.Seq, GPUs: j.GPUs, Outcome: how, FirstRun: j.FirstRun, Start: j.Start, End: e.st.now,
		Alloc: j.Alloc, Ran: j.Ran, NPR: 1, Restarts: j.Restarts, Preempted: j.Preempted, Backfilled: j.backfilled,
	}
	if how == Impossible {
		r.FirstRun, r.Start, r.End, r.NPR = j.Submit, j.Submit, j.Submit, 0
	} else if took := e.st.now - j.begins; took > 0 && j.Model != nil {
		r.NPR = float64(j.Done-j.doneBefore) / float64(took)
		if how == Completed {
			r.NPR = float64(j.Work-j.doneBefore) / float64(took)
		}
	}
	e.sink(r)
}
