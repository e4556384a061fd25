// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

func (a *app) explainCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "explain JOBID",
		Short: "Say why a job waits or runs where it does, and what rifling had to do with it",
		Long: "explain tells the story of one GPU job: what it is, what was decided, when and why,\n" +
			"what else was considered, what was written to Slurm, and what came of it. JOBID is\n" +
			"an id as squeue shows it, e.g. 4711 or 21_3.",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			ref, err := slurm.ParseJobID(list[0])
			if err != nil {
				return usageError{err}
			}
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			s, err := store.OpenReadOnly(cfg.Database)
			if err != nil {
				return err
			}
			defer s.Close()
			id, err := resolve(cmd.Context(), s, ref)
			if err != nil {
				return err
			}
			story, err := s.Story(cmd.Context(), id)
			if err != nil {
				return err
			}
			_, err = io.WriteString(a.out, a.tell(story, cfg))
			return err
		},
	}
}

// resolve finds the raw id of what the user named. A task of an array that has
// not started has no id of its own: the record of its pending tasks stands for it.
func resolve(ctx context.Context, s *store.Store, ref slurm.JobRef) (slurm.JobID, error) {
	if ref.Task < 0 {
		return ref.Job, nil
	}
	jobs, err := s.Jobs(ctx, store.Filter{Jobs: []slurm.JobID{ref.Job}})
	if err != nil {
		return 0, err
	}
	pending := ref.Job
	for _, j := range jobs {
		if j.ArrayJobID == ref.Job && j.ArrayTaskID == ref.Task {
			return j.ID, nil
		}
	}
	return pending, nil
}

// page gathers lines; text of users is made harmless on the way in.
type page struct{ b strings.Builder }

func (p *page) line(format string, args ...any) {
	p.b.WriteString(report.Clean(fmt.Sprintf(format, args...)))
	p.b.WriteByte('\n')
}

// section starts a part under a heading.
func (p *page) section(name string) {
	p.b.WriteString("\n" + name + "\n")
}

// tell writes the whole answer: first the short one, then what it rests on.
func (a *app) tell(st *store.Story, cfg *config.Config) string {
	p := &page{}
	p.line("Job %s %q of %s: %s", st.Job.DisplayID(), st.Job.Name, st.Job.User, stateOf(st))
	p.b.WriteByte('\n')
	for _, s := range a.shortAnswer(st, cfg) {
		p.line("%s", s)
	}
	a.tellJob(p, st)
	a.tellDecision(p, st)
	a.tellEarlier(p, st)
	a.tellChanges(p, st)
	a.tellOutcome(p, st)
	return p.b.String()
}

// gone reports whether the job left Slurm's list before riflingd saw its end.
func gone(st *store.Story) bool {
	return st.Job.End.IsZero() && st.Last != nil && st.Job.LastSeen.Before(st.Last.At)
}

func stateOf(st *store.Story) string {
	if gone(st) {
		return "last seen " + st.Job.State.String()
	}
	return st.Job.State.String()
}

func last(st *store.Story) *store.Decision {
	if len(st.Decisions) == 0 {
		return nil
	}
	return &st.Decisions[len(st.Decisions)-1]
}
