// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"

	"rifling/agent"
	"rifling/policy"
	"rifling/sim/peer"
)

// hpcTrace is one of RLScheduler's traces with the best published figure of
// bounded slowdown with backfill.
type hpcTrace struct {
	file, name string
	target     float64
}

var hpcTraces = []hpcTrace{{"lublin_256.swf", "lublin-1", 58.44}, {"lublin_256_new2", "lublin-2", 91.99}}

const (
	hpcSeeds       = 3
	hpcGenerations = 4
	hpcPopulation  = 8
	hpcBlock       = 64    // jobs that stay together in a sequence to learn from
	hpcSequences   = 8     // to learn from
	hpcCloseness   = 0.005 // cost of a weight that is one step from its start
)

// hpc replays RLScheduler's protocol under an order that was trained on those
// stretches of a trace that no tested sequence touches.
func hpc(ctx context.Context, out io.Writer) error {
	dir := filepath.Join(sharedDir(), "traces", "rlscheduler")
	if _, err := os.Stat(dir); err != nil {
		fmt.Fprintln(out, "skipped: no traces; set RIFLING_SHARED to the folder that holds traces/")
		return nil //nolint:nilerr // skipped aloud
	}
	fmt.Fprintf(out, "Bounded slowdown, RLScheduler's protocol with backfill, 10 sequences of 1,024 jobs; %d searches from different seeds\n", hpcSeeds)
	fmt.Fprintf(out, "%-10s %10s %10s %10s %24s  %10s %24s\n", "trace", "SJF", "untrained", "learned", "least .. most", "gradient", "least .. most")
	for _, t := range hpcTraces {
		if err := t.run(ctx, out, filepath.Join(dir, t.file)); err != nil {
			return err
		}
	}
	return nil
}

func (t hpcTrace) run(ctx context.Context, out io.Writer, path string) error {
	m, err := readMachine(path)
	if err != nil {
		return err
	}
	rows, _, err := readBatch(path)
	if err != nil {
		return err
	}
	jobs := peer.FromBatch(rows)
	var tests [][]peer.Batch
	used := make([]bool, len(jobs))
	for _, from := range peer.Draws(batchSeed, len(jobs), batchLength, batchSequences) {
		tests = append(tests, jobs[from:from+batchLength])
		for i := from; i < from+batchLength; i++ {
			used[i] = true
		}
	}
	blocks := unused(jobs, used)
	var got, climbed []float64
	for seed := range uint64(hpcSeeds) {
		b := batchTraining{machine: m, windows: resampled(blocks, seed+1)}
		model, err := b.train(ctx, seed+1)
		if err != nil {
			return err
		}
		fresh := batchTraining{machine: m, windows: resampled(blocks, seed+1000)}
		better, err := fresh.surelyBetter(model, batchStart())
		if err != nil {
			return err
		}
		if !better {
			model = batchStart()
		}
		v, err := batchMean(m, tests, model)
		if err != nil {
			return err
		}
		got = append(got, v)
		other, err := b.gradient(seed + 1)
		if err != nil {
			return err
		}
		if v, err = batchMean(m, tests, other); err != nil {
			return err
		}
		climbed = append(climbed, v)
		fmt.Fprintf(out, "%s, search %d, from %d blocks of %d jobs, surely better on fresh ones: %v: %s\n", t.name, seed+1, len(blocks), hpcBlock, better, weightsText(&model.Order))
	}
	start, err := batchMean(m, tests, batchStart())
	if err != nil {
		return err
	}
	sjf := 0.0
	for _, part := range tests {
		starts, err := peer.Sequence(m, part, peer.RLScheduler()[3], true)
		if err != nil {
			return err
		}
		sjf += peer.MeanBoundedSlowdown(part, starts) / float64(len(tests))
	}
	s := spreadOf(got)
	fmt.Fprintf(out, "%-10s %10.2f %10.2f %s  %s\n", t.name, sjf, start, s, spreadOf(climbed))
	fmt.Fprintf(out, "bar: hpc-%s value=%.2f target=%.2f %s\n", t.name, s.median, t.target, verdict(s.median <= t.target))
	return nil
}

// unused cuts blocks out of what is not used.
func unused(jobs []peer.Batch, used []bool) [][]peer.Batch {
	var out [][]peer.Batch
	from := 0
	for i := range jobs {
		if used[i] {
			from = i + 1
		} else if i+1-from == hpcBlock {
			out = append(out, jobs[from:i+1])
			from = i + 1
		}
	}
	return out
}

// resampled draws sequences to learn from: blocks one after another, each with
// the gaps between its own jobs.
func resampled(blocks [][]peer.Batch, seed uint64) [][]peer.Batch {
	rng := rand.New(rand.NewPCG(seed, 0xb10c))
	out := make([][]peer.Batch, hpcSequences)
	for s := range out {
		at := 0
		for len(out[s]) < batchLength {
			b := blocks[rng.IntN(len(blocks))]
			for i, j := range b {
				if i > 0 {
					at += j.Submit - b[i-1].Submit
				}
				j.Submit = at
				out[s] = append(out[s], j)
			}
			at += (b[len(b)-1].Submit - b[0].Submit) / (len(b) - 1)
		}
	}
	return out
}

