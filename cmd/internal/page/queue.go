// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/cmd/internal/wording"
	"rifling/slurm"
)

// jobsPerPage is how many jobs a list shows at once.
const jobsPerPage = 100

// queuePage is the jobs that wait or run, filtered, sorted and cut.
type queuePage struct {
	Running            bool // else those that wait
	Waiting, Started   int  // of all, for the tabs
	WaitURL, RunURL    string
	Filter             queueFilter
	Users, Partitions  []string
	Groups, Actions    []string
	Reasons            []string
	Columns            []column
	Rows               []jobRow
	Pager              pager
	Shown              int // after the filter
	Clear              string
	Filtered           bool
	Hidden             url.Values
	PendingGPUs, Depth int
}

type queueFilter struct{ User, Partition, Group, Action, Reason string }

// column is a heading that may sort.
type column struct {
	Name, Class, URL string
	Sorted           string // "ascending", "descending" or ""
}

// jobRow is one line of the queue.
type jobRow struct {
	Rank      int // in the queue by priority; 0: it runs
	ID        slurm.JobID
	Shown     string // the id as users know it
	Name      string
	User      string
	Partition string
	GPUs      int
	Group     int
	Since     time.Duration // it waits or runs
	Priority  int64
	Reason    string // Slurm's
	Says      string // in words
	Action    string
	Why       string
	Set       bool
	Nodes     string
	NPR       float64
	HasNPR    bool
}

// pager is where a page stands in a list.
type pager struct {
	Label              string
	Page, Pages        int
	First, Last, Total int
	Prev, Next         string
}

// pager reads the page that is asked for and returns its bounds in a list of
// total items. A page beyond the end is the last one.
func (q *request) pager(label string, total, per int) (p pager, from, to int) {
	p = pager{Label: label, Total: total, Pages: max(1, (total+per-1)/per)}
	p.Page, _ = strconv.Atoi(q.URL.Query().Get("page")) // 0, and so the first, when it is no number
	p.Page = min(max(1, p.Page), p.Pages)
	from = (p.Page - 1) * per
	to = min(total, from+per)
	p.First, p.Last = from+1, to
	if p.Page > 1 {
		p.Prev = q.with("page", strconv.Itoa(p.Page-1))
	}
	if p.Page < p.Pages {
		p.Next = q.with("page", strconv.Itoa(p.Page+1))
	}
	return p, from, to
}

// orders are the ways to sort jobs; the first is the queue's own.
var orders = []struct {
	key, name, class string
	up               bool // ascending
	compare          func(a, b *slurm.Job) int
}{
	{"user", "User", "", true, func(a, b *slurm.Job) int { return strings.Compare(a.User, b.User) }},
	{"gpus", "GPUs", "n", false, func(a, b *slurm.Job) int { return cmp.Compare(b.Total(), a.Total()) }},
	{"wait", "", "n", false, func(a, b *slurm.Job) int { return since(a).Compare(since(b)) }},
	{"run", "", "n", false, func(a, b *slurm.Job) int { return a.StartTime.Compare(b.StartTime) }},
}

func (s *Server) queue(q *request) error {
	if q.view == nil {
		return q.render("queue", "Queue", nil)
	}
	v, x := q.view, q.view.sorted()
	get := q.URL.Query().Get
	p := &queuePage{
		Running: get("state") == "running", Waiting: len(x.pending), Started: len(x.running),
		Filter: queueFilter{User: strings.TrimSpace(get("user")), Partition: get("partition"), Group: get("group"), Action: get("action"), Reason: get("reason")},
		Users:  x.users, Partitions: x.partitions, Reasons: x.reasons, PendingGPUs: x.pendingGPUs, Depth: s.o.Depth,
		WaitURL: q.with("state", ""), RunURL: q.with("state", "running"), Clear: s.o.BasePath + "/queue",
	}
	jobs := x.pending
	if p.Running {
		jobs, p.Clear = x.running, p.Clear+"?state=running"
	}
	for _, g := range v.groupRows() {
		p.Groups = append(p.Groups, groupName(g.Index))
	}
	for _, a := range actionMeans {
		p.Actions = append(p.Actions, a.action)
	}
	p.Actions = append(p.Actions, "none")
	ranks := make(map[slurm.JobID]int, len(x.pending))
	for i, j := range x.pending {
		ranks[j.ID] = i + 1
	}
	kept := make([]*slurm.Job, 0, len(jobs))
	for _, j := range jobs {
		if v.passes(j, p.Filter, p.Running) {
			kept = append(kept, j)
		}
	}
	sort := get("sort")
	for _, o := range orders {
		if o.key == sort {
			slices.SortStableFunc(kept, o.compare)
		}
	}
	p.Shown, p.Filtered = len(kept), p.Filter != queueFilter{}
	var from, to int
	p.Pager, from, to = q.pager("Pages of jobs", len(kept), jobsPerPage)
	for _, j := range kept[from:to] {
		r := v.jobRow(j)
		r.Rank = ranks[j.ID]
		p.Rows = append(p.Rows, r)
	}
	p.Columns = q.columns(p.Running, sort)
	return q.render("queue", "Queue", p)
}

