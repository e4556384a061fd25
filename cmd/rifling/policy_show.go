// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rifling/agent"
	"rifling/policy"
	"rifling/store"
)

// policyShown is what `policy show --json` writes.
type policyShown struct {
	Version     string               `json:"version"`
	Stage       policy.Stage         `json:"stage,omitempty"`
	Policy      *policy.File         `json:"policy"`
	Life        []policy.StageChange `json:"life,omitempty"`
	Evaluations []policy.Evaluation  `json:"evaluations,omitempty"`
	Observed    *store.PairCounts    `json:"observed,omitempty"`
}

func (a *app) policyShowCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use: "show VERSION | FILE", Short: "Show a policy's training, figures, life, and what it decides by, in words",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			s, err := a.history(cmd)
			if err != nil {
				s = nil // a file can be shown without a database
			} else {
				defer s.Close()
			}
			f, v, nerr := a.named(cmd, s, list[0])
			if nerr != nil {
				if s == nil {
					return err
				}
				return nerr
			}
			out := policyShown{Version: v, Policy: f}
			if err := a.lifeOf(cmd, s, &out); err != nil {
				return err
			}
			if asJSON {
				return writeJSON(a.out, out)
			}
			return a.writePolicy(&out)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

// lifeOf fills in what the database knows of the policy.
func (a *app) lifeOf(cmd *cobra.Command, s *store.Store, out *policyShown) error {
	if s == nil {
		return nil
	}
	changes, err := s.StageChanges(cmd.Context())
	if err != nil {
		return err
	}
	out.Stage = policy.StageOf(changes, out.Version)
	for _, c := range changes {
		if c.Version == out.Version {
			out.Life = append(out.Life, c)
		}
	}
	if out.Evaluations, err = s.Evaluations(cmd.Context(), out.Version); err != nil {
		return err
	}
	if now := policy.StandingOf(changes); now.Trial == out.Version {
		n, err := s.PairsSince(cmd.Context(), out.Version, now.Since)
		out.Observed = &n
		return err
	}
	return nil
}

func (a *app) writePolicy(p *policyShown) error {
	w := a.out
	line := func(key, format string, args ...any) { fmt.Fprintf(w, "%-10s %s\n", key, fmt.Sprintf(format, args...)) }
	t := &p.Policy.Training
	line("policy", "%s, kind %s", p.Version, p.Policy.Kind)
	if p.Stage != "" {
		line("stage", "%s", p.Stage)
	}
	line("trained", "%s by rifling %s", a.clock(t.At), cmp.Or(t.Release, "of an unknown release"))
	if t.Parent != "" {
		line("parent", "%s", t.Parent)
	}
	line("data", "%s", cmp.Or(t.Data, "not told"))
	if len(t.Settings) > 0 {
		line("settings", "%s", strings.Join(t.Settings, " "))
	}
	line("seeds", "training %s; test %s", seedWords(t.TrainSeeds), seedWords(t.TestSeeds))
	if t.Generations > 0 {
		line("search", "%s of %d, seed %d", count(t.Generations, "generation", "generations"), t.Population, t.SearchSeed)
	}
	o := t.Objective
	line("objective", "jct=%g, p95=%g, makespan=%g, anpr=%g, fairness=%g", o.MeanJCT, o.P95JCT, o.Makespan, o.ANPR, o.Fairness)
	for _, part := range []struct {
		name string
		list []policy.Figure
	}{{"On the lists of the training:", t.Train}, {"On the lists of the test:", t.Test}} {
		if len(part.list) == 0 {
			continue
		}
		fmt.Fprintf(w, "\n%s\n", part.name)
		if err := writeFigures(w, part.list); err != nil {
			return err
		}
	}
	fmt.Fprintln(w)
	if p.Policy.Model != nil {
		writeModel(w, p.Policy.Model)
	} else {
		writeTable(w, p.Policy.Table)
	}
	a.writeLife(p)
	return nil
}

func seedWords(seeds []uint64) string {
	switch len(seeds) {
	case 0:
		return "not told"
	case 1:
		return fmt.Sprint(seeds[0])
	}
	return fmt.Sprintf("%d to %d", slices.Min(seeds), slices.Max(seeds))
}

