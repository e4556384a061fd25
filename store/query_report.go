// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// ReportKeys lists by what Report can split jobs. "gpu" is the type of GPU that
// was asked for, "day" that of the submission.
var ReportKeys = []string{"user", "account", "partition", "qos", "gpu", "group", "action", "day"}

// ReportQuery says what a report is about.
type ReportQuery struct {
	Filter
	By   []string       // of ReportKeys; none gives one row
	Zone *time.Location // of the days; nil is UTC
	// Switch parts the jobs into those submitted before and from that instant
	// on; a job that was submitted before and started later, so that both times
	// had a hand in it, counts in neither. Zero parts nothing.
	Switch time.Time
	// Blocks asks for the sums by day of submission as well.
	Blocks bool
}

// Sides of a switch.
const (
	SideBefore = "before"
	SideAfter  = "after"
)

// Report is the account of many jobs.
type Report struct {
	Rows        []Figures // by side, then by key
	First, Last time.Time // submission of the first and the last job; zero without jobs
	// Straddling jobs were submitted before Switch and started after it, or
	// still waited: they are in no row.
	Straddling int
}

// Figures is the account of a set of jobs. Times are seconds. What is a mean
// of nothing is 0, and its number of values says so.
type Figures struct {
	Side string   // SideBefore, SideAfter, or "" without a switch
	Key  []string // a word for each of By

	Jobs, Started, Finished int
	GPUHours                float64 // held
	// GPU hours that samples cover, and the same weighed by compute activity.
	MeasuredHours, BusyHours float64

	Wait     Spread // queueing delay from eligible to start, of jobs that started
	JCT      Spread // from submit to end, of jobs that started and ended
	Slowdown Spread // bounded: (wait + run time) / run time of at least 10 s, at least 1; of the same

	// ANPR is the mean normalized processing rate of jobs that have one,
	// weighed by their GPU time.
	ANPR     float64
	ANPRJobs int

	Decided int // jobs that got a decision other than hands off
	Steered int // jobs on which at least one change was applied
	Applied int // changes by outcome
	Skipped int
	Failed  int
	Reward  float64 // mean over episodes
	Rewards int

	Days []Block // oldest first, where asked for
}

// Spread says how values lie. Quantiles of more than 256 values are right
// within 1 %.
type Spread struct {
	N                 int
	Mean, Median, P95 float64
}

// Sum is a sum and the number, or weight, of its terms.
type Sum struct{ Sum, N float64 }

// Block is the sums over the jobs submitted on one day.
type Block struct {
	Day                       time.Time // its begin
	Jobs                      int
	Wait, JCT, Slowdown, ANPR Sum
}

// Report sums up the jobs that pass the query, in one pass over the history:
// what it needs of memory does not grow with the number of jobs.
func (s *Store) Report(ctx context.Context, q ReportQuery) (*Report, error) {
	for _, k := range q.By {
		if !slices.Contains(ReportKeys, k) {
			return nil, slurm.WithHint(fmt.Errorf("jobs cannot be split by %q", k), "use one or more of %s", strings.Join(ReportKeys, ","))
		}
	}
	if q.Zone == nil {
		q.Zone = time.UTC
	}
	t := newTally(q)
	if err := s.scanReport(ctx, t); err != nil {
		return nil, explain(s.path, "sum up the jobs of", err)
	}
	return t.report(), nil
}

// tally sums up rows as they come.
type tally struct {
	q           ReportQuery
	cells       map[string]*cell
	buf         []byte
	days        dayFinder
	first, last int64
	straddling  int
}

// cell is what one row of the report is made of.
type cell struct {
	f                  Figures
	wait, jct, slow    sketch
	nprSum, nprWeight  float64
	gpuSeconds, reward float64
	measuredMs, busyMs float64
	days               map[int64]*Block // by begin of the day, seconds since the epoch
}

func newTally(q ReportQuery) *tally {
	return &tally{q: q, cells: map[string]*cell{}, days: dayFinder{zone: q.Zone}}
}

