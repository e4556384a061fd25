// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"time"

	"rifling/sim"
	"rifling/sim/trace"
	"rifling/slurm"
)

// History turns a site's accounting into work for a simulation. Add each run
// that ended after Begin, then call Build.
type History struct {
	Since, Until time.Time // the window of submit times that is judged
	// Begin is when the simulation begins, before Since: so that there is a
	// queue, and usage for the fair share, when the window begins.
	Begin time.Time

	jobs []PastRun
	// Left counts the runs that are no work, by why.
	Left map[string]int
}

// PastRun is one run and what really became of it.
type PastRun struct {
	slurm.PastJob
	// Ready is when it could have started: its submit or eligible time.
	Ready time.Time
	// Judged ones were submitted in the window, the others before it.
	Judged bool
}

// RealWait is the queueing delay that the run really had.
func (p *PastRun) RealWait() time.Duration { return p.Start.Sub(p.Ready) }

// RealJCT is the time from when the run could have started to its end.
func (p *PastRun) RealJCT() time.Duration { return p.End.Sub(p.Ready) }

// Add takes a run in, or counts why not.
func (h *History) Add(p *slurm.PastJob) {
	why := ""
	switch {
	case p.GPUs < 1:
		why = "without GPUs"
	case p.Start.IsZero() || p.Elapsed <= 0:
		why = "never started"
	case p.End.Before(p.Start) || p.Start.Before(p.Submit):
		why = "with times that cannot be right"
	case !p.Submit.Before(h.Until):
		return
	}
	if why != "" {
		if h.Left == nil {
			h.Left = map[string]int{}
		}
		h.Left[why]++
		return
	}
	r := PastRun{PastJob: *p, Ready: p.Submit}
	if p.Eligible.After(p.Submit) && !p.Eligible.After(p.Start) {
		r.Ready = p.Eligible
	}
	r.Judged = !p.Submit.Before(h.Since)
	h.jobs = append(h.jobs, r)
}

// Work is a history as simulated jobs. The id of a job is its place in Runs,
// from 1.
type Work struct {
	Jobs []sim.Job
	Runs []PastRun
	// Judged is how many of the runs the window holds.
	Judged int
}

// Build makes the jobs. What ran at Begin is submitted at its real
// start, which is then its start in any schedule; what waited then is submitted
// at Begin. The former are kept on the nodes that they had,
// where those are among nodes: what is left free beside them decides what can
// start. fixed keeps the number of nodes that each run had; accounting does not
// tell what was asked for.
func (h *History) Build(mix trace.Mix, seed uint64, fixed bool, nodes []sim.NodeSpec) (Work, error) {
	for i := range h.jobs {
		h.clip(&h.jobs[i])
	}
	slices.SortFunc(h.jobs, func(a, b PastRun) int {
		return cmp.Or(a.Ready.Compare(b.Ready), cmp.Compare(a.ID, b.ID), a.Start.Compare(b.Start))
	})
	w := Work{Runs: h.jobs}
	if len(h.jobs) == 0 {
		return w, nil
	}
	// slurmctld's intervals and rounding follow the clock: begin at a full hour.
	zero := h.jobs[0].Ready.Truncate(time.Hour)
	o := JobOptions{Seed: seed, Mix: mix}
	for i := range h.jobs {
		p := &h.jobs[i]
		if p.Judged {
			w.Judged++
		}
		t := trace.Job{ID: fmt.Sprint(p.ID), GPUs: p.GPUs, User: p.User, Name: p.Name}
		if fixed {
			t.Nodes = p.NodeCount
		}
		j := sim.Job{
			ID: slurm.JobID(i + 1), Name: p.Name, User: p.User, Account: p.Account, Partition: p.Partition,
			Submit: p.Ready.Sub(zero), Work: p.End.Sub(p.Start), Limit: p.TimeLimit, Request: o.request(&t),
		}
		if p.Unlimited {
			j.Limit = 0
		}
		if p.Start.Before(h.Begin) {
			j.Request.Exclude = allBut(nodes, p.Nodes)
		}
		if j.Limit > 0 && j.Work > j.Limit {
			// Slurm ends jobs a little after their limit.
			j.Work = j.Limit
		}
		var err error
		if j.Model, err = o.model(&t); err != nil {
			return w, err
		}
		w.Jobs = append(w.Jobs, j)
	}
	return w, nil
}

// allBut names the nodes other than these; none when one of these is not there.
func allBut(nodes []sim.NodeSpec, these []string) []string {
	var out []string
	found := 0
	for i := range nodes {
		if slices.Contains(these, nodes[i].Name) {
			found++
			continue
		}
		out = append(out, nodes[i].Name)
	}
	if found < len(these) || found == 0 {
		return nil
	}
	return out
}

// clip moves what was submitted before the beginning.
func (h *History) clip(p *PastRun) {
	switch {
	case p.Start.Before(h.Begin):
		p.Ready = p.Start
	case p.Ready.Before(h.Begin):
		p.Ready = h.Begin
	}
}

// Cluster finds the nodes with their GPUs, and the partitions with their nodes,
// from what ran where: a node has as many GPUs as were ever held there at
// once, a partition the nodes that its jobs ran on. A node that ran nothing, or
// never full, is not known.
func (h *History) Cluster() ([]sim.NodeSpec, []sim.PartitionSpec) {
	type move struct {
		at   time.Time
		gpus int
	}
	moves, parts := map[string][]move{}, map[string]map[string]bool{}
	for i := range h.jobs {
		p := &h.jobs[i]
		if len(p.Nodes) == 0 {
			continue
		}
		each := (p.GPUs + len(p.Nodes) - 1) / len(p.Nodes)
		if parts[p.Partition] == nil {
			parts[p.Partition] = map[string]bool{}
		}
		for _, n := range p.Nodes {
			moves[n] = append(moves[n], move{p.Start, each}, move{p.End, -each})
			parts[p.Partition][n] = true
		}
	}
	var nodes []sim.NodeSpec
	for _, n := range slices.Sorted(maps.Keys(moves)) {
		m := moves[n]
		// What ends at an instant frees its GPUs for what starts then.
		slices.SortFunc(m, func(a, b move) int { return cmp.Or(a.at.Compare(b.at), cmp.Compare(a.gpus, b.gpus)) })
		now, most := 0, 1
		for _, x := range m {
			now += x.gpus
			most = max(most, now)
		}
		nodes = append(nodes, sim.NodeSpec{Name: n, GPUs: most})
	}
	var out []sim.PartitionSpec
	for _, name := range slices.Sorted(maps.Keys(parts)) {
		if name != "" {
			out = append(out, sim.PartitionSpec{Name: name, Nodes: slices.Sorted(maps.Keys(parts[name]))})
		}
	}
	return nodes, out
}
