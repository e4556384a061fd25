// SPDX-License-Identifier: Apache-2.0

package store

import (
	"math"
	"slices"
)

// exactUpTo is how many values a sketch keeps as they are.
const exactUpTo = 256

// perOctave is how many classes there are between a value and its double, all
// of equal width: a quantile is off by at most a half of 1/64, 0.8 %.
const (
	perOctave   = 64
	octaveShift = 52 - 6 // of a float's mantissa, to its first 6 bits
)

// sketch sums values up in one pass: their number and sum exactly, quantiles
// exactly of up to exactUpTo values, and beyond that within 1 % of the value,
// from counts in classes that grow with the value, as in a high dynamic range
// histogram.
// Values are not negative; those below 1 share a class that stands for 0.
type sketch struct {
	n      int
	sum    float64
	values []float64 // while they are kept
	low    int       // the class of counts[0]
	counts []uint32
}

func (s *sketch) add(x float64) {
	s.n++
	s.sum += x
	if s.counts == nil {
		if s.values = append(s.values, x); len(s.values) <= exactUpTo {
			return
		}
		s.spill()
		return
	}
	s.count(x)
}

// spill turns the values into counts.
func (s *sketch) spill() {
	for _, v := range s.values {
		s.count(v)
	}
	s.values = nil
}

// merge adds what the other has seen.
func (s *sketch) merge(o *sketch) {
	if o.counts == nil {
		for _, v := range o.values {
			s.add(v)
		}
		return
	}
	s.spill()
	s.n, s.sum = s.n+o.n, s.sum+o.sum
	for i, n := range o.counts {
		if n > 0 {
			*s.place(o.low + i) += n
		}
	}
}

// class returns 0 for values below 1, and else the place of the value on the
// scale: the exponent of the float and the first bits of its mantissa.
func class(x float64) int {
	if !(x >= 1) {
		return 0
	}
	return int(math.Float64bits(x)>>octaveShift) - oneClass + 1
}

var oneClass = int(math.Float64bits(1) >> octaveShift)

// middle is the value that stands for a class.
func middle(class int) float64 {
	if class == 0 {
		return 0
	}
	octave, part := (class-1)/perOctave, (class-1)%perOctave
	return math.Ldexp(1+(float64(part)+0.5)/perOctave, octave)
}

func (s *sketch) count(x float64) { *s.place(class(x))++ }

// place returns the count of a class, and makes room for it.
func (s *sketch) place(c int) *uint32 {
	switch {
	case s.counts == nil:
		s.low, s.counts = c, make([]uint32, 1, 64)
	case c < s.low:
		s.counts = slices.Insert(s.counts, 0, make([]uint32, s.low-c)...)
		s.low = c
	case c >= s.low+len(s.counts):
		s.counts = append(s.counts, make([]uint32, c-s.low-len(s.counts)+1)...)
	}
	return &s.counts[c-s.low]
}

// mean is the exact mean; 0 without values.
func (s *sketch) mean() float64 {
	if s.n == 0 {
		return 0
	}
	return s.sum / float64(s.n)
}

// quantile returns the smallest value that at least the share q of all values
// does not exceed, or nearly so; 0 without values.
func (s *sketch) quantile(q float64) float64 {
	if s.n == 0 {
		return 0
	}
	rank := min(s.n-1, max(0, int(math.Ceil(q*float64(s.n)-1e-9))-1))
	if s.counts == nil {
		slices.Sort(s.values)
		return s.values[rank]
	}
	for i, n := range s.counts {
		if rank -= int(n); rank < 0 {
			return middle(s.low + i)
		}
	}
	return middle(s.low + len(s.counts) - 1)
}
