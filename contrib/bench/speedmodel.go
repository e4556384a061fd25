// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"maps"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rifling/sim"
)

// retention is one comparison: how fast a job is on more nodes than it needs,
// against the fewest, measured and by the model.
type retention struct{ measured, linear, law float64 }

func (r retention) errors() (linear, law float64) {
	return math.Abs(r.linear/r.measured - 1), math.Abs(r.law/r.measured - 1)
}

// speedModel fits each program and batch to every second measured placement,
// chooses the law's two numbers there too, and judges by the other half.
func speedModel(_ context.Context, out io.Writer) error {
	tables, err := filepath.Glob(filepath.Join(sharedDir(), "placement", "pollux_t4_*.csv"))
	if err != nil {
		return err
	}
	tables = slices.DeleteFunc(tables, func(t string) bool { return strings.Contains(t, "_scalability") })
	if len(tables) == 0 {
		fmt.Fprintln(out, "skipped: no measured placements; set RIFLING_SHARED to the folder that holds placement/")
		return nil
	}
	var all []program
	for _, t := range tables {
		p, err := readPrograms(t)
		if err != nil {
			return err
		}
		all = append(all, p...)
	}
	law := chooseLaw(all)
	fmt.Fprintf(out, "%d programs and batches; law chosen on the fitted half: exponent %.1f, two nodes %.1f\n\n", len(all), law.Exponent, law.TwoNodes)
	fmt.Fprintf(out, "median error of packed-to-spread throughput, placements that were not fitted\n")
	fmt.Fprintf(out, "%-14s%8s%10s%10s%10s\n", "program", "batches", "compared", "linear", "law")
	var total []retention
	for _, name := range names(all) {
		var these []retention
		batches := 0
		for _, p := range all {
			if p.name == name {
				r, err := p.judge(law)
				if err != nil {
					return err
				}
				these, batches = append(these, r...), batches+1
			}
		}
		total = append(total, these...)
		printRetention(out, name, batches, these)
	}
	printRetention(out, "all", len(all), total)
	_, p90 := quantiles(total, 0.9)
	_, median := quantiles(total, 0.5)
	fmt.Fprintf(out, "90th percentile of the law's errors: %.1f %%\n\n", 100*p90)
	fmt.Fprintf(out, "bar: speed-model value=%.1f%% target=10%% %s\n", 100*median, verdict(median < 0.10))
	gpt2(out, law)
	return nil
}

func printRetention(out io.Writer, name string, batches int, r []retention) {
	linear, law := quantiles(r, 0.5)
	fmt.Fprintf(out, "%-14s%8d%10d%9.1f%%%9.1f%%\n", name, batches, len(r), 100*linear, 100*law)
}

// quantiles of the errors of both forms.
func quantiles(rs []retention, q float64) (linear, law float64) {
	var a, b []float64
	for _, r := range rs {
		x, y := r.errors()
		a, b = append(a, x), append(b, y)
	}
	slices.Sort(a)
	slices.Sort(b)
	i := int(q * float64(len(a)-1))
	return a[i], b[i]
}

// program is one network at one batch with its measured placements, in a fixed
// order.
type program struct {
	name string
	rows []sim.Measured
}

func names(all []program) []string {
	var out []string
	for _, p := range all {
		if !slices.Contains(out, p.name) {
			out = append(out, p.name)
		}
	}
	return out
}

// halves splits the placements: every second one is fitted, the others judge.
func (p program) halves() (fitted, held []sim.Measured) {
	for i, r := range p.rows {
		if i%2 == 0 {
			fitted = append(fitted, r)
		} else {
			held = append(held, r)
		}
	}
	return fitted, held
}

// judge compares the placements that were not fitted with the one of as many
// GPUs on the fewest nodes.
func (p program) judge(law sim.Law) ([]retention, error) {
	fitted, held := p.halves()
	return p.compare(fitted, held, law)
}

func (p program) compare(fitted, judged []sim.Measured, law sim.Law) ([]retention, error) {
	linear, err := sim.Fit(p.name, fitted, sim.Law{}, sim.DefaultNICBytesPerSecond)
	if err != nil {
		return nil, err
	}
	byLaw, err := sim.Fit(p.name, fitted, law, sim.DefaultNICBytesPerSecond)
	if err != nil {
		return nil, err
	}
	var out []retention
	for _, r := range judged {
		packed := p.packed(total(r.GPUs))
		if total(r.GPUs) < 2 || slices.Equal(packed.GPUs, r.GPUs) {
			continue
		}
		out = append(out, retention{packed.Step / r.Step,
			rate(linear, r.GPUs) / rate(linear, packed.GPUs), rate(byLaw, r.GPUs) / rate(byLaw, packed.GPUs)})
	}
	return out, nil
}

