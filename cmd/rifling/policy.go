// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/policy"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

func (a *app) policyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "policy",
		Short: "Keep, show, evaluate, promote and roll back trained policies",
		Long: "A trained policy is a file whose hash is its version. It goes live in stages:\n\n" +
			"  candidate  known, decides nothing\n" +
			"  observe    decides beside the policy in charge; both plans are recorded\n" +
			"  share      decides for a share of the jobs, drawn by a hash of the job's id\n" +
			"  live       decides for all jobs\n\n" +
			"Each stage asks for evidence, and each change is kept with who, when and why. In the\n" +
			"stage share riflingd rolls a policy back by itself when its jobs do worse than the\n" +
			"others. riflingd takes up a change in its next cycle, without a restart.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyListCmd(), a.policyAddCmd(), a.policyShowCmd(), a.policyEvaluateCmd(), a.policyPromoteCmd(),
		a.policyRollbackCmd(), a.policyExportCmd(), a.policyImportCmd())
	return cmd
}

// readPolicyFile reads a policy file and says what to do about one that cannot be read.
func readPolicyFile(name string) (*policy.File, string, error) {
	b, err := os.ReadFile(name)
	if err != nil {
		return nil, "", fmt.Errorf("policy: %w", err)
	}
	f, v, err := policy.DecodeFile(b)
	switch {
	case errors.Is(err, policy.ErrSchema):
		err = slurm.WithHint(err, "use a rifling of the release that wrote it, or train it anew")
	case errors.Is(err, policy.ErrBrokenHash):
		err = slurm.WithHint(err, "copy it again from where it was written; a policy is never edited")
	case errors.Is(err, policy.ErrNotPolicy):
		err = slurm.WithHint(err, "rifling train writes policy files; one of a later release may have fields that this one does not know")
	}
	if err != nil {
		return nil, "", fmt.Errorf("%s: %w", name, err)
	}
	return f, v, nil
}

// writeNew writes a file that is not there yet.
func writeNew(name string, b []byte) error {
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return slurm.WithHint(fmt.Errorf("write policy: %w", err), "a policy file is never overwritten: give another name")
	}
	_, err = f.Write(b)
	if err := errors.Join(err, f.Close()); err != nil {
		return fmt.Errorf("write policy: %w", err)
	}
	return nil
}

// named finds a policy by file or by version. s may be nil, then only files
// are found.
func (a *app) named(cmd *cobra.Command, s *store.Store, word string) (*policy.File, string, error) {
	if _, err := os.Stat(word); err == nil || strings.ContainsAny(word, "/.") {
		return readPolicyFile(word)
	}
	if s == nil {
		return nil, "", slurm.WithHint(fmt.Errorf("%s: %w", word, fs.ErrNotExist), "give a policy file")
	}
	kept, err := s.Policy(cmd.Context(), word)
	if err != nil {
		return nil, "", err
	}
	f, v, err := policy.DecodeFile(kept.File)
	if err != nil {
		return nil, "", fmt.Errorf("policy %s: %w", kept.Version, err)
	}
	return f, v, nil
}

// openToWrite opens the database for a change, without making one.
func (a *app) openToWrite(cfg *config.Config) (*store.Store, error) {
	ro, err := store.OpenReadOnly(cfg.Database)
	if err != nil {
		return nil, err
	}
	if err := ro.Close(); err != nil {
		return nil, err
	}
	return store.Open(cfg.Database, store.Options{Now: a.env.Now})
}

// whoami names who calls, for the history.
func whoami() string {
	name := "unknown"
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if by := os.Getenv("SUDO_USER"); by != "" && by != name {
		return by + " as " + name
	}
	return name
}

// policyRow is a line of the list.
type policyRow struct {
	Version  string       `json:"version"`
	Kind     string       `json:"kind"`
	Stage    policy.Stage `json:"stage"`
	Since    time.Time    `json:"since"`
	Share    float64      `json:"share,omitempty"`
	Added    time.Time    `json:"added"`
	By       string       `json:"by"`
	Data     string       `json:"data"`
	Test     *policy.Mean `json:"test_cost"`
	Evidence string       `json:"evidence"`
}

