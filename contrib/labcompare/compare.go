// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"rifling/contrib/labrun"
	"rifling/contrib/workload"
)

// outcome is one run and what came of it.
type outcome struct {
	policy  string
	seed    uint64
	rows    []labrun.Row
	summary labrun.Summary
	took    time.Duration
}

// comparison is one call of the program.
type comparison struct {
	options
	dir   string // databases
	slots chan int

	mu   sync.Mutex
	log  io.Writer
	runs int // started so far, for job ids that no two runs share
}

// compare makes all runs, prints the table, and reports whether the target was
// met.
func compare(ctx context.Context, o options, stdout, log io.Writer) (met bool, err error) {
	dir, err := os.MkdirTemp("", "labcompare-")
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	c := &comparison{options: o, dir: dir, log: log, slots: make(chan int, o.parallel)}
	for i := range o.parallel {
		c.slots <- i
	}
	stats, err := c.describe()
	if err != nil {
		return false, err
	}
	outcomes, err := c.all(ctx)
	if err != nil {
		return false, err
	}
	if o.csv != "" {
		if err := writeCSV(o.csv, outcomes); err != nil {
			return false, err
		}
	}
	t := newTable(o.policies, o.seeds, outcomes)
	fmt.Fprintf(stdout, "Slurm %s, %d nodes x %d GPUs, load %.2g, %s\n", o.release, o.nodes, o.gpus, o.load, machine())
	for i, s := range stats {
		fmt.Fprintf(stdout, "seed %d: %s\n", o.seeds[i], s)
	}
	if err := t.print(stdout); err != nil {
		return false, err
	}
	line, met := t.bar(o.metric, o.target)
	_, err = fmt.Fprintln(stdout, line)
	return met, err
}

func machine() string {
	return fmt.Sprintf("%d CPUs, %s", runtime.NumCPU(), runtime.GOARCH)
}

// list is the list of jobs of a seed, the same under every policy.
func (c *comparison) list(seed uint64) ([]workload.Job, error) {
	open := c.open
	if open == 0 {
		open = -1 // to workload, 0 means the default
	}
	return workload.Generate(seed, workload.Options{
		Jobs: c.jobs, Nodes: c.nodes, GPUsPerNode: c.gpus, MeanWork: c.work, Load: c.load, OpenShare: open, Bursts: c.bursts,
		Site: c.site,
	})
}

func (c *comparison) describe() ([]workload.Stats, error) {
	var all []workload.Stats
	for _, seed := range c.seeds {
		jobs, err := c.list(seed)
		if err != nil {
			return nil, err
		}
		all = append(all, workload.Describe(jobs))
	}
	return all, nil
}

// all makes the runs, as many at a time as there are slots. The first failure
// ends the rest.
func (c *comparison) all(ctx context.Context) ([]outcome, error) {
	g, ctx := errgroup.WithContext(ctx)
	var mu sync.Mutex
	var outcomes []outcome
	evaluate := func(policy string, seed uint64, database string) {
		g.Go(func() error {
			o, err := c.one(ctx, policy, seed, database)
			if err != nil {
				return fmt.Errorf("%s, seed %d: %w", policy, seed, err)
			}
			mu.Lock()
			defer mu.Unlock()
			outcomes = append(outcomes, o)
			return nil
		})
	}
	for _, policy := range c.policies {
		if policy == byTrained {
			g.Go(func() error {
				database, err := c.trainOn(ctx)
				if err != nil {
					return err
				}
				for _, seed := range c.seeds {
					own := c.path(byTrained, seed)
					if err := copyDatabase(database, own); err != nil {
						return err
					}
					evaluate(byTrained, seed, own)
				}
				return nil
			})
			continue
		}
		for _, seed := range c.seeds {
			evaluate(policy, seed, c.path(policy, seed))
		}
	}
	return outcomes, g.Wait()
}

// trainOn runs the training lists one after the other on one database and
// returns its path.
func (c *comparison) trainOn(ctx context.Context) (string, error) {
	database := filepath.Join(c.dir, "training.db")
	for _, seed := range c.train {
		if _, err := c.one(ctx, byRifling, seed, database); err != nil {
			return "", fmt.Errorf("training on seed %d: %w", seed, err)
		}
	}
	return database, nil
}

