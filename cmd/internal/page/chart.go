// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"fmt"
	"math"
	"strings"
	"sync"
	"time"

	"rifling/store"
)

// span is a stretch of time that the learning curve can show.
type span struct {
	Key, Name string
	length    time.Duration
	every     time.Duration // of one point
}

var spans = []span{
	{"1d", "24 hours", 24 * time.Hour, 15 * time.Minute},
	{"7d", "7 days", 7 * 24 * time.Hour, time.Hour},
	{"30d", "30 days", 30 * 24 * time.Hour, 4 * time.Hour},
	{"90d", "90 days", 90 * 24 * time.Hour, 12 * time.Hour},
}

// curves keeps what was read of the history for a while: ninety days are half a
// million cycles, too many for each look.
type curves struct {
	mu sync.Mutex
	of map[string]*curve
}

type curve struct {
	mu     sync.Mutex // held while it is read, so that it is read once
	points []store.CurvePoint
	until  time.Time // by Slurm's clock
}

// get returns the points of a span that ends now, by Slurm's clock. They may
// lack as much as one point.
func (c *curves) get(ctx context.Context, h *store.Store, now time.Time, s span) ([]store.CurvePoint, error) {
	c.mu.Lock()
	k := c.of[s.Key]
	if k == nil {
		k = &curve{}
		c.of[s.Key] = k
	}
	c.mu.Unlock()
	k.mu.Lock()
	defer k.mu.Unlock()
	if age := now.Sub(k.until); age >= 0 && age < s.every/5 {
		return k.points, nil
	}
	points, err := h.Curve(ctx, now.Add(-s.length), s.every)
	if err != nil {
		return nil, err
	}
	k.points, k.until = points, now
	return points, nil
}

// chart is a line over time, in the units of its viewBox.
type chart struct {
	Title, Summary string
	Lines          []string // paths; the line breaks where there is no value
	Dots           []dot    // values with none beside them
	XTicks, YTicks []tick
	Empty          bool
}

type tick struct {
	At   float64
	Text string
}

type dot struct{ X, Y float64 }

// Plot area of a chart within its viewBox of 720 by 200.
const (
	chartLeft, chartRight = 44, 712
	chartTop, chartBottom = 10, 172
)

// scale maps values to the plot area.
type scale struct {
	from, to   time.Time
	low, high  float64
	x0, x1     float64
	y0, y1     float64 // of low and high
	every      time.Duration
	breakAfter time.Duration
}

func (s scale) x(t time.Time) float64 {
	return s.x0 + (s.x1-s.x0)*t.Sub(s.from).Seconds()/s.to.Sub(s.from).Seconds()
}

func (s scale) y(v float64) float64 {
	if s.high <= s.low {
		return (s.y0 + s.y1) / 2
	}
	return s.y0 + (s.y1-s.y0)*(v-s.low)/(s.high-s.low)
}

// draw makes the lines and dots of the values.
func (s scale) draw(points []store.CurvePoint, value func(*store.CurvePoint) (float64, bool)) (lines []string, dots []dot) {
	var b strings.Builder
	var last time.Time
	n := 0
	flush := func(x, y float64) {
		if n == 1 {
			dots = append(dots, dot{x, y})
		} else if n > 1 {
			lines = append(lines, b.String())
		}
		b.Reset()
		n = 0
	}
	var x, y float64
	for i := range points {
		v, ok := value(&points[i])
		if !ok || n > 0 && points[i].At.Sub(last) > s.breakAfter {
			flush(x, y)
		}
		if !ok {
			continue
		}
		at := points[i].At.Add(s.every / 2)
		x, y, last = s.x(at), s.y(v), points[i].At
		letter := "L"
		if n == 0 {
			letter = "M"
		}
		fmt.Fprintf(&b, "%s%.1f %.1f", letter, x, y)
		n++
	}
	flush(x, y)
	return lines, dots
}

// sparkline is a line without axes over the points' own range, in 100 by 22.
func sparkline(points []store.CurvePoint, value func(*store.CurvePoint) (float64, bool)) *chart {
	s := span{every: spans[0].every}
	low, high, n := valueRange(points, value)
	if n < 2 {
		return nil
	}
	sc := scale{
		from: points[0].At, to: points[len(points)-1].At.Add(s.every), low: low, high: high,
		x0: 0, x1: 100, y0: 20, y1: 2, every: s.every, breakAfter: 2 * s.every,
	}
	c := &chart{}
	c.Lines, _ = sc.draw(points, value)
	return c
}

