// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"encoding/json"
	"maps"
	"math"
	"slices"
	"sort"
	"time"

	"rifling/slurm"
)

// The settings of run-time prediction, chosen on the first half of a real trace
// (docs/design/run-times.md).
const (
	// keepTimes bounds the run times kept of a family (the older ones are
	// thinned out when there are more), poolTimes those that a level puts
	// together, wideTimes what one family adds to a wide level, and mostTimes
	// those of the whole book.
	keepTimes, poolTimes, wideTimes, mostTimes = 256, 2048, 32, 65536
	// shrink is how many sessions a level needs before half of the prediction
	// comes from it rather than from the levels above.
	shrink = 3
	// session is the time within which a user's submissions are one session:
	// its n runs count as the square root of n, for they tend to be alike.
	session = 24 * time.Hour
)

// runTime is how long one run of a family took, or what is left of several.
type runTime struct {
	JobID  slurm.JobID
	Took   time.Duration
	Limit  time.Duration // 0: none
	Submit time.Time
	Ended  time.Time
	// Runs is how many runs it stands for, at least 1. Of one that is Flat,
	// which stands for runs of several sessions, it is their weight.
	Runs float64
	Flat bool
}

// MarshalJSON writes a list: a book holds tens of thousands of them.
func (t runTime) MarshalJSON() ([]byte, error) {
	flat := 0.0
	if t.Flat {
		flat = 1
	}
	return json.Marshal([]any{int64(t.JobID), int64(t.Took), int64(t.Limit), nanos(t.Submit), nanos(t.Ended), t.Runs, flat})
}

// UnmarshalJSON also reads the objects of earlier check-points.
func (t *runTime) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		type plain runTime
		t.Runs = 1
		return json.Unmarshal(data, (*plain)(t))
	}
	var n [5]int64
	var flat int
	t.Runs = 1
	list := []any{&n[0], &n[1], &n[2], &n[3], &n[4], &t.Runs, &flat}
	if err := json.Unmarshal(data, &list); err != nil {
		return err
	}
	t.JobID, t.Took, t.Limit = slurm.JobID(n[0]), time.Duration(n[1]), time.Duration(n[2])
	t.Submit, t.Ended, t.Flat = instant(n[3]), instant(n[4]), flat != 0
	return nil
}

func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// addTime takes a run time in, once a run, and reports whether it was new. What
// ended before runs that were thinned out is refused: it may be one of them.
func (f *family) addTime(t runTime) bool {
	if !t.Ended.After(f.Thinned) {
		return false
	}
	i := len(f.Times)
	for i > 0 && f.Times[i-1].Ended.After(t.Ended) {
		i--
	}
	for k := i; k > 0 && f.Times[k-1].Ended.Equal(t.Ended); k-- {
		if f.Times[k-1].JobID == t.JobID {
			return false
		}
	}
	f.Times = slices.Insert(f.Times, i, t)
	if len(f.Times) > keepTimes {
		f.thin(keepTimes * 3 / 4)
	}
	return true
}

// thin makes room among the oldest n run times by putting those together that
// are alike: within sessions, or, where that frees too little, across them.
func (f *family) thin(n int) {
	old := slices.Clone(f.Times[:n])
	f.Thinned = old[n-1].Ended
	kept := merge(old, runTime.sessionNumber)
	if len(kept) > n*7/8 {
		old = kept
		sessions := sessionsOf(old)
		for i, t := range old {
			old[i].Runs, old[i].Flat = sessions.weight(t), true
		}
		kept = merge(old, func(runTime) int64 { return 0 })
	}
	if len(kept) == n {
		kept = kept[n/4:] // all of different limits
	}
	slices.SortFunc(kept, func(a, b runTime) int {
		return cmp.Or(a.Ended.Compare(b.Ended), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Took, b.Took))
	})
	f.Times = append(kept, f.Times[n:]...)
}

// merge puts pairs of neighbours by run time together, of one limit and part
// each, at most a quarter of all: those by which the least is lost of the sum
// of squares of their logarithms (Ward).
func merge(old []runTime, part func(runTime) int64) []runTime {
	slices.SortFunc(old, func(a, b runTime) int {
		return cmp.Or(cmp.Compare(a.Limit, b.Limit), cmp.Compare(part(a), part(b)), flatLast(a, b),
			cmp.Compare(a.Took, b.Took), a.Ended.Compare(b.Ended), cmp.Compare(a.JobID, b.JobID))
	})
	type pair struct {
		at   int // with the next one
		loss float64
	}
	var pairs []pair
	for i := 1; i < len(old); i++ {
		a, b := old[i-1], old[i]
		if a.Limit == b.Limit && part(a) == part(b) && a.Flat == b.Flat {
			d := math.Log(float64(max(b.Took, time.Second)) / float64(max(a.Took, time.Second)))
			pairs = append(pairs, pair{i - 1, d * d * a.Runs * b.Runs / (a.Runs + b.Runs)})
		}
	}
	slices.SortFunc(pairs, func(a, b pair) int { return cmp.Or(cmp.Compare(a.loss, b.loss), cmp.Compare(a.at, b.at)) })
	gone, merged := make([]bool, len(old)), make([]bool, len(old))
	left := len(old) / 4
	for _, p := range pairs {
		if left == 0 {
			break
		}
		if a, b := &old[p.at], &old[p.at+1]; !merged[p.at] && !merged[p.at+1] {
			merged[p.at], merged[p.at+1], gone[p.at] = true, true, true
			*b = together(*a, *b)
			left--
		}
	}
	var kept []runTime
	for i, t := range old {
		if !gone[i] {
			kept = append(kept, t)
		}
	}
	return kept
}

