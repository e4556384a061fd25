// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"time"

	"rifling/report"
	"rifling/store"
)

// document is the report as a page.
func (c *reportCall) document(layout report.Layout[store.Figures]) *report.Document {
	d := &report.Document{Title: "GPU jobs under rifling", Foot: fmt.Sprintf("Made %s by rifling %s. Means over days; times of submission.", c.clock(c.env.Now()), version)}
	jobs := 0
	for i := range c.report.Rows {
		jobs += c.report.Rows[i].Jobs
	}
	lead := count(jobs, "GPU job", "GPU jobs")
	if !c.report.First.IsZero() {
		lead += fmt.Sprintf(" submitted from %s to %s", c.clock(c.report.First), c.clock(c.report.Last))
	}
	d.Lead = append([]string{lead + "."}, c.notes()...)
	if plots := c.plots(); len(plots) > 0 {
		d.Sections = append(d.Sections, report.Section{Heading: "Day by day", Plots: plots})
	}
	if len(c.changes) > 0 {
		d.Sections = append(d.Sections, report.Section{
			Heading: "Before and after " + c.clock(c.at), Text: []string{c.changeNote()},
			Table: report.TableOf("Means before and after, with intervals of 95 %", c.changeLayout(), c.changes),
		})
	}
	if c.alone != nil {
		d.Sections = append(d.Sections, report.Section{Heading: "What Slurm alone would have done", Text: c.alone.words(c.app)})
	}
	heading := "All jobs"
	if len(c.by) > 0 {
		heading = "By " + joined(c.by)
	}
	meaning := []string{
		"GPUHours are GPU hours allocated; Used is the part of them that was used, as far as samples measured it. WaitMean is the queueing delay from eligible to start, JCT the time from submit to end.",
		"Slowdown is bounded: (wait + run time) / run time of at least 10 s, at least 1. ANPR is the mean normalized processing rate, weighted by GPU time. Fragmentation is the part of the GPUs free while jobs waited that lay on partly taken nodes; unevenness the standard deviation over nodes of the part of their GPUs in use.",
	}
	d.Sections = append(d.Sections, report.Section{Heading: heading, Text: meaning, Table: report.TableOf("Figures of the jobs", layout, c.report.Rows)})
	return d
}

func joined(words []string) string {
	out := words[0]
	for i, w := range words[1:] {
		if i == len(words)-2 {
			out += " and " + w
			continue
		}
		out += ", " + w
	}
	return out
}

// plots are the figures by day, all rows together, and those of the cluster.
func (c *reportCall) plots() []report.Plot {
	days := c.days()
	label := func(t time.Time) string { return t.Format(time.DateOnly) }
	var labels []string
	for i := range days {
		labels = append(labels, label(days[i].Day))
	}
	mark, word := 0, ""
	if !c.at.IsZero() {
		at := label(c.local(c.at))
		mark, _ = slices.BinarySearch(labels, at)
		word = "from here: after"
	}
	line := func(title, name, unit string, of func(*store.Block) store.Sum) report.Plot {
		s := report.Series{Name: name}
		for i := range days {
			s.Values = append(s.Values, orGap(of(&days[i])))
		}
		return report.Plot{Title: title, Unit: unit, Labels: labels, Series: []report.Series{s}, Mark: mark, MarkLabel: word}
	}
	var out []report.Plot
	if len(days) > 0 {
		out = append(out,
			line("Mean queueing delay of the jobs submitted on a day", "queueing delay", "s", func(b *store.Block) store.Sum { return b.Wait }),
			line("Mean job completion time", "JCT", "s", func(b *store.Block) store.Sum { return b.JCT }),
			line("Mean bounded slowdown", "slowdown", "", func(b *store.Block) store.Sum { return b.Slowdown }),
			line("Jobs submitted", "jobs", "", func(b *store.Block) store.Sum { return store.Sum{Sum: float64(b.Jobs), N: 1} }))
	}
	if len(c.cluster) > 0 {
		out = append(out, c.clusterPlot())
	}
	return out
}

