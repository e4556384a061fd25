// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
)

// The bars, in percent: means over the settings at 50 Gb/s and less with load
// 0.9 or more, by placement alone and with order.
var headlineBars = []struct {
	against, figure string
	placed, ordered float64
}{
	{"slurm", "jct", -25, -45},
	{"slurm", "anpr", 15, 15},
	{"slurm", "makespan", -12, -12},
	{"strict", "jct", -10, -30},
	{"strict", "anpr", 6, 6},
	{"strict", "makespan", 0, 0},
}

// headlineOf are the rows that the bars are about, and what the bars call them.
var headlineOf = []struct {
	row, short string
	orders     bool
}{
	{"rule", "rule", false},
	{"rifling trained", "rifling", false},
	{"learned, order", "learned", true},
}

// grid holds outcomes by setting, row and seed.
type grid struct {
	rows     []row
	settings []setting
	at       [][][]outcome
}

func newGrid(settings []setting, rows []row, all []outcome) grid {
	g := grid{rows: rows, settings: settings, at: make([][][]outcome, len(settings))}
	for i := range settings {
		g.at[i] = make([][]outcome, len(rows))
	}
	slices.SortFunc(all, func(a, b outcome) int { return cmp.Compare(a.seed, b.seed) })
	for _, o := range all {
		g.at[o.setting][o.row] = append(g.at[o.setting][o.row], o)
	}
	return g
}

func (g grid) row(name string) int {
	return slices.IndexFunc(g.rows, func(r row) bool { return r.name == name })
}

func (o outcome) figure(name string) float64 {
	switch name {
	case "jct":
		return o.jct
	case "p95":
		return o.p95
	case "makespan":
		return o.makespan
	case "bound":
		return o.bound
	}
	return o.anpr
}

// change is the mean change of a figure in percent from one row to another over
// settings, with its standard error over seeds: each seed's mean over the
// settings is one observation.
func (g grid) change(settings []int, from, to int, figure string) (mean, se float64) {
	by := make([]float64, testSeeds)
	for _, s := range settings {
		for k := range testSeeds {
			by[k] += 100 * (g.at[s][to][k].figure(figure)/g.at[s][from][k].figure(figure) - 1) / float64(len(settings))
		}
	}
	return meanSE(by)
}

func meanSE(v []float64) (mean, se float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		se += (x - mean) * (x - mean)
	}
	n := float64(len(v))
	return mean, math.Sqrt(se / (n - 1) / n)
}

func headlineTables(out io.Writer, settings []setting, rows []row, all []outcome) {
	g := newGrid(settings, rows, all)
	for _, law := range []bool{false, true} {
		g.perSetting(out, law)
	}
	for _, law := range []bool{false, true} {
		g.summary(out, law)
	}
}

func lawName(law bool) string {
	if law {
		return "flat law (exponent 0.1, two nodes 1.9)"
	}
	return "linear (the NIC is the brake)"
}

// perSetting prints each setting's changes of the rows that matter most.
func (g grid) perSetting(out io.Writer, law bool) {
	picked := g.choose(func(s setting) bool { return s.law == law })
	if len(picked) == 0 {
		return
	}
	fmt.Fprintf(out, "\nspeed model: %s. Change in %% of mean JCT / makespan / ANPR, +- standard error of JCT over %d lists\n", lawName(law), testSeeds)
	fmt.Fprintf(out, "%-31s %5s |", "setting", "open%")
	for _, of := range headlineOf {
		fmt.Fprintf(out, " %-21s %-21s |", of.short+" : slurm", ": strict")
	}
	fmt.Fprintln(out, " makespan bound : slurm, strict")
	for _, i := range picked {
		open := 0.0
		for _, o := range g.at[i][0] {
			open += 100 * o.open / testSeeds
		}
		fmt.Fprintf(out, "%-31s %5.0f |", g.settings[i], open)
		for _, of := range headlineOf {
			for _, base := range []string{"slurm", "strict"} {
				fmt.Fprintf(out, " %s", g.three(i, g.row(base), g.row(of.row)))
			}
			fmt.Fprint(out, " |")
		}
		fmt.Fprintf(out, " %.0f, %.0f\n", g.toBound(i, g.row("slurm")), g.toBound(i, g.row("strict")))
	}
}

func (g grid) three(i, from, to int) string {
	jct, se := g.change([]int{i}, from, to, "jct")
	makespan, _ := g.change([]int{i}, from, to, "makespan")
	anpr, _ := g.change([]int{i}, from, to, "anpr")
	return fmt.Sprintf("%4.0f+-%-3.0f/%4.0f/%4.0f    ", jct, se, makespan, anpr)
}

// toBound is by how many percent the bound lies under the row's makespan.
func (g grid) toBound(i, r int) float64 {
	sum := 0.0
	for _, o := range g.at[i][r] {
		sum += 100 * (o.bound/o.makespan - 1) / testSeeds
	}
	return sum
}

