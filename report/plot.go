// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"html"
	"math"
	"strconv"
	"strings"
)

// Series is one line of a plot. A value that is not finite leaves a gap.
type Series struct {
	Name   string
	Values []float64
}

// Plot is lines over places on a common axis, days say.
type Plot struct {
	Title  string
	Unit   string   // of the values: "s" is written as minutes, hours or days
	Labels []string // of the places, in order
	Series []Series
	// Mark is the place before which a dashed line stands, with its label;
	// nothing where MarkLabel is empty.
	Mark      int
	MarkLabel string
}

// Size of the drawing, in its own units.
const (
	plotWidth, plotHeight = 720.0, 240.0
	plotLeft, plotRight   = 64.0, 36.0
	plotTop, plotBottom   = 20.0, 30.0
	plotLines             = 4 // of the grid
	strokePatterns        = 3
)

// SVG draws the plot, with a title and a text alternative, in the colours of
// the page's style sheet. id must be unlike that of any other on the page.
func (p *Plot) SVG(id string) string {
	var b strings.Builder
	esc := func(s string) string { return html.EscapeString(Clean(s)) }
	fmt.Fprintf(&b, `<svg viewBox="0 0 %.0f %.0f" role="img" aria-labelledby="%s-t %s-d">`, plotWidth, plotHeight, id, id)
	fmt.Fprintf(&b, `<title id="%s-t">%s</title><desc id="%s-d">%s</desc>`, id, esc(p.Title), id, esc(p.Text()))
	top := niceTop(p.most(), p.Unit)
	y := func(v float64) float64 { return plotHeight - plotBottom - v/top*(plotHeight-plotTop-plotBottom) }
	for i := range plotLines + 1 {
		v := top * float64(i) / plotLines
		fmt.Fprintf(&b, `<line class="grid" x1="%.0f" x2="%.0f" y1="%.1f" y2="%.1f"/><text class="tick" x="%.0f" y="%.1f" text-anchor="end">%s</text>`,
			plotLeft, plotWidth-plotRight, y(v), y(v), plotLeft-6, y(v)+4, esc(p.word(v)))
	}
	p.places(&b, esc)
	for i, s := range p.Series {
		p.line(&b, i, s, y)
	}
	b.WriteString(`</svg>`)
	return b.String()
}

func (p *Plot) x(i int) float64 {
	if len(p.Labels) < 2 {
		return (plotLeft + plotWidth - plotRight) / 2
	}
	return plotLeft + float64(i)/float64(len(p.Labels)-1)*(plotWidth-plotLeft-plotRight)
}

// places writes up to seven labels below, and the mark.
func (p *Plot) places(b *strings.Builder, esc func(string) string) {
	step := max(1, int(math.Ceil(float64(len(p.Labels))/7)))
	for i := 0; i < len(p.Labels); i += step {
		fmt.Fprintf(b, `<text class="tick" x="%.1f" y="%.0f" text-anchor="middle">%s</text>`, p.x(i), plotHeight-10, esc(p.Labels[i]))
	}
	if p.MarkLabel == "" || p.Mark <= 0 || p.Mark >= len(p.Labels) {
		return
	}
	x := (p.x(p.Mark-1) + p.x(p.Mark)) / 2
	fmt.Fprintf(b, `<line class="mark" x1="%.1f" x2="%.1f" y1="%.0f" y2="%.0f"/><text class="tick" x="%.1f" y="%.0f">%s</text>`,
		x, x, plotTop, plotHeight-plotBottom, x+4, plotTop-6, esc(p.MarkLabel))
}

// line draws a series; what stands alone between gaps is a dot.
func (p *Plot) line(b *strings.Builder, i int, s Series, y func(float64) float64) {
	class := fmt.Sprintf("s%d", i%strokePatterns)
	var run []string
	flush := func() {
		switch len(run) {
		case 0:
		case 1:
			x, yy, _ := strings.Cut(run[0], ",")
			fmt.Fprintf(b, `<circle class="%s" cx="%s" cy="%s" r="3"/>`, class, x, yy)
		default:
			fmt.Fprintf(b, `<polyline class="%s" points="%s"/>`, class, strings.Join(run, " "))
		}
		run = run[:0]
	}
	for k, v := range s.Values {
		if math.IsNaN(v) || math.IsInf(v, 0) {
			flush()
			continue
		}
		run = append(run, fmt.Sprintf("%.1f,%.1f", p.x(k), y(v)))
	}
	flush()
}

func (p *Plot) most() float64 {
	out := 0.0
	for _, s := range p.Series {
		for _, v := range s.Values {
			if !math.IsNaN(v) && !math.IsInf(v, 0) {
				out = max(out, v)
			}
		}
	}
	return out
}

// Text says in words what the plot shows.
func (p *Plot) Text() string {
	var out []string
	for _, s := range p.Series {
		first, last, low, high, n := math.NaN(), 0.0, math.Inf(1), math.Inf(-1), 0
		for _, v := range s.Values {
			if math.IsNaN(v) || math.IsInf(v, 0) {
				continue
			}
			if n == 0 {
				first = v
			}
			last, low, high, n = v, min(low, v), max(high, v), n+1
		}
		if n == 0 {
			out = append(out, s.Name+": no values.")
			continue
		}
		out = append(out, fmt.Sprintf("%s: %d values, the first %s, the last %s, between %s and %s.",
			s.Name, n, p.word(first), p.word(last), p.word(low), p.word(high)))
	}
	if len(p.Labels) > 0 {
		out = append(out, fmt.Sprintf("From %s to %s.", p.Labels[0], p.Labels[len(p.Labels)-1]))
	}
	return strings.Join(out, " ")
}

// word writes a value with its unit.
func (p *Plot) word(v float64) string {
	if p.Unit != "s" {
		out := strconv.FormatFloat(v, 'g', 4, 64)
		if p.Unit != "" {
			out += " " + p.Unit
		}
		return out
	}
	for _, u := range []struct {
		span float64
		name string
	}{{86400, "d"}, {3600, "h"}, {60, "min"}} {
		if v >= u.span {
			return strconv.FormatFloat(v/u.span, 'g', 3, 64) + " " + u.name
		}
	}
	return strconv.FormatFloat(v, 'g', 3, 64) + " s"
}

// niceTop is the end of the axis: a round number not below the largest value.
func niceTop(most float64, unit string) float64 {
	if !(most > 0) {
		return 1
	}
	scale := 1.0
	if unit == "s" {
		for _, span := range []float64{86400, 3600, 60} {
			if most >= span {
				scale = span
				break
			}
		}
	}
	decade := math.Pow(10, math.Floor(math.Log10(most/scale)))
	for _, m := range []float64{1, 2, 4, 6, 8, 10} {
		if top := m * decade * scale; top >= most {
			return top
		}
	}
	return most
}
