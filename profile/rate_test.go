// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"testing"
	"time"
)

// heavy communicates longer than it computes across 2 nodes with 2 GPUs
// each; light hardly does.
var (
	heavy = work{100 * time.Millisecond, 3e8}
	light = work{400 * time.Millisecond, 5e7}
)

// The point of the scaling: the same work gives the same cc and the same rate
// per iteration whether it is seen on one node or across two.
func TestPackedAndSpreadRunsAgree(t *testing.T) {
	for name, w := range map[string]work{"heavy": heavy, "light": light} {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			packed, spread := newJob(1).on(t0, 4, "n1"), newJob(2).on(t0, 2, "n2", "n3")
			inside, packedRate := w.run(packed, 1)
			across, spreadRate := w.run(spread, 1)
			feed(t, b, packed, 5, inside)
			feed(t, b, spread, 5, across)
			p, s := b.runs[1], b.runs[2]
			near(t, "log cc packed", p.CC.Packed.Mean, s.CC.Spread.Mean, 1e-9)
			near(t, "ratio of rates", s.typical(moved)/p.typical(moved), spreadRate/packedRate, 1e-9)

			want := math.Log(w.compute.Seconds() / (w.bytes * 1.5 * 2 / nicSpeed))
			near(t, "log cc", s.CC.Spread.Mean, want, 1e-9)
		})
	}
}

func TestNPR(t *testing.T) {
	_, packedRate := heavy.run(newJob(1).on(t0, 4, "n1"), 1)
	tests := map[string]struct {
		before  []*job // of the same family, each run to its end
		j       *job
		share   float64 // of its NICs
		want    float64
		count   int
		noProof bool
	}{
		"across nodes, against a packed run before": {
			before: []*job{newJob(1).on(t0, 4, "n1")},
			j:      newJob(9).on(t0, 2, "n2", "n3"), share: 1, want: rateOf(heavy, 1) / packedRate, count: 8},
		"with neighbours on its NICs": {
			before: []*job{newJob(1).on(t0, 4, "n1")},
			j:      newJob(9).on(t0, 2, "n2", "n3"), share: 0.5, want: rateOf(heavy, 0.5) / packedRate, count: 8},
		"packed, against a packed run before": {
			before: []*job{newJob(1).on(t0, 4, "n1")},
			j:      newJob(9).on(t0, 4, "n2"), share: 1, want: 1, count: 8},
		"packed, against a spread run before": {
			before: []*job{newJob(1).on(t0, 2, "n1", "n2")},
			j:      newJob(9).on(t0, 4, "n3"), share: 1, want: 1, count: 8},
		"across nodes, the first of its family: by the model, counted once": {
			j: newJob(9).on(t0, 2, "n2", "n3"), share: 1, want: rateOf(heavy, 1) / packedRate, count: 1},
		"packed, the first of its family: by the model, counted once": {
			j: newJob(9).on(t0, 4, "n1"), share: 1, want: 1, count: 1},
		"across nodes twice: still only the model": {
			before: []*job{newJob(1).on(t0, 2, "n1", "n2")},
			j:      newJob(9).on(t0, 2, "n3", "n4"), share: 1, want: rateOf(heavy, 1) / packedRate, count: 2},
		"one GPU, the first of its family: nothing to compare with": {
			j: newJob(9).gpus(1).on(t0, 1, "n1"), share: 1, noProof: true},
		"one GPU, the second of its family": {
			before: []*job{newJob(1).gpus(1).on(t0, 1, "n1")},
			j:      newJob(9).gpus(1).on(t0, 1, "n1"), share: 1, want: 1, count: 8},
		"runs of another family are no measure": {
			before: []*job{newJob(1).gpus(1).named("other").on(t0, 1, "n1")},
			j:      newJob(9).gpus(1).on(t0, 1, "n1"), share: 1, noProof: true},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			for _, j := range tt.before {
				s, _ := heavy.run(j, 1)
				feed(t, b, j, 8, s)
			}
			s, _ := heavy.run(tt.j, tt.share)
			end := feed(t, b, tt.j, 8, s)
			npr, count, ok := b.Rate(tt.j.ID)
			if ok == tt.noProof {
				t.Fatalf("ok = %v", ok)
			}
			near(t, "NPR", npr, tt.want, 1e-9)
			if count != tt.count {
				t.Errorf("count = %d, want %d", count, tt.count)
			}
			mean, n := b.MeanNPR(tt.j.ID)
			near(t, "mean NPR", mean, tt.want, 1e-9)
			if n != tt.count {
				t.Errorf("count of the mean = %d, want %d", n, tt.count)
			}
			anpr, gpus := b.ANPR(snapshot(end, tt.j))
			near(t, "ANPR", anpr, tt.want, 1e-9)
			if want := tt.j.Total(); (gpus == want) == tt.noProof {
				t.Errorf("GPUs behind ANPR = %d of %d", gpus, want)
			}
		})
	}
}

