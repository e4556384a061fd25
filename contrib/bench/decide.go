// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"rifling/agent"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// decideTarget is what one pass may take, a fraction of the default interval
// of 15 s.
const decideTarget = time.Second

// decide measures one pass of each policy, guard rails and planned writes
// included, on generated work.
func decide(ctx context.Context, out io.Writer) error {
	policies := map[string]policy.Policy{
		"pack":    policy.Packed{},
		"rifling": &policy.Rifling{Table: agent.NewTable(agent.DefaultParams()), FCFS: true, Prior: policy.RulePrior, PriorWeight: 3},
	}
	fmt.Fprintf(out, "%-8s %5s %10s %10s %10s\n", "policy", "depth", "min", "median", "max")
	worst := time.Duration(0)
	for _, name := range []string{"pack", "rifling"} {
		for _, depth := range []int{50, 500} {
			var took []time.Duration
			for seed := range uint64(7) {
				if err := ctx.Err(); err != nil {
					return err
				}
				in := largeInput(seed, depth)
				start := time.Now()
				w := policy.Steer(policy.Restrict(policies[name].Decide(in), in), in)
				took = append(took, time.Since(start))
				if len(w.Changes) == 0 {
					return fmt.Errorf("%s planned nothing to write", name)
				}
			}
			slices.Sort(took)
			fmt.Fprintf(out, "%-8s %5d %10s %10s %10s\n", name, depth,
				took[0].Round(time.Microsecond), took[3].Round(time.Microsecond), took[6].Round(time.Microsecond))
			worst = max(worst, took[6])
		}
	}
	verdict := "ok"
	if worst > decideTarget {
		verdict = "short"
	}
	fmt.Fprintf(out, "bar: decide value=%.3fs target=%.3fs %s\n", worst.Seconds(), decideTarget.Seconds(), verdict)
	return nil
}

// largeInput is a busy cluster of 200 nodes with 8 GPUs and 5,000 queued jobs.
func largeInput(seed uint64, depth int) policy.Input {
	rng := rand.New(rand.NewPCG(seed, 7))
	now := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	s := &slurm.Snapshot{TakenAt: now, Release: slurm.Release{Major: 24, Minor: 11, REST: 42}}
	p := slurm.Partition{Name: "gpu", Up: true}
	in := policy.Input{
		Snapshot: s, Profiles: map[slurm.JobID]profile.Profile{}, Rand: rng,
		Limits: policy.Limits{
			Depth: depth, SlackNodes: 1, MaxOffset: 1000, MaxWait: 2 * time.Hour, MaxChanges: depth, TTL: 10 * time.Minute,
		},
	}
	for i := range 200 {
		n := slurm.Node{
			Name: fmt.Sprintf("gpu%03d", i), GPUs: 8, CPUs: 128, MemoryMB: 1 << 20,
			Leaf: fmt.Sprintf("s%02d", i/16), State: slurm.State{Base: "MIXED"}, GPUsUsed: rng.IntN(9),
		}
		s.Nodes, p.Nodes = append(s.Nodes, n), append(p.Nodes, n.Name)
		if n.GPUsUsed > 0 {
			s.Jobs = append(s.Jobs, slurm.Job{
				ID: slurm.JobID(i + 1), Partition: "gpu", State: slurm.State{Base: "RUNNING"}, Nodes: []string{n.Name},
				NodeGPUs: map[string]int{n.Name: n.GPUsUsed}, StartTime: now.Add(-time.Hour),
				EndTime: now.Add(time.Duration(rng.IntN(600)) * time.Minute),
			})
		}
	}
	s.Partitions = []slurm.Partition{p}
	for i := range 5000 {
		j := slurm.Job{
			ID: slurm.JobID(1000 + i), Partition: "gpu", State: slurm.State{Base: "PENDING"}, Priority: int64(1 + rng.IntN(10000)),
			SubmitTime: now.Add(-time.Duration(i) * time.Second), MinNodes: 1, Tasks: 1, ArrayTaskID: -1,
		}
		if rng.IntN(3) == 0 {
			j.Request.PerJob = 1 << rng.IntN(6)
		} else {
			j.MaxNodes, j.Request.PerNode = 1, 1<<rng.IntN(4)
		}
		s.Jobs = append(s.Jobs, j)
		g := rng.IntN(4) - 1
		in.Profiles[j.ID] = profile.Profile{JobID: j.ID, Group: g, CommBound: g == 0, ComputeBound: g == 2}
	}
	return in
}
