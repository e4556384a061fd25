// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"math"
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
)

func genTest(t *rapid.T) *ShareTest {
	s := &ShareTest{Share: rapid.Float64Range(0.01, 0.99).Draw(t, "share")}
	for range rapid.IntRange(0, 40).Draw(t, "jobs") {
		s.Add(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind"), rapid.Bool().Draw(t, "mine"), rapid.Float64Range(0, 5).Draw(t, "y"))
	}
	return s
}

func cloneTest(t interface{ Fatal(...any) }, s *ShareTest) *ShareTest {
	b, err := json.Marshal(s)
	if err != nil {
		t.Fatal(err)
	}
	var out ShareTest
	if err := json.Unmarshal(b, &out); err != nil {
		t.Fatal(err)
	}
	return &out
}

// Whatever has happened and however the next job does, if the draw knows
// nothing of it the wealth neither grows nor shrinks in the mean. All else
// follows from this.
func TestTheGameIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genTest(t)
		y := rapid.Float64Range(0, 5).Draw(t, "next")
		mine, other := cloneTest(t, s), cloneTest(t, s)
		mine.Add("a", true, y)
		other.Add("a", false, y)
		mean := s.Share*mine.Figures().Wealth + (1-s.Share)*other.Figures().Wealth
		if have := s.Figures().Wealth; math.Abs(mean-have) > 1e-9*max(1, have) {
			t.Fatalf("wealth %v becomes %v in the mean", have, mean)
		}
		for _, w := range append(mine.Wealth, other.Wealth...) {
			if !(w > 0) {
				t.Fatalf("wealth %v", w)
			}
		}
	})
}

func TestAnAlarmStays(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genTest(t)
		s.Alarm = true
		s.Add("a", rapid.Bool().Draw(t, "mine"), 0)
		if !cloneTest(t, s).Figures().Alarm {
			t.Fatal("the alarm is gone")
		}
	})
}

// watch plays a trial: n jobs of two kinds with heavy tails and a load that
// drifts; the share's cost more by the factor. It returns after how many jobs
// of the share the alarm came, -1 for never.
func watch(seed uint64, share, factor float64, n int) int {
	rng := rand.New(rand.NewPCG(seed, 7))
	s := &ShareTest{Share: share}
	for i := range n {
		mine := rng.Float64() < share
		y := rng.NormFloat64()*1.5 + math.Sin(float64(i)/50)
		kind := "small"
		if rng.Float64() < 0.3 {
			kind, y = "large", y+3
		}
		if mine {
			y += math.Log(factor)
		}
		s.Add(kind, mine, y)
		if s.Alarm {
			return s.N[1]
		}
	}
	return -1
}

// Looking after every job, at most FalseAlarm of the trials of a policy without
// a difference end in an alarm, and so do those of one that is better.
func TestFalseAlarms(t *testing.T) {
	const trials, jobs = 1500, 1500
	for _, factor := range []float64{1, 0.7} {
		alarms := 0
		for seed := range uint64(trials) {
			if watch(seed, 0.1, factor, jobs) >= 0 {
				alarms++
			}
		}
		t.Logf("factor %v: %d alarms in %d trials of %d jobs", factor, alarms, trials, jobs)
		// Three standard errors above what is promised.
		if most := FalseAlarm*trials + 3*math.Sqrt(FalseAlarm*trials); float64(alarms) > most {
			t.Errorf("factor %v: %d false alarms in %d, more than %.0f", factor, alarms, trials, most)
		}
	}
}

func TestHarmIsFound(t *testing.T) {
	for _, tc := range []struct {
		share, factor float64
		within        int // jobs of the share, in nine of ten trials
	}{{0.1, 10, 40}, {0.1, 3, 150}, {0.3, 3, 150}} {
		found := 0
		const trials = 100
		for seed := range uint64(trials) {
			if n := watch(1000+seed, tc.share, tc.factor, 4000); n >= 0 && n <= tc.within {
				found++
			}
		}
		t.Logf("share %v, cost times %v: %d of %d found within %d jobs of the share", tc.share, tc.factor, found, trials, tc.within)
		if found < 90 {
			t.Errorf("share %v, cost times %v: only %d of %d found within %d jobs", tc.share, tc.factor, found, trials, tc.within)
		}
	}
}

// A job that waits for ever never ends, and must count all the same.
func TestWhatIsSureToRankLast(t *testing.T) {
	s := &ShareTest{Share: 0.5}
	for i := range leastRecent {
		if s.Last("a", 100) {
			t.Fatalf("ranked among %d", i)
		}
		s.Add("a", false, float64(i))
	}
	if !s.Last("a", 100) || s.Last("a", 10) || s.Last("b", 100) {
		t.Error("it is last when it has cost more than all others of its kind")
	}
}

func TestSharesAreNested(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		j := &slurm.Job{ID: slurm.JobID(rapid.IntRange(1, 1<<30).Draw(t, "id")), ArrayTaskID: -1}
		a, b := rapid.Float64Range(0, 1).Draw(t, "a"), rapid.Float64Range(0, 1).Draw(t, "b")
		if InShare(vA, j, min(a, b)) && !InShare(vA, j, max(a, b)) {
			t.Fatal("in the smaller share and not in the larger")
		}
		if InShare(vA, j, 0) || !InShare(vA, j, 1) {
			t.Fatal("none and all")
		}
	})
	n, both := 0, 0
	for id := range 20000 {
		j := &slurm.Job{ID: slurm.JobID(id + 1), ArrayTaskID: -1}
		if InShare(vA, j, 0.1) {
			if n++; InShare(vB, j, 0.1) {
				both++
			}
		}
	}
	if n < 1800 || n > 2200 || both < 140 || both > 260 {
		t.Errorf("%d of 20000 are in a share of a tenth, %d of them in another version's too", n, both)
	}
}

func TestTheTestIsKeptAsJSON(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := genTest(t)
		again := cloneTest(t, s)
		s.Add("a", true, 1)
		again.Add("a", true, 1)
		if diff := cmp.Diff(s.Figures(), again.Figures()); diff != "" {
			t.Fatal(diff)
		}
	})
}
