// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/profile"
	"rifling/report"
	"rifling/store"
)

const (
	groupsFormat  = "group,kind,cc,from,to,families,jobs,moved,movedweek"
	membersFormat = "group,cc,count,from,gpus,jobs,user,name,family"
)

func (a *app) groupsCmd() *cobra.Command {
	var f filterFlags
	var t tableFlags
	var members, histogram bool
	cmd := &cobra.Command{
		Use:   "groups",
		Short: "List the groups of jobs by computation-communication ratio",
		Long: "groups lists the groups of the last grouping, the most communication-bound first, how\n" +
			"their centres moved, and a histogram of the families' ratios. A group keeps its number\n" +
			"from one grouping to the next. Filters choose whose jobs and families are counted.\n" +
			"With -m it lists the families, with --histogram the histogram alone.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			load := func() (*grouping, error) { return a.grouping(cmd, f) }
			switch {
			case members:
				return show(a.out, t, memberFields(), membersFormat, func() ([]store.Member, error) {
					g, err := load()
					return g.families(), err
				})
			case histogram:
				return show(a.out, t, binFields(), binsFormat, func() ([]bin, error) {
					g, err := load()
					return g.bins(), err
				})
			case t.isPlain():
				g, err := load()
				if err != nil {
					return err
				}
				return a.groupsPage(t, g)
			}
			return show(a.out, t, groupFields(), groupsFormat, func() ([]groupRow, error) {
				g, err := load()
				return g.rows(), err
			})
		},
	}
	f.add(cmd)
	t.add(cmd)
	cmd.Flags().BoolVarP(&members, "members", "m", false, "list the families in the groups, those of unknown group last")
	cmd.Flags().BoolVar(&histogram, "histogram", false, "list how many families have which ratio")
	cmd.MarkFlagsMutuallyExclusive("members", "histogram")
	return cmd
}

// isPlain reports whether a page for people is wanted: no flag says how rows
// are to be written.
func (t *tableFlags) isPlain() bool { return *t == tableFlags{} }

// grouping is all that the verb shows. The nil grouping has nothing.
type grouping struct {
	groups  []profile.Group // by centre
	at      time.Time
	drifts  map[int]store.Drift
	members []store.Member // as grouped now
	options config.Profile
}

func (a *app) grouping(cmd *cobra.Command, f filterFlags) (*grouping, error) {
	filter, err := f.filter(a)
	if err != nil {
		return nil, err
	}
	cfg, err := a.config(cmd)
	if err != nil {
		return nil, err
	}
	s, err := store.OpenReadOnly(cfg.Database)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	g, err := readGrouping(cmd.Context(), s, filter, cfg.Profile)
	if err != nil {
		return nil, err
	}
	g.at = a.local(g.at)
	return g, nil
}

func readGrouping(ctx context.Context, s *store.Store, filter store.Filter, o config.Profile) (*grouping, error) {
	g := &grouping{options: o}
	var err error
	if g.groups, g.at, err = s.Groups(ctx); err != nil {
		return nil, err
	}
	if g.drifts, err = s.Drifts(ctx); err != nil {
		return nil, err
	}
	g.members, err = s.Members(ctx, filter)
	return g, err
}

func (g *grouping) families() []store.Member {
	if g == nil {
		return nil
	}
	return g.members
}

// groupRow is a group with what it holds, or, of the number GroupUnknown, the
// families of no group.
type groupRow struct {
	profile.Group
	kind     string
	families int
	jobs     int
	drift    store.Drift
	grouped  time.Time
}

func (r *groupRow) known() bool { return r.Index != profile.GroupUnknown }

func (g *grouping) rows() []groupRow {
	if g == nil {
		return nil
	}
	var rows []groupRow
	at := map[int]int{}
	for _, x := range g.groups {
		at[x.Index] = len(rows)
		rows = append(rows, groupRow{Group: x, drift: g.drifts[x.Index], grouped: g.at,
			kind: kindOf(x.Center, g.options.CommBoundBelow, g.options.ComputeBoundAbove)})
	}
	unknown := groupRow{Group: profile.Group{Index: profile.GroupUnknown}, kind: "unknown", grouped: g.at}
	for i := range g.members {
		r := &unknown
		if n, ok := at[g.members[i].Group]; ok {
			r = &rows[n]
		}
		r.families++
		r.jobs += g.members[i].Jobs
	}
	if unknown.families > 0 {
		rows = append(rows, unknown)
	}
	return rows
}