// run is one job as the pass sees it; times in seconds, -1 for none.
type run struct {
	submit, start       int64
	wait, elapsed, jct  int64
	ended               bool
	gpus                int64
	npr                 float64 // negative: none
	words               []string
	made                bool // a decision other than hands off
	applied, skip, fail int
	reward              float64
	rewards             int
	measured, busy      int64 // milliseconds
}

// slowdownFloor is the run time, in seconds, below which a job's slowdown is
// not made larger; as in the simulator.
const slowdownFloor = 10

func (t *tally) add(r *run) {
	side := ""
	if !t.q.Switch.IsZero() {
		at := t.q.Switch.Unix()
		switch {
		case r.submit >= at:
			side = SideAfter
		case r.wait >= 0 && r.start < at || r.wait < 0 && r.ended:
			side = SideBefore
		default:
			t.straddling++
			return
		}
	}
	if t.first == 0 || r.submit < t.first {
		t.first = r.submit
	}
	t.last = max(t.last, r.submit)
	c := t.cell(side, r.words)
	c.add(r)
	if t.q.Blocks {
		c.block(t.days.begin(r.submit)).add(r)
	}
}

// cell finds the row that a job belongs to.
func (t *tally) cell(side string, words []string) *cell {
	t.buf = append(t.buf[:0], side...)
	for _, w := range words {
		t.buf = append(append(t.buf, 0), w...)
	}
	c, ok := t.cells[string(t.buf)]
	if !ok {
		c = &cell{}
		c.f.Side, c.f.Key = side, append([]string(nil), words...)
		t.cells[string(t.buf)] = c
	}
	return c
}

func (c *cell) add(r *run) {
	f := &c.f
	f.Jobs++
	gpuSeconds := float64(r.gpus) * float64(r.elapsed)
	c.gpuSeconds += gpuSeconds
	c.measuredMs, c.busyMs = c.measuredMs+float64(r.measured), c.busyMs+float64(r.busy)
	if r.ended {
		f.Finished++
	}
	if r.wait >= 0 {
		f.Started++
		c.wait.add(float64(r.wait))
	}
	if r.jct >= 0 {
		c.jct.add(float64(r.jct))
		c.slow.add(r.slowdown())
	}
	if r.npr >= 0 && gpuSeconds > 0 {
		f.ANPRJobs++
		c.nprSum, c.nprWeight = c.nprSum+r.npr*gpuSeconds, c.nprWeight+gpuSeconds
	}
	if r.made {
		f.Decided++
	}
	if r.applied > 0 {
		f.Steered++
	}
	f.Applied, f.Skipped, f.Failed = f.Applied+r.applied, f.Skipped+r.skip, f.Failed+r.fail
	c.reward, f.Rewards = c.reward+r.reward, f.Rewards+r.rewards
}

func (r *run) slowdown() float64 {
	floor := float64(max(r.elapsed, slowdownFloor))
	return max(1, float64(r.wait+r.elapsed)/floor)
}

func (c *cell) block(day int64) *Block {
	if c.days == nil {
		c.days = map[int64]*Block{}
	}
	b, ok := c.days[day]
	if !ok {
		b = &Block{}
		c.days[day] = b
	}
	return b
}

func (b *Block) add(r *run) {
	b.Jobs++
	if r.wait >= 0 {
		b.Wait.add(float64(r.wait), 1)
	}
	if r.jct >= 0 {
		b.JCT.add(float64(r.jct), 1)
		b.Slowdown.add(r.slowdown(), 1)
	}
	if w := float64(r.gpus) * float64(r.elapsed); r.npr >= 0 && w > 0 {
		b.ANPR.add(r.npr*w, w)
	}
}

// merge adds what another tally has seen of other jobs.
func (t *tally) merge(o *tally) {
	for k, c := range o.cells {
		if mine, ok := t.cells[k]; ok {
			mine.merge(c)
		} else {
			t.cells[k] = c
		}
	}
	if t.first == 0 || o.first > 0 && o.first < t.first {
		t.first = o.first
	}
	t.last = max(t.last, o.last)
	t.straddling += o.straddling
}

