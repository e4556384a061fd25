// SPDX-License-Identifier: Apache-2.0

// Command stranded searches, on a real Slurm, for requests that exclusions can
// strand: slurmctld calls the job impossible (BadConstraints, priority 0)
// though the nodes left to it would do. It submits generated requests behind a
// full cluster, narrows them as rifling might, reads what becomes of them, and
// shows that none stays so: neither with a loop that is alive nor with one that
// was killed right after its writes. See docs/design/steering.md.
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
	"strings"
	"syscall"
	"time"

	"rifling/contrib/labrun"
	"rifling/slurm"
	"rifling/slurm/rest"
)

// search is one run of the program.
type search struct {
	lab    *labrun.Lab
	client *rest.Client
	out    io.Writer
	wait   time.Duration // for slurmctld to have looked at the queue
	turn   time.Duration // for it to have looked at the job at its head
	tally  tally
}

// tally are the figures that are printed at the end.
type tally struct {
	tried, refused, slurms, narrowed int
	stranded                         []found
	alive, aliveStays                int // stranded while a loop was alive; of these for longer than a cycle
	killed, killedStays              int // left stranded by a kill; of these after the watchdog
	slowest                          time.Duration
}

// found is a request that was stranded, with the nodes that were left to it.
type found struct {
	args []string
	keep []string // the nodes that were left to it
	need []string // options without which it is not stranded
	back bool     // restoring its list brought it back
}

func main() {
	var release string
	var n, batch int
	var seed uint64
	var keep bool
	flag.StringVar(&release, "slurm", "26.05", "release of Slurm")
	flag.IntVar(&n, "n", 300, "requests to try")
	flag.IntVar(&batch, "batch", 60, "requests in the queue at a time")
	flag.Uint64Var(&seed, "seed", 1, "of the requests")
	flag.BoolVar(&keep, "keep", false, "leave the lab up")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	code, err := run(ctx, release, n, batch, seed, keep)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "stranded: %v\n", err)
	}
	os.Exit(code)
}

// known is the request that was found first.
var known = strings.Fields("--nodes=1-3 --gpus=12 --cpus-per-gpu=1 --mem=100 --switches=1@5 --exclusive=user --time=2:34:00")

// labConf gives the requests licences to ask for.
const labConf = "Licenses=matlab:4\n"

func run(ctx context.Context, release string, n, batch int, seed uint64, keep bool) (code int, err error) {
	lab, err := labrun.Start(ctx, labrun.Options{Release: release, Name: "stranded-" + release, Conf: labConf, Log: os.Stderr})
	switch {
	case errors.Is(err, labrun.ErrSkip), errors.Is(err, labrun.ErrNeedsRoot):
		fmt.Println("skipped:", err)
		return 0, nil
	case err != nil:
		return 1, err
	}
	if !keep {
		defer func() { err = errors.Join(err, lab.Down(context.WithoutCancel(ctx))) }()
	}
	client, err := rest.New(rest.Options{URL: lab.RESTURL, User: lab.JWTUser, TokenFile: lab.TokenFile, UserAgent: "stranded"})
	if err != nil {
		return 1, err
	}
	defer client.Close()
	if _, err := client.Connect(ctx); err != nil {
		return 1, err
	}
	s := &search{lab: lab, client: client, out: os.Stdout, wait: 10 * time.Second, turn: 2500 * time.Millisecond}
	if err := s.all(ctx, n, batch, seed); err != nil {
		return 1, err
	}
	s.print(release, seed)
	if s.tally.aliveStays+s.tally.killedStays > 0 {
		return 1, nil
	}
	return 0, nil
}

// all runs the batches: each is narrowed as it is, then by a loop that lives,
// then by one that is killed.
func (s *search) all(ctx context.Context, n, batch int, seed uint64) error {
	if err := s.fill(ctx); err != nil {
		return err
	}
	g := newGenerator(seed, s.lab.Nodes, s.lab.GPUs)
	for tried := 0; tried < n; tried += batch {
		requests := make([][]string, min(batch, n-tried))
		for i := range requests {
			requests[i] = g.request()
		}
		// The known kind is always among them: a search that cannot find it
		// finds nothing.
		requests[0] = known
		if err := s.batch(ctx, requests, g); err != nil {
			return err
		}
		fmt.Fprintf(os.Stderr, "%d of %d requests, %d stranded, %d with a loop alive, %d by a kill\n",
			min(n, tried+batch), n, len(s.tally.stranded), s.tally.alive, s.tally.killed)
	}
	return s.minimize(ctx)
}

