// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"rifling/collector"
	"rifling/slurm"
)

// table is what one slot says of the nodes on which Slurm has jobs.
type table struct {
	opts  Options
	left  Left
	jobs  map[slurm.JobID]*slurm.Job
	nodes map[string]*node
	ours  int // series of those nodes
}

// node is one node with jobs.
type node struct {
	name  string
	jobs  []*slurm.Job // by id
	gpus  map[string]*gpu
	ports map[string]*port
}

// gpu is one GPU. job is by its label, 0 without one.
type gpu struct {
	id    string
	job   slurm.JobID
	mixed bool             // several jobs are named
	gaps  map[Meaning]bool // has values, and none of use in this slot
	m     map[Meaning]cell
}

// cell is one value of a GPU, and whether its series named a job.
type cell struct {
	v     float64
	named bool
}

type port struct {
	m     map[Meaning]float64
	gap   bool
	moved bool // it has carried anything since its counters began
}

func newTable(o Options, jobs []slurm.Job, left Left) *table {
	t := &table{opts: o, left: left, jobs: map[slurm.JobID]*slurm.Job{}, nodes: map[string]*node{}}
	for i := range jobs {
		j := &jobs[i]
		if !j.Running() || !j.WantsGPU() {
			continue
		}
		t.jobs[j.ID] = j
		for _, name := range j.Nodes {
			n := t.nodes[name]
			if n == nil {
				n = &node{name: name, gpus: map[string]*gpu{}, ports: map[string]*port{}}
				t.nodes[name] = n
			}
			n.jobs = append(n.jobs, j)
		}
	}
	for _, n := range t.nodes {
		slices.SortFunc(n.jobs, func(a, b *slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	}
	return t
}

// put takes one series in. Those of other nodes are none of ours: a site's
// Prometheus knows more than its GPU nodes.
func (t *table) put(m Metric, v value) {
	label := first(v.labels, t.opts.Labels.Node)
	n := t.nodes[label]
	if n == nil {
		n = t.nodes[host(label)]
	}
	if n == nil {
		return
	}
	t.ours++
	if m.Means.ofPort() {
		t.putPort(n, m, v)
	} else {
		t.putGPU(n, m, v)
	}
}

func (t *table) putGPU(n *node, m Metric, v value) {
	id := first(v.labels, t.opts.Labels.GPU)
	if id == "" {
		t.left.add("series without a GPU's label", m.Name)
		return
	}
	g := n.gpus[id]
	if g == nil {
		g = &gpu{id: id, m: map[Meaning]cell{}, gaps: map[Meaning]bool{}}
		n.gpus[id] = g
	}
	if v.state != good {
		g.gaps[m.Means] = true
		return
	}
	job, named := t.label(n, first(v.labels, t.opts.Labels.Job))
	if named {
		g.mixed = g.mixed || g.job != 0 && g.job != job
		g.job = job
	}
	old, seen := g.m[m.Means]
	switch {
	case seen && old.named == named:
		t.left.add("second series of a GPU", m.Name)
	case !seen || named:
		g.m[m.Means] = cell{v.v, named}
	}
}

// gap tells whether a metric that is read of the GPU has no value in this slot.
// A series whose job has ended, or whose GPU was idle before, is not missed.
func (g *gpu) gap() bool {
	for m := range g.gaps {
		if _, ok := g.m[m]; !ok {
			return true
		}
	}
	return false
}

// label reads a job's label. One that names no job of this node says that the
// mapping is behind, or is not of this cluster.
func (t *table) label(n *node, text string) (slurm.JobID, bool) {
	if text == "" || text == "0" {
		return 0, false
	}
	ref, err := slurm.ParseJobID(text)
	if err != nil {
		t.left.add("a job's label that is no job id", "")
		return 0, false
	}
	for _, j := range n.jobs {
		if j.ID == ref.Job && (ref.Task < 0 || j.ArrayTaskID == ref.Task) ||
			ref.Task >= 0 && j.ArrayJobID == ref.Job && j.ArrayTaskID == ref.Task {
			return j.ID, true
		}
	}
	return 0, true
}

func (t *table) putPort(n *node, m Metric, v value) {
	var names []string
	for _, l := range t.opts.Labels.Port {
		names = append(names, first(v.labels, []string{l}))
	}
	key := strings.Join(names, "/")
	p := n.ports[key]
	if p == nil {
		p = &port{m: map[Meaning]float64{}}
		n.ports[key] = p
	}
	if v.state != good {
		p.gap = p.gap || m.Kind == Counter
		return
	}
	if _, seen := p.m[m.Means]; seen {
		t.left.add("second series of a port", m.Name)
		return
	}
	p.m[m.Means] = v.v
	p.moved = p.moved || v.moved && m.Means != NetSpeed
}

// samples makes a sample of each job on each node, by node and job.
func (t *table) samples() []collector.Sample {
	var out []collector.Sample
	for _, name := range slices.Sorted(maps.Keys(t.nodes)) {
		n := t.nodes[name]
		var here []collector.Sample
		byJob := t.share(n)
		for _, j := range n.jobs {
			if gpus := byJob[j.ID]; len(gpus) > 0 {
				if s, ok := t.sample(n, j, gpus); ok {
					here = append(here, s)
				}
			}
		}
		t.network(n, here)
		out = append(out, here...)
	}
	return out
}

// share tells whose GPUs are whose: by the job's label, and where there is
// none, on a node with one job, that job's.
func (t *table) share(n *node) map[slurm.JobID][]*gpu {
	out := map[slurm.JobID][]*gpu{}
	var loose []*gpu
	labelled := false
	for _, id := range slices.Sorted(maps.Keys(n.gpus)) {
		g := n.gpus[id]
		switch {
		case g.mixed:
			t.left.add("GPU of several jobs", "")
			labelled = true
		case g.job != 0:
			out[g.job] = append(out[g.job], g)
			labelled = true
		case !named(g):
			loose = append(loose, g)
		default:
			t.left.add("GPU of a job that Slurm does not have there", "")
		}
	}
	if labelled || len(loose) == 0 {
		return out // GPUs without a job are idle, where others have their jobs' labels
	}
	if len(n.jobs) > 1 {
		t.left.add("node with several jobs and no job's label", "")
		return out
	}
	out[n.jobs[0].ID] = busiest(loose, n.jobs[0].NodeGPUs[n.name], t.opts)
	return out
}

func named(g *gpu) bool {
	for _, c := range g.m {
		if c.named {
			return true
		}
	}
	return false
}

// busiest returns the job's number of GPUs. Slurm's record says how many it
// has and not which; the others of its node are idle. 0 means not known.
func busiest(gpus []*gpu, count int, o Options) []*gpu {
	if count <= 0 || count >= len(gpus) {
		return gpus
	}
	activity := func(g *gpu) float64 { a, _ := g.activity(o); return a }
	out := slices.Clone(gpus)
	slices.SortStableFunc(out, func(a, b *gpu) int { return cmp.Compare(activity(b), activity(a)) })
	return out[:count]
}