// batchTraining is work of a batch system to learn from.
type batchTraining struct {
	machine peer.BatchMachine
	windows [][]peer.Batch
}

// batchStart is the shortest run time first.
func batchStart() *policy.Model {
	m := policy.PlainModel()
	m.Order = agent.Linear([]string{"log_run", "log_gpus", "log_age", "age_run", "fits", "pressure_gpus", "backlog_run"})
	copy(m.Order.Layers[0].W, []float64{-1})
	return &m
}

func (b batchTraining) train(ctx context.Context, seed uint64) (*policy.Model, error) {
	start := batchStart()
	base, err := b.cost(start)
	if err != nil {
		return nil, err
	}
	w := start.Order.Layers[0].W
	search := &agent.Search{Seed: seed, Start: w, Steps: make([]float64, len(w)), Population: hpcPopulation}
	for i := range search.Steps {
		search.Steps[i] = 0.2
	}
	with := func(w []float64) *policy.Model {
		m := batchStart()
		copy(m.Order.Layers[0].W, w)
		return m
	}
	p, err := search.Run(ctx, hpcGenerations, benchWorkers, func(_ context.Context, _ int, w []float64) (float64, error) {
		v, err := b.cost(with(w))
		for i, d := range search.Steps {
			step := (w[i] - search.Start[i]) / d
			v += hpcCloseness * step * step
		}
		return v - base, err
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("train an order: %w", err)
	}
	return with(p.Weights), nil
}

// surelyBetter reports whether one model costs less than another on the same
// lists, by more than two standard errors of the mean difference.
func (b batchTraining) surelyBetter(model, than *policy.Model) (bool, error) {
	var less []float64
	for i := range b.windows {
		one := batchTraining{b.machine, b.windows[i : i+1]}
		x, err := one.cost(model)
		if err != nil {
			return false, err
		}
		y, err := one.cost(than)
		if err != nil {
			return false, err
		}
		less = append(less, y-x)
	}
	return average(less) > 2*deviation(less)/math.Sqrt(float64(len(less))), nil
}

// cost is the mean over the lists of the logarithms of their bounded slowdowns:
// one crowded list must not be all that is learned from.
func (b batchTraining) cost(model *policy.Model) (float64, error) {
	sum := 0.0
	for _, w := range b.windows {
		v, err := batchMean(b.machine, [][]peer.Batch{w}, model)
		if err != nil {
			return 0, err
		}
		sum += math.Log(v) / float64(len(b.windows))
	}
	return sum, nil
}

// batchMean is the mean bounded slowdown over lists of jobs under a model.
func batchMean(m peer.BatchMachine, lists [][]peer.Batch, model *policy.Model) (float64, error) {
	sum := 0.0
	for _, jobs := range lists {
		starts, err := peer.SequenceScored(m, jobs, batchScorer(model), true)
		if err != nil {
			return 0, err
		}
		sum += peer.MeanBoundedSlowdown(jobs, starts) / float64(len(lists))
	}
	return sum, nil
}

// batchScorer is the order scorer of policy learned on jobs of a batch system,
// of which nothing but the time asked for is known.
func batchScorer(model *policy.Model) peer.BatchScorer {
	inputs := batchInputs(model)
	return func(s *peer.BatchScene, j int) float64 { return model.Order.Score(inputs(s, j)) }
}

// batchInputs are what the model's scorer wants to know of a batch job.
func batchInputs(model *policy.Model) func(s *peer.BatchScene, j int) []float64 {
	var scene *peer.BatchScene
	var queue policy.QueueFacts
	return func(s *peer.BatchScene, j int) []float64 {
		if s != scene {
			scene, queue = s, batchQueue(s)
		}
		b := s.Jobs[j]
		asked := float64(b.Asked)
		return model.OrderInputs(policy.OrderFacts{
			Run: asked, RunLow: asked, RunHigh: asked, RunMean: asked, Limit: asked, GPUs: b.Procs, Nodes: b.Procs,
			Age: float64(s.Now - b.Submit), Fits: b.Procs*s.Nodes <= s.Free*s.Procs, Queue: queue,
		})
	}
}

func batchQueue(s *peer.BatchScene) policy.QueueFacts {
	want, work := 0, 0.0
	for _, j := range s.Queue {
		want += s.Jobs[j].Procs
		work += float64(s.Jobs[j].Procs) * float64(s.Jobs[j].Asked)
	}
	all := float64(s.Nodes)
	return policy.QueueFacts{Pressure: float64(want) / all, Backlog: work / all}
}