func rateOf(w work, share float64) float64 {
	_, rate := w.run(newJob(1).on(t0, 2, "n1", "n2"), share)
	return rate
}

func TestNPRWithoutByteCountersUsesActivity(t *testing.T) {
	b := newBook(t)
	packed, spread := newJob(1).on(t0, 4, "n1"), newJob(2).on(t0, 2, "n2", "n3")
	blind := func(j *job) func(time.Time) []Sample {
		s, _ := heavy.run(j, 1)
		return func(at time.Time) []Sample {
			out := s(at)
			for i := range out {
				out[i].NVLinkRate, out[i].NVLinkSpeed, out[i].NetRate, out[i].NetSpeed = 0, 0, 0, 0
			}
			return out
		}
	}
	feed(t, b, packed, 6, blind(packed))
	feed(t, b, spread, 6, blind(spread))
	npr, count, ok := b.Rate(2)
	if !ok || count != 6 {
		t.Errorf("count %d, ok %v; want 6, true", count, ok)
	}
	_, packedRate := heavy.run(packed, 1)
	near(t, "NPR", npr, rateOf(heavy, 1)/packedRate, 1e-9)
	if p := b.Profiles(snapshot(b.now, spread))[2]; p.Level != LevelNone {
		t.Errorf("log cc at level %q without link counters, want none", p.Level)
	}
}

func TestEstimatedBytesAreNoMeasureWhereActivityIs(t *testing.T) {
	b := newBook(t)
	packed, spread := newJob(1).on(t0, 4, "n1"), newJob(2).on(t0, 2, "n2", "n3")
	inside, packedRate := heavy.run(packed, 1)
	across, spreadRate := heavy.run(spread, 1)
	feed(t, b, packed, 6, inside)
	feed(t, b, spread, 6, func(at time.Time) []Sample {
		out := across(at)
		for i := range out {
			out[i].NetShared, out[i].NetRate = true, out[i].NetRate/3 // half of the node is somebody else's
		}
		return out
	})
	npr, _, _ := b.Rate(2)
	near(t, "NPR", npr, spreadRate/packedRate, 1e-9)
}

func TestOneGarbageReadingDoesNotSetTheScale(t *testing.T) {
	b := newBook(t)
	for id := 1; id <= 2; id++ {
		j := newJob(9).on(t0.Add(time.Duration(id)*time.Hour), 4, "n1")
		s, _ := heavy.run(j, 1)
		n := 0
		feed(t, b, j, 10, func(at time.Time) []Sample {
			out := s(at)
			if n++; n == 5 {
				for i := range out {
					out[i].NVLinkRate = out[i].NVLinkSpeed // within the link, yet a hundred times too much
				}
			}
			return out
		})
	}
	npr, _, _ := b.Rate(9)
	near(t, "NPR", npr, 1, 1e-9)
}

func TestPausesCountAndLoadingDoesNot(t *testing.T) {
	b := newBook(t)
	first := newJob(1).on(t0, 4, "n1")
	s, _ := heavy.run(first, 1)
	feed(t, b, first, 8, s)

	j := newJob(2).on(t0, 4, "n2")
	s, _ = heavy.run(j, 1)
	n := 0
	feed(t, b, j, 12, func(at time.Time) []Sample {
		out := s(at)
		if n++; n <= 4 || n == 9 || n == 10 { // loads for a minute, later stands still for half a minute
			for i := range out {
				out[i].Compute, out[i].NVLinkRate = 0, 0
			}
		}
		return out
	})
	npr, count, _ := b.Rate(2)
	near(t, "NPR", npr, 6.0/8, 1e-9)
	if count != 8 {
		t.Errorf("count = %d, want 8", count)
	}
}

func TestRateOfAnEndedJobIsKeptForAWhile(t *testing.T) {
	b := newBook(t)
	j := newJob(1).on(t0, 2, "n1", "n2")
	s, _ := heavy.run(j, 1)
	end := feed(t, b, j, 8, s)
	j.ended("COMPLETED", end.Sub(t0))
	b.Track(snapshot(end.Add(time.Minute), j))
	if _, _, ok := b.Rate(1); !ok {
		t.Error("no rate a minute after the end")
	}
	b.Track(snapshot(end.Add(30 * time.Minute)))
	if _, n := b.MeanNPR(1); n == 0 {
		t.Error("no mean rate half an hour after the end")
	}
	b.Track(snapshot(end.Add(2 * time.Hour)))
	if _, _, ok := b.Rate(1); ok {
		t.Error("still a rate two hours after the end")
	}
}

