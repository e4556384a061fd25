// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/wording"
	"rifling/policy"
	"rifling/report"
	"rifling/store"
)

const qtableFormat = "state,action,value,prior,visits,stderr,changed,meaning"

func (a *app) qtableCmd() *cobra.Command {
	var t tableFlags
	var states, actions, groups []string
	var minVisits int
	cmd := &cobra.Command{
		Use:   "qtable",
		Short: "List what the learner expects of each action in each state",
		Long: "qtable lists the learner's table by state, the best action first. A value is the\n" +
			"reward that is expected: the part of the job's GPU time that is lost, so nearer\n" +
			"to 0 is better. What the rule expected stands beside it. Words of --state must all occur.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a.out, t, a.qFields(), qtableFormat, func() ([]policy.QEntry, error) {
				prefixes, err := groupPrefixes(groups)
				if err != nil {
					return nil, err
				}
				for _, act := range actions {
					if !slices.Contains(policy.Actions, policy.Action(act)) {
						return nil, usageError{fmt.Errorf("unknown action %q", act)}
					}
				}
				s, err := a.history(cmd)
				if err != nil {
					return nil, err
				}
				defer s.Close()
				return qRows(cmd, s, func(e policy.QEntry) bool {
					return e.Visits >= minVisits && hasWords(e.State, states) &&
						(len(prefixes) == 0 || slices.Contains(prefixes, strings.SplitN(e.State, " ", 2)[0])) &&
						(len(actions) == 0 || slices.Contains(actions, e.Action))
				})
			})
		},
	}
	t.add(cmd)
	fl := cmd.Flags()
	fl.StringSliceVar(&states, "state", nil, "only states with these words, e.g. n1,nic2")
	fl.StringSliceVar(&actions, "action", nil, "only these actions")
	fl.StringSliceVarP(&groups, "group", "g", nil, "only states of these groups (numbers, or unknown)")
	fl.IntVar(&minVisits, "min-visits", 0, "only entries that were learned from this often")
	return cmd
}

// groupPrefixes turns groups into the first word of their states.
func groupPrefixes(groups []string) ([]string, error) {
	numbers, err := groupNumbers(groups)
	if err != nil {
		return nil, err
	}
	var out []string
	for _, n := range numbers {
		if n < 0 {
			out = append(out, "g?")
			continue
		}
		out = append(out, fmt.Sprintf("g%d", n))
	}
	return out, nil
}

func hasWords(state string, words []string) bool {
	have := strings.Fields(state)
	for _, w := range words {
		if !slices.Contains(have, w) {
			return false
		}
	}
	return true
}

func qRows(cmd *cobra.Command, s *store.Store, keep func(policy.QEntry) bool) ([]policy.QEntry, error) {
	entries, err := s.LoadTable(cmd.Context())
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e policy.QEntry) bool { return !keep(e) })
	slices.SortFunc(entries, func(x, y policy.QEntry) int {
		return cmp.Or(cmp.Compare(x.State, y.State), cmp.Compare(y.Value, x.Value), cmp.Compare(x.Action, y.Action))
	})
	return entries, nil
}

func (a *app) qFields() []report.Field[policy.QEntry] {
	type q = policy.QEntry
	return []report.Field[q]{
		{Name: "State", Doc: "the state's code", Width: 0, Left: true, Of: func(r *q) report.Value { return report.Text(r.State) }},
		{Name: "Action", Doc: "action", Width: 6, Left: true, Of: func(r *q) report.Value { return report.Text(r.Action) }},
		{Name: "Value", Doc: "expected reward", Width: 8, Of: func(r *q) report.Value { return report.Float(r.Value, 3) }},
		{Name: "Prior", Doc: "what the rule expected of the same decisions", Width: 8, Of: func(r *q) report.Value { return report.Float(r.Prior, 3) }},
		{Name: "StdErr", Doc: "standard error of value - prior", Width: 7, Of: func(r *q) report.Value { return report.Float(r.StdErr(wording.AlphaShown), 3) }},
		{Name: "Visits", Doc: "how often it was learned from", Width: 6, Of: func(r *q) report.Value { return report.Int(r.Visits) }},
		{Name: "StdDev", Doc: "standard deviation of reward - prior", Width: 7, Of: func(r *q) report.Value { return report.Float(math.Sqrt(r.Var), 3) }},
		{Name: "Changed", Doc: "when it last changed", Width: 19, Of: func(r *q) report.Value { return report.Time(a.local(r.Changed)) }},
		{Name: "Meaning", Doc: "the entry in a sentence", Left: true, Of: func(r *q) report.Value { return report.Text(qSentence(*r)) }},
	}
}

// qSentence says what an entry means.
func qSentence(e policy.QEntry) string { return stateWords(e.State) + ": " + wording.Entry(e) }
