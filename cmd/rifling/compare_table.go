// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"math"
	"strings"
	"time"

	"rifling/report"
)

// measure is one figure of a run; ok is false where it says nothing.
type measure struct {
	key  string
	of   func(*figures) (v float64, ok bool)
	head string // of the table; empty: only in CSV and JSON
	text func(float64) string
}

var measures = []measure{
	{"jct_mean_s", some(func(f *figures) float64 { return f.MeanJCT }), "JCT", shortSpan},
	{"jct_median_s", some(func(f *figures) float64 { return f.MedianJCT }), "", nil},
	{"jct_p95_s", some(func(f *figures) float64 { return f.P95JCT }), "JCT95", shortSpan},
	{"jct_p99_s", some(func(f *figures) float64 { return f.P99JCT }), "", nil},
	{"wait_mean_s", some(func(f *figures) float64 { return f.MeanWait }), "Wait", shortSpan},
	{"wait_median_s", some(func(f *figures) float64 { return f.MedianWait }), "", nil},
	{"wait_p95_s", some(func(f *figures) float64 { return f.P95Wait }), "", nil},
	{"bounded_slowdown", some(func(f *figures) float64 { return f.Slowdown }), "Slowdown", digits(1)},
	{"makespan_s", some(func(f *figures) float64 { return f.Makespan }), "Makespan", shortSpan},
	{"utilization", some(func(f *figures) float64 { return f.Utilization }), "Util", digits(3)},
	{"anpr", some(func(f *figures) float64 { return f.ANPR }), "ANPR", digits(3)},
	{"fragmentation", some(func(f *figures) float64 { return f.Fragmentation }), "Frag", digits(3)},
	{"fairness", func(f *figures) (float64, bool) {
		if f.Fairness == nil || f.Jobs == 0 {
			return 0, false
		}
		return *f.Fairness, true
	}, "Fair", digits(3)},
	{"timed_out", func(f *figures) (float64, bool) { return float64(f.TimedOut), true }, "AtLimit", digits(1)},
	{"impossible", func(f *figures) (float64, bool) { return float64(f.Impossible), true }, "", nil},
	{"preemptions", func(f *figures) (float64, bool) { return float64(f.Preempted), true }, "", nil},
	{"changes", func(f *figures) (float64, bool) { return float64(f.Writes), true }, "", nil},
}

func some(of func(*figures) float64) func(*figures) (float64, bool) {
	return func(f *figures) (float64, bool) { return of(f), f.Jobs > 0 }
}

func digits(n int) func(float64) string {
	return func(x float64) string { return fmt.Sprintf("%.*f", n, x) }
}

// shortSpan writes seconds in three digits or so: 45s, 12.3m, 6.51h, 3.2d.
func shortSpan(s float64) string {
	switch {
	case s < 100:
		return fmt.Sprintf("%.3gs", s)
	case s < 6000:
		return fmt.Sprintf("%.3gm", s/60)
	case s < 3*86400:
		return fmt.Sprintf("%.3gh", s/3600)
	}
	return fmt.Sprintf("%.3gd", s/86400)
}

// row is one policy under one load, over the seeds.
type row struct {
	Load        float64           `json:"load"`
	Policy      string            `json:"policy"`
	Clairvoyant bool              `json:"clairvoyant"`
	Preemptive  bool              `json:"preemptive"`
	Figures     map[string]spread `json:"figures"`
	// Difference is mean JCT over the first policy's, less 1, seed by seed; nil
	// for the first.
	Difference *spread `json:"jct_difference"`
	// Quantiles are the completion times' in percent steps, means over the
	// seeds, in seconds.
	Quantiles []float64 `json:"jct_quantiles_s"`

	mark string
}

func rowsOf(p *plan, list []played) []row {
	var out []row
	for l := range p.Loads {
		for pol := range p.Policies {
			r := row{
				Load: p.Loads[l], Policy: p.Policies[pol], mark: p.Marks[pol], Figures: map[string]spread{},
				Clairvoyant: strings.Contains(p.Marks[pol], "*"), Preemptive: strings.Contains(p.Marks[pol], "^"),
			}
			at := func(seed, policy int) *played { return &list[(l*len(p.Seeds)+seed)*len(p.Policies)+policy] }
			for _, m := range measures {
				var v []float64
				for s := range p.Seeds {
					if x, ok := m.of(&at(s, pol).figures); ok {
						v = append(v, x)
					}
				}
				if len(v) > 0 {
					r.Figures[m.key] = spreadOf(v)
				}
			}
			r.Quantiles = meanQuantiles(len(p.Seeds), func(s int) []float64 { return at(s, pol).Quantiles })
			if pol > 0 {
				var v []float64
				for s := range p.Seeds {
					if first := at(s, 0).MeanJCT; first > 0 {
						v = append(v, at(s, pol).MeanJCT/first-1)
					}
				}
				d := spreadOf(v)
				r.Difference = &d
			}
			out = append(out, r)
		}
	}
	return out
}

