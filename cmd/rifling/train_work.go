// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"gonum.org/v1/gonum/stat/distuv"

	"rifling/policy"
	"rifling/sim"
	"rifling/sim/run"
	"rifling/slurm"
)

// workFlags are the lists of jobs that policies are trained and evaluated on:
// generated ones, parts of a trace or parts of the site's own history.
type workFlags struct {
	simFlags
	past                 bool // --history
	since, until, warmUp string
	partitions           []string
	openNodes            bool
	loads                []float64
	seed                 uint64

	begin, end time.Time // of the history that training has seen
	data       string    // in words
}

func (w *workFlags) add(cmd *cobra.Command) {
	w.simFlags.add(cmd)
	fl := cmd.Flags()
	fl.Lookup("longest").Usage = "longest run time of generated jobs (default 24h)"
	fl.Lookup("jobs").Usage = "how many jobs each generated list has (default 300), or the first so many of the trace"
	fl.BoolVar(&w.past, "history", false, "take the site's own jobs, as `rifling history import` has read them")
	fl.StringVarP(&w.since, "since", "S", "now-60days", "jobs of the history submitted from this time on")
	fl.StringVarP(&w.until, "until", "E", "now", "jobs of the history submitted before this time")
	fl.StringVar(&w.warmUp, "warm-up", "1-0", "how long before each part of the history the simulation begins")
	fl.StringSliceVarP(&w.partitions, "partition", "r", nil, "only jobs of the history in these partitions")
	fl.BoolVar(&w.openNodes, "open-nodes", false, "take jobs of the history to have asked for GPUs on any number of nodes")
	fl.Float64SliceVar(&w.loads, "loads", []float64{0.9}, "offered loads of generated lists, taken in turn")
	fl.Uint64Var(&w.seed, "seed", 1, "the first seed of what is drawn")
}

// testSeeds is how far the seeds of tests lie from those of training.
const testSeeds = 1_000_000

// jobList is one list of jobs with the simulation that runs it.
type jobList struct {
	seed   uint64
	jobs   []sim.Job
	config run.Config
	// judged says which jobs count, by id; nil: all.
	judged func(slurm.JobID) bool
}

// lists makes the lists of the training and of the test. They have nothing in
// common: other seeds, or the earlier and the later half of the time.
func (w *workFlags) lists(a *app, cmd *cobra.Command, args []string, train, test int) (trainLists, testLists []jobList, err error) {
	if train < 0 || test < 1 {
		return nil, nil, usageError{errors.New("the numbers of lists must be 1 or more")}
	}
	for _, l := range w.loads {
		if !(l > 0) || math.IsInf(l, 0) {
			return nil, nil, usageError{fmt.Errorf("--loads: %v is no load", l)}
		}
	}
	if w.past {
		return w.history(a, cmd, args, train, test)
	}
	if w.made && w.jobs == 0 {
		w.jobs = 300
	}
	if w.made && w.longest == 0 {
		// A month-long job among some hundred is most of their GPU time, and then
		// nobody waits.
		w.longest = 24 * time.Hour
	}
	if err := w.prepare(cmd, args); err != nil {
		return nil, nil, err
	}
	if !w.made {
		return w.trace(args[0], train, test)
	}
	w.data = fmt.Sprintf("generated work, %s each of at most %v, loads %v, %s", count(w.jobs, "job", "jobs"), w.longest, w.loads, w.words())
	if len(w.loads) == 0 {
		w.loads = []float64{generatedLoad}
	}
	drawn := func(n int, first uint64) (out []jobList, err error) {
		for i := range n {
			l := jobList{seed: first + uint64(i)}
			l.config = w.config(l.seed)
			if l.jobs, _, _, err = w.work(l.seed, w.loads[i%len(w.loads)]); err != nil {
				return nil, err
			}
			out = append(out, l)
		}
		return out, nil
	}
	if trainLists, err = drawn(train, w.seed); err != nil {
		return nil, nil, err
	}
	testLists, err = drawn(test, w.seed+testSeeds)
	return trainLists, testLists, err
}

