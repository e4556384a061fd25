// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/policy"
	"rifling/sim/run"
	"rifling/slurm"
	"rifling/store"
)

// evaluateCall is one call of the verb.
type evaluateCall struct {
	*app
	workFlags
	against  string
	n        int
	workers  int
	noRecord bool
	asJSON   bool

	file    *policy.File
	version string
	store   *store.Store // nil: the policy is not kept
}

func (a *app) policyEvaluateCmd() *cobra.Command {
	c := evaluateCall{app: a}
	cmd := &cobra.Command{
		Use:   "evaluate VERSION | FILE [TRACE | --generate | --history]",
		Short: "Compare a policy with what decides now, pair by pair, and record the result",
		Long: "evaluate runs a policy and the one in charge (or --against) on the same lists of jobs\n" +
			"and shows the differences, list by list, with intervals of 95 % by Student's t. Lists are\n" +
			"generated, parts of a trace, or parts of the site's own history; --lists is how many.\n" +
			"Generated lists have seeds far from those of training. History is held out when it lies\n" +
			"after what the policy was trained on. A policy that is kept (rifling policy add) gets\n" +
			"the result recorded: promotion asks for it.",
		Args: args(cobra.RangeArgs(1, 2)),
		RunE: c.run,
	}
	c.add(cmd)
	fl := cmd.Flags()
	fl.StringVar(&c.against, "against", "", "policy to compare with: a version, a file or a name (default: what decides now)")
	fl.IntVar(&c.n, "lists", 8, "lists of jobs")
	fl.IntVar(&c.workers, "workers", 0, "runs at once; 0: one a core")
	fl.BoolVar(&c.noRecord, "no-record", false, "do not record the result")
	fl.BoolVar(&c.asJSON, "json", false, "write JSON")
	return cmd
}

func (c *evaluateCall) run(cmd *cobra.Command, list []string) error {
	if c.n < 1 || c.workers < 0 {
		return usageError{errors.New("--lists must be 1 or more, --workers not negative")}
	}
	cfg, err := c.config(cmd)
	if err != nil {
		return err
	}
	if c.store, err = c.openToWrite(cfg); err == nil {
		defer c.store.Close()
	} else {
		c.store = nil
	}
	if c.file, c.version, err = c.named(cmd, c.store, list[0]); err != nil {
		return err
	}
	name, other, err := c.incumbent(cmd, cfg)
	if err != nil {
		return err
	}
	o, err := cfg.PolicyOptions()
	if err != nil {
		return err
	}
	_, lists, err := c.lists(c.app, cmd, list[1:], 0, c.n)
	if err != nil {
		return err
	}
	mine, theirs := make([]lot, len(lists)), make([]lot, len(lists))
	if c.workers == 0 {
		c.workers = runtime.NumCPU()
	}
	show := newProgress(cmd.ErrOrStderr(), c.env.Now)
	err = run.Each(cmd.Context(), 2*len(lists), c.workers, func(ctx context.Context, i int) error {
		of, into := other, theirs
		if i%2 == 0 {
			of, into = func() (policy.Policy, error) { return c.file.Policy(o) }, mine
		}
		p, err := of()
		if err == nil {
			into[i/2], err = lists[i/2].play(ctx, p)
		}
		return err
	}, func(done int) { show.line("evaluating", done, 2*len(lists)) })
	show.end()
	if err != nil {
		return err
	}
	return c.tell(cmd, c.judge(name, lists, mine, theirs))
}

// incumbent is what the policy is compared with.
func (c *evaluateCall) incumbent(cmd *cobra.Command, cfg *config.Config) (string, func() (policy.Policy, error), error) {
	name := c.against
	if name == "" && c.store != nil {
		changes, err := c.store.StageChanges(cmd.Context())
		if err != nil {
			return "", nil, err
		}
		name = policy.StandingOf(changes).Live
	}
	o, err := cfg.PolicyOptions()
	if err != nil {
		return "", nil, err
	}
	switch {
	case name == "":
		return cfg.Policy, cfg.NewPolicy, nil
	case slices.Contains(policy.Names(), name):
		return name, func() (policy.Policy, error) { return policy.New(name, o) }, nil
	}
	f, v, err := c.named(cmd, c.store, name)
	if err != nil {
		return "", nil, fmt.Errorf("--against: %w", err)
	}
	if v == c.version {
		return "", nil, slurm.WithHint(usageError{fmt.Errorf("%s is what decides now", v)}, "compare it with another by --against, e.g. --against slurm")
	}
	return v, func() (policy.Policy, error) { return f.Policy(o) }, nil
}

// judge pairs the lists.
func (c *evaluateCall) judge(name string, lists []jobList, mine, theirs []lot) policy.Evaluation {
	goal := c.file.Training.Objective
	if goal == (policy.Objective{}) {
		goal = policy.DefaultObjective()
	}
	var costs, jcts []float64
	for i := range lists {
		costs = append(costs, cost(goal, mine[i], theirs[i])-1)
		jcts = append(jcts, mine[i].sum.MeanJCT-theirs[i].sum.MeanJCT)
	}
	return policy.Evaluation{
		At: c.env.Now().UTC(), Version: c.version, Against: name, By: whoami(), Data: c.data, Pairs: len(lists),
		HeldOut: c.heldOut(lists), Cost: spanOf(costs), JCT: spanOf(jcts),
		Figures: []policy.Figure{figureOf(name, goal, theirs, theirs), figureOf(c.version, goal, mine, theirs)},
	}
}

// heldOut reports whether nothing of the lists was in the training.
func (c *evaluateCall) heldOut(lists []jobList) bool {
	t := &c.file.Training
	switch {
	case c.past:
		return !c.begin.Before(t.End)
	case c.made:
		return !slices.ContainsFunc(lists, func(l jobList) bool { return slices.Contains(t.TrainSeeds, l.seed) })
	}
	// Of another trace nothing was seen; of the same one a part.
	trace, _, _ := strings.Cut(strings.TrimPrefix(c.data, "parts of the trace "), ",")
	return !strings.Contains(t.Data, filepath.Base(trace))
}

func (c *evaluateCall) tell(cmd *cobra.Command, e policy.Evaluation) error {
	recorded, why := false, "the policy is not kept: rifling policy add"
	switch {
	case c.noRecord:
		why = "--no-record"
	case c.store != nil:
		if _, err := c.store.Policy(cmd.Context(), c.version); err == nil {
			if err := c.store.SaveEvaluation(cmd.Context(), e); err != nil {
				return err
			}
			recorded = true
		}
	}
	if c.asJSON {
		return writeJSON(c.out, struct {
			policy.Evaluation
			Recorded bool `json:"recorded"`
		}{e, recorded})
	}
	w := c.out
	fmt.Fprintf(w, "policy   %s, against %s\nwork     %s of %s\n\n", c.version, e.Against, count(e.Pairs, "list", "lists"), c.data)
	if err := writeFigures(w, e.Figures); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nDifferences, list by list, with intervals of 95 %%:\n  cost  %s\n  JCT   %s\n\n", percentSpan(e.Cost), secondsSpan(e.JCT))
	fmt.Fprintf(w, "Verdict: %s.\n", verdictOf(&e))
	if !e.HeldOut {
		fmt.Fprintln(w, "Some of this was in its training: as evidence for a promotion it does not count.")
	}
	if recorded {
		fmt.Fprintln(w, "The result is recorded.")
	} else {
		fmt.Fprintf(w, "The result is not recorded (%s).\n", why)
	}
	return nil
}
