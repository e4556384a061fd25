// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"slices"
	"time"
)

// stat is a weighted mean and variance whose older part fades.
type stat struct {
	W, Mean, M2 float64 // weight, mean, weighted sum of squared deviations
	At          time.Time
}

// add takes one value in. A value older than the newest one weighs less at
// once, so that the order of arrival makes no difference.
func (s *stat) add(x, w float64, at time.Time, halfLife time.Duration) {
	if at.After(s.At) {
		s.fadeTo(at, halfLife)
	} else {
		w *= fade(s.At.Sub(at), halfLife)
	}
	if s.W+w <= 0 {
		return // all of it has faded
	}
	s.W += w
	d := x - s.Mean
	s.Mean += d * w / s.W
	s.M2 += w * d * (x - s.Mean)
}

func (s *stat) fadeTo(at time.Time, halfLife time.Duration) {
	if s.W > 0 {
		f := fade(at.Sub(s.At), halfLife)
		s.W *= f
		s.M2 *= f
	}
	s.At = at
}

// at returns the stat as it has faded by then.
func (s stat) at(now time.Time, halfLife time.Duration) stat {
	if now.After(s.At) {
		s.fadeTo(now, halfLife)
	}
	return s
}

func (s stat) variance() float64 {
	if s.W <= 0 {
		return 0
	}
	return max(0, s.M2/s.W)
}

// count is the weight as a whole number, so that one that has faded by some
// minutes of a half-life of days still counts as it did.
func (s stat) count() int { return int(math.Round(s.W)) }

// fade is what is left of a weight after a time.
func fade(age, halfLife time.Duration) float64 {
	if age <= 0 {
		return 1
	}
	return math.Exp2(-float64(age) / float64(halfLife))
}

// lowQuantile returns the q-quantile of the values by the nearest rank below,
// which leaves the greatest of two or more values out; 0 of none.
func lowQuantile(values []float64, q float64) float64 {
	if len(values) == 0 {
		return 0
	}
	v := slices.Clone(values)
	slices.Sort(v)
	return v[int(q*float64(len(v)-1))]
}

// typical is the mean of the values with what lies above their 0.9-quantile
// cut down to it: pauses count, a single garbage reading does not.
func typical(values []float64) float64 {
	if len(values) == 0 {
		return 0
	}
	top, sum := lowQuantile(values, 0.9), 0.0
	for _, v := range values {
		sum += min(v, top)
	}
	return sum / float64(len(values))
}

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
