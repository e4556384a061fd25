// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rifling/agent"
	"rifling/policy"
	"rifling/sim/run"
	"rifling/slurm"
)

// searchState is what --resume keeps.
type searchState struct {
	Format   string       `json:"format"`
	Settings []string     `json:"settings"` // that must be the same to go on
	Search   agent.Search `json:"search"`
}

const searchFormat = "rifling-search 1"

// First steps of the search, chosen: values of actions lie in -1..0 and differ
// by a few hundredths; what orders the queue is a logarithm of some units.
const (
	placeStep = 0.05
	orderStep = 0.3
)

// weights lists those of both scorers, with their first steps. An input that is
// large in its unit gets small steps by the net's own scale.
func weights(m *policy.Model) (start, steps []float64) {
	for _, part := range []struct {
		net  *agent.Net
		step float64
	}{{&m.Place, placeStep}, {&m.Order, orderStep}} {
		p := part.net.Params()
		start = append(start, p...)
		steps = append(steps, slices.Repeat([]float64{part.step}, len(p))...)
	}
	return start, steps
}

// withWeights returns the model with these weights; it shares none of its own.
func withWeights(m policy.Model, w []float64) (policy.Model, error) {
	m.Place, m.Order = m.Place.Clone(), m.Order.Clone()
	n := len(m.Place.Params())
	if len(w) < n {
		return m, fmt.Errorf("%d weights are too few", len(w))
	}
	return m, errors.Join(m.Place.SetParams(w[:n]), m.Order.SetParams(w[n:]))
}

// search looks for the weights and puts the model that it found into f.
func (c *trainCall) search(ctx context.Context, f *policy.File, start policy.Model, settings []string) error {
	state := searchState{Format: searchFormat, Settings: settings}
	first, steps := weights(&start)
	// A search of the same lists with more generations is the same search.
	state.Settings = slices.DeleteFunc(slices.Clone(settings), func(s string) bool { return strings.HasPrefix(s, "--generations=") })
	state.Search = agent.Search{Seed: c.searchSeed, Start: first, Steps: steps, Population: c.population}
	if c.hidden > 0 {
		// From all 0 no hidden unit would ever move apart from the others.
		rng := rand.New(rand.NewPCG(c.searchSeed, 0x5eed))
		for i := range first {
			first[i] += steps[i] * rng.NormFloat64()
		}
	}
	if err := c.readState(&state); err != nil {
		return err
	}
	if err := c.baseline(ctx); err != nil {
		return err
	}
	begun, known := c.env.Now(), 0
	last, err := state.Search.Run(ctx, c.generations, c.workers, func(ctx context.Context, generation int, w []float64) (float64, error) {
		return c.costOf(ctx, start, generation, w)
	}, func(p agent.Progress) error {
		text := fmt.Sprintf("generation %d of %d: cost %.4f, best %.4f (Slurm: 1)", p.Generation+1, c.generations, p.Mean, p.Best)
		if p.Resumed {
			known = p.Generation + 1
		} else {
			text += ", " + about(run.Until(c.env.Now().Sub(begun), p.Generation+1-known, c.generations-known)) + " left"
		}
		c.show.text(text)
		if p.Resumed || c.resume == "" {
			return nil
		}
		return writeWhole(c.resume, state)
	})
	if err != nil {
		return err
	}
	found, err := withWeights(start, last.Weights)
	f.Model = &found
	return err
}

// starvedCost is that of weights under which jobs wait for ever: more than any
// other's.
const starvedCost = 1000

// costOf measures weights on the lists that are drawn for the generation.
func (c *trainCall) costOf(ctx context.Context, start policy.Model, generation int, w []float64) (float64, error) {
	m, err := withWeights(start, w)
	if err != nil {
		return 0, err
	}
	rng := rand.New(rand.NewPCG(c.seed, uint64(generation)))
	sum := 0.0
	for _, i := range rng.Perm(len(c.train))[:c.each] {
		p, err := policy.New(policy.KindLearned, policy.Options{Model: &m})
		if err != nil {
			return 0, err
		}
		got, err := c.train[i].play(ctx, p)
		if errors.Is(err, run.ErrStarved) {
			return starvedCost, nil
		}
		if err != nil {
			return 0, err
		}
		sum += cost(c.goal, got, c.base[i])
	}
	return sum / float64(c.each), nil
}