// groupsPage writes the table, when it was made, and the histogram.
func (a *app) groupsPage(t tableFlags, g *grouping) error {
	err := show(a.out, t, groupFields(), groupsFormat, func() ([]groupRow, error) { return g.rows(), nil })
	if err != nil {
		return err
	}
	if g.at.IsZero() {
		_, err = fmt.Fprintln(a.out, "\nJobs have not been grouped yet: riflingd needs counters of jobs with two GPUs or more.")
		return err
	}
	_, err = fmt.Fprintf(a.out, "\nGrouped %s. Moved: change of a centre since the grouping before, and in a week, in per cent.\n"+
		"Families by computing over communicating time, * where a group's centre lies:\n\n%s",
		g.at.Format("2006-01-02T15:04:05"), chart(g.bins()))
	return err
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

func groupFields() []report.Field[groupRow] {
	type g = groupRow
	known := func(v func(*g) report.Value) func(*g) report.Value {
		return func(r *g) report.Value {
			if !r.known() {
				return report.None
			}
			return v(r)
		}
	}
	return []report.Field[g]{
		{Name: "Group", Doc: "number; a group keeps it from one grouping to the next", Width: 7, Of: func(r *g) report.Value { return report.Text(store.GroupName(r.Index)) }},
		{Name: "Kind", Doc: "communication-bound, compute-bound, between or unknown", Width: 19, Left: true, Of: func(r *g) report.Value { return report.Text(r.kind) }},
		{Name: "CC", Doc: "centre: computing over communicating time", Width: 7, Of: known(func(r *g) report.Value { return report.Float(math.Exp(r.Center), 2) })},
		{Name: "From", Doc: "one standard deviation below the centre", Width: 7, Of: known(func(r *g) report.Value { return report.Float(math.Exp(r.Center-r.Spread), 2) })},
		{Name: "To", Doc: "one standard deviation above the centre", Width: 7, Of: known(func(r *g) report.Value { return report.Float(math.Exp(r.Center+r.Spread), 2) })},
		{Name: "Members", Doc: "families when it was grouped; all of one GPU count as one", Width: 7, Of: known(func(r *g) report.Value { return report.Int(r.Members) })},
		{Name: "Families", Doc: "families of the history that pass the filters", Width: 8, Of: func(r *g) report.Value { return report.Int(r.families) }},
		{Name: "Jobs", Doc: "their jobs", Width: 7, Of: func(r *g) report.Value { return report.Int(r.jobs) }},
		{Name: "Moved", Doc: "how the centre moved since the grouping before, per cent of the ratio", Width: 7, Of: func(r *g) report.Value { return moved(r.drift.Last, r.drift.HasLast) }},
		{Name: "MovedWeek", Doc: "how it moved in the week before the grouping, per cent", Width: 9, Of: func(r *g) report.Value { return moved(r.drift.Week, r.drift.HasWeek) }},
		{Name: "Grouped", Doc: "when jobs were last grouped", Width: 19, Of: func(r *g) report.Value { return report.Time(r.grouped) }},
	}
}

// moved writes a way in log cc as a change of the ratio in per cent.
func moved(logs float64, known bool) report.Value {
	if !known {
		return report.None
	}
	return report.Float(100*math.Expm1(logs), 1)
}

func memberFields() []report.Field[store.Member] {
	type m = store.Member
	seen := func(v func(*m) report.Value) func(*m) report.Value {
		return func(r *m) report.Value {
			if !hasRatio(r) {
				return report.None
			}
			return v(r)
		}
	}
	return []report.Field[m]{
		{Name: "Group", Doc: "group of its newest job when last seen, or unknown", Width: 7, Of: func(r *m) report.Value { return report.Text(store.GroupName(r.Group)) }},
		{Name: "CC", Doc: "computation-communication ratio of its newest job", Width: 8, Of: seen(func(r *m) report.Value { return report.Float(math.Exp(r.LogCC), 2) })},
		{Name: "Count", Doc: "samples behind it", Width: 6, Of: seen(func(r *m) report.Value { return report.Int(r.Count) })},
		{Name: "From", Doc: "where the ratio comes from: job, family, user+name, user, class, cluster or none", Width: 9, Left: true, Of: func(r *m) report.Value { return report.Text(string(r.Level)) }},
		{Name: "GPUs", Doc: "GPUs of its newest job", Width: 4, Of: func(r *m) report.Value { return report.Int(r.GPUs) }},
		{Name: "Jobs", Doc: "jobs of the history", Width: 5, Of: func(r *m) report.Value { return report.Int(r.Jobs) }},
		{Name: "User", Doc: "user", Width: 9, Left: true, Of: func(r *m) report.Value { return report.Text(r.User) }},
		{Name: "Name", Doc: "name of its newest job", Width: 16, Left: true, Of: func(r *m) report.Value { return report.Text(r.Name) }},
		{Name: "Family", Doc: "the family's key", Left: true, Of: func(r *m) report.Value { return report.Text(r.Family) }},
	}
}

// hasRatio reports whether anything is known of the family's ratio.
func hasRatio(m *store.Member) bool { return m.Level != profile.LevelNone && m.Level != "" }