// trace cuts the jobs in time: the training has the parts of the first half.
func (w *workFlags) trace(name string, train, test int) (trainLists, testLists []jobList, err error) {
	w.data = fmt.Sprintf("parts of the trace %s, %s", filepath.Base(name), w.words())
	all, _, _, err := w.work(w.seed, 0)
	if err != nil {
		return nil, nil, err
	}
	slices.SortStableFunc(all, func(a, b sim.Job) int { return int(a.Submit - b.Submit) })
	cut := len(all) / 2
	if train == 0 {
		cut = 0
	}
	if trainLists, err = w.cut(all[:cut], train, 0); err == nil {
		testLists, err = w.cut(all[cut:], test, train)
	}
	return trainLists, testLists, err
}

func (w *workFlags) cut(jobs []sim.Job, n, before int) ([]jobList, error) {
	if len(jobs) < n*leastJobs {
		return nil, slurm.WithHint(fmt.Errorf("%d jobs are too few for %d lists of at least %d", len(jobs), n, leastJobs),
			"ask for fewer lists, or give a longer trace")
	}
	var out []jobList
	for i := range n {
		part := slices.Clone(jobs[i*len(jobs)/n : (i+1)*len(jobs)/n])
		first := part[0].Submit
		for k := range part {
			part[k].Submit -= first
		}
		out = append(out, jobList{seed: w.seed + uint64(before+i), jobs: part, config: w.config(w.seed)})
	}
	return out, nil
}

// leastJobs is below how many jobs a list says nothing.
const leastJobs = 20

// history cuts the window in time and simulates each part with what ran before
// it.
func (w *workFlags) history(a *app, cmd *cobra.Command, list []string, train, test int) (trainLists, testLists []jobList, err error) {
	if w.made || len(list) > 0 {
		return nil, nil, usageError{errors.New("--history, --generate and a trace exclude each other")}
	}
	if !cmd.Flags().Changed("mix") {
		w.mix = "none"
	}
	if err := w.choices(); err != nil {
		return nil, nil, err
	}
	b := backtestCall{app: a, simFlags: w.simFlags, since: w.since, until: w.until, warmUp: w.warmUp, partitions: w.partitions, open: w.openNodes}
	whole, err := b.history(cmd)
	if err != nil {
		return nil, nil, err
	}
	if err := b.place(whole); err != nil {
		return nil, nil, err
	}
	w.simFlags = b.simFlags
	w.begin, w.end = whole.Since, whole.Until
	w.data = fmt.Sprintf("history from %s to %s, %s", a.clock(whole.Since), a.clock(whole.Until), w.words())
	parts := train + test
	step := whole.Until.Sub(whole.Since) / time.Duration(parts)
	for i := range parts {
		one := b
		one.since = whole.Since.Add(time.Duration(i) * step).Format(time.RFC3339)
		one.until = whole.Since.Add(time.Duration(i+1) * step).Format(time.RFC3339)
		h, err := one.history(cmd)
		if err != nil {
			return nil, nil, err
		}
		work, err := h.Build(w.parsed, w.seed, !w.openNodes, w.spec.Nodes)
		if err != nil {
			return nil, nil, err
		}
		if work.Judged < leastJobs {
			return nil, nil, slurm.WithHint(fmt.Errorf("the history has %s from %s to %s; a list needs %d", count(work.Judged, "GPU job", "GPU jobs"), one.since, one.until, leastJobs),
				"ask for fewer lists, or widen --since; rifling history status shows what is stored")
		}
		l := jobList{seed: w.seed + uint64(i), jobs: work.Jobs, config: w.config(w.seed)}
		l.judged = func(id slurm.JobID) bool { return work.Runs[int(id)-1].Judged }
		if i < train {
			trainLists = append(trainLists, l)
			w.end = whole.Since.Add(time.Duration(i+1) * step)
		} else {
			testLists = append(testLists, l)
		}
	}
	return trainLists, testLists, nil
}

// lot is what became of one list under one policy. Times in seconds.
type lot struct {
	sum     sim.Summary
	longest float64 // wait
}

