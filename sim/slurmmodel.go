// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// SlurmSettings are the words of slurm.conf that decide when a job starts.
// Start from DefaultSlurm.
type SlurmSettings struct {
	// The main scheduler: it runs after submissions, not more often than
	// BatchDelay (batch_sched_delay), after ends, not more often than
	// MinInterval (sched_min_interval), and every Interval (sched_interval).
	BatchDelay, MinInterval, Interval time.Duration
	Depth                             int // default_queue_depth
	// Poll is how often slurmctld's threads look whether there is work.
	Poll time.Duration

	NoBackfill         bool          // sched/builtin
	BackfillInterval   time.Duration // bf_interval
	BackfillWindow     time.Duration // bf_window
	BackfillResolution time.Duration // bf_resolution
	BackfillDepth      int           // bf_max_job_test
	BackfillMaxStart   int           // bf_max_job_start; 0: no limit
	ArrayReserve       int           // bf_max_job_array_resv
	// Phase is what the wall clock shows past a full minute when the
	// simulation begins: slurmctld rounds times by the clock.
	Phase time.Duration

	// Cores tells that the GPUs of the simulation are cores to Slurm, not
	// generic resources: nodes are then compared by all that is free on them.
	Cores bool

	Basic    bool // priority/basic: first come, first served
	Weights  PriorityWeights
	MaxAge   time.Duration // PriorityMaxAge
	HalfLife time.Duration // PriorityDecayHalfLife; 0: usage never fades
	Calc     time.Duration // PriorityCalcPeriod
	// FavorSmall is PriorityFavorSmall.
	FavorSmall bool
}

// PriorityWeights are the PriorityWeight options.
type PriorityWeights struct {
	Age, FairShare, JobSize, Partition, QOS float64
}

// DefaultSlurm returns Slurm's own defaults, with multifactor weights as many
// sites have them: ageing and fair share count, size a little.
func DefaultSlurm() SlurmSettings {
	return SlurmSettings{
		BatchDelay: 3 * time.Second, Interval: time.Minute, Depth: 100, Poll: time.Second,
		BackfillInterval: 30 * time.Second, BackfillWindow: 24 * time.Hour, BackfillResolution: time.Minute,
		BackfillDepth: 500, ArrayReserve: 20,
		Weights: PriorityWeights{Age: 1000, FairShare: 2000, JobSize: 200, Partition: 1000, QOS: 1000},
		MaxAge:  7 * 24 * time.Hour, HalfLife: 7 * 24 * time.Hour, Calc: 5 * time.Minute,
	}
}

// SlurmModel is slurmctld as far as it decides what starts where: its priority
// plugins, the main scheduler, sched/backfill, and the fit of
// select/cons_tres with or without topology/tree. It is made from reading
// Slurm's documentation and source, and checked against a real slurmctld
// (docs/design/simulator.md).
type SlurmModel struct {
	Settings SlurmSettings

	st     *State
	queue  []*JobState // pending, the next to start first; with started ones until squeezed
	usage  usage
	calcAt time.Duration // of the last calculation of priorities

	mainAt, mainLast time.Duration // when the main scheduler runs next (-1: not asked for) and ran last
	full             bool          // the next run looks at the whole queue
	backAt, backLast time.Duration // the same of backfill
	dirty            bool          // something changed since the last backfill pass
	ticking          bool          // backfill passes follow one another, since jobs wait
	waiting          bool          // jobs waited when the last Pass ended

	fit   fitter
	plan  plan
	space space

	avail, base, blocked, trial NodeSet
	failed                      []bool // partitions whose first job could not start
}

// NewSlurm returns a model with the given settings.
func NewSlurm(s SlurmSettings) *SlurmModel {
	return &SlurmModel{Settings: s, mainAt: -1, mainLast: math.MinInt64 / 2, backLast: math.MinInt64 / 2, backAt: -1}
}

// Name is "slurm".
func (m *SlurmModel) Name() string { return "slurm" }

func (m *SlurmModel) init(st *State) {
	n := st.Nodes()
	m.st = st
	for _, s := range []*NodeSet{&m.avail, &m.base, &m.blocked, &m.trial} {
		*s = NewNodeSet(n)
	}
	m.failed = make([]bool, len(st.c.partitions))
	m.fit.init(st.c, m.Settings.Cores)
	m.plan.init(st.c)
	m.space.init(n)
	m.usage.init(st.c, m.Settings)
}

