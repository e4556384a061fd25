// SPDX-License-Identifier: Apache-2.0

package run

import (
	"math/rand/v2"
	"slices"
)

// Interval is a mean with the interval that holds 95 % of its resamples.
type Interval struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// resamples is how many there are: enough that the ends of an interval of 95 %
// move by a few percent of its width from seed to seed.
const resamples = 2000

// Bootstrap returns the mean of the values with a 95 % interval by the
// percentile method (Efron and Tibshirani, 1993, chapter 13). Whole blocks are
// drawn, since jobs of one day wait together: block names each value's. With
// fewer than two blocks, Low and High are the mean.
func Bootstrap(values []float64, block []int, seed uint64) Interval {
	sum, n := map[int]float64{}, map[int]int{}
	var order []int
	total := 0.0
	for i, v := range values {
		b := block[i]
		if n[b] == 0 {
			order = append(order, b)
		}
		sum[b] += v
		n[b]++
		total += v
	}
	if len(values) == 0 {
		return Interval{}
	}
	mean := total / float64(len(values))
	out := Interval{Mean: mean, Low: mean, High: mean}
	if len(order) < 2 {
		return out
	}
	rng := rand.New(rand.NewPCG(seed, 0xb007))
	means := make([]float64, resamples)
	for i := range means {
		s, k := 0.0, 0
		for range order {
			b := order[rng.IntN(len(order))]
			s += sum[b]
			k += n[b]
		}
		means[i] = s / float64(k)
	}
	slices.Sort(means)
	out.Low, out.High = means[resamples/40], means[resamples-1-resamples/40]
	return out
}
