// SPDX-License-Identifier: Apache-2.0

// Command chaos lets things go wrong around a riflingd that steers jobs on a
// real Slurm, one fault after the other, and prints for each what the admin saw
// in the log, jobs worse off, updates left behind, and how long it took until
// cycles ran again.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"regexp"
	"strings"
	"syscall"
	"time"

	"rifling/contrib/labrun"
)

func main() {
	release := flag.String("slurm", "24.11", "release of Slurm")
	only := flag.String("only", "", "run the faults whose name holds this")
	keep := flag.Bool("keep", false, "leave the lab up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	bad, err := run(ctx, *release, *only, *keep)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "chaos: %v\n", err)
	}
	if bad > 0 || err != nil {
		os.Exit(1)
	}
}

func run(ctx context.Context, release, only string, keep bool) (bad int, err error) {
	lab, err := labrun.Start(ctx, labrun.Options{Release: release, Name: "chaos-" + release, Log: os.Stderr})
	switch {
	case errors.Is(err, labrun.ErrSkip), errors.Is(err, labrun.ErrNeedsRoot):
		fmt.Println("skipped:", err)
		return 0, nil
	case err != nil:
		return 0, err
	}
	if !keep {
		defer func() { err = errors.Join(err, lab.Down(context.WithoutCancel(ctx))) }()
	}
	c := &chaos{lab: lab}
	if err := c.fill(ctx); err != nil {
		return 0, err
	}
	fmt.Printf("Slurm %s\n%-34s %9s %8s %10s  %s\n", release, "fault", "worse off", "left", "recovered", "what the admin saw")
	for _, f := range faults {
		if !strings.Contains(f.name, only) {
			continue
		}
		r, err := c.one(ctx, f)
		if err != nil {
			return bad, fmt.Errorf("%s: %w", f.name, err)
		}
		recovered := "no"
		if r.recovered >= 0 {
			recovered = fmt.Sprintf("%.1f s", r.recovered.Seconds())
		}
		if r.worse+r.left > 0 || r.recovered < 0 {
			bad++
		}
		fmt.Printf("%-34s %9d %8d %10s  %s\n", f.name, r.worse, r.left, recovered, r.saw)
	}
	fmt.Printf("%d faults with a job worse off, an update left, or no recovery\n", bad)
	return bad, nil
}

// chaos is one run of the program.
type chaos struct {
	lab     *labrun.Lab
	fillers []string
}

// result is what came of a fault.
type result struct {
	worse, left int
	recovered   time.Duration // negative: not within two minutes
	saw         string
}

// fill leaves one GPU free on each node, so that there is something to narrow
// to and nothing that starts.
func (c *chaos) fill(ctx context.Context) error {
	for _, n := range c.lab.NodeNames() {
		id, err := c.lab.Sbatch(ctx, "dave", "#!/bin/bash\nsleep 86400\n", "--job-name=filler", "--nodelist="+n, "--nodes=1",
			fmt.Sprintf("--gres=gpu:%d", c.lab.GPUs-1), "--time=1-00:00:00", "--output=/dev/null")
		if err != nil {
			return err
		}
		c.fillers = append(c.fillers, id)
		if _, err := c.waitJob(ctx, id, "filler to run", func(f labrun.Fields) bool { return f.State() == "RUNNING" }); err != nil {
			return err
		}
	}
	return nil
}

func (c *chaos) waitJob(ctx context.Context, id, what string, ok func(labrun.Fields) bool) (labrun.Fields, error) {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Minute)
	defer cancel()
	return c.lab.WaitJob(ctx, id, what, ok)
}

// excludes is what the user of the first job wants.
const excludes = "gpu08"

// one lets one fault happen to a daemon that has narrowed a job.
func (c *chaos) one(ctx context.Context, f fault) (r result, err error) {
	proxy, err := labrun.NewProxy(c.lab.RESTURL)
	if err != nil {
		return r, err
	}
	defer proxy.Close()
	request := []string{"--nodes=1-4", fmt.Sprintf("--gpus=%d", c.lab.GPUs), "--time=30", "--output=/dev/null", "--exclude=" + excludes, "--nice=40"}
	id, err := c.lab.Sbatch(ctx, "alice", "#!/bin/bash\nsleep 600\n", request...)
	if err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, c.lab.Cancel(context.WithoutCancel(ctx), id)) }()
	o := labrun.DaemonOptions{Mode: "steer", URL: proxy.URL, Config: map[string]any{
		"interval": "500ms", "limits.ttl": "1m", "limits.max-wait": "10m", "agent.epsilon": 0, "agent.epsilon-min": 0, "slurm.timeout": "5s",
	}}
	w := &world{chaos: c, proxy: proxy, job: id}
	if f.prepare != nil {
		if err := f.prepare(ctx, w, &o); err != nil {
			return r, err
		}
	}
	if w.daemon, err = c.lab.StartDaemon(ctx, o); err != nil {
		return r, err
	}
	defer func() { err = errors.Join(err, w.end(), w.daemon.Remove()) }()
	if _, err := c.waitJob(ctx, id, "exclusions by rifling", func(f labrun.Fields) bool {
		return f["ExcNodeList"] != excludes && f["ExcNodeList"] != "(null)"
	}); err != nil {
		return r, fmt.Errorf("%w\n%s", err, w.daemon.Log())
	}
	before := len(w.daemon.Log())
	if err := f.happen(ctx, w); err != nil {
		return r, err
	}
	healed := time.Now()
	r.recovered = w.recovery(ctx, healed)
	r.saw = trouble(w.daemon.Log()[min(before, len(w.daemon.Log())):])
	if w.daemon.Running() {
		if err := w.daemon.Stop(); err != nil {
			r.saw += "; at the stop: " + firstLine(err.Error())
		}
	}
	return r, c.count(ctx, id, &r)
}

// count compares what the fault left with what users made.
func (c *chaos) count(ctx context.Context, id string, r *result) error {
	j, err := c.waitJob(ctx, id, "an answer", func(labrun.Fields) bool { return true })
	if err != nil {
		return err
	}
	if j.State() != "PENDING" || j["Priority"] == "0" || j["Reason"] == "BadConstraints" {
		r.worse++
	}
	if j["ExcNodeList"] != excludes || j["Nice"] != "40" {
		r.left++
	}
	if p, err := c.lab.Sprio(ctx, id); err == nil && p["SITE"] != "0" {
		r.left++
	}
	for _, f := range c.fillers {
		if j, err := c.lab.Job(ctx, f); err != nil || j.State() != "RUNNING" {
			r.worse++
		}
	}
	return nil
}

var (
	message = regexp.MustCompile(`level=(?:ERROR|WARN) msg=("(?:[^"\\]|\\.)*"|\S+)(?:.*? err=("(?:[^"\\]|\\.)*"|\S+))?`)
	digits  = regexp.MustCompile(`127\.0\.0\.1:\d+`)
)

// trouble is the first warning or error of a log, in short.
func trouble(log string) string {
	for line := range strings.Lines(log) {
		if m := message.FindStringSubmatch(line); m != nil {
			return firstLine(digits.ReplaceAllString(strings.Trim(m[1], `"`)+": "+strings.Trim(m[2], `"`), "slurmrestd"))
		}
		if strings.HasPrefix(line, "riflingd: ") {
			return firstLine(line)
		}
	}
	return "nothing"
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	if r := []rune(s); len(r) > 110 {
		s = string(r[:110]) + "..."
	}
	return s
}
