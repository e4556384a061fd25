// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"time"

	"rifling/slurm"
)

// wideFamilies is how many families the user, class and cluster levels need
// before they say anything of a job of none of them.
const wideFamilies = 3

// index answers for all jobs of one cycle from the families of each level.
type index struct {
	book     *Book
	members  map[levelKey][]*family
	times    map[levelKey]map[time.Duration]*durations // by limit
	cc       map[levelKey]*ccAnswer
	mixtures map[mixtureKey]*mixture
}

type levelKey struct {
	level Level
	id    identity
}

type mixtureKey struct {
	id    identity
	class string
	limit time.Duration
}

// backOff lists the levels beyond the job itself, nearest first.
var backOff = [...]Level{LevelFamily, LevelName, LevelUser, LevelClass, LevelCluster}

// lookup is what an index keeps from one cycle to the next.
type lookup struct {
	members map[levelKey][]*family
	times   map[levelKey]map[time.Duration]*durations
	classes map[string]string // GPU type of the partitions that have one only
}

func (b *Book) index() *index {
	if b.members == nil {
		b.members, b.times = map[levelKey][]*family{}, map[levelKey]map[time.Duration]*durations{}
		for _, f := range b.sorted() {
			for _, l := range backOff {
				k := levelKey{l, f.ID.wider(l, f.Class)}
				b.members[k] = append(b.members[k], f)
			}
		}
	}
	return &index{b, b.members, b.times, map[levelKey]*ccAnswer{}, map[mixtureKey]*mixture{}}
}

// keepTime has a family remember a run time.
func (b *Book) keepTime(f *family, t runTime) {
	if !f.addTime(t) {
		return
	}
	b.kept++
	if len(b.times) > 0 {
		for _, l := range backOff {
			delete(b.times, levelKey{l, f.ID.wider(l, f.Class)})
		}
	}
}

// classes returns the GPU type of each partition whose nodes have one only.
func classes(s *slurm.Snapshot) map[string]string {
	byNode, out := map[string]string{}, map[string]string{}
	for i := range s.Nodes {
		if s.Nodes[i].GPUs > 0 {
			byNode[s.Nodes[i].Name] = s.Nodes[i].GPUType
		}
	}
	for _, p := range s.Partitions {
		for i, n := range p.Nodes {
			if t, ok := byNode[n]; ok && i > 0 && out[p.Name] != "" && out[p.Name] != t {
				out[p.Name] = ""
				break
			} else if ok {
				out[p.Name] = t
			}
		}
	}
	return out
}

// classOf returns the type of GPU that a job has or will get, "" where more
// than one is possible.
func (b *Book) classOf(j *slurm.Job) string {
	if j.Request.Type != "" {
		return j.Request.Type
	}
	if r := b.runs[j.ID]; r != nil && r.Class != "" && !j.Pending() {
		return r.Class
	}
	return b.classes[j.Partition]
}

// Profiles returns what is known of each pending or running GPU job.
func (b *Book) Profiles(s *slurm.Snapshot) map[slurm.JobID]Profile {
	b.classes = classes(s)
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
	id, class := identify(j), b.classOf(j)
	p := Profile{JobID: j.ID, Family: id.String(), GPUs: id.GPUs, Group: GroupUnknown, Level: LevelNone}
	if a := x.logCC(j, id, class); a != nil {
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
		p.NPR, p.NPRSD, p.NPRCount = b.rate(j.ID)
	}
	x.runTime(&p, j, id, class, now)
	return p
}

// ccAnswer is what one level says of log cc.
type ccAnswer struct {
	mean, variance float64
	count          int
	level          Level
}

// logCC asks level by level, nearest first; nil when none knows.
func (x *index) logCC(j *slurm.Job, id identity, class string) *ccAnswer {
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
		k := levelKey{l, id.wider(l, class)}
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
	if families == 0 || k.level.wide() && families < wideFamilies {
		return nil
	}
	return &ccAnswer{sum.Mean, sum.variance() + within/sum.W, count, k.level}
}
