// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// never is later than any time of a simulation.
const never = time.Duration(math.MaxInt64)

// unlimited is how long slurmctld takes a job without a limit to run.
const unlimited = 365 * 24 * time.Hour

// firstWindow is the span of ends that slurmctld takes together when it looks
// for the time at which a job could start; it doubles with each step.
const firstWindow = 30 * time.Second

// plan tells when running jobs will have given back what a waiting job needs,
// if they run to their limits.
type plan struct {
	c *cluster
	// ready[g][n] is when node n has g GPUs, each with a CPU, free; 0 now.
	ready  [][]time.Duration
	orders []*readyOrder // by g, of those that were asked for
	order  []*JobState   // that hold GPUs, by expected end
	later  view          // scratch: what is free at some later time
	ends   []release     // scratch
}

type release struct {
	at         time.Duration
	gpus, cpus int32
}

func (p *plan) init(c *cluster) {
	n := len(c.free)
	p.c = c
	p.ready = make([][]time.Duration, c.most+1)
	p.orders = make([]*readyOrder, c.most+1)
	for g := range p.ready {
		p.ready[g] = make([]time.Duration, n)
	}
	p.later = view{make([]int32, n), make([]int32, n)}
	c.touched.or(c.all)
}

// holdEnd is when slurmctld expects the job's GPUs back.
func (j *JobState) holdEnd() time.Duration {
	switch {
	case j.Status == Completing:
		return j.endAt
	case j.Bound > 0:
		return j.Start + j.Bound
	}
	return j.Start + unlimited
}

// refresh takes in what happened since the last look.
func (p *plan) refresh() {
	p.rows()
	p.order = slices.DeleteFunc(p.order, func(j *JobState) bool { return j.Status != Running && j.Status != Completing })
	if !slices.IsSortedFunc(p.order, byHoldEnd) {
		slices.SortFunc(p.order, byHoldEnd)
	}
}

func byHoldEnd(a, b *JobState) int {
	return cmp.Or(cmp.Compare(a.holdEnd(), b.holdEnd()), cmp.Compare(a.Seq, b.Seq))
}

// add takes in a job that started.
func (p *plan) add(j *JobState) {
	if len(p.order) > 1000 && len(p.order) > 2*p.c.holders {
		p.refresh()
	}
	if j.Restarts+j.Preempted > 0 {
		p.order = slices.DeleteFunc(p.order, func(o *JobState) bool { return o == j })
	}
	i, _ := slices.BinarySearchFunc(p.order, j, byHoldEnd)
	p.order = slices.Insert(p.order, i, j)
}

// rows brings ready up to date for the nodes whose jobs changed.
func (p *plan) rows() {
	for n := range p.c.touched.All() {
		p.row(n)
	}
	p.c.touched.clear()
}

func (p *plan) row(n int) {
	p.ends = p.ends[:0]
	for _, j := range p.c.holds[n] {
		r := release{at: j.holdEnd()}
		for _, a := range j.Alloc {
			if int(a.Node) == n {
				r.gpus, r.cpus = a.GPUs, a.CPUs
			}
		}
		p.ends = append(p.ends, r)
	}
	slices.SortFunc(p.ends, func(a, b release) int { return cmp.Compare(a.at, b.at) })
	gpus, cpus := p.c.free[n], p.c.freeCPUs[n]
	at, g := time.Duration(0), int32(0)
	for i := 0; ; i++ {
		for ; g <= min(gpus, cpus); g++ {
			p.set(int(g), n, at)
		}
		if i == len(p.ends) {
			break
		}
		at, gpus, cpus = p.ends[i].at, gpus+p.ends[i].gpus, cpus+p.ends[i].cpus
	}
	for ; int(g) <= p.c.most; g++ {
		p.set(int(g), n, never)
	}
}

func (p *plan) set(g, n int, at time.Duration) {
	if p.ready[g][n] == at {
		return
	}
	p.ready[g][n] = at
	if o := p.orders[g]; o != nil {
		o.move(n)
	}
}

