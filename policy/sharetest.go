// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"crypto/sha256"
	"encoding/binary"
	"math"
	"slices"

	"rifling/slurm"
)

// InShare draws whether a job belongs to the share of a policy on trial: by a
// hash of the version and the job's id, so that it stays the same from cycle to
// cycle and over restarts, and knows nothing of the job. Whoever is in a
// share is in every larger one. Tasks of an array go together.
func InShare(version string, j *slurm.Job, share float64) bool {
	id := j.ID
	if j.IsArray() && j.ArrayJobID != 0 {
		id = j.ArrayJobID
	}
	h := sha256.New()
	h.Write([]byte(version))
	var b [8]byte
	binary.BigEndian.PutUint64(b[:], uint64(id))
	h.Write(b[:])
	u := float64(binary.BigEndian.Uint64(h.Sum(nil))>>11) / (1 << 53)
	return u < share
}

// FalseAlarm is the chance, in all the time that a trial lasts, that a policy
// which does no harm is rolled back.
const FalseAlarm = 0.01

// ShareTest watches whether the jobs of a share do worse than the others. It is
// a sequential test by betting, ours: each job that ends is ranked, from -1
// (better than all) to 1 (worse than all), among the last jobs of its kind; and
// a bet is taken that bad ranks fall to the share. Since the share is
// drawn by a hash, the draw knows nothing of how the job did, unless the
// policy makes the difference: without a difference the wealth is a fair game
// that begins with 1, and by Ville's inequality it ever reaches 1/FalseAlarm
// with a chance of at most FalseAlarm, however often one looks. Jobs are not
// needed to be alike, independent or normal.
//
// The zero value with a Share is ready. It is kept as JSON.
type ShareTest struct {
	Share  float64              `json:"share"` // 0..1
	Recent map[string][]float64 `json:"recent"`
	// Wealth has one number for each of bets; their mean counts.
	Wealth []float64 `json:"wealth"`
	Alarm  bool      `json:"alarm"`
	// Sums of ranks and of their squares, of the others' and the share's jobs.
	N   [2]int     `json:"n"`
	Sum [2]float64 `json:"sum"`
	Sq  [2]float64 `json:"sq"`
}

// bets are the parts of the wealth that are put at stake, in parts of what
// could at most be lost. A mean over them does nearly as well as the best one,
// which is not known.
var bets = []float64{0.05, 0.15, 0.4, 0.9}

const (
	// mostRecent bounds the jobs of a kind that another is ranked among: how
	// long jobs wait changes with the load, and only jobs of about the same time
	// have seen the same.
	mostRecent = 50
	// leastRecent is how many there must be for an open wait to be ranked last.
	leastRecent = 20
)

// ShareFigures are what the test has seen.
type ShareFigures struct {
	Mine   int     `json:"mine"`   // jobs of the share that were ranked
	Others int     `json:"others"` // the other jobs
	Diff   float64 `json:"diff"`   // mean rank of the share's less the others'; above 0 is worse
	SE     float64 `json:"se"`
	Wealth float64 `json:"wealth"` // begins at 1; the alarm is at 1/FalseAlarm
	Alarm  bool    `json:"alarm"`
}

// Add takes in how one job did: y is a cost, the less the better, of any unit.
func (t *ShareTest) Add(kind string, mine bool, y float64) {
	if math.IsNaN(y) || !(t.Share > 0 && t.Share < 1) {
		return
	}
	g := t.rank(kind, y)
	if t.Recent == nil {
		t.Recent = map[string][]float64{}
	}
	t.Recent[kind] = append(t.Recent[kind], y)
	t.Recent[kind] = t.Recent[kind][max(0, len(t.Recent[kind])-mostRecent):]
	t.bet(mine, g)
	i := 0
	if mine {
		i = 1
	}
	t.N[i]++
	t.Sum[i] += g
	t.Sq[i] += g * g
}

// rank is where y lies among the last of its kind, -1..1, 0 without any.
func (t *ShareTest) rank(kind string, y float64) float64 {
	list := t.Recent[kind]
	if len(list) == 0 {
		return 0
	}
	n := 0
	for _, x := range list {
		switch {
		case x < y:
			n++
		case x > y:
			n--
		}
	}
	return float64(n) / float64(len(list))
}

func (t *ShareTest) bet(mine bool, g float64) {
	if len(t.Wealth) != len(bets) {
		t.Wealth = make([]float64, len(bets))
		for i := range t.Wealth {
			t.Wealth[i] = 1
		}
	}
	x := -t.Share * g // the draw less its expectation, times the rank
	if mine {
		x = (1 - t.Share) * g
	}
	sum := 0.0
	for i, part := range bets {
		t.Wealth[i] *= 1 + part/max(t.Share, 1-t.Share)*x
		sum += t.Wealth[i]
	}
	if sum/float64(len(bets)) >= 1/FalseAlarm {
		t.Alarm = true
	}
}

// Last reports whether a job that has cost y so far is sure to rank last: it
// need not end to be counted. Without this, a policy that lets jobs wait for
// ever would never be found out.
func (t *ShareTest) Last(kind string, y float64) bool {
	list := t.Recent[kind]
	return len(list) >= leastRecent && y > slices.Max(list)
}

// Figures are for people and for promotion.
func (t *ShareTest) Figures() ShareFigures {
	f := ShareFigures{Mine: t.N[1], Others: t.N[0], Wealth: 1, Alarm: t.Alarm}
	if len(t.Wealth) > 0 {
		f.Wealth = 0
		for _, w := range t.Wealth {
			f.Wealth += w / float64(len(t.Wealth))
		}
	}
	var mean, variance [2]float64
	for i := range mean {
		n := float64(t.N[i])
		if n < 2 {
			return f
		}
		mean[i] = t.Sum[i] / n
		variance[i] = (t.Sq[i]/n - mean[i]*mean[i]) / (n - 1)
	}
	f.Diff, f.SE = mean[1]-mean[0], math.Sqrt(max(0, variance[0]+variance[1]))
	return f
}
