// SPDX-License-Identifier: Apache-2.0

// Command labcompare runs one list of emulated training jobs on real Slurm
// under several policies and prints what each did to makespan, completion
// times, queueing delay and processing rate:
//
//	slurm    Slurm by itself; riflingd only looks on
//	pack     rifling's packing, without learning
//	rifling  the policy rifling, with an empty database
//	trained  the same, with the database of earlier runs on other seeds
//
// Every run has a lab of its own. The figures come from Slurm's accounting and
// from what the jobs print, not from rifling.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rifling/slurm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		fmt.Fprintln(stderr, "labcompare:", err)
		return 2
	}
	met, err := compare(ctx, o, stdout, stderr)
	if err != nil {
		fmt.Fprintln(stderr, "labcompare:", err)
		if hint := slurm.HintOf(err); hint != "" {
			fmt.Fprintln(stderr, "hint:", hint)
		}
		return 1
	}
	if !met {
		return 1
	}
	return 0
}

// The policies that can be compared.
const (
	bySlurm   = "slurm"
	byPack    = "pack"
	byRifling = "rifling"
	byTrained = "trained"
)

// options are the comparison's flags.
type options struct {
	release      string
	policies     []string
	seeds, train []uint64
	site         uint64
	jobs         int
	nodes, gpus  int
	work         time.Duration // mean, emulated
	load, open   float64
	bursts       int
	compression  float64
	parallel     int
	limit        time.Duration // of one run
	csv          string
	metric       string
	target       *float64 // per cent of change; nil for none
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	var policies, seeds, train, target string
	fs := flag.NewFlagSet("labcompare", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.release, "release", "22.05", "Slurm release: 22.05, 24.11 or 26.05")
	fs.StringVar(&policies, "policies", "slurm,pack,rifling,trained", "policies, the first is what the others are compared with")
	fs.StringVar(&seeds, "seeds", "1,2", "seeds of the lists of jobs that are compared")
	fs.StringVar(&train, "train", "101,102", "seeds of the lists that trained learns from, one after the other")
	fs.Uint64Var(&o.site, "site", 1, "seed of the families of jobs, the same in all lists; 0 for others in each list")
	fs.IntVar(&o.jobs, "jobs", 60, "jobs in a list")
	fs.IntVar(&o.nodes, "nodes", 8, "emulated nodes")
	fs.IntVar(&o.gpus, "gpus", 8, "GPUs per node")
	fs.DurationVar(&o.work, "work", 30*time.Minute, "mean run time of a job at its best, in the jobs' time")
	fs.Float64Var(&o.load, "load", 1.4, "GPU time that arrives over GPU time there is")
	fs.Float64Var(&o.open, "open", 0.3, "share of families of several GPUs that leave the number of nodes open")
	fs.IntVar(&o.bursts, "bursts", 0, "moments at which jobs arrive together; 0: one by one")
	fs.Float64Var(&o.compression, "compression", 60, "emulated seconds per second")
	fs.IntVar(&o.parallel, "parallel", 1, "labs at the same time")
	fs.DurationVar(&o.limit, "limit", 12*time.Minute, "longest run")
	fs.StringVar(&o.csv, "csv", "", "file for a row per job")
	fs.StringVar(&o.metric, "metric", "jct", "what the last line is about: jct, makespan, delay or anpr")
	fs.StringVar(&target, "target", "", "change in per cent, last policy against first, that must be reached")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	var err error
	if o.policies, err = parsePolicies(policies); err != nil {
		return o, err
	}
	if o.seeds, err = parseSeeds("seeds", seeds); err != nil {
		return o, err
	}
	if o.train, err = parseSeeds("train", train); err != nil {
		return o, err
	}
	if target != "" {
		v, err := strconv.ParseFloat(target, 64)
		if err != nil {
			return o, fmt.Errorf("-target: %w", err)
		}
		o.target = &v
	}
	return o, o.validate()
}

func (o *options) validate() error {
	if _, ok := metrics[o.metric]; !ok {
		return fmt.Errorf("-metric %q is not jct, makespan, delay or anpr", o.metric)
	}
	if o.jobs < 1 || o.nodes < 1 || o.gpus < 1 || o.work <= 0 || o.load <= 0 || o.compression <= 0 || o.parallel < 1 || o.limit <= 0 {
		return errors.New("-jobs, -nodes, -gpus, -work, -load, -compression, -parallel and -limit are above 0")
	}
	for _, s := range o.seeds {
		if slices.Contains(o.train, s) && slices.Contains(o.policies, byTrained) {
			return fmt.Errorf("seed %d is in -seeds and in -train: it must not learn what it is tried on", s)
		}
	}
	return nil
}

func parsePolicies(s string) ([]string, error) {
	list := strings.Split(s, ",")
	for i, p := range list {
		if !slices.Contains([]string{bySlurm, byPack, byRifling, byTrained}, p) {
			return nil, fmt.Errorf("-policies: %q is not slurm, pack, rifling or trained", p)
		}
		if slices.Contains(list[:i], p) {
			return nil, fmt.Errorf("-policies: %s twice", p)
		}
	}
	return list, nil
}

func parseSeeds(name, s string) ([]uint64, error) {
	var seeds []uint64
	for part := range strings.SplitSeq(s, ",") {
		v, err := strconv.ParseUint(part, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("-%s: %w", name, err)
		}
		if slices.Contains(seeds, v) {
			return nil, fmt.Errorf("-%s: %d twice", name, v)
		}
		seeds = append(seeds, v)
	}
	return seeds, nil
}
