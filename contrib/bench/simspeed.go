// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"syscall"
	"time"

	"rifling/sim"
	"rifling/sim/trace"
)

// Bars of the simulator's speed, on one core.
const (
	eventsTarget  = 100000.0 // job events a second at 1,000 nodes
	millionTarget = 60.0     // seconds for a million jobs
	muriTarget    = 0.05     // seconds for Muri's 992 jobs
)

// simSpeed measures the simulator: job events (submissions and ends) a second,
// a trace of a million jobs with the most heap it took, and Muri's third trace.
// It runs on one core; the bars count the process's CPU time, so that other
// work on the machine does not spoil them, and the wall clock stands beside it.
func simSpeed(ctx context.Context, out io.Writer) error {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	fmt.Fprintf(out, "%-34s %9s %9s %8s %8s %12s %9s %9s\n", "run", "jobs", "most live", "wall s", "CPU s", "events/CPU s", "passes", "heap MiB")
	var bars []string
	slow := math.Inf(1)
	for _, c := range []struct {
		name  string
		jobs  int
		load  float64
		sched func() sim.Scheduler
	}{
		{"fifo, packed", 200000, 0.8, func() sim.Scheduler { return &sim.Ordered{Label: "fifo", Place: sim.PlaceAnywhere} }},
		{"slurm, load 0.8", 200000, 0.8, func() sim.Scheduler { return sim.NewSlurm(sim.DefaultSlurm()) }},
	} {
		m, err := speedOf(ctx, c.jobs, c.load, c.sched())
		if err != nil {
			return err
		}
		m.print(out, c.name)
		slow = min(slow, m.rate())
	}
	bars = append(bars, barLine("sim-speed/events", slow, eventsTarget, slow >= eventsTarget, "%.0f/s"))

	// With hundreds of jobs waiting each backfill pass plans them all: shown,
	// but no bar.
	long, err := speedOf(ctx, 30000, 1.1, sim.NewSlurm(sim.DefaultSlurm()))
	if err != nil {
		return err
	}
	long.print(out, "slurm, load 1.1, long queue")
	m, err := speedOf(ctx, 1000000, 0.8, sim.NewSlurm(sim.DefaultSlurm()))
	if err != nil {
		return err
	}
	m.print(out, "slurm, load 0.8")
	bars = append(bars, barLine("sim-speed/million", m.cpu, millionTarget, m.cpu < millionTarget, "%.1fs"))

	worst, err := muriSpeed(ctx, out)
	switch {
	case os.IsNotExist(err):
		fmt.Fprintln(out, "Muri's trace is not there: set RIFLING_SHARED")
	case err != nil:
		return err
	default:
		bars = append(bars, barLine("sim-speed/muri", worst, muriTarget, worst < muriTarget, "%.4fs"))
	}
	for _, b := range bars {
		fmt.Fprintln(out, b)
	}
	return nil
}

func barLine(name string, value, target float64, ok bool, format string) string {
	return fmt.Sprintf("bar: %s value="+format+" target="+format+" %s", name, value, target, map[bool]string{true: "ok", false: "short"}[ok])
}

type speed struct {
	stats sim.Stats
	wall  float64 // seconds
	cpu   float64 // seconds
	heap  float64 // MiB, the most that was seen
}

func (s speed) rate() float64 { return float64(s.stats.Events) / s.cpu }

// cpuSeconds is the process's CPU time so far.
func cpuSeconds() float64 {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return math.NaN()
	}
	return float64(u.Utime.Nano()+u.Stime.Nano()) / 1e9
}

func (s speed) print(out io.Writer, name string) {
	fmt.Fprintf(out, "%-34s %9d %9d %8.3f %8.3f %12.0f %9d %9.1f\n", name, s.stats.Jobs, s.stats.MostLive, s.wall, s.cpu, s.rate(),
		s.stats.Passes, s.heap)
}

// speedOf runs generated jobs on 1,000 nodes with 8 GPUs, 16 under a switch.
func speedOf(ctx context.Context, jobs int, load float64, sched sim.Scheduler) (speed, error) {
	var spec sim.Spec
	for i := range 1000 {
		spec.Nodes = append(spec.Nodes, sim.NodeSpec{Name: fmt.Sprintf("gpu%04d", i), GPUs: 8, CPUs: 64, Leaf: fmt.Sprint(i / 16)})
	}
	debug.FreeOSMemory()
	var m speed
	seen := 0
	engine, err := sim.NewEngine(spec, sched, sim.Synthetic{Seed: 7, Jobs: jobs, GPUs: 8000, Load: load}.Source(), func(*sim.Result) {
		if seen++; seen%(jobs/20+1) == 0 {
			var mem runtime.MemStats
			runtime.ReadMemStats(&mem)
			m.heap = max(m.heap, float64(mem.HeapAlloc)/(1<<20))
		}
	})
	if err != nil {
		return m, err
	}
	start, cpu := time.Now(), cpuSeconds()
	for more := true; more; {
		if err := ctx.Err(); err != nil {
			return m, err
		}
		for range 10000 {
			if more, err = engine.Step(); err != nil || !more {
				break
			}
		}
		if err != nil {
			return m, err
		}
	}
	m.wall, m.cpu, m.stats = time.Since(start).Seconds(), cpuSeconds()-cpu, engine.Stats()
	return m, nil
}

// muriSpeed runs Muri's third trace on 8 nodes with 8 GPUs, the best of five
// each, and returns the slower order's time.
func muriSpeed(ctx context.Context, out io.Writer) (float64, error) {
	f, err := os.Open(filepath.Join(sharedDir(), "traces", "muri", "trace3.csv"))
	if err != nil {
		return 0, err
	}
	defer f.Close()
	read, _, err := trace.ReadAll(f, trace.Muri, trace.Options{})
	if err != nil {
		return 0, err
	}
	var spec sim.Spec
	for i := range 8 {
		spec.Nodes = append(spec.Nodes, sim.NodeSpec{Name: fmt.Sprint("n", i), GPUs: 8})
	}
	worst := 0.0
	for _, order := range []sim.Ordered{
		{Label: "fifo", Place: sim.PlaceFewest},
		{Label: "srtf", Place: sim.PlaceAnywhere, Key: sim.Remaining, Preempt: true},
	} {
		best := speed{cpu: math.Inf(1)}
		var jct float64
		for range 5 {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			var c sim.Collector
			k := 0
			sched := order
			engine, err := sim.NewEngine(spec, &sched, func() (sim.Job, bool) {
				if k == len(read) {
					return sim.Job{}, false
				}
				k++
				t := &read[k-1]
				j := sim.Job{Submit: t.Submit, Work: t.Duration, Request: sim.Request{GPUs: t.GPUs}}
				return j, true
			}, c.Add)
			if err != nil {
				return 0, err
			}
			start, cpu := time.Now(), cpuSeconds()
			stats, err := engine.Run()
			if err != nil {
				return 0, err
			}
			if took := cpuSeconds() - cpu; took < best.cpu {
				best = speed{stats: stats, wall: time.Since(start).Seconds(), cpu: took}
			}
			jct = c.Summary(64, stats).MeanJCT
		}
		best.print(out, fmt.Sprintf("Muri trace3, %s (JCT %.0f s)", order.Label, jct))
		worst = max(worst, best.cpu)
	}
	return worst, nil
}