// orGap is a mean, or no number where there is none.
func orGap(s store.Sum) float64 {
	if s.N <= 0 {
		return math.NaN()
	}
	return s.Mean()
}

// days adds the rows' days up.
func (c *reportCall) days() []store.Block {
	at := map[int64]*store.Block{}
	for i := range c.report.Rows {
		for _, b := range c.report.Rows[i].Days {
			sum, ok := at[b.Day.Unix()]
			if !ok {
				sum = &store.Block{Day: b.Day}
				at[b.Day.Unix()] = sum
			}
			sum.Jobs += b.Jobs
			sum.Wait, sum.JCT = sum.Wait.Plus(b.Wait), sum.JCT.Plus(b.JCT)
			sum.Slowdown, sum.ANPR = sum.Slowdown.Plus(b.Slowdown), sum.ANPR.Plus(b.ANPR)
		}
	}
	out := make([]store.Block, 0, len(at))
	for _, b := range at {
		out = append(out, *b)
	}
	slices.SortFunc(out, func(a, b store.Block) int { return a.Day.Compare(b.Day) })
	return out
}

func (c *reportCall) clusterPlot() report.Plot {
	p := report.Plot{Title: "The cluster: GPUs in use, ANPR, fragmentation (parts of 1)"}
	used, anpr, frag := report.Series{Name: "GPUs in use"}, report.Series{Name: "ANPR"}, report.Series{Name: "fragmentation"}
	for _, d := range c.cluster {
		p.Labels = append(p.Labels, d.Day.Format(time.DateOnly))
		used.Values = append(used.Values, orGap(d.Used))
		anpr.Values = append(anpr.Values, orGap(d.ANPR))
		frag.Values = append(frag.Values, orGap(d.Split))
	}
	p.Series = []report.Series{used, anpr, frag}
	return p
}

// writeJSON writes all there is as one object.
func (c *reportCall) writeJSON(layout report.Layout[store.Figures]) error {
	type change struct {
		Key    []string `json:"key"`
		Mean   string   `json:"mean"`
		Unit   string   `json:"unit"`
		Before float64  `json:"before"`
		After  float64  `json:"after"`
		Diff   float64  `json:"difference"`
		Low    float64  `json:"low"`
		High   float64  `json:"high"`
		Days   [2]int   `json:"days"`
		Word   string   `json:"verdict"`
	}
	type clusterJSON struct {
		Cycles     int      `json:"cycles"`
		Used       *float64 `json:"gpus_used_ratio"`
		Split      *float64 `json:"fragmentation"`
		Unevenness *float64 `json:"unevenness"`
		Pending    *float64 `json:"pending_jobs"`
	}
	mean := func(s store.Sum) *float64 {
		if s.N <= 0 {
			return nil
		}
		m := s.Mean()
		return &m
	}
	changes := []change{}
	for i := range c.changes {
		x := &c.changes[i]
		unit := "1"
		if x.time {
			unit = "s"
		}
		changes = append(changes, change{append([]string{}, x.key...), x.name, unit, x.c.Before, x.c.After, x.c.Diff, x.c.Low, x.c.High, [2]int{x.c.DaysBefore, x.c.DaysAfter}, x.verdict()})
	}
	rows, err := report.Marshal(layout, c.report.Rows)
	if err != nil {
		return err
	}
	s := c.shape()
	return writeJSON(c.out, struct {
		First      *time.Time      `json:"first_submit"`
		Last       *time.Time      `json:"last_submit"`
		Rows       json.RawMessage `json:"jobs"`
		Cluster    clusterJSON     `json:"cluster"`
		Switch     *time.Time      `json:"before_after"`
		Straddling int             `json:"left_out"`
		Changes    []change        `json:"changes"`
		Alone      *alone          `json:"slurm_alone"`
	}{
		c.instant(c.report.First), c.instant(c.report.Last), rows,
		clusterJSON{s.Cycles, mean(s.Used), mean(s.Split), mean(s.Unevenness), mean(s.Pending)},
		c.instant(c.at), c.report.Straddling, changes, c.alone,
	})
}

// instant is nil where it is not known.
func (c *reportCall) instant(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = c.local(t)
	return &t
}
