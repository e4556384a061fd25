// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"

	"rifling/cmd/internal/explain"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// finishedPage is jobs of the past.
type finishedPage struct {
	Rows              []pastRow
	User, Partition   string
	Group             string
	Partitions        []string
	Groups            []string
	Older, Newest     string
	Filtered          bool
	UsersInQueueNames []string
}

// pastRow is one job that is over.
type pastRow struct {
	ID     slurm.JobID
	Shown  string
	Name   string
	User   string
	State  string
	Good   bool
	GPUs   int
	Group  int
	Waited time.Duration
	Ran    time.Duration
	End    time.Time // or when it was last seen
	Rate   float64
	Rated  bool
	Action string
	Nodes  string
}

// pastPerPage is how many of them are shown at once.
const pastPerPage = 100

func (s *Server) finished(q *request) error {
	if q.view == nil {
		return q.render("finished", "Finished", nil)
	}
	get := q.URL.Query().Get
	x := q.view.sorted()
	p := &finishedPage{User: strings.TrimSpace(get("user")), Partition: get("partition"), Group: get("group"), Partitions: x.partitions, UsersInQueueNames: x.users}
	for _, g := range q.view.groupRows() {
		p.Groups = append(p.Groups, groupName(g.Index))
	}
	var f store.Filter
	if p.User != "" {
		f.Users = []string{p.User}
	}
	if p.Partition != "" {
		f.Partitions = []string{p.Partition}
	}
	if n, err := strconv.Atoi(p.Group); err == nil {
		f.Groups = []int{n}
	} else if p.Group == "?" {
		f.Groups = []int{profile.GroupUnknown}
	}
	p.Filtered = p.User != "" || p.Partition != "" || p.Group != ""
	from := readMark(get("from"))
	jobs, next, err := s.o.History.PastPage(q.Context(), f, from, pastPerPage)
	if err != nil {
		return err
	}
	for i := range jobs {
		p.Rows = append(p.Rows, newPastRow(&jobs[i]))
	}
	if next != (store.PastMark{}) {
		p.Older = q.with("from", fmt.Sprintf("%d.%d", next.Seen, next.Job))
	}
	if from != (store.PastMark{}) {
		p.Newest = q.with("from", "")
	}
	return q.render("finished", "Finished jobs", p)
}

// readMark reads a place in the past; the begin when it is none.
func readMark(text string) store.PastMark {
	seen, job, ok := strings.Cut(text, ".")
	s, err := strconv.ParseInt(seen, 10, 64)
	id, err2 := strconv.ParseUint(job, 10, 32)
	if !ok || err != nil || err2 != nil {
		return store.PastMark{}
	}
	return store.PastMark{Seen: s, Job: slurm.JobID(id)}
}

func newPastRow(j *store.Job) pastRow {
	r := pastRow{
		ID: j.ID, Shown: j.DisplayID(), Name: j.Name, User: j.User, State: j.State.String(), Good: j.State.Base == "COMPLETED",
		GPUs: j.GPUs, Group: j.Profile.Group, Waited: j.Wait(), Ran: j.Elapsed(), End: j.End,
		Rate: j.Profile.NPR, Rated: j.Profile.NPRCount > 0, Action: store.ActionName(j.Decision), Nodes: slurm.CompressHosts(j.Nodes),
	}
	if j.End.IsZero() {
		r.End, r.State = j.LastSeen, "last seen "+r.State
	}
	return r
}

// jobPage is one job: a few facts, then what `rifling explain` says.
type jobPage struct {
	Shown, Name, User string
	Facts             []fact
	Group             int
	Answer            *explain.Answer
	Raw               slurm.JobID
}

type fact struct{ Name, Value string }

func (s *Server) job(q *request) error {
	id, err := strconv.ParseUint(q.PathValue("id"), 10, 32)
	if err != nil {
		return slurm.WithHint(fmt.Errorf("%q is no job id: %w", q.PathValue("id"), errNotFound), "use the raw id, such as 4711")
	}
	story, err := s.o.History.Story(q.Context(), slurm.JobID(id))
	if err != nil {
		return err
	}
	answer := explain.Of(story, explain.Options{Now: q.now.In(s.o.Zone), Interval: s.o.Interval, Depth: s.o.Depth})
	j := &story.Job
	p := &jobPage{Raw: j.ID, Shown: j.DisplayID(), Name: j.Name, User: j.User, Group: j.Profile.Group, Answer: answer}
	p.facts(j)
	return q.render("job", "Job "+p.Shown, p)
}

// facts are the job in a few words, as it was last seen.
func (p *jobPage) facts(j *store.Job) {
	add := func(name, value string) { p.Facts = append(p.Facts, fact{name, value}) }
	add("State", j.State.String())
	add("User", j.User)
	add("GPUs", number(j.GPUs))
	if j.Known() {
		add("Ratio", strconv.FormatFloat(math.Exp(j.Profile.LogCC), 'f', 2, 64))
	}
	if j.Profile.NPRCount > 0 {
		add("Rate", strconv.FormatFloat(j.Profile.NPR, 'f', 2, 64))
	}
	add("Waited", about(j.Wait()))
	if !j.Start.IsZero() {
		add("Ran", about(j.Elapsed()))
		add("Nodes", slurm.CompressHosts(j.Nodes))
	} else if j.Pending() {
		add("Slurm says", cmp.Or(j.Reason, "None"))
		add("rifling says", store.ActionName(j.Decision))
	}
}
