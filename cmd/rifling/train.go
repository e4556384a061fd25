// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"runtime"
	"slices"

	"github.com/spf13/cobra"

	"rifling/agent"
	"rifling/policy"
	"rifling/sim/run"
	"rifling/slurm"
)

// trainCall is one call of the verb.
type trainCall struct {
	*app
	workFlags
	kind, out, resume, parent, objective string
	generations, population, workers     int
	trainN, testN, each                  int
	searchSeed                           uint64
	hidden                               int
	slurmDir, collect                    string
	tasks                                int

	goal        policy.Objective
	train, test []jobList
	base        []lot // Slurm on the lists of the training
	show        *progress
}

func (a *app) trainCmd() *cobra.Command {
	c := trainCall{app: a}
	cmd := &cobra.Command{
		Use:   "train TRACE | --generate | --history",
		Short: "Train a policy in the simulator and write it into a file",
		Long: "train looks for the policy that does best on lists of jobs by the site's --objective,\n" +
			"each part relative to Slurm's own on the same list: CMA-ES over the weights of kind\n" +
			"learned, passes over the lists for the table of kind rifling. The lists are generated,\n" +
			"parts of a trace, or parts of the site's own history; the policy is tested on other\n" +
			"seeds, or on the later half of the time, and the table of that test is printed and\n" +
			"kept in the file. `rifling policy` shows, evaluates and promotes what was trained.\n\n" +
			"--resume FILE writes the state of the search there after each generation, and goes on\n" +
			"from it when it is there. --slurm DIR writes a job array of several searches;\n" +
			"--collect DIR takes the best of what its tasks have written.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: c.run,
	}
	c.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&c.kind, "kind", policy.KindLearned, "learned (a scorer) or rifling (a table)")
	fl.StringVarP(&c.out, "out", "o", "rifling-policy.json", "file to write; one that is there is never overwritten")
	fl.StringVar(&c.resume, "resume", "", "keep the state of the search in this file, and go on from it")
	fl.StringVar(&c.parent, "parent", "", "begin with this policy file in place of the shipped parameters")
	fl.StringVar(&c.objective, "objective", "", "weights, e.g. jct=1,p95=0.25,makespan=0.25,anpr=0.5,fairness=0.1 (the default)")
	fl.IntVar(&c.generations, "generations", 40, "generations of the search, or passes over the lists")
	fl.IntVar(&c.population, "population", 16, "candidates in a generation")
	fl.IntVar(&c.workers, "workers", 0, "runs at once; 0: one a core")
	fl.IntVar(&c.trainN, "train-lists", 8, "lists of the training")
	fl.IntVar(&c.testN, "test-lists", 5, "lists of the test")
	fl.IntVar(&c.each, "each", 2, "lists that each generation is measured on, drawn anew")
	fl.IntVar(&c.hidden, "hidden", 0, "width of a hidden layer of both scorers; 0: linear, or as --parent has it")
	fl.Uint64Var(&c.searchSeed, "search-seed", 1, "seed of the search itself")
	fl.StringVar(&c.slurmDir, "slurm", "", "write a job array for sbatch into this directory in place of running")
	fl.IntVar(&c.tasks, "tasks", 4, "tasks of that array: searches with other seeds")
	fl.StringVar(&c.collect, "collect", "", "take the best of what the tasks of --slurm have written into this directory")
	return cmd
}

