// SPDX-License-Identifier: Apache-2.0

// Command demo shows rifling at work: it brings up a real Slurm from Debian's
// own packages with emulated GPUs, lets ordinary users submit training jobs,
// runs riflingd beside it in steer mode until the queue is done, and shows
// what rifling decided, why, and what came of it. It takes everything down
// again, whatever happens.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
	"time"

	"rifling/contrib/labrun"
	"rifling/slurm"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(run(ctx, os.Args[1:], os.Stdout, os.Stderr))
}

// Exit codes. A demo that cannot run on this machine is told from one that failed.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNotHere     = 77
	exitInterrupted = 130
)

func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o, err := parse(args, stderr)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return exitOK
	case err != nil:
		fmt.Fprintln(stderr, "demo:", err)
		return exitUsage
	}
	d := &demo{options: o, out: stdout, started: time.Now()}
	err = d.run(ctx)
	switch {
	case err == nil:
		return exitOK
	case ctx.Err() != nil:
		fmt.Fprintln(stderr, "demo: interrupted; everything is taken down")
		return exitInterrupted
	}
	fmt.Fprintln(stderr, "demo:", err)
	if hint := hintOf(err); hint != "" {
		fmt.Fprintln(stderr, "hint:", hint)
	}
	if errors.Is(err, labrun.ErrNeedsRoot) || errors.Is(err, labrun.ErrHost) || errors.Is(err, labrun.ErrSkip) {
		return exitNotHere
	}
	return exitFailed
}

func hintOf(err error) string {
	switch {
	case errors.Is(err, labrun.ErrNeedsRoot):
		return "run it as root, on a machine that you may install packages on: sudo make demo"
	case errors.Is(err, labrun.ErrHost):
		return "use a Debian machine; in a container, one that may mount and chroot (privileged)"
	case errors.Is(err, labrun.ErrSkip):
		return "check the network, or name a Debian mirror: LAB_MIRROR=http://deb.debian.org/debian make demo"
	}
	return slurm.HintOf(err)
}

// options are the demo's flags.
type options struct {
	release     string
	nodes, gpus int
	jobs        int
	seed        uint64
	policy      string
	compression float64
	keep        bool
	every       time.Duration
}

func parse(args []string, stderr io.Writer) (options, error) {
	var o options
	fs := flag.NewFlagSet("demo", flag.ContinueOnError)
	fs.SetOutput(stderr)
	fs.StringVar(&o.release, "release", "22.05", "Slurm release: 22.05, 24.11 or 26.05")
	fs.IntVar(&o.nodes, "nodes", 8, "emulated nodes")
	fs.IntVar(&o.gpus, "gpus", 8, "GPUs per node")
	fs.IntVar(&o.jobs, "jobs", 64, "jobs to submit")
	fs.Uint64Var(&o.seed, "seed", 24, "seed of the list of jobs")
	fs.StringVar(&o.policy, "policy", "rifling", "policy: rifling, pack or slurm")
	fs.Float64Var(&o.compression, "compression", 60, "emulated seconds per second")
	fs.DurationVar(&o.every, "every", 10*time.Second, "time between two lines of progress")
	fs.BoolVar(&o.keep, "keep", false, "leave the lab and rifling's database for a look around")
	if err := fs.Parse(args); err != nil {
		return o, err
	}
	if fs.NArg() > 0 {
		return o, fmt.Errorf("unexpected argument %q", fs.Arg(0))
	}
	if o.jobs < 1 || o.compression <= 0 || o.every <= 0 {
		return o, errors.New("-jobs, -compression and -every are above 0")
	}
	return o, nil
}
