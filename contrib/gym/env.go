// SPDX-License-Identifier: Apache-2.0

// Package gym is an environment over the simulator, in the manner of
// Gymnasium, so that others can train against it: reset, step, observation,
// reward. The daemon's own loop steers a simulated Slurm; the agent stands in
// the place of the policy and decides, job by job, which of the actions that
// are offered is taken. See README.md for the spaces.
package gym

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"time"

	"rifling/policy"
	"rifling/sim"
	"rifling/sim/run"
	"rifling/sim/trace"
	"rifling/slurm"
)

// Options describe an episode. Zero values mean the defaults of reset.
type Options struct {
	Nodes    string  `json:"nodes"`      // NODESxGPUS[:TYPE],...; default 8x8
	Leaf     int     `json:"leaf"`       // nodes under a leaf switch; 0: none
	NetGbit  float64 `json:"net_gbit"`   // default 50
	Jobs     int     `json:"jobs"`       // default 200
	Load     float64 `json:"load"`       // offered; default 0.9
	Open     float64 `json:"open"`       // part of the jobs whose nodes are open; default 0.35
	Mix      string  `json:"mix"`        // as of rifling simulate --mix
	Longest  float64 `json:"longest_h"`  // longest run time in hours; default 24
	Interval float64 `json:"interval_s"` // between cycles; default 15
	Steps    int     `json:"steps"`      // truncate after so many; 0: never
}

// Spaces. A row of Options belongs to each of policy.Actions, in their order;
// an action is the number of a row.
var (
	JobFeatures = []string{
		"log2_gpus", "min_nodes", "log_run", "log_limit", "log_age", "comm_bound", "compute_bound", "unknown",
		"pressure", "free", "log_waited",
	}
	OptionFeatures = []string{"offered", "value", "nodes", "starts"}
)

// Observation is what the agent sees of one decision.
type Observation struct {
	Job     []float64   `json:"job"`     // JobFeatures
	Options [][]float64 `json:"options"` // len(policy.Actions) x OptionFeatures
	Mask    []int       `json:"mask"`    // 1 for what may be chosen
}

// Step is what reset and step answer. Of reset only Observation and Info count.
type Step struct {
	Observation Observation    `json:"observation"`
	Reward      float64        `json:"reward"`
	Terminated  bool           `json:"terminated"`
	Truncated   bool           `json:"truncated"`
	Info        map[string]any `json:"info"`
}

// Errors of a call that changes nothing.
var (
	ErrNotReset  = errors.New("call reset first: there is no episode, or it has ended")
	ErrBadAction = errors.New("that action is not offered: see mask")
)

// Env is one environment.
type Env struct {
	ask  chan question // from the simulation; closed at its end
	tell chan int      // to the simulation
	stop context.CancelFunc
	done chan struct{}

	now   question
	over  error
	sum   sim.Summary
	steps int
	opt   Options
}

type question struct {
	at       time.Duration
	decision policy.Decision
	obs      Observation
	reward   float64 // since the question before
}

func (o *Options) defaults() {
	if o.Nodes == "" {
		o.Nodes = "8x8"
	}
	for _, d := range []struct {
		at *float64
		v  float64
	}{{&o.NetGbit, 50}, {&o.Load, 0.9}, {&o.Open, 0.35}, {&o.Interval, 15}, {&o.Longest, 24}} {
		if *d.at == 0 {
			*d.at = d.v
		}
	}
	if o.Jobs == 0 {
		o.Jobs = 200
	}
}

// mostJobs bounds an episode.
const mostJobs = 100_000

// Work makes the jobs and the simulation of an episode: what Reset runs.
func Work(seed uint64, o Options) (run.Config, []sim.Job, error) {
	o.defaults()
	if o.Jobs < 1 || o.Jobs > mostJobs || !(o.Interval >= 1 && o.Interval <= 3600) || !(o.Longest > 0 && o.Longest <= 8784) {
		return run.Config{}, nil, fmt.Errorf("%d jobs of at most %v h with %v s between cycles cannot be", o.Jobs, o.Longest, o.Interval)
	}
	nodes, err := run.Nodes(o.Nodes, o.Leaf, o.NetGbit)
	if err != nil {
		return run.Config{}, nil, err
	}
	var mix trace.Mix
	if o.Mix != "" {
		if mix, err = trace.ParseMix(o.Mix); err != nil {
			return run.Config{}, nil, err
		}
	}
	spec := sim.Spec{Nodes: nodes}
	most := 0
	for i := range nodes {
		most = max(most, nodes[i].GPUs)
	}
	list, err := trace.Generator{
		Seed: seed, Jobs: o.Jobs, GPUs: run.TotalGPUs(spec), Node: most, Load: o.Load, Arrivals: trace.Poisson, Mix: mix, Open: o.Open,
		Longest: time.Duration(o.Longest * float64(time.Hour)),
	}.Generate()
	if err != nil {
		return run.Config{}, nil, err
	}
	jobs, _, err := run.Jobs(list, run.JobOptions{Seed: seed, Mix: mix, NodeGPUs: most})
	cfg := run.Default(spec)
	cfg.Seed, cfg.Interval = seed, time.Duration(o.Interval*float64(time.Second))
	cfg.MaxSkip = max(cfg.MaxSkip, 20*cfg.Interval)
	return cfg, jobs, err
}