func valueRange(points []store.CurvePoint, value func(*store.CurvePoint) (float64, bool)) (low, high float64, n int) {
	low, high = math.Inf(1), math.Inf(-1)
	for i := range points {
		if v, ok := value(&points[i]); ok {
			low, high, n = min(low, v), max(high, v), n+1
		}
	}
	return low, high, n
}

// series is what a chart shows of the points.
type series struct {
	title string
	unit  string
	value func(*store.CurvePoint) (float64, bool)
	// floor and ceiling are shown at least.
	floor, ceiling float64
	digits         int
}

// newChart draws one series over a span that ends now.
func newChart(points []store.CurvePoint, s series, sp span, now time.Time, zone *time.Location) *chart {
	c := &chart{Title: s.title}
	low, high, n := valueRange(points, s.value)
	if n == 0 {
		c.Empty, c.Summary = true, "No values in this time."
		return c
	}
	first, last := math.NaN(), math.NaN()
	for i := range points {
		if v, ok := s.value(&points[i]); ok {
			if math.IsNaN(first) {
				first = v
			}
			last = v
		}
	}
	c.Summary = fmt.Sprintf("From %.*f to %.*f%s over %s; lowest %.*f, highest %.*f.",
		s.digits, first, s.digits, last, s.unit, plural(n, "interval", "intervals"), s.digits, low, s.digits, high)
	low, high = min(low, s.floor), max(high, s.ceiling)
	ticks := niceTicks(low, high)
	sc := scale{
		from: now.Add(-sp.length), to: now, low: min(low, ticks[0]), high: max(high, ticks[len(ticks)-1]),
		x0: chartLeft, x1: chartRight, y0: chartBottom, y1: chartTop, every: sp.every, breakAfter: 2 * sp.every,
	}
	c.Lines, c.Dots = sc.draw(points, s.value)
	for _, t := range ticks {
		c.YTicks = append(c.YTicks, tick{sc.y(t), tickText(t, ticks)})
	}
	c.XTicks = timeTicks(sc, sp, zone)
	return c
}

// niceTicks returns three to six round values that cover low to high.
func niceTicks(low, high float64) []float64 {
	if high <= low {
		high = low + 1
	}
	raw := (high - low) / 4
	mag := math.Pow(10, math.Floor(math.Log10(raw)))
	step := mag
	for _, m := range []float64{1, 2, 2.5, 5, 10} {
		if step = m * mag; step >= raw {
			break
		}
	}
	var out []float64
	for k := math.Floor(low/step + 1e-9); ; k++ {
		out = append(out, k*step)
		if k*step >= high-1e-9*step {
			return out
		}
	}
}

func tickText(t float64, all []float64) string {
	digits := 0
	if len(all) > 1 {
		for step := all[1] - all[0]; digits < 3 && math.Abs(step-math.Round(step)) > 1e-6; digits++ {
			step *= 10
		}
	}
	if t == 0 {
		t = 0 // no "-0"
	}
	return fmt.Sprintf("%.*f", digits, t)
}

// timeTicks marks whole hours or days.
func timeTicks(sc scale, sp span, zone *time.Location) []tick {
	step, layout := 4*time.Hour, "15:04"
	switch sp.Key {
	case "7d":
		step, layout = 24*time.Hour, "2 Jan"
	case "30d":
		step, layout = 5*24*time.Hour, "2 Jan"
	case "90d":
		step, layout = 15*24*time.Hour, "2 Jan"
	}
	from := sc.from.In(zone)
	midnight := time.Date(from.Year(), from.Month(), from.Day(), 0, 0, 0, 0, zone)
	var out []tick
	for t := midnight; !t.After(sc.to); t = t.Add(step) {
		if x := sc.x(t); !t.Before(sc.from) && x > chartLeft+8 && x < chartRight-14 {
			out = append(out, tick{x, t.Format(layout)})
		}
	}
	return out
}
