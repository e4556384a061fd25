// SPDX-License-Identifier: Apache-2.0

// Package scene sets up clusters to look at riflingd by: an empty one, one like
// the lab's with days of history from the simulator, and a large one. The
// daemon is a real riflingd in a process of its own; the slurmrestd beside it
// is slurmtest's. Screens, browser tests and benchmarks stand on it.
package scene

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"rifling/contrib/workload"
	"rifling/cycle"
	"rifling/policy"
	"rifling/sim"
	"rifling/sim/run"
	"rifling/slurm"
	"rifling/slurm/slurmtest"
	"rifling/store"
)

// Hostile are names that a job may have and that must be shown as text.
var Hostile = []string{
	`<script>document.title="taken"</script>`,
	`<img src=x onerror="document.title='taken'">`,
	`"><svg onload=alert(1)>`,
	`{{.Secret}} ${7*7} %s%n`,
	"two\nlines\x1b[31m red",
	"\u202egnp.exe",
	"some_job . | grep hot",
	"javascript:alert(1)",
	"très_long_" + "abcdefghijklmnopqrstuvwxyzabcdefghijklmnopqrstuvwxyz" + "_0123456789_0123456789",
	"模型训练",
	"",
	`' OR 1=1; DROP TABLE jobs; --`,
}

// Empty is a cluster of 8 nodes on which nothing runs.
func Empty(now time.Time) *slurm.Snapshot {
	b := slurmtest.Snapshot().At(now)
	for i := range 8 {
		b.Node(slurmtest.Node(fmt.Sprintf("gpu%02d", i+1)).GPUType("a100").Leaf(fmt.Sprintf("leaf%d", i/4+1)))
	}
	return b.Obj()
}

// labDays is how much history Lab makes.
const labDays = 2

// errEnough ends the simulation.
var errEnough = errors.New("enough history")

// Lab simulates days of work under the policy rifling on 8 nodes of 8 GPUs, up
// to now, keeps them in a database at path, and returns the cluster as it then
// is, some hostile names added to its queue.
func Lab(ctx context.Context, path string, now time.Time, seed uint64) (_ *slurm.Snapshot, err error) {
	jobs, err := labJobs(seed)
	if err != nil {
		return nil, err
	}
	begin := now.Add(-labDays * 24 * time.Hour).Truncate(time.Second)
	s, err := store.Open(path, store.Options{})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, s.Close()) }()
	spec := sim.Spec{}
	for i := range 8 {
		spec.Nodes = append(spec.Nodes, sim.NodeSpec{Name: fmt.Sprintf("gpu%02d", i+1), GPUs: 8, GPUType: "a100", CPUs: 64, Leaf: fmt.Sprintf("leaf%d", i/4+1)})
	}
	cfg := run.Default(spec)
	cfg.Seed, cfg.Zero, cfg.Interval, cfg.Recorder, cfg.Noise = seed, begin, 2*time.Minute, s, 0.1
	if cfg.Policy, err = policy.New("rifling", policy.Options{FCFS: true}); err != nil {
		return nil, err
	}
	var last *slurm.Snapshot
	cfg.Watch = func(r cycle.Report) error {
		last = r.Snapshot
		if r.At.Sub(begin) >= labDays*24*time.Hour {
			return errEnough
		}
		return nil
	}
	if _, err := run.Run(ctx, cfg, run.List(jobs), nil); !errors.Is(err, errEnough) {
		return nil, fmt.Errorf("the simulation ended after %s: %w", last.TakenAt.Sub(begin), err)
	}
	return withHostile(last), fromTheFirst(ctx, s)
}

// fromTheFirst has a daemon that goes on from the database read the counters
// in it from the first on: the simulation's were never there.
func fromTheFirst(ctx context.Context, s *store.Store) error {
	blob, err := s.LoadState(ctx, "loop")
	if err != nil {
		return err
	}
	state := map[string]any{}
	if err := json.Unmarshal(blob, &state); err != nil {
		return fmt.Errorf("the simulation's check-point: %w", err)
	}
	state["Mark"] = 0
	if blob, err = json.Marshal(state); err != nil {
		return err
	}
	return s.SaveState(ctx, "loop", blob)
}

