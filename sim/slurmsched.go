// SPDX-License-Identifier: Apache-2.0

package sim

import "time"

// main is the main scheduler: in the order of priority, each job that can start
// now starts, and the first of a partition that cannot closes the partition and
// its nodes to those behind.
func (m *SlurmModel) main() {
	st := m.st
	m.mainLast = st.now
	m.squeeze()
	m.blocked.clear()
	clear(m.failed)
	open, looked := len(m.failed), 0
	for _, j := range m.queue {
		if open == 0 {
			return
		}
		if looked++; m.Settings.Depth > 0 && looked > m.Settings.Depth && !m.full {
			m.full = true
			m.wantMain(st.now.Truncate(m.Settings.Interval) + m.Settings.Interval)
			return
		}
		if m.failed[j.part] || !m.usage.allows(j) {
			continue
		}
		m.reach(m.avail, j)
		m.avail.andNot(m.blocked)
		m.avail.andNot(st.c.closing)
		if on := m.fit.try(j, m.avail, st.c.now()); on != nil {
			m.start(j, on, false)
			continue
		}
		m.failed[j.part] = true
		open--
		m.blocked.or(st.c.partitions[j.part].nodes)
	}
	m.full = false
}

// reach makes set the nodes that the job may use at all.
func (m *SlurmModel) reach(set NodeSet, j *JobState) {
	c := m.st.c
	set.copyFrom(c.partitions[j.part].nodes)
	set.and(c.upSet)
	if j.Excluded != nil {
		set.andNot(j.Excluded)
	}
	if t := j.Request.GPUType; t != "" {
		set.and(c.kinds[t])
	}
}

func (m *SlurmModel) start(j *JobState, on []Alloc, backfilled bool) {
	j.backfilled = backfilled
	m.st.Start(j, on)
	m.usage.start(j)
	if !m.Settings.NoBackfill {
		m.plan.add(j)
	}
	m.dirty = true
}

// backfill is one pass of sched/backfill: in the order of priority each waiting
// job gets the earliest place that no job before it is planned on. What can
// start now starts; the rest is planned.
func (m *SlurmModel) backfill() {
	m.squeeze()
	m.plan.refresh()
	s := &m.Settings
	m.space.reset(m.st.now, m.st.now+s.BackfillWindow, m.st.c.upSet)
	tested, started := 0, 0
	for _, j := range m.queue {
		if s.BackfillDepth > 0 && (tested >= s.BackfillDepth || m.space.made >= s.BackfillDepth) {
			return
		}
		if j.Status != Pending || !m.usage.allows(j) {
			continue
		}
		tried, ran := m.place(j)
		if tried {
			tested++
		}
		if ran {
			if started++; s.BackfillMaxStart > 0 && started >= s.BackfillMaxStart {
				return
			}
		}
	}
}

// place starts or plans one job.
func (m *SlurmModel) place(j *JobState) (tried, started bool) {
	now, s := m.st.now, &m.Settings
	least, _ := j.nodeRange()
	limit := j.Bound
	if limit <= 0 {
		limit = unlimited
	}
	m.reach(m.base, j)
	windowEnd := now + s.BackfillWindow
	for from := now; from <= windowEnd; {
		later := m.space.narrow(m.avail, m.base, m.trial, from, from+limit)
		at, on := time.Duration(0), []Alloc(nil)
		if m.avail.Len() >= least {
			tried = true
			at, on = m.when(j, m.avail)
			at = max(at, from)
		}
		if on == nil {
			if later == 0 {
				return tried, false
			}
			from = later
			continue
		}
		begin, end := m.rounded(at), m.rounded(at+limit)
		if at > now && m.space.clashes(begin, end, on) {
			if from == at {
				at += max(s.BackfillResolution, time.Second)
			}
			from = at
			continue
		}
		if at <= now && !meetAny(on, m.st.c.closing) {
			m.start(j, on, true)
			return true, true
		}
		if at > now && later > 0 && at > later {
			from = later
			continue
		}
		if at <= windowEnd && !m.space.clashes(begin, end, on) {
			m.space.reserve(begin, end, on, s.BackfillResolution)
		}
		return tried, false
	}
	return tried, false
}

// rounded is a time in backfill's resolution.
func (m *SlurmModel) rounded(at time.Duration) time.Duration {
	if r := m.Settings.BackfillResolution; r > 0 {
		return (at + m.Settings.Phase).Truncate(r) - m.Settings.Phase
	}
	return at
}

func meetAny(on []Alloc, set NodeSet) bool {
	for _, a := range on {
		if set.Has(int(a.Node)) {
			return true
		}
	}
	return false
}