func (c *cell) merge(o *cell) {
	f, g := &c.f, &o.f
	f.Jobs, f.Started, f.Finished = f.Jobs+g.Jobs, f.Started+g.Started, f.Finished+g.Finished
	f.ANPRJobs, f.Decided, f.Steered = f.ANPRJobs+g.ANPRJobs, f.Decided+g.Decided, f.Steered+g.Steered
	f.Applied, f.Skipped, f.Failed, f.Rewards = f.Applied+g.Applied, f.Skipped+g.Skipped, f.Failed+g.Failed, f.Rewards+g.Rewards
	c.wait.merge(&o.wait)
	c.jct.merge(&o.jct)
	c.slow.merge(&o.slow)
	c.nprSum, c.nprWeight = c.nprSum+o.nprSum, c.nprWeight+o.nprWeight
	c.gpuSeconds, c.reward = c.gpuSeconds+o.gpuSeconds, c.reward+o.reward
	c.measuredMs, c.busyMs = c.measuredMs+o.measuredMs, c.busyMs+o.busyMs
	for day, b := range o.days {
		d := c.block(day)
		d.Jobs += b.Jobs
		d.Wait, d.JCT = d.Wait.Plus(b.Wait), d.JCT.Plus(b.JCT)
		d.Slowdown, d.ANPR = d.Slowdown.Plus(b.Slowdown), d.ANPR.Plus(b.ANPR)
	}
}

func (s *Sum) add(x, weight float64) { s.Sum, s.N = s.Sum+x, s.N+weight }

func (t *tally) report() *Report {
	out := &Report{First: instant(t.first), Last: instant(t.last), Straddling: t.straddling}
	if len(t.q.By) == 0 && len(t.cells) == 0 && t.q.Switch.IsZero() {
		t.cell("", nil)
	}
	for _, c := range t.cells {
		out.Rows = append(out.Rows, c.figures(t.q.Zone))
	}
	slices.SortFunc(out.Rows, func(a, b Figures) int {
		// "after" sorts before "before".
		return cmp.Or(cmp.Compare(b.Side, a.Side), slices.Compare(a.Key, b.Key))
	})
	return out
}

func (c *cell) figures(zone *time.Location) Figures {
	f := c.f
	f.GPUHours = c.gpuSeconds / 3600
	f.MeasuredHours, f.BusyHours = c.measuredMs/3.6e6, c.busyMs/3.6e6
	f.Wait, f.JCT, f.Slowdown = c.wait.spread(), c.jct.spread(), c.slow.spread()
	if c.nprWeight > 0 {
		f.ANPR = c.nprSum / c.nprWeight
	}
	if f.Rewards > 0 {
		f.Reward = c.reward / float64(f.Rewards)
	}
	for _, day := range slices.Sorted(maps.Keys(c.days)) {
		b := *c.days[day]
		b.Day = time.Unix(day, 0).In(zone)
		f.Days = append(f.Days, b)
	}
	return f
}

func (s *sketch) spread() Spread {
	return Spread{N: s.n, Mean: s.mean(), Median: s.quantile(0.5), P95: s.quantile(0.95)}
}

// dayFinder finds the begin of the day of instants; those that follow one
// another are mostly of one day.
type dayFinder struct {
	zone       *time.Location
	start, end int64
}

func (d *dayFinder) begin(at int64) int64 {
	if at >= d.start && at < d.end {
		return d.start
	}
	y, m, day := time.Unix(at, 0).In(d.zone).Date()
	d.start = time.Date(y, m, day, 0, 0, 0, 0, d.zone).Unix()
	d.end = time.Date(y, m, day+1, 0, 0, 0, 0, d.zone).Unix()
	return d.start
}

// GroupName is a group's number, or "unknown".
func GroupName(group int) string {
	if group == profile.GroupUnknown {
		return "unknown"
	}
	return fmt.Sprint(group)
}

// ActionName is what was decided in one word: an action, "skipped" when a guard
// rail kept hands off, or "none" without a decision.
func ActionName(d *Decision) string {
	switch {
	case d == nil:
		return "none"
	case d.Skipped != "":
		return "skipped"
	}
	return string(d.Action)
}