// labJobs is a list of work that keeps the lab a little more than full.
func labJobs(seed uint64) ([]sim.Job, error) {
	o := workload.Options{Jobs: 1400, Nodes: 8, GPUsPerNode: 8, Load: 0.95, MaxNodes: 4, Spread: 1, MeanWork: 50 * time.Minute}
	for i := range sim.Models {
		o.Models = append(o.Models, sim.Models[i].Name)
	}
	made, err := workload.Generate(seed, o)
	if err != nil {
		return nil, err
	}
	out := make([]sim.Job, len(made))
	for i := range made {
		w := &made[i]
		m, _ := sim.FindModel(w.Model)
		j := sim.Job{
			ID: slurm.JobID(48101 + i), Name: w.Name, User: w.User, Account: w.Account, QOS: "normal", Submit: w.Submit, Limit: w.Limit,
			Model: &m, Work: w.Work, Request: sim.Request{GPUs: w.GPUs},
		}
		if !w.Open {
			j.Request = sim.Request{GPUsPerNode: w.GPUs / w.Fewest, MinNodes: w.Fewest}
		}
		out[i] = j
	}
	return out, nil
}

// withHostile adds waiting jobs with odd names to a cluster.
func withHostile(s *slurm.Snapshot) *slurm.Snapshot {
	out := *s
	out.Cluster = "lab"
	out.Jobs = nil
	for _, j := range s.Jobs {
		if !j.Done() {
			out.Jobs = append(out.Jobs, j)
		}
	}
	for i, name := range Hostile {
		out.Jobs = append(out.Jobs, slurmtest.Job(slurm.JobID(90001+i)).Name(name).User("mallory").Account("guests").
			GPUs(1+i%4).Priority(100).Submitted(s.TakenAt.Add(-time.Duration(i+1)*time.Minute)).Obj())
	}
	return &out
}

// Size of the large scene.
const (
	LargeNodes = 1000
	LargeJobs  = 10_000
)

// Large is 1,000 nodes of 8 GPUs with 10,000 jobs, most of the GPUs in use.
func Large(now time.Time, seed uint64) *slurm.Snapshot {
	rng := rand.New(rand.NewPCG(seed, 0x1a59e))
	b := slurmtest.Snapshot().At(now)
	free := make([]int, LargeNodes)
	names := make([]string, LargeNodes)
	for i := range LargeNodes {
		names[i] = fmt.Sprintf("gpu%04d", i+1)
		n := slurmtest.Node(names[i]).GPUType("h100").Leaf(fmt.Sprintf("leaf%02d", i/25+1))
		free[i] = 8
		if i%97 == 50 {
			n.Drained()
			free[i] = 0
		}
		b.Node(n)
	}
	b.Partitions(slurmtest.Partition("gpu", names...).Default(), slurmtest.Partition("gpu-long", names[:400]...), slurmtest.Partition("debug", names[960:]...))
	at := 0
	for i := range LargeJobs {
		id := slurm.JobID(1_200_000 + i)
		gpus := []int{1, 1, 1, 2, 4, 4, 8, 8, 16}[rng.IntN(9)]
		age := time.Duration(rng.ExpFloat64()*float64(3*time.Hour)) + time.Minute
		kind := rng.IntN(24)
		j := slurmtest.Job(id).Name(fmt.Sprintf("%s-%02d", []string{"llama-sft", "resnet", "bert-large", "gnn", "diffusion", "eval"}[kind%6], kind)).
			User(fmt.Sprintf("user%02d", rng.IntN(60))).Account([]string{"physics", "vision", "language"}[kind%3]).
			Partition([]string{"gpu", "gpu", "gpu", "gpu-long", "gpu,gpu-long"}[rng.IntN(5)]).
			Priority(int64(10_000 - i/2)).Submitted(now.Add(-age)).TimeLimit(time.Duration(2+rng.IntN(46)) * time.Hour)
		if gpus > 8 {
			j.GPUsPerNode(8).Nodes(gpus/8, gpus/8)
		} else {
			j.GPUs(gpus)
		}
		if on := place(free, names, gpus, &at); on != nil {
			j.Running(on...).Started(now.Add(-age / 2))
		} else if rng.IntN(20) == 0 {
			j.Dependency("afterok:1")
		}
		b.Jobs(j)
	}
	return b.Obj()
}

// place takes GPUs of the first node with enough of them, or whole nodes, for
// the first part of the jobs; nil: nothing is left.
func place(free []int, names []string, gpus int, at *int) []string {
	if *at >= len(free)-12 { // some stay free
		return nil
	}
	if gpus <= 8 {
		for k := 0; k < 40 && *at+k < len(free); k++ {
			if i := *at + k; free[i] >= gpus {
				free[i] -= gpus
				for *at < len(free) && free[*at] == 0 {
					*at++
				}
				return names[i : i+1]
			}
		}
		return nil
	}
	var on []string
	for i := *at; i < len(free) && len(on) < gpus/8; i++ {
		if free[i] == 8 {
			on = append(on, names[i])
			free[i] = 0
		}
	}
	if len(on) < gpus/8 {
		return nil
	}
	return on
}