// inputWords say what an input is, as policy.PlaceInputs and OrderInputs do.
var inputWords = map[string]string{
	"comm_bound": "the job is communication-bound", "compute_bound": "the job is compute-bound",
	"wait": "the job waits", "leave": "the job is left to Slurm", "thin": "equal thin parts",
	"extra_nodes": "nodes beyond those needed", "extra_leaves": "leaf switches beyond the first",
	"busy_nic": "a NIC that communication-bound jobs use", "contention": "communication-bound neighbours",
	"broken": "whole slots that it breaks", "left_over": "GPUs that it leaves free on its nodes",
	"release": "time until its neighbours end", "wait_run": "expected wait over its run time",
	"wait_pressure": "expected wait when the queue is long", "log_gpus": "GPUs", "pressure": "GPUs that the queue asks for",
	"unsure": "how unsure its run time is", "log_run": "predicted run time", "log_run_low": "its run time at best",
	"log_run_high": "its run time at worst", "unknown": "nothing is known of its run time", "log_limit": "time limit",
	"log_nodes": "nodes needed", "log_age": "time since it was eligible", "age_run": "that time over its run time",
	"log_use": "its user's recent use", "fits": "it could start now", "pressure_gpus": "GPUs when the queue is long",
	"log_run_mean": "its run time in the mean", "log_ready": "time until it can start", "backlog_run": "run time when much work waits",
	"broken_gpus": "GPUs when free ones are scattered",
}

// writeModel says what the scorers look at, the strongest first.
func writeModel(w io.Writer, m *policy.Model) {
	fmt.Fprintf(w, "The rule decides where a job runs, and the place scorer corrects it:\n")
	writeTerms(w, &m.Place, "speaks for an action", "speaks against it")
	fmt.Fprintf(w, "The order scorer ranks the queue:\n")
	writeTerms(w, &m.Order, "brings a job forward", "holds it back")
	fmt.Fprintf(w, "A job passes one that Slurm ranks higher when it leads by %g standard deviations.\n", m.Margin)
}

func writeTerms(w io.Writer, net *agent.Net, up, down string) {
	parts := termParts(net)
	order := make([]int, len(parts))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(math.Abs(parts[b]), math.Abs(parts[a])) })
	none := true
	for _, i := range order {
		if parts[i] == 0 {
			continue
		}
		none = false
		name := net.Inputs[i]
		way := up
		if parts[i] < 0 {
			way = down
		}
		fmt.Fprintf(w, "  %+8.4f  %-14s %s: %s\n", parts[i], name, inputWords[name], way)
	}
	switch {
	case none:
		fmt.Fprintln(w, "  it says nothing")
	case len(net.Layers) > 1:
		fmt.Fprintln(w, "  (slopes at the mean of the inputs: the scorer is not linear)")
	}
	fmt.Fprintln(w)
}

// termParts is what one scale of each input adds to the score at the means.
func termParts(net *agent.Net) []float64 {
	out := make([]float64, len(net.Inputs))
	for i := range out {
		// A step from the means in one input alone.
		at := slices.Clone(net.Mean)
		at[i] += net.Scale[i]
		out[i] = net.Score(at) - net.Score(net.Mean)
	}
	return out
}

// mostCells bounds the cells of a table that are shown.
const mostCells = 20

func writeTable(w io.Writer, t *policy.TablePart) {
	cells := slices.Clone(t.Entries)
	slices.SortStableFunc(cells, func(a, b agent.Entry) int { return cmp.Compare(b.Visits, a.Visits) })
	fmt.Fprintf(w, "A table of %s; those learned from most:\n", count(len(cells), "entry", "entries"))
	for _, e := range cells[:min(mostCells, len(cells))] {
		fmt.Fprintf(w, "  %s\n", qSentence(e))
	}
}

func (a *app) writeLife(p *policyShown) {
	w := a.out
	for i, c := range p.Life {
		if i == 0 {
			fmt.Fprintln(w, "\nLife:")
		}
		stage := string(c.Stage)
		if c.Stage == policy.StageShare {
			stage = fmt.Sprintf("share of %g %%", 100*c.Share)
		}
		if c.Forced {
			stage += ", by force"
		}
		why := ""
		if c.Why != "" {
			why = ": " + c.Why
		}
		fmt.Fprintf(w, "  %s  %s, by %s%s\n", a.clock(c.At), stage, c.By, why)
	}
	for i := range p.Evaluations {
		if i == 0 {
			fmt.Fprintln(w, "\nEvaluations:")
		}
		e := &p.Evaluations[i]
		fmt.Fprintf(w, "  %s  %s: cost %s, JCT %s; %s, by %s\n", a.clock(e.At), verdictOf(e), percentSpan(e.Cost),
			secondsSpan(e.JCT), e.Data, e.By)
	}
	if n := p.Observed; n != nil {
		fmt.Fprintf(w, "\nOn trial: %s decided on beside the incumbent, %d differently; %d of its share\n",
			count(n.Jobs, "job", "jobs"), n.Differed, n.Mine)
	}
}

func percentSpan(s policy.Span) string {
	return fmt.Sprintf("%+.1f %% [%+.1f, %+.1f]", 100*s.Mean, 100*s.Low, 100*s.High)
}

func secondsSpan(s policy.Span) string {
	one := func(x float64) string {
		if x < 0 {
			return "-" + shortSpan(-x)
		}
		return "+" + shortSpan(x)
	}
	return fmt.Sprintf("%s [%s, %s]", one(s.Mean), one(s.Low), one(s.High))
}
