// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strconv"

	"github.com/spf13/cobra"

	"rifling/profile"
	"rifling/report"
	"rifling/store"
)

const (
	groupsFormat  = "group,kind,cc,from,to,families,jobs,grouped"
	membersFormat = "group,cc,count,gpus,jobs,user,name,family"
)

func (a *app) groupsCmd() *cobra.Command {
	var f filterFlags
	var t tableFlags
	var members bool
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List the groups of jobs by computation-communication ratio",
		Long: "groups lists the groups of the last grouping, the most communication-bound first,\n" +
			"or with -m the families of jobs in them. Filters choose whose jobs are counted.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if members {
				return show(a.out, t, memberFields(), membersFormat, func() ([]store.Member, error) {
					_, ms, err := a.groupRows(cmd, f)
					return ms, err
				})
			}
			return show(a.out, t, a.groupFields(), groupsFormat, func() ([]groupRow, error) {
				rows, _, err := a.groupRows(cmd, f)
				return rows, err
			})
		},
	}
	f.add(cmd)
	t.add(cmd)
	cmd.Flags().BoolVarP(&members, "members", "m", false, "list the families in the groups")
	return cmd
}

// groupRow is a group with what it holds.
type groupRow struct {
	profile.Group
	kind    string
	jobs    int
	grouped report.Value
}

func (a *app) groupRows(cmd *cobra.Command, f filterFlags) ([]groupRow, []store.Member, error) {
	filter, err := f.filter(a)
	if err != nil {
		return nil, nil, err
	}
	cfg, err := a.config(cmd)
	if err != nil {
		return nil, nil, err
	}
	s, err := store.OpenReadOnly(cfg.Database)
	if err != nil {
		return nil, nil, err
	}
	defer s.Close()
	groups, at, err := s.Groups(cmd.Context())
	if err != nil {
		return nil, nil, err
	}
	members, err := s.Members(cmd.Context(), filter)
	if err != nil {
		return nil, nil, err
	}
	jobs := map[int]int{}
	for _, m := range members {
		jobs[m.Group] += m.Jobs
	}
	var rows []groupRow
	for _, g := range groups {
		rows = append(rows, groupRow{Group: g, jobs: jobs[g.Index], grouped: report.Time(a.local(at)),
			kind: kindOf(g.Center, cfg.Profile.CommBoundBelow, cfg.Profile.ComputeBoundAbove)})
	}
	return rows, members, nil
}

// kindOf names a group by its centre; the thresholds are ratios.
func kindOf(logCC, commBelow, computeAbove float64) string {
	switch cc := math.Exp(logCC); {
	case cc < commBelow:
		return "communication-bound"
	case cc > computeAbove:
		return "compute-bound"
	}
	return "between"
}

func (a *app) groupFields() []report.Field[groupRow] {
	type g = groupRow
	return []report.Field[g]{
		{Name: "Group", Doc: "number, 0 the most communication-bound", Width: 5, Of: func(r *g) report.Value { return report.Text(strconv.Itoa(r.Index)) }},
		{Name: "Kind", Doc: "communication-bound, compute-bound or between", Width: 19, Left: true, Of: func(r *g) report.Value { return report.Text(r.kind) }},
		{Name: "CC", Doc: "centre: computing over communicating time", Width: 8, Of: func(r *g) report.Value { return report.Float(math.Exp(r.Center), 2) }},
		{Name: "From", Doc: "one standard deviation below the centre", Width: 8, Of: func(r *g) report.Value { return report.Float(math.Exp(r.Center-r.Spread), 2) }},
		{Name: "To", Doc: "one standard deviation above the centre", Width: 8, Of: func(r *g) report.Value { return report.Float(math.Exp(r.Center+r.Spread), 2) }},
		{Name: "Families", Doc: "families when it was grouped", Width: 8, Of: func(r *g) report.Value { return report.Int(r.Members) }},
		{Name: "Jobs", Doc: "jobs of the history that pass the filters", Width: 6, Of: func(r *g) report.Value { return report.Int(r.jobs) }},
		{Name: "Grouped", Doc: "when jobs were last grouped", Width: 19, Of: func(r *g) report.Value { return r.grouped }},
	}
}

func memberFields() []report.Field[store.Member] {
	type m = store.Member
	return []report.Field[m]{
		{Name: "Group", Doc: "group", Width: 5, Of: func(r *m) report.Value { return report.Int(r.Group) }},
		{Name: "CC", Doc: "computation-communication ratio of its newest job", Width: 8, Of: func(r *m) report.Value { return report.Float(math.Exp(r.LogCC), 2) }},
		{Name: "Count", Doc: "samples behind it", Width: 6, Of: func(r *m) report.Value { return report.Int(r.Count) }},
		{Name: "GPUs", Doc: "GPUs of its newest job", Width: 4, Of: func(r *m) report.Value { return report.Int(r.GPUs) }},
		{Name: "Jobs", Doc: "jobs of the history", Width: 5, Of: func(r *m) report.Value { return report.Int(r.Jobs) }},
		{Name: "User", Doc: "user", Width: 9, Left: true, Of: func(r *m) report.Value { return report.Text(r.User) }},
		{Name: "Name", Doc: "name of its newest job", Width: 16, Left: true, Of: func(r *m) report.Value { return report.Text(r.Name) }},
		{Name: "Family", Doc: "the family's key", Left: true, Of: func(r *m) report.Value { return report.Text(r.Family) }},
	}
}