// readState goes on from the file of --resume, when there is one.
func (c *trainCall) readState(state *searchState) error {
	if c.resume == "" {
		return nil
	}
	b, err := os.ReadFile(c.resume)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("--resume: %w", err)
	}
	var old searchState
	if err := json.Unmarshal(b, &old); err != nil || old.Format != searchFormat {
		return slurm.WithHint(fmt.Errorf("--resume: %s is no state of a search", c.resume), "give another file; train makes it")
	}
	if !slices.Equal(old.Settings, state.Settings) || !slices.Equal(old.Search.Start, state.Search.Start) {
		return slurm.WithHint(fmt.Errorf("--resume: %s is of a training with other settings: %s", c.resume, strings.Join(old.Settings, " ")),
			"give the same flags, or another file")
	}
	state.Search = old.Search
	return state.Search.Validate()
}

// writeWhole writes JSON at once or not at all.
func writeWhole(name string, v any) error {
	b, err := json.Marshal(v)
	if err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	next := name + ".new"
	if err := os.WriteFile(next, b, 0o644); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	if err := os.Rename(next, name); err != nil {
		return fmt.Errorf("write %s: %w", name, err)
	}
	return nil
}

// writeArray writes the job array: each task is a search with a seed of its own.
func (c *trainCall) writeArray(cmd *cobra.Command, list []string) error {
	self, dir, err := arrayPlace(cmd, c.slurmDir, "slurm-conf", "config", "database", "parent")
	if err != nil {
		return err
	}
	words := append([]string{quote(self), "train"}, flagWords(cmd, []string{"slurm", "tasks", "out", "resume", "workers", "search-seed"})...)
	for _, path := range list {
		abs, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		words = append(words, quote(abs))
	}
	part := quote(dir) + `/part-"$SLURM_ARRAY_TASK_ID"`
	text := fmt.Sprintf(`#!/bin/sh
# Made by rifling train --slurm: %d searches, the best of which --collect takes.
# A task that was requeued goes on where it was.
# Give a partition, an account or a time limit to sbatch itself.
#SBATCH --job-name=rifling-train
#SBATCH --array=0-%d
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output="%s/task-%%a.log"
exec %s --workers="${SLURM_CPUS_PER_TASK:-1}" \
  --search-seed=$((%d + SLURM_ARRAY_TASK_ID)) --out=%s.json --resume=%s.search
`, c.tasks, c.tasks-1, dir, strings.Join(words, " "), c.searchSeed, part, part)
	script := filepath.Join(dir, "train.sbatch")
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return fmt.Errorf("--slurm: %w", err)
	}
	fmt.Fprintf(c.app.out, "%s are ready. Every node must see this directory, the jobs and this program.\n  sbatch %s\nand when all have ended:\n  rifling train --collect %s --out policy.json\n",
		count(c.tasks, "search", "searches"), quote(script), quote(dir))
	return nil
}

// gather takes the policy that did best on the training's own lists: choosing
// by the test would make it a part of the training.
func (c *trainCall) gather() error {
	if err := freeToWrite(c.out); err != nil {
		return err
	}
	names, err := filepath.Glob(filepath.Join(c.collect, "part-*.json"))
	if err != nil || len(names) == 0 {
		return slurm.WithHint(fmt.Errorf("%s holds no part-*.json", c.collect), "have the array's tasks ended? see task-*.log there")
	}
	var best *policy.File
	bestCost, bestVersion := 0.0, ""
	for _, name := range names {
		f, v, err := readPolicyFile(name)
		if err != nil {
			return err
		}
		own := slices.IndexFunc(f.Training.Train, func(x policy.Figure) bool { return x.Policy == f.Kind })
		if own < 0 {
			return fmt.Errorf("%s tells nothing of its training", name)
		}
		x := f.Training.Train[own].Cost.Mean
		fmt.Fprintf(c.app.out, "%s  %s  cost %.4f on the training's lists\n", v, filepath.Base(name), x)
		if best == nil || x < bestCost {
			best, bestCost, bestVersion = f, x, v
		}
	}
	b, v, err := best.Encode()
	if err != nil {
		return err
	}
	if v != bestVersion {
		return fmt.Errorf("policy %s would become %s", bestVersion, v)
	}
	if err := writeNew(c.out, b); err != nil {
		return err
	}
	fmt.Fprintf(c.app.out, "\n%s is the best of %d and written to %s; on the test's lists:\n\n", v, len(names), c.out)
	return writeFigures(c.app.out, best.Training.Test)
}