func (a *app) policyListCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "list", Short: "List the kept policies, their stages, and what decides now", Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			s, err := store.OpenReadOnly(cfg.Database)
			if err != nil {
				return err
			}
			defer s.Close()
			return a.showPolicies(cmd, s, cfg, asJSON)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (a *app) showPolicies(cmd *cobra.Command, s *store.Store, cfg *config.Config, asJSON bool) error {
	kept, err := s.Policies(cmd.Context())
	if err != nil {
		return err
	}
	changes, err := s.StageChanges(cmd.Context())
	if err != nil {
		return err
	}
	rows := []policyRow{}
	for _, k := range kept {
		r, err := a.policyRow(cmd, s, k, changes)
		if err != nil {
			return err
		}
		rows = append(rows, r)
	}
	now := policy.StandingOf(changes)
	if asJSON {
		return writeJSON(a.out, struct {
			Decides  string      `json:"decides"`
			Policies []policyRow `json:"policies"`
		}{decides(now, cfg), rows})
	}
	fmt.Fprintf(a.out, "decides  %s\n", decides(now, cfg))
	switch now.Stage {
	case policy.StageObserve:
		fmt.Fprintf(a.out, "beside   %s, observed since %s\n", now.Trial, a.clock(now.Since))
	case policy.StageShare:
		fmt.Fprintf(a.out, "beside   %s, for %g %% of the jobs since %s\n", now.Trial, 100*now.Share, a.clock(now.Since))
	}
	if len(rows) == 0 {
		fmt.Fprintln(a.out, "no trained policy is kept: rifling train makes one, rifling policy add keeps it")
		return nil
	}
	fmt.Fprintln(a.out)
	return report.Write(a.out, report.Layout[policyRow]{
		{Name: "Version", Left: true, Of: func(r *policyRow) report.Value { return report.Text(r.Version) }},
		{Name: "Kind", Left: true, Of: func(r *policyRow) report.Value { return report.Text(r.Kind) }},
		{Name: "Stage", Left: true, Of: func(r *policyRow) report.Value { return report.Text(string(r.Stage)) }},
		{Name: "Since", Of: func(r *policyRow) report.Value { return report.Time(r.Since) }},
		{Name: "Test", Of: func(r *policyRow) report.Value {
			if r.Test == nil {
				return report.None
			}
			return report.Text(fmt.Sprintf("%.3f ±%.3f", r.Test.Mean, r.Test.SE))
		}},
		{Name: "Evidence", Left: true, Of: func(r *policyRow) report.Value { return report.Text(r.Evidence) }},
		{Name: "Trained on", Left: true, Of: func(r *policyRow) report.Value { return report.Text(r.Data) }},
	}, rows, report.Style{})
}

// decides says what is in charge.
func decides(s policy.Standing, cfg *config.Config) string {
	if s.Live == "" {
		return cfg.Policy + ", as configured"
	}
	return s.Live
}

func (a *app) policyRow(cmd *cobra.Command, s *store.Store, k store.KeptPolicy, changes []policy.StageChange) (policyRow, error) {
	r := policyRow{Version: k.Version, Stage: policy.StageOf(changes, k.Version), Added: a.local(k.Added), By: k.By, Evidence: "none"}
	for _, c := range changes {
		if c.Version == k.Version {
			r.Since, r.Share = a.local(c.At), c.Share
		}
	}
	whole, err := s.Policy(cmd.Context(), k.Version)
	if err != nil {
		return r, err
	}
	f, _, err := policy.DecodeFile(whole.File)
	if err != nil {
		r.Kind, r.Data = "unreadable", err.Error()
		return r, nil //nolint:nilerr // the row says it; the others are still listed
	}
	r.Kind, r.Data = f.Kind, f.Training.Data
	if i := slices.IndexFunc(f.Training.Test, func(x policy.Figure) bool { return x.Policy == f.Kind }); i >= 0 {
		r.Test = &f.Training.Test[i].Cost
	}
	evaluations, err := s.Evaluations(cmd.Context(), k.Version)
	if n := len(evaluations); n > 0 {
		r.Evidence = verdictOf(&evaluations[n-1])
	}
	return r, err
}

// verdictOf says in words what an evaluation shows.
func verdictOf(e *policy.Evaluation) string {
	switch {
	case e.Better():
		return "better than " + e.Against
	case e.Worse():
		return "worse than " + e.Against
	case e.Cost.High < 0 && !e.HeldOut:
		return "better than " + e.Against + ", on what it was trained on"
	}
	return "no sure difference to " + e.Against
}

func (a *app) policyAddCmd() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use: "add FILE", Short: "Keep a policy file, as a candidate", Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			_, v, err := readPolicyFile(list[0])
			if err != nil {
				return err
			}
			b, err := os.ReadFile(list[0])
			if err != nil {
				return fmt.Errorf("policy: %w", err)
			}
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			s, err := a.openToWrite(cfg)
			if err != nil {
				return err
			}
			defer s.Close()
			if err := s.AddPolicy(cmd.Context(), v, b, whoami(), why); err != nil {
				return err
			}
			fmt.Fprintf(a.out, "%s is kept. Next: rifling policy evaluate %s --history (or --generate)\n", v, v)
			return nil
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "a word for the history")
	return cmd
}

// writeFigures writes a table of figures.
func writeFigures(w io.Writer, list []policy.Figure) error {
	cell := func(m policy.Mean, n int, text func(float64) string) report.Value {
		if n < 2 {
			return report.Text(text(m.Mean))
		}
		return report.Text(text(m.Mean) + " ±" + text(m.SE))
	}
	type f = policy.Figure
	err := report.Write(w, report.Layout[f]{
		{Name: "Policy", Left: true, Of: func(r *f) report.Value { return report.Text(r.Policy) }},
		{Name: "Cost", Of: func(r *f) report.Value { return cell(r.Cost, r.Lists, digits(3)) }},
		{Name: "JCT", Of: func(r *f) report.Value { return cell(r.JCT, r.Lists, shortSpan) }},
		{Name: "JCT95", Of: func(r *f) report.Value { return cell(r.P95, r.Lists, shortSpan) }},
		{Name: "Makespan", Of: func(r *f) report.Value { return cell(r.Makespan, r.Lists, shortSpan) }},
		{Name: "ANPR", Of: func(r *f) report.Value { return cell(r.ANPR, r.Lists, digits(3)) }},
		{Name: "Longest wait", Of: func(r *f) report.Value { return cell(r.Longest, r.Lists, shortSpan) }},
	}, list, report.Style{})
	if err == nil && len(list) > 0 {
		_, err = fmt.Fprintf(w, "\nMeans over %s ± standard error. Cost is the objective, 1: as the first; less is better.\n", count(list[0].Lists, "list", "lists"))
	}
	return err
}
