// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"slices"
	"syscall"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// decideTarget is what one pass may take at the depth that rifling ships with.
const (
	decideTarget = 100 * time.Millisecond
	decideDepth  = 50
)

// decide measures one pass of each policy, guard rails and planned writes
// included, on generated work: its processor time on one core, so that other
// work on the machine does not count.
func decide(ctx context.Context, out io.Writer) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fmt.Fprintf(out, "%-8s %5s %10s %10s %10s   (processor time)\n", "policy", "depth", "min", "median", "max")
	worst := time.Duration(0)
	for _, name := range []string{"pack", "strict", "rule", "rifling", "learned"} {
		for _, depth := range []int{decideDepth, 500} {
			p, err := policy.New(name, policy.Options{FCFS: true})
			if err != nil {
				return err
			}
			var took []time.Duration
			for seed := range uint64(7) {
				if err := ctx.Err(); err != nil {
					return err
				}
				in := largeInput(seed, depth)
				runtime.GC() // what making the input left behind is not the pass's
				start := processorTime()
				w := policy.Steer(policy.Restrict(p.Decide(in), in), in)
				took = append(took, processorTime()-start)
				if len(w.Changes) == 0 {
					return fmt.Errorf("%s planned nothing to write", name)
				}
			}
			slices.Sort(took)
			fmt.Fprintf(out, "%-8s %5d %10s %10s %10s\n", name, depth,
				took[0].Round(time.Microsecond), took[3].Round(time.Microsecond), took[6].Round(time.Microsecond))
			if depth == decideDepth {
				worst = max(worst, took[6])
			}
		}
	}
	fmt.Fprintf(out, "bar: decide value=%.3fs target=%.3fs %s\n", worst.Seconds(), decideTarget.Seconds(), verdict(worst <= decideTarget))
	return nil
}

// processorTime is what this process has used so far.
func processorTime() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// largeInput is a busy cluster of 1,000 nodes with 8 GPUs and 10,000 queued jobs.
func largeInput(seed uint64, depth int) policy.Input {
	const nodes, pending = 1000, 10000
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
	for i := range nodes {
		n := slurm.Node{
			Name: fmt.Sprintf("gpu%04d", i), GPUs: 8, CPUs: 128, MemoryMB: 1 << 20,
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
	for i := range pending {
		j := slurm.Job{
			ID: slurm.JobID(nodes + 1 + i), Partition: "gpu", State: slurm.State{Base: "PENDING"}, Priority: int64(1 + rng.IntN(10000)),
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
