// SPDX-License-Identifier: Apache-2.0

// Command bench runs the project's benchmarks and prints their tables, the ones
// that docs/benchmarks.md shows. Each ends in a line
//
//	bar: NAME value=… target=… ok|short
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
)

// bench is one benchmark. It prints its table and its bar.
type bench struct {
	name, about string
	run         func(ctx context.Context, out io.Writer) error
}

var benches = []bench{
	{"decide", "processor time of one decision pass with 10,000 pending jobs on 1,000 nodes", decide},
	{"speed-model", "the speed model against measured placements that it was not fitted to", speedModel},
	{"peers", "published simulators replayed: ours beside what their programs printed", peers},
	{"sim-speed", "the simulator's job events a second, a million jobs, Muri's trace", simSpeed},
	{"slurm-fidelity", "Slurm's model beside a real slurmctld on the same jobs", slurmFidelity},
	{"profile", "groups against measured slowdowns, and predicted run times on real traces", profiles},
	{"ingest", "a million samples a day into a real riflingd: rate, answer time, storage, kill -9", ingest},
	{"history", "a year of accounting imported, killed and resumed", history},
	{"page", "the status page of a real riflingd at 1,000 nodes and 10,000 jobs", pageLoad},
	{"report", "rifling report over a million jobs: seconds and memory", reportBench},
	{"kills", "a process that writes the history, killed at random moments; KILLS=300 of them", benchKills},
	{"headline", "placement in the simulator: rifling beside Slurm, strict consolidation and others; HEADLINE=wide or full for more", headline},
	{"convergence", "how fast the learner settles, what it is worth on unseen lists, what its first day costs", convergence},
	{"robust", "wrong predictions, failing nodes, doubled load, an unseen mix: mean JCT against Slurm", robust},
	{"ablation", "the learner with one thing changed at a time; ABLATION=word for some of them", ablation},
	{"order", "mean JCT by order alone: learned beside QSSF, fit-first, Tiresias, F1 on their own data", order},
	{"hpc", "bounded slowdown by order alone on batch traces: learned beside RLScheduler", hpc},
	{"lab-compare", "the same jobs on a real Slurm under slurm, pack and rifling (root, about 30 min)", labCompare},
}

func main() {
	if filepath.Base(os.Args[0]) == "sacct" { // as history's stand-in
		os.Exit(historySacct(os.Args[1:]))
	}
	if path := os.Getenv(killsChild); path != "" {
		if err := killsWrite(path); err != nil {
			fmt.Fprintln(os.Stderr, "kills:", err)
			os.Exit(1)
		}
		return
	}
	if path := os.Getenv(killsChild); path != "" {
		if err := killsWrite(path); err != nil {
			fmt.Fprintln(os.Stderr, "kills:", err)
			os.Exit(1)
		}
		return
	}
	only := flag.String("only", "", "run the benchmark of this name")
	list := flag.Bool("list", false, "list the benchmarks")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := runAll(ctx, os.Stdout, *only, *list); err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

func runAll(ctx context.Context, out io.Writer, only string, list bool) error {
	var names []string
	found := false
	for _, b := range benches {
		names = append(names, b.name)
		if list {
			fmt.Fprintf(out, "%-12s %s\n", b.name, b.about)
			continue
		}
		if only != "" && only != b.name {
			continue
		}
		found = true
		fmt.Fprintf(out, "== %s: %s\n", b.name, b.about)
		if err := b.run(ctx, out); err != nil {
			return fmt.Errorf("%s: %w", b.name, err)
		}
	}
	if !list && !found {
		return fmt.Errorf("there is no benchmark %q; there are: %s", only, strings.Join(names, ", "))
	}
	return nil
}
