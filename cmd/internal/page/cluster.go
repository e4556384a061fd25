// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"fmt"
	"html/template"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/profile"
	"rifling/report"
	"rifling/slurm"
)

// clusterPage is the map of nodes and GPUs, or the same as a table.
type clusterPage struct {
	Partition  string
	Partitions []string
	AsTable    bool
	Other      string // link to the other form
	Legend     []legendItem
	Leaves     []leafRow
	Nodes      []nodeRow // of the table's page
	Pager      pager
	Free, GPUs int
}

type legendItem struct {
	Class, Mark, Text string
}

type leafRow struct {
	Name       string
	ID         string
	Free, GPUs int
	Nodes      []nodeRow
	Map        template.HTML
}

// drawMap writes the nodes' list items. A template takes ten times as long
// for them, and a map has thousands of cells.
func (s *Server) drawMap(rows []nodeRow) template.HTML {
	var b strings.Builder
	for i := range rows {
		r := &rows[i]
		b.WriteString("<li")
		if !r.Usable {
			b.WriteString(` class="down"`)
		}
		fmt.Fprintf(&b, `><a href="%s">%s</a><span class="vh"> %s</span><span class="gpus" aria-hidden="true">`,
			template.HTMLEscapeString(s.o.BasePath+"/nodes/"+url.PathEscape(r.Name)), template.HTMLEscapeString(report.Clean(r.Name)), template.HTMLEscapeString(r.Words))
		for _, c := range r.Cells {
			b.WriteString(`<i class="` + c.Class) // one of ours, as its mark
			if c.Span > 1 {
				b.WriteString(" s" + strconv.Itoa(c.Span))
			}
			b.WriteString(`">` + c.Mark + "</i>")
		}
		b.WriteString("</span></li>")
	}
	return template.HTML(b.String()) //nolint:gosec // all text of others is escaped above
}

// nodeRow is one node: its GPUs as the map draws them and in words.
type nodeRow struct {
	Name, State, Leaf string
	GPUs, Used        int
	Usable            bool
	Cells             []cell
	Words             string
	Jobs              []slurm.JobID
	JobsMore          int
}

// cell is a run of neighbouring GPUs of a node that one job holds, or that are
// free. Slurm tells how many GPUs of a node a job has, not which, so that the
// order in a node means nothing.
type cell struct {
	Class string // colour
	Span  int    // GPUs, at most rowGPUs
	Mark  string // what tells it without colours
}

// rowGPUs is how many GPUs the map draws side by side.
const rowGPUs = 8

// nodesPerPage is how many nodes the table shows at once.
const nodesPerPage = 100

func (s *Server) cluster(q *request) error {
	if q.view == nil {
		return q.render("cluster", "Cluster", nil)
	}
	v, x := q.view, q.view.sorted()
	params := q.URL.Query()
	p := &clusterPage{
		Partition: params.Get("partition"), Partitions: x.partitions, AsTable: params.Get("view") == "table", Legend: v.legend(),
	}
	p.Other = q.with("view", "table")
	if p.AsTable {
		p.Other = q.with("view", "")
	}
	in := func(*slurm.Node) bool { return true }
	if part := v.Snapshot.Partition(p.Partition); part != nil {
		names := map[string]bool{}
		for _, n := range part.Nodes {
			names[n] = true
		}
		in = func(n *slurm.Node) bool { return names[n.Name] }
	} else if p.Partition != "" {
		in = func(*slurm.Node) bool { return false }
	}
	var all []nodeRow
	for i, l := range x.leaves {
		row := leafRow{Name: l.name, ID: fmt.Sprintf("leaf%d", i)}
		for _, n := range l.nodes {
			if !in(n) {
				continue
			}
			row.GPUs, row.Free = row.GPUs+n.GPUs, row.Free+n.FreeGPUs()
			row.Nodes = append(row.Nodes, v.nodeRow(n))
		}
		if len(row.Nodes) == 0 {
			continue
		}
		if !p.AsTable {
			row.Map = s.drawMap(row.Nodes)
		}
		p.Leaves = append(p.Leaves, row)
		p.GPUs, p.Free = p.GPUs+row.GPUs, p.Free+row.Free
		all = append(all, row.Nodes...)
	}
	if p.AsTable {
		var from, to int
		p.Pager, from, to = q.pager("Pages of nodes", len(all), nodesPerPage)
		p.Nodes = all[from:to]
	}
	return q.render("cluster", "Cluster", p)
}