func meanQuantiles(n int, of func(int) []float64) []float64 {
	var out []float64
	for i := range n {
		q := of(i)
		if len(q) == 0 {
			return []float64{}
		}
		if out == nil {
			out = make([]float64, len(q))
		}
		for k, x := range q {
			out[k] += x / float64(n)
		}
	}
	return out
}

func writeComparison(w io.Writer, p *plan, list []played, rows []row, plots bool) error {
	fmt.Fprintf(w, "cluster  %s\n", p.Cluster)
	fmt.Fprintf(w, "work     %s, %s, %s; %d of them leave their nodes open\n", report.Clean(p.Trace), count(list[0].Asked, "job", "jobs"),
		count(len(p.Seeds), "seed", "seeds"), list[0].Open)
	for _, n := range p.Notes {
		fmt.Fprintf(w, "note     %s\n", report.Clean(n))
	}
	fmt.Fprintln(w)
	if err := report.Write(w, tableOf(list), rows, report.Style{}); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nMeans over seeds ± standard error. Diff is the mean JCT against %s, seed by seed.\n", p.Policies[0])
	if strings.Contains(strings.Join(p.Marks, ""), "*") || strings.Contains(strings.Join(p.Marks, ""), "^") {
		fmt.Fprintln(w, "* reads true run times, which no scheduler has; ^ preempts running jobs.")
	}
	if plots {
		writeBoxes(w, p, rows)
	}
	return nil
}

func tableOf(list []played) report.Layout[row] {
	cell := func(s spread, text func(float64) string) string {
		if s.N < 2 {
			return text(s.Mean)
		}
		return text(s.Mean) + " ±" + text(s.SE)
	}
	out := report.Layout[row]{
		{Name: "Load", Of: func(r *row) report.Value {
			if r.Load > 0 {
				return report.Float(r.Load, 2)
			}
			if list[0].Offered == nil {
				return report.Text("at once")
			}
			return report.Float(*list[0].Offered, 2)
		}},
		{Name: "Policy", Left: true, Of: func(r *row) report.Value { return report.Text(r.Policy + r.mark) }},
		{Name: "Diff %", Of: func(r *row) report.Value {
			if r.Difference == nil {
				return report.None
			}
			return report.Text(cell(*r.Difference, func(x float64) string { return fmt.Sprintf("%.1f", 100*x) }))
		}},
	}
	for _, m := range measures {
		if m.head == "" {
			continue
		}
		out = append(out, report.Field[row]{Name: m.head, Of: func(r *row) report.Value {
			s, ok := r.Figures[m.key]
			if !ok {
				return report.Text("-")
			}
			return report.Text(cell(s, m.text))
		}})
	}
	return out
}

// boxWidth is the columns of a plot.
const boxWidth = 64

// writeBoxes draws the completion times' distribution by policy: from 5 to 95 %
// on a logarithmic axis, the middle half thick, the median marked.
func writeBoxes(w io.Writer, p *plan, rows []row) {
	low, high := math.Inf(1), 0.0
	wide := 0
	for i := range rows {
		if q := rows[i].Quantiles; len(q) == 101 {
			low, high = min(low, q[5]), max(high, q[95])
		}
		wide = max(wide, len(rows[i].Policy)+len(rows[i].mark))
	}
	low = max(1, low)
	if !(high > low) {
		return
	}
	at := func(s float64) int {
		x := math.Log(max(low, s)/low) / math.Log(high/low)
		return min(boxWidth-1, int(x*(boxWidth-1)+0.5))
	}
	fmt.Fprintf(w, "\nCompletion times, 5 to 95 %%, == the middle half, O the median; logarithmic\n")
	last := math.NaN()
	for i := range rows {
		r := &rows[i]
		if len(p.Loads) > 1 && r.Load != last {
			fmt.Fprintf(w, "load %.2f\n", r.Load)
			last = r.Load
		}
		if len(r.Quantiles) != 101 {
			continue
		}
		bar := []byte(strings.Repeat(" ", boxWidth))
		fill := func(a, b int, c byte) {
			for k := at(r.Quantiles[a]); k <= at(r.Quantiles[b]); k++ {
				bar[k] = c
			}
		}
		fill(5, 95, '-')
		fill(25, 75, '=')
		bar[at(r.Quantiles[50])] = 'O'
		fmt.Fprintf(w, "%-*s |%s|\n", wide, r.Policy+r.mark, bar)
	}
	fmt.Fprintf(w, "%-*s  %s\n", wide, "", axis(low, high, at))
}

// axis writes times that people know below their places.
func axis(low, high float64, at func(float64) int) string {
	marks := []time.Duration{
		time.Second, 10 * time.Second, time.Minute, 10 * time.Minute, time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour, 30 * 24 * time.Hour,
	}
	names := []string{"1s", "10s", "1m", "10m", "1h", "6h", "1d", "7d", "30d"}
	line := []byte(strings.Repeat(" ", boxWidth+4))
	free := 0
	for i, m := range marks {
		s := m.Seconds()
		if s < low || s > high || at(s) < free {
			continue
		}
		copy(line[at(s):], names[i])
		free = at(s) + len(names[i]) + 1
	}
	return strings.TrimRight(string(line), " ")
}
