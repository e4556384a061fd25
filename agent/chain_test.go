// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"rifling/agent"
)

func within(t *testing.T, what string, got, low, high float64) {
	t.Helper()
	if !(got >= low && got <= high) {
		t.Errorf("%s is %.0f, want %.0f to %.0f", what, got, low, high)
	}
}

func TestNeighboursTellARunTime(t *testing.T) {
	s := agent.NewSequences(agent.DefaultSequenceParams())
	first, other := s.Add("1", 0, nil), s.Add("8", 0, nil)
	beside, late := s.Add("1", 10, nil), s.Add("1", 1e6, nil)
	for _, r := range []*agent.SequenceRun{first, other} {
		r.Start(20)
	}
	s.End(first, 100_000)
	s.Update(100_020)
	within(t, "median of the one beside it", beside.Belief.Quantile(0.5), 60_000, 160_000)
	if wide, narrow := late.Belief.Quantile(0.9)/late.Belief.Quantile(0.1), beside.Belief.Quantile(0.9)/beside.Belief.Quantile(0.1); wide < 3*narrow {
		t.Errorf("one that came long after is known to a factor of %.1f, the one beside it to %.1f", wide, narrow)
	}
	if q := other.Belief.Quantile(0.01); q < 80_000 {
		t.Errorf("a run of 100,000 s is believed to last %.0f s", q)
	}
}

func TestWhatRunsAndWhatIsToldCountForNeighbours(t *testing.T) {
	s := agent.NewSequences(agent.DefaultSequenceParams())
	told := s.Add("1", 0, func(run float64) float64 { return math.Exp(-math.Abs(math.Log(run / 500))) })
	silent := s.Add("1", 1, nil)
	s.Update(10)
	within(t, "median of a run told to take 500 s", told.Belief.Quantile(0.5), 250, 1500)
	before := silent.Belief.Mean()
	told.Start(20)
	s.Update(20 + 50_000)
	within(t, "least that a neighbour of one that lasts may take, in the mean", silent.Belief.Mean(), max(before, 20_000), 1e7)
	within(t, "rest of one that has outlived what was told", told.Belief.Left(50_000), 1000, 1e6)
}

func TestBeliefsAreDistributions(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := agent.NewSequences(agent.DefaultSequenceParams())
		now := 0.0
		var waits, runs []*agent.SequenceRun
		began := map[*agent.SequenceRun]float64{}
		for range rapid.IntRange(1, 40).Draw(t, "events") {
			now += rapid.Float64Range(0, 1e5).Draw(t, "gap")
			switch kind := rapid.SampledFrom([]string{"add", "start", "end"}).Draw(t, "event"); {
			case kind == "start" && len(waits) > 0:
				r := waits[0]
				waits = waits[1:]
				r.Start(now)
				began[r] = now
				runs = append(runs, r)
			case kind == "end" && len(runs) > 0:
				s.End(runs[0], now-began[runs[0]])
				runs = runs[1:]
			default:
				var told func(float64) float64
				if v := rapid.Float64Range(-1e9, 1e9).Draw(t, "told"); v > 0 {
					// A likelihood of 0 nearly everywhere: what is told may be wrong.
					told = func(run float64) float64 { return math.Max(0, 1-math.Abs(run-v)) }
				}
				waits = append(waits, s.Add(rapid.SampledFrom([]string{"a", "b"}).Draw(t, "kind"), now, told))
			}
			s.Update(now)
			for _, r := range append(append([]*agent.SequenceRun{}, waits...), runs...) {
				sum := 0.0
				for _, p := range r.Belief {
					if !(p >= 0) {
						t.Fatalf("a chance of %v", p)
					}
					sum += p
				}
				if math.Abs(sum-1) > 1e-6 {
					t.Fatalf("chances add up to %v", sum)
				}
				if left := r.Belief.Left(now - began[r]); !(left >= 0) {
					t.Fatalf("%v s are left", left)
				}
			}
		}
	})
}