// columns are the headings of the queue's table.
func (q *request) columns(running bool, sort string) []column {
	head := func(name, class, key, direction string) column {
		c := column{Name: name, Class: class}
		if key == "" {
			return c
		}
		if sort == key {
			c.Sorted = direction
		}
		c.URL = q.with("sort", key)
		if key == "priority" {
			c.URL = q.with("sort", "")
			if sort == "" {
				c.Sorted = direction
			}
		}
		return c
	}
	if running {
		return []column{
			head("Job", "", "", ""), head("Name", "", "", ""), head("User", "", "user", "ascending"), head("Partition", "w", "", ""),
			head("GPUs", "n", "gpus", "descending"), head("Group", "", "", ""), head("Running for", "n", "run", "descending"),
			head("Rate", "n", "", ""), head("Nodes", "", "", ""),
		}
	}
	return []column{
		head("Rank", "n w", "priority", "ascending"), head("Job", "", "", ""), head("Name", "", "", ""), head("User", "", "user", "ascending"),
		head("Partition", "w", "", ""), head("GPUs", "n", "gpus", "descending"), head("Group", "", "", ""),
		head("Waiting", "n", "wait", "descending"), head("Priority", "n w", "", ""), head("Slurm says", "", "", ""), head("rifling says", "", "", ""),
	}
}

// inPartition reports whether the job names the partition.
func inPartition(j *slurm.Job, name string) bool {
	for p := range strings.SplitSeq(j.Partition, ",") {
		if p == name {
			return true
		}
	}
	return false
}

func (v *View) passes(j *slurm.Job, f queueFilter, running bool) bool {
	return (f.User == "" || j.User == f.User) &&
		(f.Partition == "" || inPartition(j, f.Partition)) &&
		(f.Group == "" || groupName(v.group(j.ID)) == f.Group) &&
		(running || f.Action == "" || v.sorted().action(j.ID) == f.Action) &&
		(running || f.Reason == "" || cmp.Or(j.Reason, "None") == f.Reason)
}

func (v *View) jobRow(j *slurm.Job) jobRow {
	pr := v.Profiles[j.ID]
	r := jobRow{
		ID: j.ID, Shown: displayID(j), Name: j.Name, User: j.User, Partition: j.Partition, GPUs: j.Total(), Group: v.group(j.ID),
		Priority: j.Priority, Reason: cmp.Or(j.Reason, "None"), Action: v.sorted().action(j.ID),
		NPR: pr.NPR, HasNPR: pr.NPRCount > 0,
	}
	if j.Running() {
		r.Since, r.Nodes = max(0, v.Snapshot.TakenAt.Sub(j.StartTime)), slurm.CompressHosts(j.Nodes)
		return r
	}
	r.Since = max(0, v.Snapshot.TakenAt.Sub(since(j)))
	r.Says = strings.TrimPrefix(strings.TrimPrefix(wording.Reason(j.Reason), "Slurm says "), r.Reason+": ")
	if r.Says == r.Reason {
		r.Says = ""
	}
	if d := v.sorted().decisions[j.ID]; d != nil {
		r.Why = cmp.Or(d.Skipped, d.Reason)
	}
	o, owned := v.Owners[j.ID]
	r.Set = owned && ownerWords(&o) != ""
	return r
}

// displayID is the id as squeue shows it.
func displayID(j *slurm.Job) string {
	switch {
	case j.ArrayJobID == 0:
		return fmt.Sprint(j.ID)
	case j.ArrayTaskID >= 0 && j.ArrayTaskString == "":
		return fmt.Sprintf("%d_%d", j.ArrayJobID, j.ArrayTaskID)
	}
	return fmt.Sprintf("%d_[%s]", j.ArrayJobID, j.ArrayTaskString)
}