// legend names the colours that the map may show.
func (v *View) legend() []legendItem {
	var out []legendItem
	for _, g := range v.groupRows() {
		text := fmt.Sprintf("group %d, %s (%.2f)", g.Index, g.Kind, g.Ratio)
		if g.Index == profile.GroupUnknown {
			text = "group not known"
		}
		out = append(out, legendItem{groupClass(g.Index), groupName(g.Index), text})
	}
	return append(out, legendItem{"free", "", "free"}, legendItem{"other", "+", "in use, by whom is not told"}, legendItem{"out", "×", "out of service"})
}

// maxNodeJobs bounds the jobs that a row of the table names.
const maxNodeJobs = 6

func (v *View) nodeRow(n *slurm.Node) nodeRow {
	r := nodeRow{Name: n.Name, State: n.State.String(), Leaf: n.Leaf, GPUs: n.GPUs, Used: n.GPUsUsed, Usable: n.Usable()}
	var words []string
	column, told := 0, 0
	put := func(class, mark string, gpus int) {
		for gpus > 0 {
			part := min(gpus, rowGPUs-column)
			r.Cells = append(r.Cells, cell{class, part, mark})
			column, gpus = (column+part)%rowGPUs, gpus-part
		}
	}
	byGroup := map[int]int{}
	for _, s := range v.sorted().onNode[n.Name] {
		g := v.group(s.job.ID)
		gpus := min(s.gpus, n.GPUs-told)
		put(groupClass(g), groupName(g), gpus)
		byGroup[g] += gpus
		told += gpus
		if len(r.Jobs) < maxNodeJobs {
			r.Jobs = append(r.Jobs, s.job.ID)
		} else {
			r.JobsMore++
		}
	}
	for _, g := range sortedGroups(byGroup) {
		name := "group not known"
		if g != profile.GroupUnknown {
			name = fmt.Sprintf("group %d", g)
		}
		words = append(words, fmt.Sprintf("%d of %s", byGroup[g], name))
	}
	if other := min(n.GPUsUsed, n.GPUs) - told; other > 0 {
		put("other", "+", other)
		words = append(words, fmt.Sprintf("%d in use", other))
		told += other
	}
	switch rest := n.GPUs - told; {
	case rest <= 0:
	case r.Usable:
		put("free", "", rest)
		words = append(words, fmt.Sprintf("%d free", rest))
	default:
		put("out", "×", rest)
		words = append(words, fmt.Sprintf("%d out of service", rest))
	}
	r.Words = plural(n.GPUs, "GPU", "GPUs") + ": " + strings.Join(words, ", ")
	return r
}

func sortedGroups(m map[int]int) []int {
	var out []int
	for g := range m {
		out = append(out, g)
	}
	// Those of unknown group last.
	slices.SortFunc(out, func(a, b int) int { return cmp.Or(cmp.Compare(b2i(a < 0), b2i(b < 0)), cmp.Compare(a, b)) })
	return out
}

func b2i(b bool) int {
	if b {
		return 1
	}
	return 0
}

// nodePage is one node with its jobs.
type nodePage struct {
	nodeRow
	Type       string
	CPUs, CPUu int
	Mem, MemU  int64 // GiB
	Reason     string
	Partitions []string
	Features   []string
	On         []nodeJob
}

type nodeJob struct {
	ID                  slurm.JobID
	Name, User          string
	Here, All, NodesAll int
	Group               int
	Ran                 time.Duration
	NPR                 float64
	HasNPR              bool
}

func (s *Server) node(q *request) error {
	if q.view == nil {
		return q.render("node", "Node", nil)
	}
	v := q.view
	n := v.Snapshot.Node(q.PathValue("name"))
	if n == nil {
		return slurm.WithHint(fmt.Errorf("slurm has no node %q: %w", q.PathValue("name"), errNotFound), "the map lists all nodes with GPUs")
	}
	p := &nodePage{
		nodeRow: v.nodeRow(n), Type: n.GPUType, CPUs: n.CPUs, CPUu: n.CPUsUsed, Mem: n.MemoryMB >> 10, MemU: n.MemUsedMB >> 10,
		Reason: n.Reason, Features: n.Features,
	}
	for _, part := range v.Snapshot.Partitions {
		if slices.Contains(part.Nodes, n.Name) {
			p.Partitions = append(p.Partitions, part.Name)
		}
	}
	for _, sh := range v.sorted().onNode[n.Name] {
		j := sh.job
		pr := v.Profiles[j.ID]
		p.On = append(p.On, nodeJob{
			ID: j.ID, Name: j.Name, User: j.User, Here: sh.gpus, All: j.Total(), NodesAll: len(j.Nodes), Group: v.group(j.ID),
			Ran: v.Snapshot.TakenAt.Sub(j.StartTime), NPR: pr.NPR, HasNPR: pr.NPRCount > 0,
		})
	}
	return q.render("node", "Node "+n.Name, p)
}
