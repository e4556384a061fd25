// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// overviewPage is what /  shows.
type overviewPage struct {
	Took         time.Duration
	GPUs, Used   int
	Out          int // GPUs of nodes that are out of service
	ANPR         float64
	ANPRGPUs     int
	Spark        *chart
	Pending      int
	PendingGPUs  int
	Running      int
	Oldest       time.Duration // 0: nobody waits
	Owned        int
	Warnings     []warning
	Groups       []groupRow
	Partitions   []partitionRow
	Actions      []actionRow
	Set          []setRow
	SetMore      int
	Depth        int
	LastCounters time.Duration // ago; 0: none came
	Collectors   int
}

type warning struct{ Text, Do string }

// groupRow is one group, or the jobs of which nothing is known.
type groupRow struct {
	Index            int
	Kind             string
	Ratio            float64 // seconds of computing for each of communication
	Families         int
	Running, Pending int
	GPUs             int // held
	Percent          int // of the GPUs in use
}

type partitionRow struct {
	Name             string
	GPUs, Used       int
	Running, Pending int
}

type actionRow struct {
	Action  string
	Means   string
	Jobs    int
	Percent int
}

// setRow is one job on which rifling has something set.
type setRow struct {
	ID      slurm.JobID
	Name    string
	User    string
	What    string
	Until   time.Time
	Shunned string
}

// maxSet bounds the jobs with something set that the overview lists.
const maxSet = 12

func (s *Server) overview(q *request) error {
	if q.view == nil {
		return q.render("overview", "Overview", nil)
	}
	v, x := q.view, q.view.sorted()
	p := &overviewPage{
		Took: v.Took, GPUs: x.gpus, Used: x.used, ANPR: v.ANPR, ANPRGPUs: v.ANPRGPUs,
		Pending: len(x.pending), PendingGPUs: x.pendingGPUs, Running: len(x.running), Depth: s.o.Depth,
	}
	for _, l := range x.leaves {
		for _, n := range l.nodes {
			if !n.Usable() {
				p.Out += n.GPUs
			}
		}
	}
	if !x.oldest.IsZero() {
		p.Oldest = max(time.Second, v.Snapshot.TakenAt.Sub(x.oldest))
	}
	p.Groups, p.Partitions, p.Actions = v.groupRows(), v.partitionRows(), v.actionRows()
	p.Set, p.Owned = v.setRows()
	p.SetMore = p.Owned - len(p.Set)
	st, err := s.o.History.Status(q.Context())
	if err != nil {
		return err
	}
	if !st.LastSample.IsZero() {
		p.LastCounters = max(time.Second, q.slurmNow().Sub(st.LastSample))
	}
	p.Collectors = st.Collectors
	p.Warnings = s.warnings(v, st, p)
	if p.Spark, err = s.spark(q.Context(), v.Snapshot.TakenAt); err != nil {
		return err
	}
	return q.render("overview", "Overview", p)
}

// warnings says what an admin should look at, the worst first.
func (s *Server) warnings(v *View, st *store.Status, p *overviewPage) []warning {
	var out []warning
	add := func(do, format string, args ...any) { out = append(out, warning{fmt.Sprintf(format, args...), do}) }
	if p.GPUs == 0 {
		add("Check manage.partitions and scontrol show node.", "No node with GPUs is usable in the managed partitions.")
	}
	failed, unknown := 0, 0
	for _, c := range st.Problems {
		if c.Outcome == policy.Failed {
			failed++
		} else {
			unknown++
		}
	}
	more := ""
	if len(st.Problems) >= 10 {
		more = " or more"
	}
	if failed > 0 {
		add("Decisions lists them with Slurm's answers.", "%s%s failed within the last day.", plural(failed, "change of a job", "changes of jobs"), more)
	}
	if unknown > 0 {
		add("riflingd ended before it knew; the jobs are read again each cycle.", "Of %s the end is not known.", plural(unknown, "change", "changes"))
	}
	for _, why := range slices.Sorted(maps.Keys(v.Snapshot.Odd)) {
		add("The jobs or nodes are left alone. Please report the reason with the Slurm release.",
			"%s of Slurm could not be read: %s.", plural(v.Snapshot.Odd[why], "record", "records"), why)
	}
	for _, why := range slices.Sorted(maps.Keys(v.Rejected)) {
		add("Run rifling-collector check on the node.", "%s refused: %s.", plural(v.Rejected[why], "counter sample was", "counter samples were"), why)
	}
	if v.PutOff > 0 {
		add("If it stays so, raise limits.max-changes or lower limits.depth.", "%s left to a later cycle.", plural(v.PutOff, "change is", "changes are"))
	}
	if v.Mode == "observe" && p.Owned > 0 {
		add("They are being taken back; rifling release does it at once.", "%s something set though the mode is observe.", plural(p.Owned, "job has", "jobs have"))
	}
	if p.Running > 0 && (p.LastCounters == 0 || p.LastCounters > time.Hour) {
		add("Jobs cannot be told apart without them: rifling-collector check on a node.", "GPUs are in use and no counters arrive.")
	}
	return out
}