func (c *comparison) path(policy string, seed uint64) string {
	return filepath.Join(c.dir, fmt.Sprintf("%s-%d.db", policy, seed))
}

// copyDatabase copies a database that nobody has open. What a clean stop left
// in the write-ahead log goes along.
func copyDatabase(from, to string) error {
	for _, suffix := range []string{"", "-wal"} {
		content, err := os.ReadFile(from + suffix)
		if errors.Is(err, os.ErrNotExist) && suffix != "" {
			continue
		}
		if err != nil {
			return err
		}
		if err := os.WriteFile(to+suffix, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// one makes one run on a lab of its own.
func (c *comparison) one(ctx context.Context, policy string, seed uint64, database string) (o outcome, err error) {
	var slot int
	select {
	case slot = <-c.slots:
	case <-ctx.Done():
		return o, ctx.Err()
	}
	defer func() { c.slots <- slot }()
	ctx, cancel := context.WithTimeoutCause(ctx, c.limit, fmt.Errorf("the run took longer than -limit %v", c.limit))
	defer cancel()
	jobs, err := c.list(seed)
	if err != nil {
		return o, err
	}
	name := fmt.Sprintf("compare-%d", slot)
	began := time.Now()
	c.say("%s, seed %d: begins in lab %s", policy, seed, name)
	rows, err := c.campaign(ctx, name, policy, seed, database, jobs)
	if err != nil {
		return o, errors.Join(err, context.Cause(ctx))
	}
	o = outcome{policy: policy, seed: seed, rows: rows, summary: labrun.Summarize(rows, c.compression, 1), took: time.Since(began)}
	c.say("%s, seed %d: done after %s, makespan %s, mean JCT %s, ANPR %.3f", policy, seed, o.took.Round(time.Second),
		labrun.Duration(o.summary.Makespan), labrun.Duration(o.summary.MeanJCT), o.summary.ANPR)
	return o, nil
}

// campaign brings a lab up, runs the list in it under the policy and takes the
// lab down again. Under slurm, riflingd and the collectors run as well, in
// observe mode, so that the machine has the same work to do.
func (c *comparison) campaign(ctx context.Context, name, policy string, seed uint64, database string, jobs []workload.Job) (rows []labrun.Row, err error) {
	if err := labrun.Remove(ctx, name); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, labrun.Remove(context.Background(), name)) }()
	lab, err := labrun.Start(ctx, labrun.Options{
		Release: c.release, Nodes: c.nodes, GPUs: c.gpus, Name: name, Conf: fmt.Sprintf("FirstJobId=%d\n", c.firstJobID()),
	})
	if err != nil {
		return nil, err
	}
	if err := lab.SetCompression(c.compression); err != nil {
		return nil, err
	}
	daemon, err := lab.StartDaemon(ctx, c.daemon(policy, seed, database))
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, daemon.Stop(), daemon.Remove()) }()
	collectors, err := lab.StartCollectors(ctx, daemon, nil)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, collectors.Stop()) }()

	campaign := &labrun.Campaign{Lab: lab, Jobs: jobs, Compression: c.compression}
	if err := campaign.Submit(ctx); err != nil {
		return nil, err
	}
	if _, err := labrun.Wait(ctx, "the queue to be done", campaign.Look, campaign.Finished); err != nil {
		return nil, err
	}
	if !daemon.Running() {
		return nil, fmt.Errorf("riflingd ended during the run: %s", daemon.Log())
	}
	return labrun.Wait(ctx, "slurmdbd to know of all jobs", campaign.Rows, func([]labrun.Row) bool { return true })
}

func (c *comparison) daemon(policy string, seed uint64, database string) labrun.DaemonOptions {
	o := labrun.DaemonOptions{Mode: "steer", Policy: policy, Database: database, Config: labrun.Paced(1 / c.compression)}
	switch policy {
	case bySlurm:
		o.Mode = "observe"
	case byTrained:
		o.Policy = byRifling
	}
	maps.Copy(o.Config, map[string]any{"seed": seed})
	return o
}

// firstJobID gives each run job ids of its own: the history of a trained run
// must not take its jobs for those of an earlier one.
func (c *comparison) firstJobID() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runs++
	return c.runs * 10000
}

func (c *comparison) say(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.log, "%s "+format+"\n", append([]any{time.Now().Format(time.TimeOnly)}, args...)...)
}
