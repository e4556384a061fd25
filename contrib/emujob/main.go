// SPDX-License-Identifier: Apache-2.0

// Command emujob is an emulated data-parallel training job. It computes
// nothing: it advances iterations at the rate that the speed model gives for
// the nodes and GPUs that Slurm placed it on and for the jobs that share its
// NICs, and publishes the counters that real hardware would show. See
// README.md.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"
	"time"

	"rifling/sim"
	"rifling/slurm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM, syscall.SIGINT)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Getenv, os.Stdout, os.Stderr))
}

// Exit codes. A cancelled job ends as one that SIGTERM killed.
const (
	exitOK        = 0
	exitFailed    = 1
	exitUsage     = 2
	exitCancelled = 128 + int(syscall.SIGTERM)
)

// options are the command line and what the shared directory adds to it.
type options struct {
	model      sim.Model
	iterations float64
	seconds    float64 // work given as packed run time; 0 when by iterations
	scale      float64 // model seconds per real second
	nicGbps    float64 // of nodes that have none yet
	tick, wait time.Duration
	shared     shared
	prepare    string // nodes to prepare instead of running
	gpus       int    // per node, with prepare
	forceNIC   float64
}

func run(ctx context.Context, args []string, getenv func(string) string, stdout, stderr io.Writer) int {
	opts, err := parse(args, getenv, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		return report(stderr, err, exitUsage)
	}
	if opts.prepare != "" {
		if err := prepareNodes(opts); err != nil {
			return report(stderr, err, exitFailed)
		}
		return exitOK
	}
	p, err := placeFromEnv(getenv)
	if err != nil {
		return report(stderr, err, exitUsage)
	}
	if err := work(ctx, opts, p, stdout); err != nil {
		if errors.Is(err, context.Canceled) {
			return exitCancelled
		}
		return report(stderr, err, exitFailed)
	}
	return exitOK
}

func report(w io.Writer, err error, code int) int {
	fmt.Fprintln(w, "emujob:", err)
	if hint := slurm.HintOf(err); hint != "" {
		fmt.Fprintln(w, "hint:", hint)
	}
	return code
}

func parse(args []string, getenv func(string) string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("emujob", flag.ContinueOnError)
	fs.SetOutput(stderr)
	dir := getenv("RIFLING_EMU_DIR")
	if dir == "" {
		dir = "/lab/emu"
	}
	model := fs.String("model", "", "model: "+modelNames())
	fs.Float64Var(&o.iterations, "iterations", 0, "iterations to do")
	fs.Float64Var(&o.seconds, "seconds", 0, "work instead as seconds that it takes on one node")
	fs.Float64Var(&o.scale, "time-scale", 0, "model seconds per real second (RIFLING_EMU_TIME_SCALE, DIR/scale, 1)")
	fs.StringVar(&o.shared.dir, "dir", dir, "directory shared by all emulated jobs (RIFLING_EMU_DIR)")
	fs.DurationVar(&o.tick, "tick", 200*time.Millisecond, "how often the speed is worked out again")
	fs.DurationVar(&o.wait, "wait", time.Minute, "how long to wait for the other nodes")
	fs.StringVar(&o.prepare, "prepare", "", "only make the files of these idle nodes, gpu[01-08]")
	fs.IntVar(&o.gpus, "gpus", 8, "with --prepare: GPUs per node")
	fs.Float64Var(&o.forceNIC, "nic-gbps", 0, "with --prepare: NIC speed, Gb/s in each direction (DIR/nic_gbps, 50)")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if err := o.settings(getenv); err != nil {
		return o, err
	}
	if o.prepare != "" {
		return o, nil
	}
	m, ok := sim.FindModel(*model)
	if !ok {
		return o, fmt.Errorf("unknown model %q; there are %s", *model, modelNames())
	}
	o.model = m
	if (o.iterations > 0) == (o.seconds > 0) || o.tick <= 0 {
		return o, errors.New("give either --iterations or --seconds, above 0, and a --tick above 0")
	}
	return o, nil
}

// settings fills what the environment and the shared directory decide.
func (o *options) settings(getenv func(string) string) error {
	if o.gpus < 1 || o.gpus > maxGPUs {
		return fmt.Errorf("--gpus is 1 to %d", maxGPUs)
	}
	var err error
	if o.scale == 0 {
		if o.scale, err = setting(getenv("RIFLING_EMU_TIME_SCALE"), o.shared.dir+"/scale", 1); err != nil {
			return err
		}
	}
	o.nicGbps, err = setting("", o.shared.dir+"/nic_gbps", sim.DefaultNICBytesPerSecond*8/1e9)
	if err == nil && (o.scale <= 0 || o.nicGbps <= 0) {
		err = errors.New("time scale and NIC speed must be above 0")
	}
	return err
}

// setting reads one number from a word, else from a file, else takes the default.
func setting(word, file string, otherwise float64) (float64, error) {
	from := "environment"
	if word == "" {
		content, err := os.ReadFile(file)
		if errors.Is(err, os.ErrNotExist) {
			return otherwise, nil
		}
		if err != nil {
			return 0, err
		}
		word, from = strings.TrimSpace(string(content)), file
	}
	v, err := strconv.ParseFloat(word, 64)
	if err != nil {
		return 0, fmt.Errorf("%s: odd number %q", from, word)
	}
	return v, nil
}

func modelNames() string {
	names := make([]string, len(sim.Models))
	for i, m := range sim.Models {
		names[i] = m.Name
	}
	return strings.Join(names, ", ")
}

func prepareNodes(o options) error {
	nodes, err := slurm.ExpandHosts(o.prepare)
	if err != nil {
		return err
	}
	for _, n := range nodes {
		if err := o.shared.prepare(n, o.gpus, o.forceNIC, o.nicGbps, time.Now()); err != nil {
			return fmt.Errorf("prepare %s: %w", n, err)
		}
	}
	return nil
}
