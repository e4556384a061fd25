// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"encoding/json"
	"math"
	"slices"
	"sort"
	"time"

	"rifling/slurm"
)

// The settings of run-time prediction, chosen on the first half of a real trace
// (docs/design/profile.md).
const (
	// keepTimes bounds the run times kept of a family, poolTimes those that a
	// level puts together, wideTimes what one family adds to a wide level, and
	// mostTimes those of the whole book.
	keepTimes, poolTimes, wideTimes, mostTimes = 128, 256, 16, 65536
	// shrink is how many runs a level needs before half of the prediction
	// comes from it rather than from the levels above.
	shrink = 5
	// session is the time within which a user's submissions are one session:
	// its n runs count as the square root of n, for they tend to be alike.
	session = time.Hour
)

// runTime is how long one run of a family took.
type runTime struct {
	JobID  slurm.JobID
	Took   time.Duration
	Limit  time.Duration // 0: none
	Submit time.Time
	Ended  time.Time
}

// MarshalJSON writes a list: a book holds tens of thousands of them.
func (t runTime) MarshalJSON() ([]byte, error) {
	return json.Marshal([...]int64{int64(t.JobID), int64(t.Took), int64(t.Limit), nanos(t.Submit), nanos(t.Ended)})
}

// UnmarshalJSON also reads the objects of earlier check-points.
func (t *runTime) UnmarshalJSON(data []byte) error {
	if len(data) > 0 && data[0] == '{' {
		type plain runTime
		return json.Unmarshal(data, (*plain)(t))
	}
	var v [5]int64
	if err := json.Unmarshal(data, &v); err != nil {
		return err
	}
	*t = runTime{slurm.JobID(v[0]), time.Duration(v[1]), time.Duration(v[2]), instant(v[3]), instant(v[4])}
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

// addTime takes a run time in, once a run, keeps the newest ones, and reports
// whether it was new.
func (f *family) addTime(t runTime) bool {
	i := len(f.Times)
	for i > 0 && f.Times[i-1].Ended.After(t.Ended) {
		i--
	}
	for k := i; k > 0 && f.Times[k-1].Ended.Equal(t.Ended); k-- {
		if f.Times[k-1].JobID == t.JobID {
			return false
		}
	}
	if i == 0 && len(f.Times) == keepTimes {
		return false // older than all that are kept
	}
	if len(f.Times) == keepTimes {
		copy(f.Times, f.Times[1:i])
		f.Times[i-1] = t
		return true
	}
	f.Times = slices.Insert(f.Times, i, t)
	return true
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
}

// weight is the weight of all run times by then.
func (d *durations) weight(now time.Time, halfLife time.Duration) float64 {
	if len(d.upTo) == 0 {
		return 0
	}
	return d.upTo[len(d.upTo)-1] * fade(now.Sub(d.newest), halfLife)
}

// below is the part of the weight that lies on run times of at most t, 0..1.
func (d *durations) below(t time.Duration) float64 {
	n := sort.Search(len(d.took), func(i int) bool { return d.took[i] > t })
	if n == 0 {
		return 0
	}
	return d.upTo[n-1] / d.upTo[len(d.upTo)-1]
}

func (b *Book) timesHalfLife() time.Duration { return max(1, b.opts.HalfLife/2) }

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
	d := weigh(all[:min(len(all), poolTimes)], x.book.timesHalfLife())
	if x.times[k.level] == nil {
		x.times[k.level] = map[time.Duration]*durations{}
	}
	x.times[k.level][k.limit] = d
	return d
}

// weigh sorts run times and weighs them by age and by session.
func weigh(all []runTime, halfLife time.Duration) *durations {
	d := &durations{took: make([]time.Duration, len(all)), upTo: make([]float64, len(all))}
	if len(all) == 0 {
		return d
	}
	d.newest = all[0].Ended
	perSession := map[int64]float64{}
	for _, t := range all {
		perSession[t.sessionNumber()]++
	}
	slices.SortFunc(all, func(a, b runTime) int {
		return cmp.Or(cmp.Compare(a.Took, b.Took), a.Ended.Compare(b.Ended), cmp.Compare(a.JobID, b.JobID))
	})
	sum := 0.0
	for i, t := range all {
		sum += fade(d.newest.Sub(t.Ended), halfLife) / math.Sqrt(perSession[t.sessionNumber()])
		d.took[i], d.upTo[i] = t.Took, sum
	}
	return d
}

func (t runTime) sessionNumber() int64 {
	at := t.Submit
	if at.IsZero() {
		at = t.Ended.Add(-t.Took)
	}
	return at.Unix() / int64(session/time.Second)
}

// mixture is the run times of all levels together: a level with n runs has
// n/(n+shrink) of what the nearer ones left, the widest all of the rest.
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
		w := d.weight(b.now, b.timesHalfLife())
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
	p.RunTime, p.RunTimeLow, p.RunTimeHigh = 0, 0, 0
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

// RunTimeQuantiles predicts the run time of a job from start to end at the
// given quantiles, 0..1, none above its limit; nil when nothing is known. Of a
// running job, given how long it has run by the last snapshot.
func (b *Book) RunTimeQuantiles(j *slurm.Job, qs ...float64) []time.Duration {
	x, id := b.index(), identify(j)
	m := x.mixture(id, b.classOf(j), limitOf(j))
	if len(m.parts) == 0 {
		return nil
	}
	out := make([]time.Duration, len(qs))
	for i, q := range qs {
		out[i] = x.quantile(m, j, q, b.now)
	}
	return out
}
