// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"testing"
	"time"

	"rifling/policy"
	"rifling/sim"
)

// starts runs jobs under a policy and returns when each started and the longest
// time limit among them.
func starts(t *testing.T, p policy.Policy, jobs []sim.Job, seed uint64, maxWait, starvation time.Duration) (map[int]time.Duration, time.Duration) {
	t.Helper()
	cfg := Default(nodes(8))
	cfg.Policy, cfg.Seed, cfg.Limits.MaxWait, cfg.Limits.Starvation = p, seed, maxWait, starvation
	out, longest := map[int]time.Duration{}, time.Duration(0)
	_, err := Run(t.Context(), cfg, source(jobs), func(r *sim.Result) {
		out[int(r.ID)] = r.FirstRun
		longest = max(longest, r.Limit)
	})
	if err != nil {
		t.Fatal(err)
	}
	return out, longest
}

// No starvation: against plain Slurm on the same jobs and the same seed no job
// starts later by more than Limits.Starvation and the longest time limit
// together, as docs/design/safety.md states: once a job has waited for the one
// it is Slurm's alone, and what others hold by then ends within the other.
func TestNoJobIsDelayedBeyondTheBound(t *testing.T) {
	seeds := uint64(3)
	if testing.Short() {
		seeds = 1
	}
	worst, of := time.Duration(0), time.Duration(0)
	n, later := 0, 0
	for seed := uint64(1); seed <= seeds; seed++ {
		for _, load := range []float64{0.7, 1.1} {
			jobs := work(seed, wanted, 64, load)
			plain, longest := starts(t, nil, jobs, seed, 0, 0)
			for name, p := range map[string]policy.Policy{"rifling": rifling(), "rule": must(t, "rule"), "strict": must(t, "strict")} {
				maxWait := []time.Duration{30 * time.Minute, 2 * time.Hour}[seed%2]
				const starvation = 4 * time.Hour
				steered, _ := starts(t, p, jobs, seed, maxWait, starvation)
				bound := starvation + longest
				for id, at := range steered {
					delay := at - plain[id]
					n++
					if delay > 0 {
						later++
					}
					if delay > worst {
						worst, of = delay, bound
					}
					if delay > bound {
						t.Errorf("seed %d, load %.1f, %s: job %d starts %s later than under plain Slurm, the bound is %s", seed, load, name, id, delay, bound)
					}
				}
			}
		}
	}
	t.Logf("%d jobs, %d of them later than under plain Slurm; the worst by %s of %s allowed", n, later, worst.Round(time.Second), of)
}

func must(t *testing.T, name string) policy.Policy {
	t.Helper()
	p, err := policy.New(name, policy.Options{Rule: policy.DefaultRule()})
	if err != nil {
		t.Fatal(fmt.Errorf("policy %s: %w", name, err))
	}
	return p
}