func (v *View) groupRows() []groupRow {
	x := v.sorted()
	at := map[int]*groupRow{}
	rows := make([]groupRow, 0, len(v.Groups)+1)
	for _, g := range v.Groups {
		rows = append(rows, groupRow{Index: g.Index, Ratio: math.Exp(g.Center), Families: g.Members})
	}
	slices.SortFunc(rows, func(a, b groupRow) int { return cmp.Compare(a.Ratio, b.Ratio) })
	rows = append(rows, groupRow{Index: profile.GroupUnknown, Kind: "nothing known yet"})
	for i := range rows {
		at[rows[i].Index] = &rows[i]
	}
	used := 0
	count := func(jobs []*slurm.Job, add func(*groupRow, *slurm.Job)) {
		for _, j := range jobs {
			p := v.Profiles[j.ID]
			r := at[v.group(j.ID)]
			if r == nil {
				r = at[profile.GroupUnknown]
			}
			switch {
			case p.CommBound && r.Index >= 0:
				r.Kind = "communication-bound"
			case p.ComputeBound && r.Index >= 0:
				r.Kind = "compute-bound"
			}
			add(r, j)
		}
	}
	count(x.running, func(r *groupRow, j *slurm.Job) {
		r.Running, r.GPUs, used = r.Running+1, r.GPUs+j.Total(), used+j.Total()
	})
	count(x.pending, func(r *groupRow, _ *slurm.Job) { r.Pending++ })
	for i := range rows {
		rows[i].Percent = percent(rows[i].GPUs, used)
		rows[i].Kind = cmp.Or(rows[i].Kind, "between the two")
	}
	return rows
}

func (v *View) partitionRows() []partitionRow {
	x := v.sorted()
	nodes := map[string]*slurm.Node{}
	for i := range v.Snapshot.Nodes {
		nodes[v.Snapshot.Nodes[i].Name] = &v.Snapshot.Nodes[i]
	}
	var out []partitionRow
	for _, name := range x.partitions {
		r := partitionRow{Name: name}
		for _, n := range v.Snapshot.Partition(name).Nodes {
			if node := nodes[n]; node != nil && node.Usable() {
				r.GPUs, r.Used = r.GPUs+node.GPUs, r.Used+node.GPUsUsed
			}
		}
		for _, j := range x.running {
			if inPartition(j, name) {
				r.Running++
			}
		}
		for _, j := range x.pending {
			if inPartition(j, name) {
				r.Pending++
			}
		}
		out = append(out, r)
	}
	return out
}

// actionMeans says what each word for a decision stands for.
var actionMeans = []struct{ action, means string }{
	{"pack", "on the fewest nodes"},
	{"leaf", "under one leaf switch"},
	{"even", "in equal parts over idle NICs"},
	{"quiet", "away from busy NICs"},
	{"place", "on nodes in an order of the policy's"},
	{"wait", "for a better place, until a deadline"},
	{"leave", "left to Slurm"},
	{"skipped", "hands off: a guard rail spoke"},
}

func (v *View) actionRows() []actionRow {
	n := map[string]int{}
	for i := range v.Plan.Decisions {
		n[v.sorted().action(v.Plan.Decisions[i].JobID)]++
	}
	var out []actionRow
	for _, a := range actionMeans {
		if k := n[a.action]; k > 0 {
			out = append(out, actionRow{a.action, a.means, k, percent(k, len(v.Plan.Decisions))})
		}
	}
	return out
}

// setRows lists the waiting jobs on which something is set, and those that are
// left alone after Slurm refused a change. What a job had set when it started
// does nothing to it any more.
func (v *View) setRows() (rows []setRow, all int) {
	for _, id := range policy.SortedIDs(v.Owners) {
		o, j := v.Owners[id], v.Snapshot.Job(id)
		what := ownerWords(&o)
		if j == nil || !j.Pending() || what == "" && o.Shunned == "" {
			continue
		}
		all++
		if len(rows) < maxSet {
			rows = append(rows, setRow{ID: id, Name: j.Name, User: j.User, What: what, Until: o.ExpiresAt, Shunned: o.Shunned})
		}
	}
	return rows, all
}

// ownerWords says what is set on a job; empty: nothing.
func ownerWords(o *policy.Owner) string {
	out := ""
	add := func(format string, args ...any) {
		if out != "" {
			out += ", "
		}
		out += fmt.Sprintf(format, args...)
	}
	if n := len(o.SetExclude) - len(o.UserExclude); n > 0 {
		add("kept from %s", plural(n, "node", "nodes"))
	}
	if o.SetRequired != nil {
		add("on exactly %s", slurm.CompressHosts(o.SetRequired))
	}
	if o.SetSiteFactor != nil && *o.SetSiteFactor != 0 {
		add("%+d points of priority", *o.SetSiteFactor)
	}
	if o.SetNice != nil && *o.SetNice != o.UserNice {
		add("nice %d", *o.SetNice)
	}
	return out
}

// spark is the rate of the last day in small.
func (s *Server) spark(ctx context.Context, now time.Time) (*chart, error) {
	points, err := s.curves.get(ctx, s.o.History, now, spans[0])
	if err != nil {
		return nil, err
	}
	return sparkline(points, func(p *store.CurvePoint) (float64, bool) { return p.ANPR, p.ANPRGPUs > 0 }), nil
}