func (g grid) choose(keep func(setting) bool) []int {
	var out []int
	for i, s := range g.settings {
		if keep(s) {
			out = append(out, i)
		}
	}
	return out
}

// summary prints the rows over the settings that the bars are about, and the bars.
func (g grid) summary(out io.Writer, law bool) {
	picked := g.choose(func(s setting) bool { return s.law == law && s.counts() })
	if len(picked) == 0 {
		return
	}
	fmt.Fprintf(out, "\nmean over %d settings at 25 and 50 Gb/s, load 0.9, 1.2 and all at once; speed model: %s\n", len(picked), lawName(law))
	fmt.Fprintf(out, "%-16s %9s %9s %10s %6s %5s | %-44s | %s\n", "row", "JCT s", "p95 s", "makespan s", "ANPR", "late",
		"% against slurm: JCT, p95, makespan, ANPR", "% against strict: JCT, p95, makespan, ANPR")
	for k, r := range g.rows {
		m, late := g.means(picked, k)
		fmt.Fprintf(out, "%-16s %9.0f %9.0f %10.0f %6.3f %5d |%s |%s\n", r.name, m.jct, m.p95, m.makespan, m.anpr, late,
			g.changes(picked, g.row("slurm"), k), g.changes(picked, g.row("strict"), k))
	}
	bound, jobs := 0.0, 0
	for _, i := range picked {
		for _, o := range g.at[i][0] {
			bound += o.bound / float64(len(picked)*testSeeds)
			jobs += o.jobs
		}
	}
	fmt.Fprintf(out, "%-16s %9s %9s %10.0f\n", "lower bound", "", "", bound)
	fmt.Fprintf(out, "late: jobs that their time limit ended, of %d\n", jobs)
	suffix := ""
	if law {
		suffix = "/law"
	}
	for _, of := range headlineOf {
		g.bars(out, picked, g.row(of.row), "headline"+suffix+"/"+of.short, of.orders)
	}
	g.spanBar(out, law, "headline"+suffix)
}

func (g grid) means(settings []int, k int) (m figures, late int) {
	n := float64(len(settings) * testSeeds)
	for _, i := range settings {
		for _, o := range g.at[i][k] {
			m.jct, m.p95, m.makespan, m.anpr = m.jct+o.jct/n, m.p95+o.p95/n, m.makespan+o.makespan/n, m.anpr+o.anpr/n
			late += o.timedOut
		}
	}
	return m, late
}

func (g grid) changes(settings []int, from, to int) string {
	s := ""
	for _, f := range []string{"jct", "p95", "makespan", "anpr"} {
		m, se := g.change(settings, from, to, f)
		s += fmt.Sprintf(" %5.1f+-%-3.1f", m, se)
	}
	return s
}

// bars prints the bars of row k.
func (g grid) bars(out io.Writer, picked []int, k int, name string, orders bool) {
	for _, b := range headlineBars {
		target := b.placed
		if orders {
			target = b.ordered
		}
		m, se := g.change(picked, g.row(b.against), k, b.figure)
		ok := m <= target
		if b.figure == "anpr" {
			ok = m >= target
		}
		fmt.Fprintf(out, "bar: %s-%s-%s value=%.1f%%+-%.1f target=%+.0f%% %s\n", name, b.against, b.figure, m, se, target, verdict(ok))
	}
	worse := 0
	for _, i := range picked {
		better := g.row("slurm")
		if m, _ := g.change([]int{i}, better, g.row("strict"), "jct"); m < 0 {
			better = g.row("strict")
		}
		if m, se := g.change([]int{i}, better, k, "jct"); m > 2*se {
			worse++
		}
	}
	fmt.Fprintf(out, "bar: %s-worse value=%d target=0 %s\n", name, worse, verdict(worse == 0))
}

// spanBar prints how far the row whose objective is makespan comes from
// strict's towards the lower bound where all jobs are there at once: each
// list's part of the way, and their mean.
func (g grid) spanBar(out io.Writer, law bool, name string) {
	k, strict := g.row("learned, span"), g.row("strict")
	by := make([]float64, testSeeds)
	picked := g.choose(func(s setting) bool { return s.law == law && s.counts() && s.load == 0 })
	for _, i := range picked {
		for n := range testSeeds {
			from := g.at[i][strict][n]
			by[n] += 100 * (from.makespan - g.at[i][k][n].makespan) / (from.makespan - from.bound) / float64(len(picked))
		}
	}
	if len(picked) == 0 {
		return
	}
	m, se := meanSE(by)
	fmt.Fprintf(out, "bar: %s/span value=%.0f%%+-%.0f target=+50%% %s\n", name, m, se, verdict(m >= 50))
}
