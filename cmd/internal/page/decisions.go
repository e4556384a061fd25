// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"slices"
	"strconv"
	"time"

	"rifling/cmd/internal/wording"
	"rifling/policy"
	"rifling/slurm"
)

// decisionsPage is what stands now and what was written to Slurm lately.
type decisionsPage struct {
	Rows     []decisionRow
	Pager    pager
	Skipped  int
	Changes  []changeRow
	Outcome  string
	Outcomes []choiceLink
	Older    string // link
	Newest   string // link, when these are not the newest
}

type choiceLink struct {
	Name, URL string
	Here      bool
}

// decisionRow is one standing decision.
type decisionRow struct {
	ID         slurm.JobID
	Shown      string
	User       string
	GPUs       int
	Group      int
	Action     string
	Explored   bool
	Why        string
	Nodes      string // that it may use; empty: all
	Offset     int64
	Until      time.Time
	Value      float64
	Considered int
	Set        bool
}

// changeRow is one write.
type changeRow struct {
	At      time.Time
	ID      slurm.JobID
	User    string
	Kind    string
	What    string
	Outcome string
	Why     string
}

// changesPerPage is how many changes are shown at once.
const changesPerPage = 50

func (s *Server) decisions(q *request) error {
	if q.view == nil {
		return q.render("decisions", "Decisions", nil)
	}
	p := &decisionsPage{Outcome: q.URL.Query().Get("outcome")}
	q.standing(p)
	if err := q.changes(p); err != nil {
		return err
	}
	return q.render("decisions", "Decisions", p)
}

// standing fills in the decisions of the last cycle, those that do something
// first.
func (q *request) standing(p *decisionsPage) {
	v, x := q.view, q.view.sorted()
	list := make([]*policy.Decision, 0, len(v.Plan.Decisions))
	for i := range v.Plan.Decisions {
		d := &v.Plan.Decisions[i]
		list = append(list, d)
		if d.Skipped != "" {
			p.Skipped++
		}
	}
	slices.SortStableFunc(list, func(a, b *policy.Decision) int { return cmp.Compare(b2i(a.Skipped != ""), b2i(b.Skipped != "")) })
	var from, to int
	p.Pager, from, to = q.pager("Pages of decisions", len(list), jobsPerPage)
	for _, d := range list[from:to] {
		r := decisionRow{
			ID: d.JobID, Group: v.group(d.JobID), Action: x.action(d.JobID), Explored: d.Explored, Why: cmp.Or(d.Skipped, d.Reason),
			Offset: d.Offset, Until: d.Deadline, Value: d.Value, Considered: len(d.Considered),
		}
		if d.Candidates != nil {
			r.Nodes = slurm.CompressHosts(d.Candidates)
		}
		if j := v.Snapshot.Job(d.JobID); j != nil {
			r.Shown, r.User, r.GPUs = displayID(j), j.User, j.Total()
		}
		o, owned := v.Owners[d.JobID]
		r.Set = owned && ownerWords(&o) != ""
		p.Rows = append(p.Rows, r)
	}
}

// changes fills in what was written to Slurm.
func (q *request) changes(p *decisionsPage) error {
	before, _ := strconv.ParseInt(q.URL.Query().Get("before"), 10, 64) // 0, the newest, when it is no number
	for _, o := range []struct{ key, name string }{{"", "all"}, {"applied", "applied"}, {"skipped", "skipped"}, {"failed", "failed"}} {
		p.Outcomes = append(p.Outcomes, choiceLink{o.name, q.without("before", "outcome", o.key) + "#changes", o.key == p.Outcome})
	}
	list, more, err := q.s.o.History.ChangesPage(q.Context(), policy.Outcome(p.Outcome), max(0, before), changesPerPage)
	if err != nil {
		return err
	}
	for _, c := range list {
		p.Changes = append(p.Changes, changeRow{
			At: c.At, ID: c.JobID, User: c.User, Kind: string(c.Kind), What: wording.Update(c.Update),
			Outcome: cmp.Or(string(c.Outcome), "not known"), Why: cmp.Or(c.Detail, c.Why),
		})
	}
	if more {
		p.Older = q.with("before", strconv.FormatInt(list[len(list)-1].Number, 10)) + "#changes"
	}
	if before > 0 {
		p.Newest = q.with("before", "") + "#changes"
	}
	return nil
}

// without returns the link to this page with one parameter taken away and
// another changed.
func (q *request) without(gone, key, value string) string {
	r2 := *q.Request
	u := *q.URL
	values := u.Query()
	values.Del(gone)
	u.RawQuery = values.Encode()
	r2.URL = &u
	return (&request{Request: &r2, s: q.s}).with(key, value)
}
