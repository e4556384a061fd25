// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"rifling/policy"
	"rifling/slurm"
)

// try runs a long queue on a simulated cluster, with a candidate that decides
// for a share of the jobs.
func try(t *testing.T, incumbent, candidate policy.Policy, seed uint64, jobs int) policy.ShareFigures {
	t.Helper()
	spec := nodes(6)
	trial, p := policy.NewTrial("0123456789ab", incumbent, candidate, 0.3)
	cfg := Default(spec)
	cfg.Seed, cfg.Interval = seed, time.Minute
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	cfg.Policy = until{p, func() {
		if trial.Figures().Alarm {
			stop()
		}
	}}
	if _, err := Run(ctx, cfg, source(work(seed, jobs, 48, 0.6)), nil); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return trial.Figures()
}

// until calls a function after each decision.
type until struct {
	policy.Policy
	after func()
}

func (u until) Decide(in policy.Input) policy.Plan {
	defer u.after()
	return u.Policy.Decide(in)
}

// crowding sends every job to the fullest third of the nodes, where it waits
// while the others stand idle.
type crowding struct{}

func (crowding) Decide(in policy.Input) policy.Plan {
	p := policy.Strict().Decide(in)
	nodes := slices.Clone(in.Snapshot.Nodes)
	slices.SortStableFunc(nodes, func(a, b slurm.Node) int { return cmp.Compare(b.GPUsUsed, a.GPUsUsed) })
	var full []string
	for i := range nodes[:len(nodes)/3] {
		full = append(full, nodes[i].Name)
	}
	for i := range p.Decisions {
		if d := &p.Decisions[i]; d.Skipped == "" {
			d.Action, d.Candidates = policy.Place, full
		}
	}
	return p
}

// A policy that does harm is rolled back, one that does none is not: on a
// simulated cluster, by the daemon's own loop. The bad one keeps
// jobs away from the nodes that are free.
func TestABadPolicyIsRolledBackAndAGoodOneIsNot(t *testing.T) {
	if testing.Short() {
		t.Skip("takes some seconds")
	}
	for _, tc := range []struct {
		name                 string
		incumbent, candidate policy.Policy
		back                 bool
	}{
		{"crowding, beside packing", policy.Packed{}, crowding{}, true},
		{"the rule, beside packing", policy.Packed{}, policy.DefaultRule(), false},
	} {
		alarms := 0
		const seeds = 2
		for seed := range uint64(seeds) {
			f := try(t, tc.incumbent, tc.candidate, 100+seed, 600)
			t.Logf("%s, seed %d: %+v", tc.name, seed, f)
			if f.Alarm {
				alarms++
			}
		}
		if tc.back && alarms < seeds || !tc.back && alarms > 0 {
			t.Errorf("%s: rolled back in %d of %d", tc.name, alarms, seeds)
		}
	}
}
