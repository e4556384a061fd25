// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"rifling/cycle"
	"rifling/policy"
	"rifling/profile"
	"rifling/sim"
	"rifling/sim/run"
	"rifling/slurm"
)

// trial is one policy on the lists of one setting, as the benchmarks of
// learning run it.
type trial struct {
	setting
	policy  func() policy.Policy
	blind   bool              // knows run times from accounting, no counters
	bounded bool              // the limits that a site starts with; else slack 0 and no end to waiting
	change  func(*run.Config) // may be nil
	train   []uint64          // lists that the policy learns from before
}

// ran is what came of one list.
type ran struct {
	figures
	longest  float64 // wait, seconds
	firstDay float64 // mean JCT of the jobs submitted in the first 24 hours, seconds
	writes   int
	learned  int
	policy   policy.Policy
}

// on runs the list of the seed, after those that the policy learns from.
func (t trial) on(ctx context.Context, seed uint64) (ran, error) {
	p := t.policy()
	for _, s := range t.train {
		if _, err := t.once(ctx, p, s); err != nil {
			return ran{}, err
		}
	}
	return t.once(ctx, p, seed)
}

func (t trial) once(ctx context.Context, p policy.Policy, seed uint64) (ran, error) {
	l, err := t.jobsOf(seed)
	if err != nil {
		return ran{}, err
	}
	cfg := run.Default(t.spec())
	cfg.Policy, cfg.Seed, cfg.Mode, cfg.Blind = p, seed, cycle.Steer, t.blind
	if !t.bounded {
		cfg.Limits.SlackNodes, cfg.Limits.MaxWait = 0, unbounded
	}
	cfg.Profile.SpreadNetSpeed = t.nic * 1e9 / 8
	cfg.MaxSkip, cfg.Limits.TTL = 20*time.Minute, time.Hour
	if _, plain := p.(policy.Slurm); plain {
		cfg.Policy = nil // the same, as a test in sim/run shows
	}
	if t.change != nil {
		t.change(&cfg)
	}
	out := ran{policy: p}
	var all sim.Collector
	early, sum := 0, 0.0
	rep, err := run.Run(ctx, cfg, run.List(l.jobs), func(r *sim.Result) {
		all.Add(r)
		out.longest = max(out.longest, r.Wait().Seconds())
		if r.Submit < 24*time.Hour {
			early++
			sum += r.JCT().Seconds()
		}
	})
	if err != nil {
		return ran{}, fmt.Errorf("%s, seed %d: %w", t.setting, seed, err)
	}
	s := all.Summary(t.nodes*t.gpus, rep.Stats)
	out.figures = figures{jct: s.MeanJCT, p95: s.P95JCT, makespan: s.Makespan, anpr: s.ANPR, timedOut: s.TimedOut, jobs: s.Jobs}
	out.firstDay, out.writes, out.learned = sum/float64(max(1, early)), rep.Writes, rep.Learned
	return out, nil
}

// named makes the policy of a name with its shipped parameters.
func named(name string) func() policy.Policy {
	return func() policy.Policy {
		p, err := policy.New(name, policy.Options{})
		if err != nil {
			panic(err) // a name of this program's own
		}
		return p
	}
}

// runAllOf runs every trial on every seed, on all cores: [trial][seed].
func runAllOf(ctx context.Context, trials []trial, seeds []uint64) ([][]ran, error) {
	out := make([][]ran, len(trials))
	for i := range out {
		out[i] = make([]ran, len(seeds))
	}
	err := run.Each(ctx, len(trials)*len(seeds), cores(), func(ctx context.Context, k int) (err error) {
		i, s := k/len(seeds), k%len(seeds)
		out[i][s], err = trials[i].on(ctx, seeds[s])
		return err
	}, nil)
	return out, err
}

// against is the mean change of a figure in percent, seed by seed, with its
// standard error.
func against(of, base []ran, figure func(ran) float64) (mean, se float64) {
	by := make([]float64, len(of))
	for i := range of {
		by[i] = 100 * (figure(of[i])/figure(base[i]) - 1)
	}
	return meanSE(by)
}

// wrong is the policy with a knowledge of run times that is wrong by a factor,
// drawn log-normally for each job and the same whenever it is asked.
func wrong(p policy.Policy, factor float64) policy.Policy {
	if l, ok := p.(policy.Learner); ok {
		return wrongLearner{l, factor}
	}
	return wrongPolicy{p, factor}
}

type wrongPolicy struct {
	policy.Policy
	factor float64
}

// Decide plans by the wrong run times.
func (w wrongPolicy) Decide(in policy.Input) policy.Plan {
	return w.Policy.Decide(mislead(in, w.factor))
}

type wrongLearner struct {
	policy.Learner
	factor float64
}

// Decide plans by the wrong run times.
func (w wrongLearner) Decide(in policy.Input) policy.Plan {
	return w.Learner.Decide(mislead(in, w.factor))
}

func mislead(in policy.Input, factor float64) policy.Input {
	told := make(map[slurm.JobID]profile.Profile, len(in.Profiles))
	for id, p := range in.Profiles {
		rng := rand.New(rand.NewPCG(uint64(id), 0x3)) //nolint:gosec // an id is no secret
		p.RunTime = time.Duration(float64(p.RunTime) * math.Pow(factor, rng.NormFloat64()))
		told[id] = p
	}
	in.Profiles = told
	return in
}

func seedsFrom(first uint64, n int) []uint64 {
	out := make([]uint64, n)
	for i := range out {
		out[i] = first + uint64(i)
	}
	return out
}