func TestSilentCollectorsLeaveNoRecentRate(t *testing.T) {
	b := newBook(t)
	j := newJob(1).on(t0, 2, "n1", "n2")
	s, _ := heavy.run(j, 1)
	end := feed(t, b, j, 8, s)
	b.Track(snapshot(end.Add(time.Hour), j))
	if npr, n, ok := b.Rate(1); ok {
		t.Errorf("recent NPR %v (%d) an hour after the last sample", npr, n)
	}
	if _, n := b.MeanNPR(1); n == 0 {
		t.Error("the mean over the run is gone")
	}
}

func TestALongRunStaysBoundedAndWhole(t *testing.T) {
	b := newBook(t)
	j := newJob(1).on(t0, 2, "n1", "n2")
	fast, _ := heavy.run(j, 1)
	slow, _ := heavy.run(j, 0.25)
	const n = 1000
	i := 0
	feed(t, b, j, n, func(at time.Time) []Sample {
		if i++; i <= n/2 {
			return slow(at)
		}
		return fast(at)
	})
	if got := len(b.runs[1].Whole); got > keepPoints {
		t.Errorf("%d points kept, want %d at most", got, keepPoints)
	}
	recent, _, _ := b.Rate(1)
	mean, _ := b.MeanNPR(1)
	// The first half of the run was slower; so must the mean be.
	near(t, "mean over recent rate", mean/recent, (1+rateOf(heavy, 0.25)/rateOf(heavy, 1))/2, 0.03)
}

func TestHeldDownClocksDoNotLowerTheBest(t *testing.T) {
	best := func(throttled float64, slow float64) float64 {
		b := newBook(t)
		j := newJob(1).on(t0, 4, "n1")
		s, _ := heavy.run(j, 1)
		n := 0
		feed(t, b, j, 20, func(at time.Time) []Sample {
			out := s(at)
			if n++; n%2 == 0 { // every second interval on hot cards
				out[0].NVLinkRate *= slow
				out[0].Throttled = throttled
			}
			return out
		})
		return b.sorted()[0].Rates[0].Moved
	}
	free := best(0, 1)
	near(t, "best with hot intervals that are marked", best(0.9, 0.5), free, free*1e-9)
	if got := best(0, 0.5); got > 0.8*free {
		t.Errorf("best with slow intervals %v of %v: the test shows nothing", got, free)
	}
	near(t, "a card that is always hot still has a rate", func() float64 {
		b := newBook(t)
		j := newJob(1).on(t0, 4, "n1")
		s, _ := heavy.run(j, 1)
		feed(t, b, j, 20, func(at time.Time) []Sample {
			out := s(at)
			out[0].Throttled = 1
			return out
		})
		return b.sorted()[0].Rates[0].Moved
	}(), free, free*1e-9)
}

func TestWeightsOfSamples(t *testing.T) {
	tests := map[string]struct {
		change func(*Sample)
		want   float64 // of 4 intervals
	}{
		"rifling's own":      {func(*Sample) {}, 4},
		"a site's exporters": {func(s *Sample) { s.Origin, s.Weight = OriginPrometheus, 0.5 }, 2},
		"clocks held down":   {func(s *Sample) { s.Throttled = 1 }, 2},
		"GPUs shared":        {func(s *Sample) { s.GPUShared = true }, 2},
		"all of it, and by utilization": {func(s *Sample) {
			s.Weight, s.Throttled, s.GPUShared, s.Source = 0.5, 1, true, SourceUtilization
		}, 0.25},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			j := newJob(1).on(t0, 2, "n1", "n2")
			s, _ := heavy.run(j, 1)
			feed(t, b, j, 4, func(at time.Time) []Sample {
				out := s(at)
				for i := range out {
					tt.change(&out[i])
				}
				return out
			})
			near(t, "weight", b.runs[1].CC.Spread.W, tt.want, 1e-3)
		})
	}
}

func TestStandardErrorOfTheRate(t *testing.T) {
	b := newBook(t)
	ref := newJob(1).on(t0, 4, "n1")
	s, _ := heavy.run(ref, 1)
	now := feed(t, b, ref, 20, s)
	j := newJob(2).on(now, 4, "n2")
	s, _ = heavy.run(j, 1)
	n := 0
	now = feed(t, b, j, 16, func(at time.Time) []Sample {
		out := s(at)
		if n++; n%2 == 0 {
			out[0].NVLinkRate *= 0.5
		}
		return out
	})
	p := b.Profiles(snapshot(now, j))[2]
	// The best of two runs is the lower one, 3/4: half of the readings are at
	// it, half at 2/3 of it.
	near(t, "rate", p.NPR, 5./6, 1e-6)
	near(t, "standard error", p.NPRSD, 1./6/math.Sqrt(15), 1e-6)
}
