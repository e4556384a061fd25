// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"

	"rifling/contrib/labrun"
)

// metric is a figure of a run. Where less is better, a fall meets a target.
type metric struct {
	title string
	of    func(labrun.Summary) float64
	show  func(float64) string
	less  bool
}

func hours(seconds float64) string { return fmt.Sprintf("%.2f h", seconds/3600) }

// metrics by the names that -metric takes, and p95, which only the table shows.
var metrics = map[string]metric{
	"makespan": {"makespan", func(s labrun.Summary) float64 { return s.Makespan.Seconds() }, hours, true},
	"jct":      {"mean JCT", func(s labrun.Summary) float64 { return s.MeanJCT.Seconds() }, hours, true},
	"p95":      {"p95 JCT", func(s labrun.Summary) float64 { return s.P95JCT.Seconds() }, hours, true},
	"delay":    {"mean delay", func(s labrun.Summary) float64 { return s.MeanDelay.Seconds() }, hours, true},
	"anpr":     {"ANPR", func(s labrun.Summary) float64 { return s.ANPR }, func(v float64) string { return fmt.Sprintf("%.3f", v) }, false},
}

// columns is the table's order.
var columns = []string{"makespan", "jct", "p95", "delay", "anpr"}

// table holds the runs by policy, in the order that was asked for, and seed.
type table struct {
	policies []string
	seeds    []uint64
	byPolicy map[string]map[uint64]labrun.Summary
}

func newTable(policies []string, seeds []uint64, outcomes []outcome) *table {
	t := &table{policies: policies, seeds: seeds, byPolicy: map[string]map[uint64]labrun.Summary{}}
	for _, o := range outcomes {
		if t.byPolicy[o.policy] == nil {
			t.byPolicy[o.policy] = map[uint64]labrun.Summary{}
		}
		t.byPolicy[o.policy][o.seed] = o.summary
	}
	return t
}

// meanSpread returns the mean over the seeds and the standard deviation of a
// sample (n-1); the latter is 0 for one seed.
func (t *table) meanSpread(policy string, m metric) (mean, spread float64) {
	for _, seed := range t.seeds {
		mean += m.of(t.byPolicy[policy][seed]) / float64(len(t.seeds))
	}
	if len(t.seeds) < 2 {
		return mean, 0
	}
	for _, seed := range t.seeds {
		d := m.of(t.byPolicy[policy][seed]) - mean
		spread += d * d / float64(len(t.seeds)-1)
	}
	return mean, math.Sqrt(spread)
}

// change is the change of the mean in per cent, a policy against the first.
func (t *table) change(policy string, m metric) float64 {
	base, _ := t.meanSpread(t.policies[0], m)
	mean, _ := t.meanSpread(policy, m)
	if base == 0 {
		return 0
	}
	return 100 * (mean/base - 1)
}

// print writes a row per run, then per policy the mean with its spread, then
// the change against the first policy.
func (t *table) print(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', tabwriter.AlignRight)
	cells := func(first, second string, cell func(metric) string, last string) {
		row := []string{first, second}
		for _, c := range columns {
			row = append(row, cell(metrics[c]))
		}
		fmt.Fprintln(w, strings.Join(append(row, last), "\t")+"\t")
	}
	fmt.Fprintln(w)
	cells("policy", "seed", func(m metric) string { return m.title }, "not completed")
	for _, p := range t.policies {
		for _, seed := range t.seeds {
			s := t.byPolicy[p][seed]
			cells(p, strconv.FormatUint(seed, 10), func(m metric) string { return m.show(m.of(s)) }, fmt.Sprintf("%d of %d", s.Killed, s.Jobs))
		}
	}
	for _, p := range t.policies {
		cells(p, "mean", func(m metric) string {
			mean, spread := t.meanSpread(p, m)
			return m.show(mean) + " ± " + strings.TrimSuffix(m.show(spread), " h")
		}, "")
	}
	for _, p := range t.policies[1:] {
		cells(p, "vs "+t.policies[0], func(m metric) string { return fmt.Sprintf("%+.1f %%", t.change(p, m)) }, "")
	}
	fmt.Fprintln(w)
	return w.Flush()
}

// bar is the last line: the change of the metric, last policy against first,
// and whether it reaches the target.
func (t *table) bar(name string, target *float64) (line string, met bool) {
	m := metrics[name]
	value := t.change(t.policies[len(t.policies)-1], m)
	if target == nil {
		return fmt.Sprintf("bar: lab-compare value=%.1f target=none ok", value), true
	}
	met = value >= *target
	if m.less {
		met = value <= *target
	}
	word := "short"
	if met {
		word = "ok"
	}
	return fmt.Sprintf("bar: lab-compare value=%.1f target=%g %s", value, *target, word), met
}

// writeCSV writes a row per job of every run. Times are Slurm's, in seconds.
func writeCSV(path string, outcomes []outcome) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	outcomes = slices.Clone(outcomes)
	slices.SortFunc(outcomes, func(a, b outcome) int {
		if c := strings.Compare(a.policy, b.policy); c != 0 {
			return c
		}
		return int(int64(a.seed) - int64(b.seed))
	})
	w := csv.NewWriter(f)
	records := [][]string{{"policy", "seed", "job", "name", "user", "model", "gpus", "request", "open", "state",
		"submit", "start", "end", "nodes", "shape", "npr", "work_seconds"}}
	for _, o := range outcomes {
		for _, r := range o.rows {
			shape, npr := "", ""
			if r.Result != nil {
				shape, npr = r.Result.Shape, strconv.FormatFloat(r.Result.NPR, 'f', 4, 64)
			}
			records = append(records, []string{
				o.policy, strconv.FormatUint(o.seed, 10), r.ID, r.Job.Name, r.Job.User, r.Job.Model, strconv.Itoa(r.Job.GPUs),
				strings.Join(r.Job.Request, " "), strconv.FormatBool(r.Job.Open), r.State,
				unix(r.Submit.Unix()), unix(r.Start.Unix()), unix(r.End.Unix()), r.NodeList, shape, npr,
				strconv.FormatFloat(r.Job.Work.Seconds(), 'f', 0, 64),
			})
		}
	}
	if err := w.WriteAll(records); err != nil {
		return err
	}
	return f.Close()
}

func unix(s int64) string { return strconv.FormatInt(s, 10) }
