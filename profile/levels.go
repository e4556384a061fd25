// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"math"
	"slices"
	"sort"
	"time"

	"rifling/slurm"
)

// wideFamilies is how many families the user and the cluster level need before
// they say anything of a job of none of them.
const wideFamilies = 3

// index answers for all jobs of one cycle from the families of each level.
type index struct {
	book    *Book
	members map[levelKey][]*family
	cc      map[levelKey]*ccAnswer
	times   map[levelKey]*durations
}

type levelKey struct {
	level Level
	id    identity
}

// backOff lists the levels beyond the job itself, nearest first.
var backOff = [...]Level{LevelFamily, LevelName, LevelUser, LevelCluster}

func (b *Book) index() *index {
	x := &index{b, map[levelKey][]*family{}, map[levelKey]*ccAnswer{}, map[levelKey]*durations{}}
	for _, f := range b.sorted() {
		for _, l := range backOff {
			k := levelKey{l, f.ID.wider(l)}
			x.members[k] = append(x.members[k], f)
		}
	}
	return x
}

// Profiles returns what is known of each pending or running GPU job.
func (b *Book) Profiles(s *slurm.Snapshot) map[slurm.JobID]Profile {
	x := b.index()
	out := map[slurm.JobID]Profile{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.WantsGPU() && j.Total() > 0 && (j.Pending() || j.Running()) {
			out[j.ID] = x.profile(j, s.TakenAt)
		}
	}
	return out
}

func (x *index) profile(j *slurm.Job, now time.Time) Profile {
	b := x.book
	id := identify(j)
	p := Profile{JobID: j.ID, Family: id.String(), GPUs: id.GPUs, Group: GroupUnknown, Level: LevelNone}
	if a := x.logCC(j, id); a != nil {
		p.LogCC, p.Var, p.Count, p.Level = a.mean, a.variance, a.count, a.level
		g := b.nearest(a.mean)
		if g != nil && (a.level == LevelJob || math.Sqrt(a.variance) <= b.opts.MaxGroupSD) {
			cc := math.Exp(g.Center)
			p.Group = g.Index
			p.CommBound = cc < b.opts.CommBoundBelow
			p.ComputeBound = cc > b.opts.ComputeBoundAbove
		}
	}
	if j.Running() {
		p.NPR, p.NPRCount, _ = b.Rate(j.ID)
	}
	p.RunTime, p.RunTimeLevel = x.runTime(j, id, now)
	return p
}

// ccAnswer is what one level says of log cc.
type ccAnswer struct {
	mean, variance float64
	count          int
	level          Level
}

// logCC asks level by level, nearest first; nil when none knows.
func (x *index) logCC(j *slurm.Job, id identity) *ccAnswer {
	b := x.book
	if single(j) {
		s := b.single()
		return &ccAnswer{s.Mean, 0, s.count(), LevelJob}
	}
	if r := b.runs[j.ID]; r != nil {
		if s, _, ok := r.CC.best(b.now, b.opts); ok {
			return &ccAnswer{s.Mean, s.variance(), s.count(), LevelJob}
		}
	}
	for _, l := range backOff {
		k := levelKey{l, id.wider(l)}
		a, asked := x.cc[k]
		if !asked {
			a = x.mix(k)
			x.cc[k] = a
		}
		if a != nil {
			return a
		}
	}
	return nil
}

// single reports whether the job has one GPU and cannot get more: a pending
// record's total is a lower bound where its number of nodes is open.
func single(j *slurm.Job) bool {
	open := j.Pending() && j.MaxNodes > 1 && j.Request.PerJob == 0
	return j.Total() == 1 && !open
}

// mix puts the families of one level together, each with a bounded weight, its
// variance being theirs and that between them. Families of a single GPU are
// left out: what they lack says nothing of others.
func (x *index) mix(k levelKey) *ccAnswer {
	var sum stat
	within, families, count := 0.0, 0, 0
	for _, f := range x.members[k] {
		s, _, ok := x.book.evidenceOf(f)
		if !ok || f.ID.GPUs == 1 {
			continue
		}
		w := min(s.W, mostWeight)
		sum.add(s.Mean, w, time.Time{}, time.Hour)
		within += w * s.variance()
		count += s.count()
		families++
	}
	wide := k.level == LevelUser || k.level == LevelCluster
	if families == 0 || wide && families < wideFamilies {
		return nil
	}
	return &ccAnswer{sum.Mean, sum.variance() + within/sum.W, count, k.level}
}

// runTime predicts how long the job takes from start to end: the median of
// the nearest level that knows, of a running job the median of those runs that
// took longer than it has taken.
func (x *index) runTime(j *slurm.Job, id identity, now time.Time) (time.Duration, Level) {
	elapsed := time.Duration(0)
	if j.Running() && !j.StartTime.IsZero() {
		elapsed = max(0, now.Sub(j.StartTime))
	}
	for _, l := range backOff {
		d := x.durations(levelKey{l, id.wider(l)})
		if len(d.took) == 0 || (l == LevelUser || l == LevelCluster) && len(d.took) < x.book.opts.MinRuns {
			continue
		}
		t := d.median(elapsed)
		if j.TimeLimit > 0 && !j.Unlimited {
			t = min(t, j.TimeLimit)
		}
		return t, l
	}
	return 0, LevelNone
}

// durations are the run times of one level, ascending, with the sum of the
// weights up to and including each.
type durations struct {
	took []time.Duration
	upTo []float64
}

func (x *index) durations(k levelKey) *durations {
	if d := x.times[k]; d != nil {
		return d
	}
	var all []runTime
	for _, f := range x.members[k] {
		all = append(all, f.Times...)
	}
	slices.SortFunc(all, func(a, b runTime) int {
		return cmp.Or(cmp.Compare(a.Took, b.Took), a.Ended.Compare(b.Ended), cmp.Compare(a.JobID, b.JobID))
	})
	d := &durations{make([]time.Duration, len(all)), make([]float64, len(all))}
	sum := 0.0
	for i, t := range all {
		sum += fade(x.book.now.Sub(t.Ended), x.book.opts.HalfLife)
		d.took[i], d.upTo[i] = t.Took, sum
	}
	x.times[k] = d
	return d
}

// median returns the weighted median of the run times above elapsed; twice
// elapsed where there are none, as long again being all that can be said.
func (d *durations) median(elapsed time.Duration) time.Duration {
	from := sort.Search(len(d.took), func(i int) bool { return d.took[i] > elapsed })
	if from == len(d.took) {
		return 2 * elapsed
	}
	before := 0.0
	if from > 0 {
		before = d.upTo[from-1]
	}
	half := (before + d.upTo[len(d.upTo)-1]) / 2
	i := from + sort.SearchFloat64s(d.upTo[from:], half)
	return d.took[min(i, len(d.took)-1)]
}
