// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/explain"
	"rifling/slurm"
	"rifling/store"
)

func (a *app) explainCmd() *cobra.Command {
	var whyNot string
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "explain JOBID",
		Short: "Say why a job waits or runs where it does, and what rifling had to do with it",
		Long: "explain answers in one sentence and then tells the story of one GPU job: what\n" +
			"comes next, what the job is and how that is known, what was decided, when and why,\n" +
			"what else was considered, which guard rails spoke, what was written to Slurm and\n" +
			"when it is taken back, and what came of it. JOBID is an id as squeue shows it,\n" +
			"e.g. 4711 or 21_3. --why-not asks about one node; Slurm is asked about it too,\n" +
			"where scontrol answers.",
		Example: "  rifling explain 4711\n  rifling explain 21_3 --why-not gpu07\n  rifling explain 4711 --json | jq .decisions[-1].considered",
		Args:    args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			ref, err := slurm.ParseJobID(list[0])
			if err != nil {
				return usageError{err}
			}
			if err := checkNode(whyNot); err != nil {
				return err
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
			me, err := a.only(cfg)
			if err != nil {
				return err
			}
			if me != "" && story.Job.User != me {
				return notYours(fmt.Errorf("job %s is of another user", list[0]))
			}
			o := explain.Options{Now: a.env.Now(), Interval: cfg.Interval, Depth: cfg.Limits.Depth}
			if whyNot != "" {
				if o.WhyNot, err = a.aboutNode(cmd.Context(), s, whyNot, me); err != nil {
					return err
				}
			}
			answer := explain.Of(story, o)
			if asJSON {
				return writeJSON(a.out, answer)
			}
			_, err = io.WriteString(a.out, answer.Text())
			return err
		},
	}
	cmd.Flags().StringVar(&whyNot, "why-not", "", "say what keeps the job from this node")
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
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

// checkNode refuses what is no name of one node. Empty means that none is asked
// about.
func checkNode(name string) error {
	if name == "" {
		return nil
	}
	nodes, err := slurm.ExpandHosts(name)
	if err != nil || len(nodes) != 1 || nodes[0] != name || strings.HasPrefix(name, "-") || strings.ContainsAny(name, " =/") {
		return usageError{slurm.WithHint(fmt.Errorf("--why-not %q: no name of one node", name), "give it as sinfo -N shows it, e.g. gpu07")}
	}
	return nil
}

// nodeTime bounds the question to Slurm about a node: the answer stands without.
const nodeTime = 3 * time.Second

// aboutNode gathers what is known of a node: who ran there in the last cycle,
// and what Slurm says of it now. A Slurm that does not answer is no error, one
// that does not know the node is.
// Of jobs of others than me, where that is not empty, only their number is told.
func (a *app) aboutNode(ctx context.Context, s *store.Store, name, me string) (*explain.Node, error) {
	n := &explain.Node{Name: name}
	jobs, err := s.Jobs(ctx, store.Filter{Current: true})
	if err != nil {
		return nil, err
	}
	for _, j := range jobs {
		switch {
		case !j.Running() || !slices.Contains(j.Nodes, name):
		case me != "" && j.User != me:
			n.Others++
		default:
			n.Jobs = append(n.Jobs, j)
		}
	}
	if a.env.Run == nil {
		return n, nil
	}
	ctx, cancel := context.WithTimeout(ctx, nodeTime)
	defer cancel()
	text, err := a.env.Run(ctx, "scontrol", "--oneliner", "--details", "show", "node", name)
	if err != nil {
		if strings.Contains(text+err.Error(), "not found") {
			return nil, slurm.WithHint(fmt.Errorf("Slurm knows no node %q", name), "sinfo -N lists the nodes")
		}
		return n, nil
	}
	if state, err := explain.ParseNode(text); err == nil {
		n.Slurm = state
	}
	return n, nil
}