// Reset ends an episode that is under way, and begins another.
func (e *Env) Reset(seed uint64, o Options) (Step, error) {
	e.Close()
	cfg, jobs, err := Work(seed, o)
	if err != nil {
		return Step{}, err
	}
	o.defaults()
	ctx, stop := context.WithCancel(context.Background())
	*e = Env{ask: make(chan question), tell: make(chan int), stop: stop, done: make(chan struct{}), opt: o}
	d := &decider{env: e, ctx: ctx, ends: make(map[slurm.JobID]time.Duration, len(jobs)), jobs: jobs, zero: cfg.Zero}
	d.scale = scaleOf(jobs)
	cfg.Policy = d
	go func() {
		defer close(e.done)
		defer close(e.ask)
		var all sim.Collector
		rep, err := run.Run(ctx, cfg, run.List(jobs), func(r *sim.Result) {
			all.Add(r)
			d.ends[r.ID] = r.End
		})
		e.over = err
		e.sum = all.Summary(run.TotalGPUs(cfg.Spec), rep.Stats)
		e.now = question{reward: d.since(math.MaxInt64)}
	}()
	return e.next(), e.failed()
}

// scaleOf is the jobs' mean run time times their number: a reward of -1 in all
// means that no job waited or ran slower.
func scaleOf(jobs []sim.Job) float64 {
	sum := 0.0
	for i := range jobs {
		sum += jobs[i].Work.Seconds()
	}
	return max(1, sum)
}

// Step takes the action for the job that was asked about, and returns the next
// decision, or the end.
func (e *Env) Step(action int) (Step, error) {
	switch {
	case e.ask == nil:
		return Step{}, ErrNotReset
	case action < 0 || action >= len(policy.Actions) || e.now.obs.Mask[action] == 0:
		return Step{}, ErrBadAction
	}
	e.tell <- action
	e.steps++
	s := e.next()
	return s, e.failed()
}

func (e *Env) failed() error {
	if e.ask == nil && e.over != nil {
		return e.over
	}
	return nil
}

// next waits for the next question or the end.
func (e *Env) next() Step {
	q, more := <-e.ask
	if !more {
		<-e.done
		s := Step{Observation: none(), Reward: e.now.reward, Terminated: true, Info: e.figures()}
		e.ask = nil
		return s
	}
	e.now = q
	s := Step{Observation: q.obs, Reward: q.reward, Info: map[string]any{
		"job": q.decision.JobID, "time_s": q.at.Seconds(), "rule": slices.Index(policy.Actions, q.decision.Action),
	}}
	if e.opt.Steps > 0 && e.steps >= e.opt.Steps {
		s.Truncated = true
		e.Close()
	}
	return s
}

// figures are those of the episode, times in seconds.
func (e *Env) figures() map[string]any {
	s := &e.sum
	return map[string]any{
		"jobs": s.Jobs, "jct_mean_s": s.MeanJCT, "jct_p95_s": s.P95JCT, "wait_mean_s": s.MeanWait, "makespan_s": s.Makespan,
		"anpr": s.ANPR, "utilization": s.Utilization,
	}
}

// Close ends the episode.
func (e *Env) Close() {
	if e.ask == nil {
		return
	}
	e.stop()
	for range e.ask { // until the simulation sees it
	}
	<-e.done
	e.ask, e.over = nil, nil
}

func none() Observation {
	o := Observation{Job: make([]float64, len(JobFeatures)), Mask: make([]int, len(policy.Actions))}
	for range policy.Actions {
		o.Options = append(o.Options, make([]float64, len(OptionFeatures)))
	}
	return o
}
