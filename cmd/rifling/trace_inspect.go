// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"maps"
	"math"
	"math/bits"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/report"
	"rifling/sim"
	"rifling/sim/run"
	"rifling/sim/trace"
)

func clusterGPUs(nodes []sim.NodeSpec) int { return run.TotalGPUs(sim.Spec{Nodes: nodes}) }

// inspection is what is said of one trace. Times in seconds.
type inspection struct {
	File      string         `json:"file"`
	Format    trace.Format   `json:"format"`
	Rows      int            `json:"rows"`
	Jobs      int            `json:"jobs"`
	Left      map[string]int `json:"left_out"`
	Where     []string       `json:"where"`
	Unsorted  int            `json:"unsorted"`
	Span      float64        `json:"span_s"`
	Sizes     []sizeCount    `json:"sizes"`
	RunTime   []float64      `json:"run_time_s"` // the quantiles of inspectAt
	GPUHours  float64        `json:"gpu_hours"`
	Waits     []float64      `json:"wait_s"`
	Limits    int            `json:"with_limit"`
	Nodes     int            `json:"with_nodes"`
	Models    map[string]int `json:"models"`
	Users     int            `json:"users"`
	Failed    int            `json:"not_completed"`
	Estimates int            `json:"with_estimate"`
	GPUs      int            `json:"cluster_gpus"`
	// Load is nil where all jobs come at once.
	Load *float64 `json:"load"`
}

type sizeCount struct {
	GPUs int     `json:"gpus"`
	Jobs int     `json:"jobs"`
	Part float64 `json:"gpu_time"`
}

// inspectAt are the quantiles that are shown.
var inspectAt = []float64{0.05, 0.25, 0.5, 0.75, 0.95, 1}

func (a *app) traceInspectCmd() *cobra.Command {
	var t traceFlags
	var nodes string
	var asJSON, fit bool
	cmd := &cobra.Command{
		Use:   "inspect FILE...",
		Short: "Say what a trace holds, and what in it cannot be right",
		Long: "inspect shows a trace's format, its rows and which were left out by reason and line,\n" +
			"and the jobs' sizes, run times, waits, users and models, with the load that they\n" +
			"would be on the cluster of --nodes. --fit leaves out jobs larger than that cluster.",
		Args: args(cobra.MinimumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			spec, err := run.Nodes(nodes, 0, 1)
			if err != nil {
				return usageError{err}
			}
			gpus := clusterGPUs(spec)
			if fit {
				t.maxGPUs = gpus
			}
			all := []inspection{}
			for i, path := range list {
				jobs, rep, f, err := t.read(cmd, path)
				if err != nil {
					return err
				}
				in := inspect(jobs, rep, gpus)
				in.File, in.Format = path, f
				all = append(all, in)
				if !asJSON {
					if i > 0 {
						fmt.Fprintln(a.out)
					}
					in.write(a.out, rep)
				}
			}
			if asJSON {
				return writeJSON(a.out, all)
			}
			return nil
		},
	}
	t.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&nodes, "nodes", "8x8", "cluster, NODESxGPUS[:TYPE] and more of them after commas")
	fl.BoolVar(&fit, "fit", false, "leave out jobs with more GPUs than the cluster has")
	fl.BoolVar(&asJSON, "json", false, "write JSON, times in seconds")
	return cmd
}

func inspect(jobs []trace.Job, rep trace.Report, gpus int) inspection {
	in := inspection{
		Rows: rep.Rows, Jobs: len(jobs), Left: rep.Left, Unsorted: rep.Unsorted, GPUs: gpus,
		Models: map[string]int{}, Where: []string{}, Sizes: []sizeCount{},
	}
	if in.Left == nil {
		in.Left = map[string]int{}
	}
	for _, p := range rep.First {
		in.Where = append(in.Where, p.Error())
	}
	users, sizes := map[string]bool{}, map[int]*sizeCount{}
	var runs, waits []float64
	for i := range jobs {
		j := &jobs[i]
		s := sizes[j.GPUs]
		if s == nil {
			s = &sizeCount{GPUs: j.GPUs}
			sizes[j.GPUs] = s
		}
		s.Jobs++
		s.Part += j.Duration.Hours() * float64(j.GPUs)
		in.GPUHours += j.Duration.Hours() * float64(j.GPUs)
		runs = append(runs, j.Duration.Seconds())
		if j.Wait >= 0 {
			waits = append(waits, j.Wait.Seconds())
		}
		users[j.User] = true
		for to, is := range map[*int]bool{
			&in.Limits: j.Limit > 0, &in.Nodes: j.Nodes > 0, &in.Failed: !j.Completed, &in.Estimates: !math.IsNaN(j.Estimate),
		} {
			if is {
				*to++
			}
		}
		if j.Model != "" {
			in.Models[j.Model]++
		}
	}
	delete(users, "")
	in.Users = len(users)
	for _, g := range slices.Sorted(maps.Keys(sizes)) {
		s := *sizes[g]
		if in.GPUHours > 0 {
			s.Part /= in.GPUHours
		}
		in.Sizes = append(in.Sizes, s)
	}
	in.RunTime, in.Waits = quantiles(runs, inspectAt), quantiles(waits, inspectAt)
	if len(jobs) > 0 {
		in.Span = (jobs[len(jobs)-1].Submit - jobs[0].Submit).Seconds()
	}
	if l := trace.Load(jobs, gpus); !math.IsInf(l, 0) && !math.IsNaN(l) {
		in.Load = &l
	}
	return in
}

