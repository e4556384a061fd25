// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/model"
)

// value is what one series says of a slot.
type value struct {
	labels model.Metric
	v      float64
	state  state
	moved  bool // of a counter: it has ever counted anything
}

// state tells what came of a series.
type state int

const (
	good  state = iota
	gap         // it has values, and none of use in this slot
	empty       // nothing to go by
	odd         // its values cannot be
)

// slotValue reads a series by the metric's kind: the mean of the gauge's values
// in the slot, or what the counter grew by over the time of that. Counters
// begin at the last value before the slot where there is one.
func slotValue(m Metric, values []model.SamplePair, start, end time.Time, left Left) (float64, state) {
	from, to := model.TimeFromUnixNano(start.UnixNano()), model.TimeFromUnixNano(end.UnixNano())
	var in []model.SamplePair
	var before *model.SamplePair
	seen := false
	for i := range values {
		p := &values[i]
		if p.Timestamp > to {
			continue
		}
		if v := float64(p.Value); math.IsNaN(v) || math.IsInf(v, 0) {
			left.add("not a number", m.Name)
			continue
		}
		seen = true
		switch {
		case p.Timestamp > from:
			in = append(in, *p)
		case before == nil || p.Timestamp > before.Timestamp:
			before = p
		}
	}
	if len(in) == 0 {
		if !seen {
			return 0, empty
		}
		left.add("no new value", m.Name)
		return 0, gap
	}
	v := mean(in)
	if m.Kind == Counter {
		if before != nil {
			in = append(in, *before)
		}
		var s state
		if v, s = growth(in); s != good {
			left.add(map[state]string{gap: "a counter's first value", odd: "counter went back"}[s], m.Name)
			return 0, s
		}
	}
	v *= m.Scale
	limit := most[m.Means]
	if limit == 1 && v > 1 && v < 1.01 {
		v = 1 // rounding
	}
	if v < 0 || v > limit {
		left.add("out of range", m.Name)
		return 0, odd
	}
	return v, good
}

func mean(in []model.SamplePair) float64 {
	sum := 0.0
	for _, p := range in {
		sum += float64(p.Value)
	}
	return sum / float64(len(in))
}

// growth is a counter's rate over its values' own time. One that went back was
// reset: what it counted in between is not known.
func growth(in []model.SamplePair) (float64, state) {
	slices.SortFunc(in, func(a, b model.SamplePair) int { return cmp.Compare(a.Timestamp, b.Timestamp) })
	first, last := in[0], in[len(in)-1]
	if last.Timestamp <= first.Timestamp {
		return 0, gap
	}
	for i := 1; i < len(in); i++ {
		if in[i].Value < in[i-1].Value {
			return 0, odd
		}
	}
	return float64(last.Value-first.Value) / last.Timestamp.Sub(first.Timestamp).Seconds(), good
}

// read reduces a metric's series to what each says of the slot, in an order
// that depends on their labels alone.
func read(m Metric, matrix model.Matrix, start, end time.Time, left Left) []value {
	slices.SortFunc(matrix, func(a, b *model.SampleStream) int { return cmp.Compare(a.Metric.String(), b.Metric.String()) })
	out := make([]value, 0, len(matrix))
	for _, stream := range matrix {
		v, s := slotValue(m, stream.Values, start, end, left)
		if s == empty {
			continue
		}
		moved := slices.ContainsFunc(stream.Values, func(p model.SamplePair) bool { return p.Value > 0 })
		out = append(out, value{labels: stream.Metric, v: v, state: s, moved: moved})
	}
	return out
}

// first returns the first of the labels that the series has.
func first(labels model.Metric, names []string) string {
	for _, n := range names {
		if v := labels[model.LabelName(n)]; v != "" {
			return string(v)
		}
	}
	return ""
}

// host cuts a port and a domain off a node's label.
func host(label string) string {
	name, _, _ := strings.Cut(label, ":")
	short, _, _ := strings.Cut(name, ".")
	return short
}