// together is one run time for two.
func together(a, b runTime) runTime {
	w := a.Runs / (a.Runs + b.Runs)
	if a.Ended.After(b.Ended) {
		a, b = b, a
		w = 1 - w
	}
	b.Took += time.Duration(w * float64(a.Took-b.Took))
	b.Runs += a.Runs
	return b
}

func flatLast(a, b runTime) int {
	switch {
	case a.Flat == b.Flat:
		return 0
	case b.Flat:
		return -1
	}
	return 1
}

// sessions counts the runs of each session of submissions.
type sessions map[int64]float64

func sessionsOf(all []runTime) sessions {
	s := sessions{}
	for _, t := range all {
		if !t.Flat {
			s[t.sessionNumber()] += t.Runs
		}
	}
	return s
}

// weight is what a run time counts: of n runs of a session each counts
// 1/sqrt(n).
func (s sessions) weight(t runTime) float64 {
	if t.Flat {
		return t.Runs
	}
	return t.Runs / math.Sqrt(s[t.sessionNumber()])
}

// timesKey names what one level of the back-off says of run times: the runs of
// a level, of all limits or of one.
type timesKey struct {
	level levelKey
	limit time.Duration // -1: all
}

// timesBackOff lists the levels of run times, nearest first. The same limit on
// the same name is the same work more often than not; a limit that is the
// user's alone says nothing of other users' jobs but together with their size.
var timesBackOff = [...]struct {
	level Level
	limit bool // only runs of the same limit
}{
	{LevelFamily, true}, {LevelFamily, false}, {LevelName, true}, {LevelName, false},
	{LevelUser, false}, {LevelClass, true}, {LevelCluster, false},
}

// wide reports whether the level needs several runs (or families) before it
// says anything of a job that it has not seen.
func (l Level) wide() bool { return l == LevelUser || l == LevelClass || l == LevelCluster }

// durations are the run times of one level, ascending, with the sum of the
// weights up to and including each. A weight is as of the newest run's end.
type durations struct {
	took   []time.Duration
	upTo   []float64
	newest time.Time
	// evidence is how many sessions of equal weight stand behind them.
	evidence float64
}

// weight is how much is to be made of the evidence by then. Against other
// levels a level ages slowly: a family not seen for a month is still a better
// guide than all that ran since.
func (d *durations) weight(now time.Time, halfLife time.Duration) float64 {
	return d.evidence * fade(now.Sub(d.newest), 2*halfLife)
}

// below is the part of the weight that lies on run times of at most t, 0..1.
func (d *durations) below(t time.Duration) float64 {
	n := sort.Search(len(d.took), func(i int) bool { return d.took[i] > t })
	if n == 0 {
		return 0
	}
	return d.upTo[n-1] / d.upTo[len(d.upTo)-1]
}

// timesHalfLife is the time in which a run time loses half its weight against
// others of its level.
func (b *Book) timesHalfLife() time.Duration { return b.opts.HalfLife }

// durations gathers the newest run times of a level.
func (x *index) durations(k timesKey) *durations {
	if d := x.times[k.level][k.limit]; d != nil {
		return d
	}
	most := keepTimes
	if l := k.level.level; l == LevelClass || l == LevelCluster {
		most = wideTimes
	}
	var all []runTime
	for _, f := range x.members[k.level] {
		for i, n := len(f.Times)-1, 0; i >= 0 && n < most; i-- {
			if k.limit < 0 || f.Times[i].Limit == k.limit {
				all = append(all, f.Times[i])
				n++
			}
		}
	}
	slices.SortFunc(all, func(a, b runTime) int {
		return cmp.Or(b.Ended.Compare(a.Ended), cmp.Compare(a.JobID, b.JobID), cmp.Compare(a.Took, b.Took))
	})
	all = all[:min(len(all), poolTimes)]
	d := &durations{}
	if len(all) > 0 {
		d = weigh(all, x.book.timesHalfLife())
	}
	if x.times[k.level] == nil {
		x.times[k.level] = map[time.Duration]*durations{}
	}
	x.times[k.level][k.limit] = d
	return d
}

