// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"rifling/slurm"
)

// Book remembers what was seen of jobs and their families. It is not safe for
// concurrent use.
type Book struct {
	opts Options
	book
	lookup
}

// book is what a check-point keeps.
type book struct {
	now      time.Time // of the last snapshot
	runs     map[slurm.JobID]*run
	families map[identity]*family
	groups   []Group
	grouped  time.Time // of the last regrouping
	former   []former  // groups that are gone, by when they went
	auto     autoK     // where k is not configured
	kept     int       // run times, at least as many as there are
}

// NewBook returns an empty book. Options must be valid: see Options.Validate.
func NewBook(o Options) *Book {
	return &Book{opts: o, book: book{runs: map[slurm.JobID]*run{}, families: map[identity]*family{}}}
}

// Track learns the jobs of a snapshot: their families, their placements, and,
// of those that have ended, their run times. Call it once a cycle, before Add.
func (b *Book) Track(s *slurm.Snapshot) {
	b.now = s.TakenAt
	most := mostGPUs(s)
	b.classes = classes(s)
	types := map[string]string{}
	for i := range s.Nodes {
		types[s.Nodes[i].Name] = s.Nodes[i].GPUType
	}
	here := map[slurm.JobID]bool{}
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !j.WantsGPU() || j.Total() < 1 {
			continue
		}
		here[j.ID] = true
		r := b.follow(j)
		if r == nil || len(r.Nodes) == 0 {
			continue
		}
		if m := most[j.Partition]; m > 0 {
			r.Few = len(r.Nodes) <= (r.GPUs+m-1)/m
		}
		r.Class = types[r.Nodes[0]]
		b.setClass(b.family(r.ID), r.Class)
	}
	for id, r := range b.runs {
		b.settle(r)
		if here[id] {
			continue
		}
		if r.Ended.IsZero() {
			r.Ended = b.now // gone without a word: no run time
		}
		if b.now.Sub(r.Ended) > b.opts.KeepEnded {
			delete(b.runs, id)
		}
	}
	b.forget()
}

// mostGPUs returns the GPUs of each partition's largest node.
func mostGPUs(s *slurm.Snapshot) map[string]int {
	byNode := map[string]int{}
	for i := range s.Nodes {
		byNode[s.Nodes[i].Name] = s.Nodes[i].GPUs
	}
	most := map[string]int{}
	for _, p := range s.Partitions {
		for _, n := range p.Nodes {
			most[p.Name] = max(most[p.Name], byNode[n])
		}
	}
	return most
}

// follow brings the job's run up to date and returns it; nil for a job in a
// state of which there is nothing to learn.
func (b *Book) follow(j *slurm.Job) *run {
	r := b.runs[j.ID]
	started := j.Running() || j.State.Base == "SUSPENDED"
	if !started && !j.Done() {
		if r != nil && r.Ended.IsZero() {
			r.Ended = b.now // requeued
		}
		return nil
	}
	fresh := r == nil || !r.isOf(j)
	if fresh {
		r = &run{JobID: j.ID, Start: j.StartTime, Nodes: slices.Clone(j.Nodes), Stride: 1}
		b.runs[j.ID] = r
	}
	if fresh || started {
		r.ID, r.GPUs = identify(j), j.Total()
	}
	b.family(r.ID).Seen = b.now
	if started {
		r.Ended = time.Time{}
		r.Suspended = r.Suspended || !j.Running()
		return r
	}
	if r.Ended.IsZero() {
		r.Ended = b.now
		if !j.EndTime.IsZero() && j.EndTime.Before(b.now) {
			r.Ended = j.EndTime
		}
	}
	b.recordTime(j, r)
	return r
}

// isOf reports whether this is the run that the job's record speaks of. The
// record of an ended job may have lost its start and its nodes.
func (r *run) isOf(j *slurm.Job) bool {
	if j.Done() {
		return j.StartTime.IsZero() || r.Start.Equal(j.StartTime)
	}
	return r.Start.Equal(j.StartTime) && slices.Equal(r.Nodes, j.Nodes)
}

// recordTime keeps the run time of a run that came to its own end or to its
// limit. One that failed or was cancelled says nothing of how long the work
// takes, and one that was suspended says too much.
func (b *Book) recordTime(j *slurm.Job, r *run) {
	if r.Recorded {
		return
	}
	r.Recorded = true
	took := j.EndTime.Sub(j.StartTime)
	natural := j.State.Base == "COMPLETED" || j.State.Base == "TIMEOUT"
	if !natural || r.Suspended || j.StartTime.IsZero() || took <= 0 {
		return
	}
	if j.State.Base == "TIMEOUT" && j.TimeLimit > 0 {
		took = min(took, j.TimeLimit) // Slurm looks at limits every so often only
	}
	b.keepTime(b.family(r.ID), runTime{
		JobID: j.ID, Took: took, Limit: limitOf(j), Submit: j.SubmitTime, Ended: j.EndTime, Runs: 1,
	})
}

func (b *Book) family(id identity) *family {
	f := b.families[id]
	if f == nil {
		f = &family{ID: id}
		b.families[id] = f
		b.members = nil
	}
	return f
}

// setClass notes the type of GPU that a family runs on.
func (b *Book) setClass(f *family, class string) {
	if class != "" && class != f.Class {
		f.Class = class
		b.members = nil
	}
}

