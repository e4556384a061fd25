// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"rifling/cycle"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// blind is the lab as a loop sees it that does not know the kinds of request
// that its guard rails keep away from: what is left is to be mended.
type blind struct{ cycle.Cluster }

func (b blind) Snapshot(ctx context.Context) (*slurm.Snapshot, error) {
	snap, err := b.Cluster.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	s := *snap
	s.Jobs = append([]slurm.Job(nil), snap.Jobs...)
	for i := range s.Jobs {
		s.Jobs[i].Switches, s.Jobs[i].Contiguous = 0, false
	}
	return &s, nil
}

// unwise narrows each job to the nodes that strand it, and brings it to the
// queue's head.
type unwise struct{ hits map[slurm.JobID]found }

func (u unwise) Decide(in policy.Input) policy.Plan {
	p := policy.Plan{Policy: "unwise", At: in.Snapshot.TakenAt}
	for i := range in.Snapshot.Jobs {
		if h, ok := u.hits[in.Snapshot.Jobs[i].ID]; ok {
			p.Decisions = append(p.Decisions, policy.Decision{
				JobID: in.Snapshot.Jobs[i].ID, Action: policy.Pack, Reason: "unwise", Candidates: h.keep, Offset: first,
			})
		}
	}
	return p
}

// loop returns a steering loop on the lab with a database of its own.
func (s *search) loop(ctx context.Context, c cycle.Cluster, hits map[slurm.JobID]found, dir string) (*cycle.Loop, *store.Store, error) {
	st, err := store.Open(filepath.Join(dir, "rifling.db"), store.Options{})
	if err != nil {
		return nil, nil, err
	}
	l := &cycle.Loop{
		Cluster: blind{c}, Recorder: st, Policy: unwise{hits}, Book: profile.NewBook(profile.DefaultOptions()),
		Mode: cycle.Steer, Tau: time.Hour, Log: slog.New(slog.DiscardHandler), Clock: time.Now,
		Limits: policy.Limits{SlackNodes: slack, MaxWait: time.Hour, MaxChanges: 1000, TTL: 10 * time.Minute, Depth: 1000,
			MaxOffset: first, MaxOvertake: first},
	}
	return l, st, l.Start(ctx)
}

// impossibleJobs returns the jobs that slurmctld calls impossible now.
func (s *search) impossibleJobs(ctx context.Context) (map[slurm.JobID]bool, error) {
	snap, err := s.client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	out := map[slurm.JobID]bool{}
	for i := range snap.Jobs {
		if j := &snap.Jobs[i]; j.Name == "probe" && impossible(j) {
			out[j.ID] = true
		}
	}
	return out, nil
}

// trial is a loop over the jobs that were hit, with a folder of its own; before
// are the jobs that were impossible without it.
type trial func(ctx context.Context, hits map[slurm.JobID]found, dir string, before map[slurm.JobID]bool) error

// try runs a trial, where any job was hit.
func (s *search) try(ctx context.Context, hits map[slurm.JobID]found, run trial) error {
	if len(hits) == 0 {
		return nil
	}
	dir, err := os.MkdirTemp("", "stranded-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }() // in the system's folder for such
	before, err := s.impossibleJobs(ctx)
	if err != nil {
		return err
	}
	return run(ctx, hits, dir, before)
}

// alive lets a loop narrow the queue, and looks after each of its cycles.
func (s *search) alive(ctx context.Context, hits map[slurm.JobID]found, dir string, before map[slurm.JobID]bool) error {
	l, st, err := s.loop(ctx, s.client, hits, dir)
	if err != nil {
		return err
	}
	defer st.Close()
	seen := map[slurm.JobID]bool{}
	for cycles := range 12 {
		at, err := s.impossibleJobs(ctx)
		if err != nil {
			return err
		}
		if _, err := l.Once(ctx); err != nil {
			return err
		}
		after, err := s.impossibleJobs(ctx)
		if err != nil {
			return err
		}
		for id := range at {
			if cycles == 0 || before[id] {
				continue
			}
			seen[id] = true
			if after[id] {
				s.tally.aliveStays++
				fmt.Fprintf(os.Stderr, "job %d is still impossible after the cycle\n", id)
			}
		}
		if err := s.pause(ctx, 2*time.Second); err != nil {
			return err
		}
	}
	s.tally.alive += len(seen)
	_, err = l.Stop(ctx)
	return err
}

// dying is a cluster whose client dies after its last update.
type dying struct {
	cycle.Cluster
	last int
	sent int
}

func (d *dying) Update(ctx context.Context, u slurm.Update) error {
	err := d.Cluster.Update(ctx, u)
	if d.sent++; d.sent == d.last {
		panic("kill -9")
	}
	return err
}

// killed lets a loop narrow the queue and die with its last write, waits until
// slurmctld has looked at the jobs, and calls what the watchdog's timer calls.
func (s *search) killed(ctx context.Context, hits map[slurm.JobID]found, dir string, before map[slurm.JobID]bool) error {
	if err := s.dieAt(ctx, hits, dir, len(hits)); err != nil {
		return err
	}
	died := time.Now()
	if err := s.pause(ctx, s.wait+time.Duration(len(hits))*s.turn); err != nil {
		return err
	}
	left, err := s.impossibleJobs(ctx)
	if err != nil {
		return err
	}
	n := 0
	for id := range left {
		if !before[id] {
			n++
		}
	}
	s.tally.killed += n
	// The timer comes once a minute, and the daemon must have been silent for
	// twice its interval, here two seconds.
	if err := s.watchdog(ctx, dir); err != nil {
		return err
	}
	after, err := s.impossibleJobs(ctx)
	if err != nil {
		return err
	}
	for id := range after {
		if !before[id] {
			s.tally.killedStays++
			fmt.Fprintf(os.Stderr, "job %d is still impossible after the watchdog\n", id)
		}
	}
	if n > 0 {
		s.tally.slowest = max(s.tally.slowest, time.Since(died)+time.Minute) // the timer's turn may come a minute later
	}
	return s.rifling(ctx, dir, "release")
}

func (s *search) dieAt(ctx context.Context, hits map[slurm.JobID]found, dir string, at int) (err error) {
	l, st, err := s.loop(ctx, &dying{Cluster: s.client, last: at}, hits, dir)
	if err != nil {
		return err
	}
	defer st.Close()
	defer func() { _ = recover() }() // the kill
	_, err = l.Once(ctx)
	return err
}

func (s *search) watchdog(ctx context.Context, dir string) error {
	return s.rifling(ctx, dir, "release", "--stale")
}

// rifling runs the program on a database below dir.
func (s *search) rifling(ctx context.Context, dir string, args ...string) error {
	conf := filepath.Join(dir, "rifling.yaml")
	text := fmt.Sprintf("slurm: {url: %q, user: %q, token-file: %q, topology-file: \"\"}\ndatabase: %q\ninterval: 1s\n",
		s.lab.RESTURL, s.lab.JWTUser, s.lab.TokenFile, filepath.Join(dir, "rifling.db"))
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, s.lab.Bin("rifling"), append([]string{"--config", conf}, args...)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("rifling %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return nil
}