// sorted is the order in which nodes will have each GPUs free.
func (p *plan) sorted(each int) *readyOrder {
	if p.orders[each] == nil {
		p.orders[each] = newReadyOrder(p.ready[each])
	}
	return p.orders[each]
}

// windows goes through the ends of jobs on nodes of avail as slurmctld does: in
// spans that all count from the first end, rounded up to firstWindow by the
// wall clock, and that double until the next end is inside. Each call of yield
// stands for one such span, at the last end in it; the first upTo jobs of order
// will then have ended.
func (p *plan) windows(avail NodeSet, phase time.Duration, yield func(at time.Duration, upTo int) bool) {
	base, window := time.Duration(-1), firstWindow
	for i := 0; i < len(p.order); {
		if !p.order[i].meets(avail) {
			i++
			continue
		}
		end := p.order[i].holdEnd()
		if base < 0 {
			base = spanBase(end, phase)
		}
		for base+window < end {
			window *= 2
		}
		last := end
		for ; i < len(p.order) && p.order[i].holdEnd() <= base+window; i++ {
			if p.order[i].meets(avail) {
				last = p.order[i].holdEnd()
			}
		}
		if yield(last, i) {
			return
		}
		window *= 2
	}
}

func (j *JobState) meets(avail NodeSet) bool {
	for _, a := range j.Alloc {
		if avail.Has(int(a.Node)) {
			return true
		}
	}
	return false
}

// at returns what is free when the first upTo jobs of order will have ended.
func (p *plan) at(from, upTo int) view {
	if from == 0 {
		copy(p.later.free, p.c.free)
		copy(p.later.cpus, p.c.freeCPUs)
	}
	for _, j := range p.order[from:upTo] {
		for _, a := range j.Alloc {
			p.later.free[a.Node] += a.GPUs
			p.later.cpus[a.Node] += a.CPUs
		}
	}
	return p.later
}

// when returns the earliest time at which the job could start on nodes of
// avail, and where, as far as the jobs that run now decide. It is nil when it
// never could. The time is one of slurmctld's steps, so it may be later than
// need be.
func (m *SlurmModel) when(j *JobState, avail NodeSet) (at time.Duration, on []Alloc) {
	now := m.st.now
	if on := m.fit.try(j, avail, m.st.c.now()); on != nil {
		return now, on
	}
	p := &m.plan
	p.rows()
	if each := j.perNode(); each > 0 && j.simple() && !m.fit.cores {
		least, _ := j.nodeRange()
		nodes := p.sorted(each)
		exact := nodes.nth(avail, least)
		if exact == never {
			return 0, nil
		}
		end, limit := p.step(avail, m.Settings.Phase, exact)
		return max(end, now+time.Second), m.fit.later(j, avail, nodes, limit)
	}
	done := 0
	p.windows(avail, m.Settings.Phase, func(end time.Duration, upTo int) bool {
		v := p.at(done, upTo)
		done = upTo
		if on = m.fit.try(j, avail, v); on != nil {
			at = max(end, now+time.Second) // a job past its limit is still there
		}
		return on != nil
	})
	return at, on
}

// step finds the span of windows in which a time lies, without going through
// those before: the last end in it, and its limit.
func (p *plan) step(avail NodeSet, phase, at time.Duration) (end, limit time.Duration) {
	i := 0
	for i < len(p.order) && !p.order[i].meets(avail) {
		i++
	}
	if i == len(p.order) {
		return at, at
	}
	limit = spanBase(p.order[i].holdEnd(), phase) + firstWindow
	for base, window := limit-firstWindow, firstWindow; limit < at; limit = base + window {
		window *= 2
	}
	k, _ := slices.BinarySearchFunc(p.order, limit, func(j *JobState, limit time.Duration) int {
		if j.holdEnd() <= limit {
			return -1
		}
		return 1
	})
	for k > i+1 && !p.order[k-1].meets(avail) {
		k--
	}
	return p.order[k-1].holdEnd(), limit
}

// spanBase is where the spans of windows begin to count, by the first end.
func spanBase(end, phase time.Duration) time.Duration {
	return end + firstWindow - (end+phase)%firstWindow
}
