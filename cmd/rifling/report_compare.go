// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"slices"

	"rifling/report"
	"rifling/store"
)

// comparison is one figure of one row, before and after.
type comparison struct {
	key  []string
	name string // of the figure
	time bool   // seconds
	less bool   // less is better
	c    report.Change
}

// compared are the figures that are compared.
var compared = []struct {
	name       string
	time, less bool
	of         func(*store.Block) store.Sum
}{
	{"queueing delay", true, true, func(b *store.Block) store.Sum { return b.Wait }},
	{"JCT", true, true, func(b *store.Block) store.Sum { return b.JCT }},
	{"bounded slowdown", false, true, func(b *store.Block) store.Sum { return b.Slowdown }},
	{"ANPR", false, false, func(b *store.Block) store.Sum { return b.ANPR }},
}

// compare sets the sides of each row beside one another.
func (c *reportCall) compare() []comparison {
	if c.at.IsZero() {
		return nil
	}
	var out []comparison
	for i := range c.report.Rows {
		before := &c.report.Rows[i]
		if before.Side != store.SideBefore {
			continue
		}
		at := slices.IndexFunc(c.report.Rows, func(f store.Figures) bool {
			return f.Side == store.SideAfter && slices.Equal(f.Key, before.Key)
		})
		if at < 0 {
			continue
		}
		for _, what := range compared {
			days := func(f *store.Figures) []report.Day {
				var list []report.Day
				for k := range f.Days {
					s := what.of(&f.Days[k])
					list = append(list, report.Day{Sum: s.Sum, N: s.N})
				}
				return list
			}
			if ch, ok := report.Difference(days(before), days(&c.report.Rows[at]), c.seed); ok {
				out = append(out, comparison{before.Key, what.name, what.time, what.less, ch})
			}
		}
	}
	return out
}

// verdict says what the interval allows to say.
func (x *comparison) verdict() string {
	switch {
	case x.c.DaysBefore < 2 || x.c.DaysAfter < 2:
		return "too few days"
	case !x.c.Clear():
		return "no clear difference"
	case (x.c.Diff < 0) == x.less:
		return "better"
	}
	return "worse"
}

func (c *reportCall) changeLayout() report.Layout[comparison] {
	var l report.Layout[comparison]
	for i, k := range c.by {
		l = append(l, report.Field[comparison]{Name: keyNames[k], Left: true, Of: func(x *comparison) report.Value { return report.Text(x.key[i]) }})
	}
	value := func(name string, of func(*comparison) float64) report.Field[comparison] {
		return report.Field[comparison]{Name: name, Of: func(x *comparison) report.Value { return report.Text(x.word(of(x))) }}
	}
	return append(l,
		report.Field[comparison]{Name: "Mean", Left: true, Of: func(x *comparison) report.Value { return report.Text(x.name) }},
		value("Before", func(x *comparison) float64 { return x.c.Before }),
		value("After", func(x *comparison) float64 { return x.c.After }),
		value("Difference", func(x *comparison) float64 { return x.c.Diff }),
		report.Field[comparison]{Name: "95 % interval", Of: func(x *comparison) report.Value {
			return report.Text(x.word(x.c.Low) + " to " + x.word(x.c.High))
		}},
		report.Field[comparison]{Name: "Change", Of: func(x *comparison) report.Value {
			if x.c.Before == 0 {
				return report.None
			}
			return report.Text(fmt.Sprintf("%+.1f %%", 100*x.c.Diff/x.c.Before))
		}},
		report.Field[comparison]{Name: "Verdict", Left: true, Of: func(x *comparison) report.Value { return report.Text(x.verdict()) }},
	)
}

// word writes a value of the figure.
func (x *comparison) word(v float64) string {
	sign := ""
	if v < 0 {
		sign = "-"
	}
	if x.time {
		return sign + report.Duration(secs(math.Abs(v))).String()
	}
	return sign + report.Float(math.Abs(v), 3).String()
}

func (c *reportCall) changeNote() string {
	days := [2]int{math.MaxInt, math.MaxInt}
	for i := range c.changes {
		days[0], days[1] = min(days[0], c.changes[i].c.DaysBefore), min(days[1], c.changes[i].c.DaysAfter)
	}
	note := fmt.Sprintf("Before and from %s on, by submission. Bootstrap over days, seed %d.", c.clock(c.at), c.seed)
	if min(days[0], days[1]) < fewDays {
		note += fmt.Sprintf(" One side has %d days or fewer in a row of the table: its interval says little.", min(days[0], days[1]))
	}
	return note + " The jobs of the two times differ as well as the scheduling: a difference is no proof of its cause."
}
