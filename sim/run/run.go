// SPDX-License-Identifier: Apache-2.0

// Package run lets the daemon's own loop steer a simulated Slurm: the same
// cycle.Once, policies and profile book, with the simulation's clock. There is
// no second way to decide.
package run

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"time"

	"rifling/cycle"
	"rifling/policy"
	"rifling/profile"
	"rifling/sim"
	"rifling/slurm"
)

// Config is one simulation. Start from Default.
type Config struct {
	Spec  sim.Spec
	Slurm sim.SlurmSettings
	// Policy steers; nil leaves all to Slurm's model, without any cycle.
	Policy  policy.Policy
	Limits  policy.Limits
	Profile profile.Options
	Mode    string        // cycle.Steer or cycle.Observe
	Tau     time.Duration // time constant of the reward
	Seed    uint64
	// Release is what slurmctld says it is: from REST version 40 on order goes
	// by site factor, before by nice.
	Release slurm.Release
	// Interval is the time between two cycles. A cycle is left out when no job
	// or node changed since the last one and no deadline of a waiting job has
	// come, but for one every MaxSkip.
	Interval, MaxSkip time.Duration
	// Zero is the wall clock at the simulation's beginning.
	Zero time.Time
	// Noise is the standard deviation of the logarithm of each counter; 0:
	// counters tell the truth.
	Noise float64
	// Blind leaves the counters out: nothing is known of jobs but accounting.
	Blind bool
	Log   *slog.Logger // nil: none
	// Past is what accounting tells of runs before the simulation: run times are
	// learned from it, as the daemon learns from sacct.
	Past []slurm.PastJob
	// Recorder keeps the history as the daemon's does; nil: none is kept.
	Recorder cycle.Recorder
	// Watch is told of each cycle; an error ends the simulation. May be nil.
	Watch func(cycle.Report) error
}

// Default returns the daemon's own settings where it has them.
func Default(spec sim.Spec) Config {
	return Config{
		Spec: spec, Slurm: sim.DefaultSlurm(), Profile: profile.DefaultOptions(), Mode: cycle.Steer, Tau: 24 * time.Hour,
		Limits: policy.Limits{
			Depth: 50, SlackNodes: 1, MaxOffset: 1000, MaxWait: 2 * time.Hour, MaxChanges: 50, TTL: 10 * time.Minute,
		},
		Release:  slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42},
		Interval: 15 * time.Second, MaxSkip: 5 * time.Minute,
		Zero: time.Date(2026, 1, 5, 0, 0, 0, 0, time.UTC),
	}
}

// Report is what a simulation did beside its results.
type Report struct {
	sim.Stats
	Cycles, Skipped          int // cycles run, and left out since nothing had changed
	Writes, Failed           int // changes that were applied, and that Slurm refused
	Decisions, Learned, Open int // of the policy; steps that taught; Open: jobs whose request left the shape open
}

// ErrStarved is in the error of a simulation whose jobs wait for ever.
var ErrStarved = errors.New("jobs wait for ever")

// idleCycles is after how many cycles in a row without an event, with jobs
// waiting and nothing running, they are taken to wait for ever.
const idleCycles = 5000

// Run simulates until every job of the source has ended.
func Run(ctx context.Context, cfg Config, source sim.Source, sink sim.Sink) (Report, error) {
	r, err := newRunner(cfg, source, sink)
	if err != nil {
		return Report{}, err
	}
	if cfg.Policy == nil {
		r.report.Stats, err = r.engine.Run()
		return r.report, err
	}
	if err := r.loop.Start(ctx); err != nil {
		return r.report, err
	}
	for !r.engine.Done() {
		if err := ctx.Err(); err != nil {
			return r.report, err
		}
		if err := r.step(ctx); err != nil {
			return r.report, err
		}
	}
	// The loop learns from the last ends too.
	err = r.cycle(ctx)
	r.report.Stats = r.engine.Stats()
	return r.report, err
}

type runner struct {
	cfg     Config
	engine  *sim.Engine
	cluster *cluster
	memory  *memory
	loop    *cycle.Loop
	report  Report

	last    time.Duration // when the last cycle ran
	version int           // of the cluster's state then
	idle    int
}

