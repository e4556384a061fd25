// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"time"

	"rifling/agent"
	"rifling/cycle"
	"rifling/policy"
	"rifling/sim"
	"rifling/sim/run"
)

// Seeds of the lists that are shown, and of those that policies learn from and
// were tuned on.
const (
	testSeeds  = 5
	firstTest  = 101
	trainSeeds = 3
	firstTrain = 1
	firstPast  = 10001 // of a site's lists before the one that is shown
)

// row is one line of the table.
type row struct {
	name    string
	policy  string
	trained bool
	order   bool // first come, first served by offsets; else Slurm's own order
	// counters tells whether the policy uses counters; the others know run
	// times from accounting.
	counters bool
	slack    int // limits.slack-nodes
	wait     time.Duration
	offset   int64 // limits.max-offset; 0: as shipped
	span     bool  // the site's objective is makespan
	past     bool  // accounting tells of the site's runs before the list
}

// unbounded waits as long as it takes: only benchmarks set it.
const unbounded = 10000 * time.Hour

// anyOffset bounds no order: the site lets rifling order as it finds best.
const anyOffset = 1_000_000

var headlineRows = []row{
	{name: "random", policy: "random"},
	{name: "spread", policy: "spread"},
	{name: "slurm", policy: "slurm"},
	{name: "pack", policy: "pack"},
	{name: "strict", policy: "strict", wait: unbounded},
	{name: "rule", policy: "rule", counters: true, wait: unbounded},
	{name: "rule, slack 1", policy: "rule", counters: true, slack: 1, wait: unbounded},
	{name: "rifling cold", policy: "rifling", counters: true, wait: unbounded},
	{name: "rifling trained", policy: "rifling", counters: true, wait: unbounded, trained: true},
	{name: "learned", policy: "learned", counters: true, wait: unbounded},
	{name: "learned, past", policy: "learned", counters: true, wait: unbounded, past: true},
	{name: "learned, order", policy: "learned", counters: true, wait: unbounded, past: true, offset: anyOffset},
	{name: "learned, span", policy: "learned", counters: true, wait: unbounded, past: true, offset: anyOffset, span: true},
}

// figures are one simulation's.
type figures struct {
	jct, p95, makespan, anpr float64 // seconds, but for anpr
	timedOut, jobs           int
}

// outcome is what one row did on one list.
type outcome struct {
	setting, row int
	seed         uint64
	figures
	bound, open float64
}

// headline runs the paper's comparison in the simulator.
func headline(ctx context.Context, out io.Writer) error {
	settings := headlineSettings(os.Getenv("HEADLINE"))
	results, err := headlineRuns(ctx, settings, headlineRows)
	if err != nil {
		return err
	}
	headlineTables(out, settings, headlineRows, results)
	return nil
}

// shown is the part of the grid that HEADLINE=wide runs; the first eight are
// run by default.
var shown = []setting{
	{4, 4, 25, "muri", true, 0.9, false},
	{4, 4, 50, "muri", false, 1.2, false},
	{4, 4, 50, "philly", true, 0, false},
	{8, 4, 25, "muri", false, 0, false},
	{8, 4, 25, "philly", true, 1.2, false},
	{8, 4, 50, "muri", false, 0.7, false},
	{8, 4, 50, "muri", true, 0.9, false},
	{8, 4, 50, "muri", true, 0, false},
	{8, 4, 50, "philly", false, 0.9, false},
	{16, 4, 25, "philly", true, 0.9, false},
	{16, 4, 50, "muri", false, 0, false},
	{16, 4, 50, "muri", true, 1.2, false},
	{8, 4, 100, "muri", true, 0.9, false},
	{8, 4, 400, "muri", true, 0.9, false},
}

// headlineSettings chooses the grid: of 4 and 8 nodes, one of them under the
// flat law; HEADLINE=wide has 16 nodes and faster networks too, and full is
// every combination. There those of 8 nodes, or all, come under the flat law as
// well.
func headlineSettings(which string) []setting {
	all := slices.Clone(shown)
	switch which {
	case "", "quick":
		law := shown[6]
		law.law = true
		return append(all[:8], law)
	case "full":
		all = slices.Clone(shown[len(shown)-2:])
		for _, nodes := range []int{4, 8, 16} {
			for _, nic := range []float64{25, 50} {
				for _, mix := range []string{"muri", "philly"} {
					for _, open := range []bool{false, true} {
						for _, load := range []float64{0.7, 0.9, 1.2, 0} {
							all = append(all, setting{nodes: nodes, gpus: 4, nic: nic, mix: mix, open: open, load: load})
						}
					}
				}
			}
		}
	}
	for _, s := range all {
		if (which == "full" || s.nodes == 8) && s.counts() {
			s.law = true
			all = append(all, s)
		}
	}
	return all
}