// play runs the list; a nil policy leaves all to Slurm.
func (l *jobList) play(ctx context.Context, p policy.Policy) (lot, error) {
	var out lot
	var all sim.Collector
	cfg := l.config
	if cfg.Policy = p; p != nil {
		if _, plain := p.(policy.Slurm); plain {
			cfg.Policy = nil
		}
	}
	rep, err := run.Run(ctx, cfg, run.List(l.jobs), func(r *sim.Result) {
		if l.judged == nil || l.judged(r.ID) {
			all.Add(r)
			out.longest = max(out.longest, r.Wait().Seconds())
		}
	})
	if err != nil {
		return out, explainRun(err)
	}
	out.sum = all.Summary(run.TotalGPUs(cfg.Spec), rep.Stats)
	if out.sum.Jobs == 0 {
		return out, slurm.WithHint(errors.New("no job of a list could run on this cluster"), "look at --nodes")
	}
	return out, nil
}

// cost is run.Cost as a ratio: 1 for what is as good as the other policy, 0.9
// for 10 % better.
func cost(o policy.Objective, mine, base lot) float64 {
	return math.Exp(run.Cost(o, mine.sum, base.sum))
}

// figureOf puts the lots of one policy together.
func figureOf(name string, o policy.Objective, lots, base []lot) policy.Figure {
	of := func(f func(i int) float64) policy.Mean {
		v := make([]float64, len(lots))
		for i := range lots {
			v[i] = f(i)
		}
		s := spreadOf(v)
		return policy.Mean{Mean: s.Mean, SE: s.SE}
	}
	return policy.Figure{
		Policy: name, Lists: len(lots),
		Cost:     of(func(i int) float64 { return cost(o, lots[i], base[i]) }),
		JCT:      of(func(i int) float64 { return lots[i].sum.MeanJCT }),
		P95:      of(func(i int) float64 { return lots[i].sum.P95JCT }),
		Makespan: of(func(i int) float64 { return lots[i].sum.Makespan }),
		ANPR:     of(func(i int) float64 { return lots[i].sum.ANPR }),
		Longest:  of(func(i int) float64 { return lots[i].longest }),
	}
}

// spanOf is the mean of paired differences with an interval of 95 % by
// Student's t; of one pair the interval has no bounds but is written as
// all that a ratio can be.
func spanOf(v []float64) policy.Span {
	s := spreadOf(v)
	if len(v) < 2 {
		return policy.Span{Mean: s.Mean, Low: s.Mean - math.MaxFloat32, High: s.Mean + math.MaxFloat32}
	}
	t := distuv.StudentsT{Mu: 0, Sigma: 1, Nu: float64(len(v) - 1)}.Quantile(0.975)
	return policy.Span{Mean: s.Mean, Low: s.Mean - t*s.SE, High: s.Mean + t*s.SE}
}

// objectiveFlag reads what a site wants: jct=1,p95=0.2,makespan=0,anpr=0.5,fairness=0.1.
func objectiveFlag(s string) (policy.Objective, error) {
	if s == "" {
		return policy.DefaultObjective(), nil
	}
	var o policy.Objective
	parts := map[string]*float64{"jct": &o.MeanJCT, "p95": &o.P95JCT, "makespan": &o.Makespan, "anpr": &o.ANPR, "fairness": &o.Fairness}
	for word := range strings.SplitSeq(s, ",") {
		key, value, ok := strings.Cut(strings.TrimSpace(word), "=")
		into := parts[key]
		if !ok || into == nil {
			return o, usageError{slurm.WithHint(fmt.Errorf("--objective: %q is no weight", word), "e.g. --objective jct=1,p95=0.25,makespan=0.25,anpr=0.5,fairness=0.1")}
		}
		var err error
		if *into, err = strconv.ParseFloat(value, 64); err != nil {
			return o, usageError{fmt.Errorf("--objective: %q is no number", value)}
		}
	}
	if err := o.Validate(); err != nil {
		return o, usageError{err}
	}
	return o, nil
}