// packed is the measured placement of that many GPUs on the fewest nodes, the
// most even of those.
func (p program) packed(gpus int) (best sim.Measured) {
	for _, r := range p.rows {
		if total(r.GPUs) != gpus {
			continue
		}
		if best.GPUs == nil || len(r.GPUs) < len(best.GPUs) ||
			len(r.GPUs) == len(best.GPUs) && slices.Max(r.GPUs) < slices.Max(best.GPUs) {
			best = r
		}
	}
	return best
}

// chooseLaw takes the law with the least median error on the fitted halves.
func chooseLaw(all []program) (best sim.Law) {
	least := math.Inf(1)
	for exponent := 0.1; exponent < 1.05; exponent += 0.1 {
		for two := 1.0; two < 2.45; two += 0.1 {
			law := sim.Law{Exponent: exponent, TwoNodes: two}
			var rs []retention
			for _, p := range all {
				fitted, _ := p.halves()
				if r, err := p.compare(fitted, fitted, law); err == nil {
					rs = append(rs, r...)
				}
			}
			if _, e := quantiles(rs, 0.5); e < least {
				least, best = e, law
			}
		}
	}
	return best
}

func rate(m sim.Model, gpus []int) float64 {
	byNode := map[string]int{}
	for i, g := range gpus {
		byNode[strconv.Itoa(i)] = g
	}
	return sim.Rate(m, byNode, func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, 1 })
}

func total(gpus []int) int {
	n := 0
	for _, g := range gpus {
		n += g
	}
	return n
}

// readPrograms reads a table of placement ("22" is two GPUs on each of two
// nodes), per-GPU batch, step time and its part that went to communicating.
func readPrograms(path string) ([]program, error) {
	steps, err := readT4Steps(path)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	byBatch := map[int][]sim.Measured{}
	for _, placement := range slices.Sorted(maps.Keys(steps)) {
		for batch, t := range steps[placement] {
			m := sim.Measured{Step: t.time, Comm: t.sync}
			for _, c := range placement {
				m.GPUs = append(m.GPUs, int(c-'0'))
			}
			byBatch[batch] = append(byBatch[batch], m)
		}
	}
	name := strings.TrimSuffix(strings.TrimPrefix(filepath.Base(path), "pollux_t4_"), ".csv")
	var out []program
	for batch := range byBatch {
		if len(byBatch[batch]) >= 20 {
			out = append(out, program{name, byBatch[batch]})
		}
	}
	slices.SortFunc(out, func(a, b program) int { return int(1e6 * (a.rows[0].Step - b.rows[0].Step)) })
	return out, nil
}

// gpt2 takes a published case that nothing here was fitted to: seconds an epoch
// of GPT-2 Large on 4 A100 of one node, on 2 nodes with 2 and on 4 nodes with 1,
// each node with one HDR NIC. What the NIC costs is read from 4x1, and the law
// must then say what 2x2 takes.
func gpt2(out io.Writer, law sim.Law) {
	const oneByFour, twoByTwo, fourByOne = 135.42, 895.85, 251.68
	comm := fourByOne - oneByFour
	fmt.Fprintf(out, "\nGPT-2 Large, seconds an epoch: 1x4 %.0f, 4x1 %.0f as measured; 2x2 measured %.0f\n", oneByFour, fourByOne, twoByTwo)
	for _, c := range []struct {
		name string
		law  sim.Law
	}{{"linear", sim.Law{}}, {"law", law}} {
		got := oneByFour + comm*c.law.Load(2, 2)/c.law.Load(1, 4)
		fmt.Fprintf(out, "  2x2 by %-7s %4.0f (%+.0f %%)\n", c.name, got, 100*(got/twoByTwo-1))
		if c.name == "linear" {
			fmt.Fprintf(out, "bar: gpt2-order value=%.0f/%.0f/%.0f target=1x4<4x1<2x2 %s\n", oneByFour, fourByOne, got, verdict(fourByOne < got))
			fmt.Fprintf(out, "bar: gpt2-2x2 value=%.0f%% target=25%% %s\n", 100*math.Abs(got/twoByTwo-1), verdict(math.Abs(got/twoByTwo-1) <= 0.25))
		}
	}
}