// headlineRuns simulates every row on every list, on all cores.
func headlineRuns(ctx context.Context, settings []setting, rows []row) ([]outcome, error) {
	var mu sync.Mutex
	var all []outcome
	var failed error
	work := make(chan func() ([]outcome, error))
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for f := range work {
				got, err := f()
				mu.Lock()
				all = append(all, got...)
				if err != nil && failed == nil {
					failed = err
				}
				mu.Unlock()
			}
		})
	}
	for i, s := range settings {
		for k, r := range rows {
			work <- func() ([]outcome, error) { return rowRuns(ctx, i, k, s, r) }
		}
	}
	close(work)
	wg.Wait()
	return all, failed
}

// rowRuns simulates one row on all lists of a setting.
func rowRuns(ctx context.Context, i, k int, s setting, r row) ([]outcome, error) {
	table := []policy.QEntry(nil)
	if r.trained {
		learner, err := r.make()
		if err != nil {
			return nil, err
		}
		for seed := uint64(firstTrain); seed < firstTrain+trainSeeds; seed++ {
			if _, err := simulate(ctx, s, r, learner, seed); err != nil {
				return nil, err
			}
		}
		if l, ok := learner.(policy.Learner); ok {
			table = l.Entries()
		}
	}
	var out []outcome
	for seed := uint64(firstTest); seed < firstTest+testSeeds; seed++ {
		p, err := r.make()
		if err != nil {
			return nil, err
		}
		if l, ok := p.(policy.Learner); ok && table != nil {
			l.Restore(table)
		}
		o, err := simulate(ctx, s, r, p, seed)
		if err != nil {
			return nil, fmt.Errorf("%s, %s, seed %d: %w", s, r.name, seed, err)
		}
		o.setting, o.row = i, k
		out = append(out, o)
	}
	return out, nil
}

func (r row) make() (policy.Policy, error) {
	o := policy.Options{Agent: agent.DefaultParams(), FCFS: r.order}
	if r.span {
		m := policy.ModelFor(policy.Objective{Makespan: 1})
		o.Model = &m
	}
	return policy.New(r.policy, o)
}

// simulate runs one list under one policy.
func simulate(ctx context.Context, s setting, r row, p policy.Policy, seed uint64) (outcome, error) {
	l, err := s.jobsOf(seed)
	if err != nil {
		return outcome{}, err
	}
	cfg := run.Default(s.spec())
	cfg.Policy, cfg.Seed, cfg.Mode = p, seed, cycle.Steer
	cfg.Limits.SlackNodes, cfg.Limits.MaxWait = r.slack, r.wait
	if r.offset > 0 {
		cfg.Limits.MaxOffset = r.offset
	}
	if r.past {
		if cfg.Past, err = s.pastOf(ctx, seed, cfg.Zero); err != nil {
			return outcome{}, err
		}
	}
	cfg.Profile.SpreadNetSpeed = s.nic * 1e9 / 8
	// Between two events little is to be decided; fewer cycles there change
	// nothing but the time this takes.
	cfg.MaxSkip, cfg.Limits.TTL = 20*time.Minute, time.Hour
	cfg.Blind = !r.counters
	if r.policy == "slurm" {
		cfg.Policy = nil // the same, as a test in sim/run shows
	}
	var c sim.Collector
	i := 0
	source := func() (sim.Job, bool) {
		if i++; i > len(l.jobs) {
			return sim.Job{}, false
		}
		return l.jobs[i-1], true
	}
	rep, err := run.Run(ctx, cfg, source, c.Add)
	if err != nil {
		return outcome{}, err
	}
	sum := c.Summary(s.nodes*s.gpus, rep.Stats)
	return outcome{
		seed: seed, bound: l.makespan, open: l.open,
		figures: figures{
			jct: sum.MeanJCT, p95: sum.P95JCT, makespan: sum.Makespan, anpr: sum.ANPR, timedOut: sum.TimedOut, jobs: sum.Jobs,
		},
	}, nil
}
