// SPDX-License-Identifier: Apache-2.0

package report

import (
	"math/rand/v2"
	"slices"
)

// Day is a sum over the jobs of one day and the number, or weight, of its terms.
type Day struct{ Sum, N float64 }

// Change is how a mean differs between two times.
type Change struct {
	Before, After float64
	// After minus Before, and the interval that holds 95 % of its resamples.
	Diff, Low, High float64
	// DaysBefore and DaysAfter are the days with values. With one on either
	// side there is no interval: Low and High are Diff.
	DaysBefore, DaysAfter int
}

// Clear reports whether the interval leaves 0 out.
func (c *Change) Clear() bool {
	return c.DaysBefore > 1 && c.DaysAfter > 1 && (c.Low > 0 || c.High < 0)
}

// resamples is how many there are: enough that the ends of an interval of 95 %
// move by a few percent of its width from seed to seed.
const resamples = 2000

// Difference compares the mean over all terms after with that before. The
// interval is the bootstrap's (percentiles); whole days are drawn, on each side
// for itself, since jobs of one day wait together. ok is false where one side
// has no terms.
func Difference(before, after []Day, seed uint64) (c Change, ok bool) {
	before, after = withTerms(before), withTerms(after)
	if len(before) == 0 || len(after) == 0 {
		return c, false
	}
	c = Change{Before: mean(before), After: mean(after), DaysBefore: len(before), DaysAfter: len(after)}
	c.Diff = c.After - c.Before
	c.Low, c.High = c.Diff, c.Diff
	if len(before) < 2 || len(after) < 2 {
		return c, true
	}
	rng := rand.New(rand.NewPCG(seed, 0xd1ff))
	diffs := make([]float64, resamples)
	for i := range diffs {
		diffs[i] = redraw(after, rng) - redraw(before, rng)
	}
	slices.Sort(diffs)
	c.Low, c.High = diffs[resamples/40], diffs[resamples-1-resamples/40]
	return c, true
}

func withTerms(days []Day) []Day {
	return slices.DeleteFunc(slices.Clone(days), func(d Day) bool { return d.N <= 0 })
}

func mean(days []Day) float64 {
	var s Day
	for _, d := range days {
		s.Sum, s.N = s.Sum+d.Sum, s.N+d.N
	}
	return s.Sum / s.N
}

func redraw(days []Day, rng *rand.Rand) float64 {
	var s Day
	for range days {
		d := days[rng.IntN(len(days))]
		s.Sum, s.N = s.Sum+d.Sum, s.N+d.N
	}
	return s.Sum / s.N
}