func newRunner(cfg Config, source sim.Source, sink sim.Sink) (*runner, error) {
	if cfg.Policy != nil && (cfg.Interval <= 0 || cfg.MaxSkip < cfg.Interval) {
		return nil, fmt.Errorf("an interval of %v with at most %v between cycles cannot be", cfg.Interval, cfg.MaxSkip)
	}
	if sink == nil {
		sink = func(*sim.Result) {}
	}
	r := &runner{cfg: cfg, memory: &memory{policy: cfg.Policy}, version: -1, last: -cfg.Interval}
	r.cluster = newCluster(cfg)
	counting := func() (sim.Job, bool) {
		j, ok := source()
		if ok && j.Request.GPUsPerNode == 0 && j.Request.MaxNodes != 1 && j.Request.GPUs > 1 {
			r.report.Open++
		}
		return j, ok
	}
	kept := sink
	if cfg.Policy != nil {
		kept = func(res *sim.Result) {
			r.cluster.ended(res)
			sink(res)
		}
	}
	engine, err := sim.NewEngine(cfg.Spec, sim.NewSlurm(cfg.Slurm), counting, kept)
	if err != nil {
		return nil, err
	}
	r.engine, r.cluster.st = engine, engine.State()
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	book := profile.NewBook(cfg.Profile)
	book.LearnPast(cfg.Past)
	r.loop = &cycle.Loop{
		Cluster: r.cluster, Recorder: r.memory, Policy: cfg.Policy, Book: book,
		Mode: cfg.Mode, Limits: cfg.Limits, Seed: cfg.Seed, Tau: cfg.Tau, Log: log,
		// How long a cycle takes on this machine must not get into results.
		Clock: func() time.Time { return cfg.Zero },
		// What was learned is kept by the caller's policy.
		CheckpointEvery: 1 << 40,
	}
	if cfg.Recorder != nil {
		r.loop.Recorder = &deadlines{cfg.Recorder, r.memory}
		r.loop.CheckpointEvery = 50
	}
	if !cfg.Blind {
		r.loop.Telemetry = &telemetry{
			cluster: r.cluster, every: cfg.Interval, noise: cfg.Noise,
			rand: rand.New(rand.NewPCG(cfg.Seed, 0x7e1e)),
		}
	}
	return r, nil
}

// step goes on to the next event or the next cycle, whichever comes first.
func (r *runner) step(ctx context.Context) error {
	at := r.due()
	next, ok := r.engine.Next()
	if ok && next <= at {
		r.idle = 0
		_, err := r.engine.Step()
		return err
	}
	if !ok {
		if r.idle++; r.idle > idleCycles {
			return fmt.Errorf("%d of them at %v: %w", r.engine.State().PendingLen(), r.engine.State().Now(), ErrStarved)
		}
	}
	if err := r.engine.RunTo(at); err != nil {
		return err
	}
	return r.cycle(ctx)
}

// due is when the next cycle runs if nothing happens before.
func (r *runner) due() time.Duration {
	every := r.cfg.Interval
	if r.engine.State().Version() != r.version {
		now := r.engine.State().Now()
		return max(r.last+every, roundUp(now, every))
	}
	at := r.last + r.cfg.MaxSkip
	if d := r.memory.deadline; !d.IsZero() {
		if wait := d.Sub(r.cfg.Zero); wait > r.last {
			at = min(at, max(r.last+every, roundUp(wait, every)))
		}
	}
	return at
}

// roundUp is the first multiple of every from at on.
func roundUp(at, every time.Duration) time.Duration { return (at + every - 1).Truncate(every) }

func (r *runner) cycle(ctx context.Context) error {
	now := r.engine.State().Now()
	if r.report.Cycles > 0 {
		r.report.Skipped += max(0, int((now-r.last)/r.cfg.Interval)-1)
	}
	rep, err := r.loop.Once(ctx)
	if err != nil {
		return fmt.Errorf("cycle at %v: %w", now, err)
	}
	r.report.Cycles++
	r.report.Decisions += rep.Decisions
	r.report.Learned += rep.Learned
	for _, res := range rep.Results {
		switch res.Outcome {
		case policy.Applied:
			r.report.Writes++
		case policy.Failed:
			r.report.Failed++
		}
	}
	r.last, r.version = now, r.engine.State().Version()
	if rep.PutOff > 0 {
		r.version = -1 // what was put off is due in the next cycle
	}
	if r.cfg.Watch != nil {
		return r.cfg.Watch(rep)
	}
	return nil
}
