// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// Number and mean are exact; a quantile is one of the values, or within 1 % of
// one where there are many.
func TestSketchKeepsItsWord(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		size := rapid.SampledFrom([]int{0, 1, 2, 255, 256, 257, 3000}).Draw(rt, "n")
		draw := rapid.OneOf(rapid.Float64Range(0, 2), rapid.Float64Range(0, 1e4), rapid.Float64Range(0, 1e9))
		var s, other sketch
		cut := rapid.IntRange(0, size).Draw(rt, "cut") // what comes after is merged
		var all []float64
		sum := 0.0
		for i := range size {
			x := draw.Draw(rt, "x")
			if i < cut {
				s.add(x)
			} else {
				other.add(x)
			}
			all = append(all, x)
			sum += x
		}
		s.merge(&other)
		slices.Sort(all)
		if s.n != size || size > 0 && math.Abs(s.mean()-sum/float64(size)) > 1e-6*sum {
			rt.Errorf("n %d, mean %v, want %d, %v", s.n, s.mean(), size, sum/float64(size))
		}
		for _, q := range []float64{0, 0.5, 0.95, 1} {
			want := 0.0
			if size > 0 {
				want = all[min(size-1, max(0, int(math.Ceil(q*float64(size)-1e-9))-1))]
			}
			got := s.quantile(q)
			slack := 0.0
			if size > exactUpTo {
				if slack = 0.01 * want; want < 1 {
					slack = 1 // such values stand together
				}
			}
			if math.Abs(got-want) > slack+1e-9 {
				rt.Errorf("quantile %v of %d values is %v, want %v", q, size, got, want)
			}
		}
	})
}