func (c *trainCall) run(cmd *cobra.Command, list []string) error {
	if err := c.check(); err != nil {
		return err
	}
	switch {
	case c.collect != "":
		return c.gather()
	case c.slurmDir != "":
		return c.writeArray(cmd, list)
	}
	if err := freeToWrite(c.out); err != nil {
		return err
	}
	start, err := c.start()
	if err != nil {
		return err
	}
	if c.train, c.test, err = c.lists(c.app, cmd, list, c.trainN, c.testN); err != nil {
		return err
	}
	record := policy.TrainRecord{
		Release: version, Data: c.data, Settings: flagWords(cmd, notOfTraining), Begin: c.begin, End: c.end,
		Objective: c.goal, Parent: start.parent, Generations: c.generations,
	}
	for i := range c.train {
		record.TrainSeeds = append(record.TrainSeeds, c.train[i].seed)
	}
	for i := range c.test {
		record.TestSeeds = append(record.TestSeeds, c.test[i].seed)
	}
	c.show = newProgress(cmd.ErrOrStderr(), c.env.Now)
	defer c.show.end()
	f := &policy.File{Kind: c.kind}
	if c.kind == policy.KindLearned {
		record.Population, record.SearchSeed = c.population, c.searchSeed
		err = c.search(cmd.Context(), f, start.model, record.Settings)
	} else {
		err = c.passes(cmd, f)
	}
	if err != nil {
		return err
	}
	return c.finish(cmd, f, record)
}

// notOfTraining are flags that change no result.
var notOfTraining = []string{"out", "resume", "workers", "slurm", "tasks", "collect", "config", "database"}

func (c *trainCall) check() (err error) {
	switch {
	case c.kind != policy.KindLearned && c.kind != policy.KindRifling:
		return usageError{fmt.Errorf("--kind %q: use %s or %s", c.kind, policy.KindLearned, policy.KindRifling)}
	case c.generations < 1 || c.population < 4 || c.workers < 0 || c.trainN < 1 || c.testN < 1 || c.hidden < 0 || c.tasks < 1:
		return usageError{errors.New("--generations, --train-lists, --test-lists and --tasks must be 1 or more, --population 4 or more")}
	case c.each < 1:
		return usageError{errors.New("--each must be 1 or more")}
	}
	c.each = min(c.each, c.trainN)
	if c.workers == 0 {
		c.workers = runtime.NumCPU()
	}
	c.goal, err = objectiveFlag(c.objective)
	return err
}

// freeToWrite refuses a file that is there, before hours are spent.
func freeToWrite(name string) error {
	if _, err := os.Lstat(name); !errors.Is(err, fs.ErrNotExist) {
		return slurm.WithHint(fmt.Errorf("%s: %w", name, fs.ErrExist), "a policy file is never overwritten: give another with --out, or remove it")
	}
	return nil
}

type beginning struct {
	model  policy.Model
	parent string
}

// start is the model that the search begins with.
func (c *trainCall) start() (beginning, error) {
	b := beginning{model: policy.ModelFor(c.goal)}
	if c.parent != "" {
		f, v, err := readPolicyFile(c.parent)
		if err != nil {
			return b, err
		}
		if f.Kind != policy.KindLearned || c.kind != policy.KindLearned {
			return b, usageError{errors.New("--parent: only a policy of kind learned can be trained further")}
		}
		b.model, b.parent = *f.Model, v
	}
	if c.hidden > 0 {
		for _, net := range []*agent.Net{&b.model.Place, &b.model.Order} {
			deep := agent.Dense(net.Inputs, agent.Tanh, c.hidden)
			deep.Mean, deep.Scale = net.Mean, net.Scale
			*net = deep
		}
	}
	b.model.Objective = c.goal
	return b, nil
}

// finish tests what was trained, writes the file and shows the table.
func (c *trainCall) finish(cmd *cobra.Command, f *policy.File, record policy.TrainRecord) error {
	var err error
	if record.Train, err = c.compare(cmd, f, c.train, c.base); err != nil {
		return err
	}
	if record.Test, err = c.compare(cmd, f, c.test, nil); err != nil {
		return err
	}
	c.show.end()
	record.At = c.env.Now().UTC()
	f.Training = record
	b, v, err := f.Encode()
	if err != nil {
		return err
	}
	if err := writeNew(c.out, b); err != nil {
		return err
	}
	fmt.Fprintf(c.app.out, "policy   %s, kind %s, written to %s\ntrained  on %s of %s\n", v, f.Kind, c.out, count(len(c.train), "list", "lists"), c.data)
	fmt.Fprintf(c.app.out, "tested   on %s that the training has not seen\n\n", count(len(c.test), "list", "lists"))
	if err := writeFigures(c.app.out, record.Test); err != nil {
		return err
	}
	fmt.Fprintf(c.app.out, "\n  rifling policy add %s\n  rifling policy evaluate %s --generate\n  rifling policy promote %s\n", quote(c.out), v, v)
	return nil
}