// weigh sorts run times, the newest of which comes first, and weighs them by
// age and by session.
func weigh(all []runTime, halfLife time.Duration) *durations {
	d := &durations{
		took: make([]time.Duration, len(all)), upTo: make([]float64, len(all)),
		newest: all[0].Ended,
	}
	per := sessionsOf(all)
	slices.SortFunc(all, func(a, b runTime) int {
		return cmp.Or(cmp.Compare(a.Took, b.Took), a.Ended.Compare(b.Ended), cmp.Compare(a.JobID, b.JobID))
	})
	sum, squares := 0.0, 0.0
	ofSession := map[int64]float64{}
	for i, t := range all {
		w := fade(d.newest.Sub(t.Ended), halfLife) * per.weight(t)
		sum += w
		d.took[i], d.upTo[i] = t.Took, sum
		if t.Flat {
			squares += w * w
		} else {
			ofSession[t.sessionNumber()] += w
		}
	}
	for _, n := range slices.Sorted(maps.Keys(ofSession)) { // in one order: sums must not differ
		squares += ofSession[n] * ofSession[n]
	}
	d.evidence = sum * sum / squares
	return d
}

func (t runTime) sessionNumber() int64 {
	at := t.Submit
	if at.IsZero() {
		at = t.Ended.Add(-t.Took)
	}
	return at.Unix() / int64(session/time.Second)
}

// mixture is the run times of all levels together: a level with evidence of n
// sessions has n/(n+shrink) of what the nearer ones left, the widest the rest.
type mixture struct {
	parts  []*durations
	share  []float64
	weight []float64
	levels []Level
}

func (x *index) mixture(id identity, class string, limit time.Duration) *mixture {
	k := mixtureKey{id, class, limit}
	if m := x.mixtures[k]; m != nil {
		return m
	}
	b, m, left := x.book, &mixture{}, 1.0
	for _, l := range timesBackOff {
		key := timesKey{levelKey{l.level, id.wider(l.level, class)}, -1}
		if l.limit {
			key.limit = limit
		}
		d := x.durations(key)
		if len(d.took) == 0 || l.level.wide() && len(d.took) < b.opts.MinRuns {
			continue
		}
		w := d.weight(b.now, b.opts.HalfLife)
		m.parts, m.weight, m.levels = append(m.parts, d), append(m.weight, w), append(m.levels, l.level)
		m.share = append(m.share, left*w/(w+shrink))
		left -= m.share[len(m.share)-1]
	}
	if n := len(m.share); n > 0 {
		m.share[n-1] += left
	}
	x.mixtures[k] = m
	return m
}

// quantile returns the least run time, of those above elapsed, that a share q
// of them does not exceed; twice elapsed where there are none, as long again
// being all that can be said. ok is false where nothing is known at all.
func (m *mixture) quantile(q float64, elapsed time.Duration) (t time.Duration, ok bool) {
	if len(m.parts) == 0 {
		return 0, false
	}
	gone, all, longest := m.below(elapsed), m.below(math.MaxInt64), time.Duration(0)
	for _, d := range m.parts {
		longest = max(longest, d.took[len(d.took)-1])
	}
	if longest <= elapsed {
		return 2 * elapsed, true
	}
	want := gone + q*(all-gone) - 1e-9
	lo, hi := elapsed, longest // below(lo) < want <= below(hi)
	for hi-lo > 1 {
		if mid := lo + (hi-lo)/2; m.below(mid) >= want && mid > elapsed {
			hi = mid
		} else {
			lo = mid
		}
	}
	return hi, true
}

func (m *mixture) below(t time.Duration) float64 {
	sum := 0.0
	for i, d := range m.parts {
		sum += m.share[i] * d.below(t)
	}
	return sum
}

// level is the nearest level whose runs are behind at least half of the
// mixture. Wider levels hold the runs of the nearer ones too.
func (m *mixture) level() Level {
	for i, l := range m.levels {
		inside := 0.0
		for k := range m.levels {
			inside += m.share[k] * min(1, m.weight[i]/m.weight[k])
			if k <= i {
				inside += m.share[k] * (1 - min(1, m.weight[i]/m.weight[k]))
			}
		}
		if inside >= 0.5 {
			return l
		}
	}
	return LevelNone
}

// RunTimeLow and RunTimeHigh of a profile are these quantiles.
const lowTime, highTime = 0.1, 0.9

// runTime fills in how long the job takes from start to end.
func (x *index) runTime(p *Profile, j *slurm.Job, id identity, class string, now time.Time) {
	p.RunTimeLevel = LevelNone
	m := x.mixture(id, class, limitOf(j))
	if len(m.parts) == 0 {
		return
	}
	p.RunTimeLevel = m.level()
	p.RunTime = x.quantile(m, j, 0.5, now)
	p.RunTimeLow = x.quantile(m, j, lowTime, now)
	p.RunTimeHigh = x.quantile(m, j, highTime, now)
}

func (x *index) quantile(m *mixture, j *slurm.Job, q float64, now time.Time) time.Duration {
	elapsed := time.Duration(0)
	if j.Running() && !j.StartTime.IsZero() {
		elapsed = max(0, now.Sub(j.StartTime))
	}
	t, _ := m.quantile(q, elapsed)
	if l := limitOf(j); l > 0 {
		t = min(t, l)
	}
	return t
}

func limitOf(j *slurm.Job) time.Duration {
	if j.Unlimited {
		return 0
	}
	return max(0, j.TimeLimit)
}