// forget drops the families seen longest ago beyond the most that are kept.
func (b *Book) forget() {
	b.thin()
	if len(b.families) <= b.opts.MaxFamilies {
		return
	}
	fs := b.sorted()
	slices.SortStableFunc(fs, func(x, y *family) int { return x.Seen.Compare(y.Seen) })
	for _, f := range fs[:len(fs)-b.opts.MaxFamilies] {
		delete(b.families, f.ID)
	}
	b.members = nil
}

// thin drops the oldest run times of all families alike beyond the most that
// are kept.
func (b *Book) thin() {
	if b.kept <= mostTimes {
		return
	}
	for {
		b.kept = 0
		most := 0
		for _, f := range b.families {
			b.kept += len(f.Times)
			most = max(most, len(f.Times))
		}
		if b.kept <= mostTimes || most < 4 {
			return
		}
		for _, f := range b.families {
			if n := len(f.Times); n > most/2 {
				f.thin(n / 2)
			}
		}
		b.members = nil
	}
}

// sorted returns the families in the order of their keys, so that sums over
// them come out the same whatever the order of the map.
func (b *Book) sorted() []*family {
	return slices.SortedFunc(maps.Values(b.families), func(x, y *family) int {
		return x.ID.compare(y.ID)
	})
}

func (id identity) compare(o identity) int {
	return cmp.Or(cmp.Compare(id.User, o.User), cmp.Compare(id.Account, o.Account),
		cmp.Compare(id.Name, o.Name), cmp.Compare(id.Command, o.Command), cmp.Compare(id.GPUs, o.GPUs))
}

// Add takes counters in and returns how many samples it refused, by reason
// (the Refused constants). The order of the samples makes no difference.
func (b *Book) Add(samples []Sample) (rejected map[string]int) {
	rejected = map[string]int{}
	in := slices.Clone(samples)
	slices.SortFunc(in, compareSamples)
	touched := map[slurm.JobID]bool{}
	for i := range in {
		r := b.runs[in[i].JobID]
		if r == nil {
			rejected[RefusedUnknownJob]++
			continue
		}
		if why := b.refuse(&in[i], r); why != "" {
			rejected[why]++
			continue
		}
		if !r.put(in[i]) {
			rejected[RefusedLate]++
			continue
		}
		touched[r.JobID] = true
	}
	for _, id := range slices.Sorted(maps.Keys(touched)) {
		b.settle(b.runs[id])
	}
	return rejected
}

// compareSamples orders samples by time; what else it looks at only serves to
// make the order of two that differ the same each time.
func compareSamples(a, b Sample) int {
	return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Node, b.Node),
		cmp.Compare(a.Compute, b.Compute), cmp.Compare(a.NetRate, b.NetRate),
		cmp.Compare(a.NVLinkRate, b.NVLinkRate), cmp.Compare(a.PCIeRate, b.PCIeRate),
		cmp.Compare(a.GPUs, b.GPUs), cmp.Compare(a.Interval, b.Interval), cmp.Compare(a.Source, b.Source),
		cmp.Compare(a.NetSpeed, b.NetSpeed), cmp.Compare(a.NVLinkSpeed, b.NVLinkSpeed),
		cmp.Compare(a.PCIeSpeed, b.PCIeSpeed), cmp.Compare(a.Weight, b.Weight), cmp.Compare(a.Throttled, b.Throttled))
}

// settle turns the run's complete intervals into evidence.
func (b *Book) settle(r *run) {
	complete := r.settle(b.now)
	if len(complete) == 0 {
		return
	}
	f := b.family(r.ID)
	for _, parts := range complete {
		o := b.observe(r, parts)
		if o.known {
			r.CC.add(o, b.opts.HalfLife)
			f.CC.add(o, b.opts.HalfLife)
		}
		r.addPoint(o.point, b.opts.RateWindow)
	}
	if len(r.Whole) >= b.opts.MinSamples {
		f.addRate(r)
	}
}

// Member is one family, for reports.
type Member struct {
	Family string  // printable key
	LogCC  float64 // meaningless when Count is 0
	Var    float64 // of LogCC
	Count  int     // intervals that support LogCC, the older ones weighing less
	Spread bool    // seen across nodes; else scaled from runs on one node
	Group  int     // index, or GroupUnknown
	Runs   int     // run times remembered
	Seen   time.Time
}

// Members returns the families, by key.
func (b *Book) Members() []Member {
	out := make([]Member, 0, len(b.families))
	for _, f := range b.sorted() {
		m := Member{Family: f.ID.String(), Group: GroupUnknown, Runs: len(f.Times), Seen: f.Seen}
		s, spread, ok := b.evidenceOf(f)
		if s.count() > 0 {
			m.LogCC, m.Var, m.Count, m.Spread = s.Mean, s.variance(), s.count(), spread
		}
		if ok && (math.Sqrt(m.Var) <= b.opts.MaxGroupSD) {
			m.Group = b.groupOf(m.LogCC)
		}
		out = append(out, m)
	}
	return out
}

// evidenceOf returns what is known of a family's log cc. One of a single GPU
// needs no counters: it has nobody to communicate with.
func (b *Book) evidenceOf(f *family) (s stat, spread, ok bool) {
	if f.ID.GPUs == 1 {
		return b.single(), false, true
	}
	return f.CC.best(b.now, b.opts)
}

func (b *Book) single() stat {
	return stat{W: float64(b.opts.MinSamples), Mean: math.Log(b.opts.MaxCC), At: b.now}
}