// compare runs the trained policy and those beside it on the lists.
func (c *trainCall) compare(cmd *cobra.Command, f *policy.File, lists []jobList, base []lot) ([]policy.Figure, error) {
	cfg, err := c.parameters(cmd)
	if err != nil {
		return nil, err
	}
	o, err := cfg.PolicyOptions()
	if err != nil {
		return nil, err
	}
	names := []string{"slurm", "strict", "rule"}
	lots := make([][]lot, len(names)+1)
	for i := range lots {
		lots[i] = make([]lot, len(lists))
	}
	err = run.Each(cmd.Context(), len(lists)*len(lots), c.workers, func(ctx context.Context, i int) error {
		who, l := i/len(lists), i%len(lists)
		if who == 0 && base != nil {
			lots[0][l] = base[l]
			return nil
		}
		var p policy.Policy
		var err error
		if who < len(names) {
			p, err = policy.New(names[who], o)
		} else {
			p, err = f.Policy(o)
		}
		if err == nil {
			lots[who][l], err = lists[l].play(ctx, p)
		}
		return err
	}, func(done int) { c.show.line("testing", done, len(lists)*len(lots)) })
	if err != nil {
		return nil, err
	}
	var out []policy.Figure
	for i, name := range append(names, f.Kind) {
		out = append(out, figureOf(name, c.goal, lots[i], lots[0]))
	}
	return out, nil
}

// baseline runs Slurm alone on the lists of the training.
func (c *trainCall) baseline(ctx context.Context) error {
	c.base = make([]lot, len(c.train))
	return run.Each(ctx, len(c.train), c.workers, func(ctx context.Context, i int) (err error) {
		c.base[i], err = c.train[i].play(ctx, nil)
		return err
	}, func(done int) { c.show.line("Slurm alone", done, len(c.train)) })
}

// passes lets the learner run over the lists again and again.
func (c *trainCall) passes(cmd *cobra.Command, f *policy.File) error {
	ctx := cmd.Context()
	if c.resume != "" {
		return usageError{errors.New("--resume is for --kind learned")}
	}
	if err := c.baseline(ctx); err != nil {
		return err
	}
	cfg, err := c.parameters(cmd)
	if err != nil {
		return err
	}
	o, err := cfg.PolicyOptions()
	if err != nil {
		return err
	}
	p, err := policy.New(policy.KindRifling, o)
	if err != nil {
		return err
	}
	learner, ok := p.(policy.Learner)
	if !ok {
		return fmt.Errorf("policy %s does not learn", policy.KindRifling)
	}
	for pass := range c.generations {
		for i := range c.train {
			l := c.train[i]
			l.config.Seed += uint64(pass) * testSeeds * 1000
			if _, err := l.play(ctx, p); err != nil {
				return err
			}
			c.show.line("passes over lists", pass*len(c.train)+i+1, c.generations*len(c.train))
		}
	}
	entries := slices.DeleteFunc(learner.Entries(), func(e policy.QEntry) bool {
		return e.Visits == 0 || math.IsNaN(e.Value) || math.IsInf(e.Value, 0)
	})
	f.Table = &policy.TablePart{Params: o.Agent, FCFS: o.FCFS, Entries: entries}
	return nil
}

// line shows how far a part of the training is, on a terminal.
func (p *progress) line(what string, done, all int) {
	if p.out == nil {
		return
	}
	text := fmt.Sprintf("%s: %d of %d", what, done, all)
	if done > 0 {
		text += ", " + about(run.Until(p.now().Sub(p.begun), done, all)) + " left"
	}
	p.text(text)
}

func (p *progress) text(s string) {
	if p.out == nil {
		return
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, s)
	p.width = len(s)
}