// fill takes every GPU of the lab with jobs that outlast the search.
func (s *search) fill(ctx context.Context) error {
	nodes := s.lab.NodeNames()
	if _, err := s.lab.Exec(ctx, "scontrol", "update", "nodename="+nodes[0]+","+nodes[1]+","+nodes[2]+","+nodes[3],
		"availablefeatures=old,small", "activefeatures=old,small"); err != nil {
		return err
	}
	for _, n := range nodes {
		id, err := s.lab.Sbatch(ctx, "dave", "#!/bin/bash\nsleep 86400\n", "--job-name=filler", "--nodelist="+n, "--nodes=1",
			fmt.Sprintf("--gres=gpu:%d", s.lab.GPUs), "--time=1-00:00:00", "--output=/dev/null")
		if err != nil {
			return err
		}
		within, cancel := context.WithTimeout(ctx, time.Minute)
		_, err = s.lab.WaitJob(within, id, "filler to run", func(f labrun.Fields) bool { return f.State() == "RUNNING" })
		cancel()
		if err != nil {
			return err
		}
	}
	return nil
}

// submit submits the requests in one go and returns their ids, 0 for those that
// sbatch refuses.
func (s *search) submit(ctx context.Context, requests [][]string) ([]slurm.JobID, error) {
	var script strings.Builder
	for _, args := range requests {
		fmt.Fprintf(&script, "sbatch --parsable --output=/dev/null --job-name=probe %s --wrap='sleep 60' 2>/dev/null || echo 0\n",
			strings.Join(args, " "))
	}
	out, err := s.lab.As(ctx, "alice", "bash", "-c", script.String())
	if err != nil {
		return nil, err
	}
	lines := strings.Fields(out)
	if len(lines) != len(requests) {
		return nil, fmt.Errorf("%d answers of sbatch to %d requests", len(lines), len(requests))
	}
	ids := make([]slurm.JobID, len(lines))
	for i, l := range lines {
		ref, err := slurm.ParseJobID(l)
		if l != "0" && err != nil {
			return nil, err
		}
		ids[i] = ref.Job
	}
	return ids, nil
}

// clear cancels what was submitted.
func (s *search) clear(ctx context.Context) error {
	_, err := s.lab.Exec(ctx, "scancel", "-Q", "-u", "alice")
	return err
}

func (s *search) pause(ctx context.Context, d time.Duration) error {
	select {
	case <-time.After(d):
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// impossible reports whether slurmctld calls a pending job impossible.
func impossible(j *slurm.Job) bool {
	return j != nil && j.Pending() && !j.Held && (j.Reason == "BadConstraints" || j.Priority == 0)
}

func (s *search) print(release string, seed uint64) {
	t := s.tally
	fmt.Fprintf(s.out, "Slurm %s, seed %d: %d requests, %d refused by sbatch, %d that slurmctld calls impossible by itself or that start, %d narrowings\n",
		release, seed, t.tried, t.refused, t.slurms, t.narrowed)
	fmt.Fprintf(s.out, "stranded by a narrowing that leaves enough nodes, without guard rails: %d\n", len(t.stranded))
	kinds := map[string]int{}
	back := 0
	for _, f := range t.stranded {
		kinds[strings.Join(f.need, " ")]++
		if f.back {
			back++
		}
	}
	var names []string
	for k := range kinds {
		names = append(names, k)
	}
	slices.Sort(names)
	for _, k := range names {
		if k == "" {
			k = "(not minimized)"
		}
		fmt.Fprintf(s.out, "  %3d  needs %s\n", kinds[k], k)
	}
	for _, f := range t.stranded[:min(12, len(t.stranded))] {
		fmt.Fprintf(s.out, "       %s, left %s\n", strings.Join(f.args, " "), strings.Join(f.keep, ","))
	}
	fmt.Fprintf(s.out, "given their list back, %d of %d came back\n", back, len(t.stranded))
	fmt.Fprintf(s.out, "with a loop alive (that does not know the kind): %d stranded, %d for longer than a cycle\n", t.alive, t.aliveStays)
	fmt.Fprintf(s.out, "killed right after its writes: %d stranded, %d of them after `rifling release --stale`; slowest %s after the kill\n",
		t.killed, t.killedStays, t.slowest.Round(time.Second))
}
