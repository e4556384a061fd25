// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/cycle"
	"rifling/policy"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

func (a *app) releaseCmd() *cobra.Command {
	var stale, dryRun bool
	cmd := &cobra.Command{
		Use:   "release [JOBID...]",
		Short: "Take back all that rifling has set on jobs",
		Long: "release gives jobs back the node lists and priorities that their users had, all\n" +
			"jobs or those named. It needs no running daemon. A running job's node lists cannot\n" +
			"be changed in Slurm; its record stays, in case that it is requeued.\n\n" +
			"With --stale it takes back only what has outlived its time, what Slurm calls\n" +
			"impossible while riflingd is silent, and everything when riflingd has been silent\n" +
			"for longer than limits.ttl: a timer calls it so.",
		RunE: func(cmd *cobra.Command, list []string) error {
			var ids []slurm.JobID
			for _, s := range list {
				ref, err := slurm.ParseJobID(s)
				if err != nil {
					return usageError{err}
				}
				ids = append(ids, ref.Job)
			}
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			r := releaser{app: a, cfg: cfg, ids: ids, stale: stale, dryRun: dryRun}
			return r.run(cmd.Context())
		},
	}
	cmd.Flags().BoolVar(&stale, "stale", false, "only what outlived its time, all of it when riflingd is silent")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would be taken back, write nothing")
	return cmd
}

// releaser is one call of the verb.
type releaser struct {
	*app
	cfg           *config.Config
	ids           []slurm.JobID
	stale, dryRun bool
}

func (r releaser) run(ctx context.Context) error {
	s, err := r.open()
	if r.stale && errors.Is(err, store.ErrMissing) {
		// The timer may run before riflingd ever did.
		fmt.Fprintf(r.out, "nothing to take back: there is no database %s\n", r.cfg.Database)
		return nil
	}
	if err != nil {
		return err
	}
	defer s.Close()
	last, err := s.LastCycle(ctx)
	if err != nil {
		return err
	}
	owners, err := s.Owners(ctx)
	if err != nil {
		return err
	}
	silence := time.Duration(math.MaxInt64)
	if last != nil && !last.Stopped() {
		silence = r.env.Now().Sub(lastBeat(last))
	}
	silent := silence > r.cfg.Limits.TTL
	owners = r.choose(owners)
	if len(owners) == 0 {
		fmt.Fprintln(r.out, "nothing to take back: rifling has set nothing that is still on a job")
		return nil
	}
	cluster, err := r.env.Connect(r.cfg)
	if err != nil {
		return err
	}
	defer cluster.Close()
	snap, err := cluster.Snapshot(ctx)
	if err != nil {
		return fmt.Errorf("release: %w", err)
	}
	if r.stale && !silent {
		owners = staleOnly(owners, snap, silence > strandedAfter(r.cfg))
		if len(owners) == 0 {
			fmt.Fprintln(r.out, "nothing is stale: riflingd is alive and renews what it set")
			return nil
		}
	}
	if !silent && !r.stale && !r.dryRun && last.Mode == config.ModeSteer {
		fmt.Fprintf(r.out, "note: riflingd is running in mode steer and will set it anew; stop it first, or set mode: observe and restart it\n")
	}
	if r.dryRun {
		r.preview(owners, snap)
		return nil
	}
	return r.release(ctx, s, cluster, owners, snap.TakenAt)
}

// strandedAfter is the daemon's silence from which on what Slurm calls
// impossible is taken back for it: a living one does that within a cycle. With
// a timer of one minute a job is stranded for less than two, whenever the
// daemon died.
func strandedAfter(cfg *config.Config) time.Duration { return min(2*cfg.Interval, 45*time.Second) }

// staleOnly keeps the records whose time is over and, with stranded, those of
// jobs that Slurm calls impossible since rifling changed them.
func staleOnly(owners []policy.Owner, snap *slurm.Snapshot, stranded bool) []policy.Owner {
	return slices.DeleteFunc(owners, func(o policy.Owner) bool {
		if !snap.TakenAt.Before(o.ExpiresAt) {
			return false
		}
		j := snap.Job(o.JobID)
		return !stranded || j == nil || !policy.Stranded(j, o)
	})
}

// open opens the database, for reading only in a dry run. Releasing must not
// create a database where there is none.
func (r releaser) open() (*store.Store, error) {
	ro, err := store.OpenReadOnly(r.cfg.Database)
	if err != nil || r.dryRun {
		return ro, err
	}
	if err := ro.Close(); err != nil {
		return nil, err
	}
	return store.Open(r.cfg.Database, store.Options{Now: r.env.Now})
}

// choose keeps the owner records of the jobs that were named.
func (r releaser) choose(owners []policy.Owner) []policy.Owner {
	if len(r.ids) == 0 {
		return owners
	}
	var out []policy.Owner
	for _, id := range r.ids {
		i := slices.IndexFunc(owners, func(o policy.Owner) bool { return o.JobID == id })
		if i < 0 {
			fmt.Fprintf(r.out, "%d  ok       rifling has set nothing on it\n", id)
			continue
		}
		out = append(out, owners[i])
	}
	return out
}

func (r releaser) preview(owners []policy.Owner, snap *slurm.Snapshot) {
	for _, o := range owners {
		j := snap.Job(o.JobID)
		if j == nil {
			r.say(o.JobID, "skipped", "the job is gone from Slurm")
			continue
		}
		c := policy.PlanTakeBack(o, j, snap)
		if c.Update.Empty() {
			r.say(o.JobID, "skipped", c.Why)
			continue
		}
		r.say(o.JobID, "would", updateWords(c.Update)+" ("+c.Why+")")
	}
}

func (r releaser) release(ctx context.Context, s *store.Store, c cycle.Cluster, owners []policy.Owner, at time.Time) error {
	results, err := cycle.Release(ctx, cycle.Pace(c, r.cfg.Gap()), owners)
	if err != nil {
		return err
	}
	failed := 0
	for _, res := range results {
		if res.Outcome == policy.Failed {
			failed++
		}
		r.say(res.Change.Update.JobID, resultWord(res.Outcome), resultWords(res))
		if err := s.SaveRelease(ctx, at, res); err != nil {
			return err
		}
	}
	if failed > 0 {
		fmt.Fprintf(r.out, "%d of %s could not be taken back; call `rifling release` again\n", failed, count(len(results), "job", "jobs"))
		return errFailed
	}
	return nil
}

func (r releaser) say(id slurm.JobID, word, what string) {
	fmt.Fprintf(r.out, "%d  %-7s  %s\n", id, word, report.Clean(what))
}

func resultWord(o policy.Outcome) string {
	if o == policy.Applied {
		return "ok"
	}
	return string(o)
}

func resultWords(res policy.Result) string {
	var out []string
	if !res.Change.Update.Empty() {
		out = append(out, updateWords(res.Change.Update))
	}
	if res.Detail != "" {
		out = append(out, res.Detail)
	}
	return strings.Join(out, ": ")
}