// quantiles of values in any order, between neighbours in proportion; empty for
// none.
func quantiles(v, at []float64) []float64 {
	out := []float64{}
	if len(v) == 0 {
		return out
	}
	v = slices.Sorted(slices.Values(v))
	for _, q := range at {
		x := q * float64(len(v)-1)
		i := min(int(x), len(v)-1)
		up := min(i+1, len(v)-1)
		out = append(out, v[i]+(x-float64(i))*(v[up]-v[i]))
	}
	return out
}

func (in *inspection) write(w io.Writer, rep trace.Report) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", key, report.Clean(fmt.Sprintf(format, args...)))
	}
	line("file", "%s", in.File)
	line("format", "%s", in.Format)
	line("rows", "%d, %s", in.Rows, count(in.Jobs, "job", "jobs"))
	for _, l := range leftOut(rep) {
		key, rest, _ := strings.Cut(l, ": ")
		line(key, "%s", rest)
	}
	if in.Jobs == 0 {
		return
	}
	line("span", "%s from first to last submission", about(seconds(in.Span)))
	line("run time", "%s", quantileWords(in.RunTime))
	if len(in.Waits) > 0 {
		line("waited", "%s", quantileWords(in.Waits))
	}
	line("told", "limits of %d jobs, nodes of %d, estimates of %d; %d did not complete; %s", in.Limits, in.Nodes, in.Estimates, in.Failed, count(in.Users, "user", "users"))
	if len(in.Models) > 0 {
		var parts []string
		for _, m := range slices.Sorted(maps.Keys(in.Models)) {
			parts = append(parts, fmt.Sprintf("%s %d", m, in.Models[m]))
		}
		line("models", "%s", strings.Join(parts, ", "))
	}
	load := "all jobs come at once"
	if in.Load != nil {
		load = fmt.Sprintf("%.3f of %d GPUs (--nodes)", *in.Load, in.GPUs)
	}
	line("load", "%.0f GPU hours; %s", in.GPUHours, load)
	fmt.Fprintln(w, "\n       GPUs    jobs  of jobs  of GPU time")
	for _, s := range in.sizes() {
		fmt.Fprintf(w, "  %9s  %6d  %5.1f %%  %9.1f %%\n", s.name, s.Jobs, 100*float64(s.Jobs)/float64(in.Jobs), 100*s.Part)
	}
}

// mostSizes is how many sizes are shown one by one.
const mostSizes = 12

type namedSize struct {
	sizeCount
	name string
}

// sizes puts many different sizes together up to the next power of two.
func (in *inspection) sizes() []namedSize {
	var out []namedSize
	for _, s := range in.Sizes {
		top := s.GPUs
		if len(in.Sizes) > mostSizes {
			top = 1 << bits.Len(uint(s.GPUs-1))
		}
		if n := len(out); n > 0 && out[n-1].GPUs == top {
			out[n-1].Jobs += s.Jobs
			out[n-1].Part += s.Part
			continue
		}
		name := fmt.Sprint(top)
		if len(in.Sizes) > mostSizes && top > 2 {
			name = fmt.Sprintf("%d-%d", top/2+1, top)
		}
		s.GPUs = top
		out = append(out, namedSize{s, name})
	}
	return out
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// quantileWords writes the quantiles of inspectAt.
func quantileWords(q []float64) string {
	var out []string
	for i, name := range []string{"5 %", "25 %", "median", "75 %", "95 %", "longest"} {
		out = append(out, name+" "+about(seconds(q[i])))
	}
	return strings.Join(out, ", ")
}