// Pass does what slurmctld's threads would do at this instant.
func (m *SlurmModel) Pass(st *State, what Change) {
	if m.st == nil {
		m.init(st)
	}
	now := st.now
	m.tick(now)
	m.follow(what)
	if what&(Submitted|Requeued|Updated|NodesUp) != 0 {
		m.wantMain(max(m.poll(now), m.mainLast+m.Settings.BatchDelay))
		m.dirty = true
	}
	if what&Freed != 0 {
		m.wantMain(max(now, m.mainLast+m.Settings.MinInterval))
	}
	if what&(Finished|Freed|NodesUp|NodesDown) != 0 {
		m.dirty = true
	}
	m.calculate()
	if m.mainAt >= 0 && now >= m.mainAt {
		m.mainAt = -1
		m.main()
	}
	if m.backAt >= 0 && now >= m.backAt {
		m.backAt = -1
		if m.dirty && st.pending.live > 0 {
			m.dirty = false
			m.backLast = now
			m.backfill()
			m.ticking = true
		}
	}
	m.next()
	m.waiting = st.pending.live > 0
}

// tick accounts for the backfill passes that were due since the last event and
// left out because nothing had changed. As long as jobs wait, each pass touches
// their estimates, and so is followed by the next one after BackfillInterval;
// with an empty queue slurmctld looks every Poll whether there is work.
func (m *SlurmModel) tick(now time.Duration) {
	every := m.Settings.BackfillInterval
	if !m.ticking || every <= 0 || m.backAt >= 0 {
		return
	}
	passed := (now - m.backLast).Truncate(every)
	switch {
	case passed <= 0:
	case !m.waiting:
		m.ticking = false
	default:
		m.backLast += passed
	}
}

// poll is the first look of a slurmctld thread after an event now.
func (m *SlurmModel) poll(now time.Duration) time.Duration {
	p := m.Settings.Poll
	if p <= 0 {
		return now
	}
	return now.Truncate(p) + p
}

func (m *SlurmModel) wantMain(at time.Duration) {
	if m.mainAt < 0 || at < m.mainAt {
		m.mainAt = at
	}
}

// next asks for the calls that are due without an event.
func (m *SlurmModel) next() {
	if m.st.pending.live == 0 {
		return
	}
	if m.mainAt >= 0 {
		m.st.Wake(m.mainAt)
	}
	if !m.Settings.NoBackfill && m.dirty && m.backAt < 0 {
		if m.backAt = m.backLast + m.Settings.BackfillInterval; !m.ticking {
			m.backAt = max(m.backAt, m.poll(m.st.now))
		}
	}
	if m.backAt >= 0 {
		m.st.Wake(m.backAt)
	}
}

// follow takes note of jobs that came, ended or were changed.
func (m *SlurmModel) follow(what Change) {
	for _, j := range m.st.gone {
		m.usage.end(j, m.st.now)
	}
	if what&(Submitted|Requeued) != 0 {
		m.squeeze()
		for _, j := range m.st.arrived {
			if j.Restarts+j.Preempted > 0 { // it may still stand there from before
				m.queue = slices.DeleteFunc(m.queue, func(o *JobState) bool { return o == j })
			}
			if j.Status == Pending {
				m.usage.add(j)
				m.setPriority(j)
				m.insert(j)
			}
		}
	}
	if what&Updated != 0 {
		for _, j := range m.queue {
			m.setPriority(j)
		}
		m.sort()
	}
}

// insert puts the job where its priority says.
func (m *SlurmModel) insert(j *JobState) {
	if n := len(m.queue); n == 0 || m.compare(m.queue[n-1], j) < 0 {
		m.queue = append(m.queue, j)
		return
	}
	i, _ := slices.BinarySearchFunc(m.queue, j, m.compare)
	m.queue = slices.Insert(m.queue, i, j)
}

func (m *SlurmModel) sort() {
	if !slices.IsSortedFunc(m.queue, m.compare) {
		slices.SortFunc(m.queue, m.compare)
	}
}

// compare orders by the partition's tier, then priority, then job id.
func (m *SlurmModel) compare(a, b *JobState) int {
	if a.part != b.part {
		if c := cmp.Compare(m.st.c.partitions[b.part].Tier, m.st.c.partitions[a.part].Tier); c != 0 {
			return c
		}
	}
	if a.Priority != b.Priority {
		return cmp.Compare(b.Priority, a.Priority)
	}
	if a.ID != b.ID {
		return cmp.Compare(a.ID, b.ID)
	}
	return cmp.Compare(a.Seq, b.Seq)
}

// squeeze drops started jobs from the queue.
func (m *SlurmModel) squeeze() {
	m.queue = slices.DeleteFunc(m.queue, func(j *JobState) bool { return j.Status != Pending })
}
