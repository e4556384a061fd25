// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"rifling/contrib/workload"
	"rifling/sim"
	"rifling/sim/run"
	"rifling/slurm"
)

// setting is one cluster with one kind of work.
type setting struct {
	nodes, gpus int     // GPUs of each node
	nic         float64 // Gb/s of each node's NIC
	mix         string  // "muri" or "philly"
	open        bool    // every job of more than one GPU leaves its nodes open
	load        float64 // 0: all at once
	law         bool    // sim.Law rather than linear
}

func (s setting) String() string {
	shapes, load := "realistic", "all"
	if s.open {
		shapes = "open"
	}
	if s.load > 0 {
		load = fmt.Sprintf("%.1f", s.load)
	}
	return fmt.Sprintf("%dx%d %.0fG %s %s %s", s.nodes, s.gpus, s.nic, s.mix, shapes, load)
}

// counts tells whether the setting is one of those that the bars are about.
func (s setting) counts() bool { return s.nic <= 50 && (s.load == 0 || s.load >= 0.9) }

// flatLaw is the law that make bench ONLY=speed-model chooses on the measured
// T4 nodes.
var flatLaw = sim.Law{Exponent: 0.1, TwoNodes: 1.9}

// Shares of GPU counts, and how far run times spread, after the traces in
// ../shared/traces: Muri's pooled (44 % of the jobs want one GPU, 20 % four,
// 27 % eight, some 16 and 32), and the Philly clusters where most want one (76
// to 82 %). What wants more than two nodes is left out, as it is rare.
var mixes = map[string]workload.Options{
	"muri": {
		Spread: 1.0, Tail: 8,
		Sizes: []workload.Size{{GPUs: 1, Weight: 0.42}, {GPUs: 2, Weight: 0.08}, {GPUs: 4, Weight: 0.26}, {GPUs: 8, Weight: 0.24}},
	},
	"philly": {
		Spread: 1.2, Tail: 8,
		Sizes: []workload.Size{{GPUs: 1, Weight: 0.72}, {GPUs: 2, Weight: 0.08}, {GPUs: 4, Weight: 0.15}, {GPUs: 8, Weight: 0.05}},
	},
}

// perGPU is the jobs of a list for each GPU of the cluster.
var perGPU = map[string]int{"muri": 4, "philly": 6}

// list is the setting's work for one seed.
type list struct {
	jobs     []sim.Job
	open     float64 // share of the jobs whose request leaves the nodes open
	makespan float64 // seconds, below which no policy can come
}

// pastLists is how many lists a site ran before the one that is shown.
const pastLists = 2

// pastOf is what accounting knows of the site of a list: the same users and
// their work ran other lists before, under Slurm alone.
func (s setting) pastOf(ctx context.Context, site uint64, before time.Time) ([]slurm.PastJob, error) {
	var out []slurm.PastJob
	for n := range uint64(pastLists) {
		l, err := s.listOf(site, firstPast+site*pastLists+n)
		if err != nil {
			return nil, err
		}
		cfg := run.Default(s.spec())
		begin := before.Add(-time.Duration(pastLists-n) * 7 * 24 * time.Hour)
		_, err = run.Run(ctx, cfg, run.List(l.jobs), func(r *sim.Result) {
			p := slurm.PastJob{
				ID: slurm.JobID(1_000_000*(n+1)) + slurm.JobID(r.Seq), Name: r.Name, User: r.User, Account: r.Account,
				Submit: begin.Add(r.Submit), Eligible: begin.Add(r.Submit), Start: begin.Add(r.Start), End: begin.Add(r.End),
				Elapsed: r.End - r.Start, TimeLimit: r.Limit, GPUs: r.GPUs, GPUType: "t4", NodeCount: len(r.Alloc),
				State: slurm.State{Base: "COMPLETED"}, GPUUtil: -1, GPUMemory: -1,
			}
			if r.Outcome != sim.Completed {
				p.State.Base = "TIMEOUT"
			}
			out = append(out, p)
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}

// jobsOf makes the list of a seed: about a dozen rounds of the cluster.
func (s setting) jobsOf(seed uint64) (list, error) { return s.listOf(seed, seed) }

// listOf makes one of the lists of a site.
func (s setting) listOf(site, seed uint64) (list, error) {
	o := mixes[s.mix]
	o.Site = site
	o.Jobs, o.Nodes, o.GPUsPerNode, o.Load, o.MaxNodes = perGPU[s.mix]*s.nodes*s.gpus, s.nodes, s.gpus, cmp.Or(s.load, 1), 2
	o.NICBytesPerSecond = s.nic * 1e9 / 8
	o.GPUType = "t4"
	for i := range sim.Models {
		o.Models = append(o.Models, sim.Models[i].Name)
	}
	if s.open {
		o.OpenShare = 1
	}
	if s.load == 0 {
		o.Bursts = 1
	}
	made, err := workload.Generate(seed, o)
	if err != nil {
		return list{}, err
	}
	var out list
	opened := 0
	for i := range made {
		if made[i].Open {
			opened++
		}
		out.jobs = append(out.jobs, s.job(&made[i]))
	}
	out.open = float64(opened) / float64(len(made))
	out.makespan = s.lowerBound(out.jobs)
	return out, nil
}

// job is a list's job as the simulator takes it.
func (s setting) job(w *workload.Job) sim.Job {
	m, _ := sim.FindModel(w.Model)
	if s.law {
		m.Law = flatLaw
	}
	seconds := float64(w.Iterations) / sim.PackedRate(m, w.GPUs)
	j := sim.Job{
		Name: w.Name, User: w.User, Account: w.Account, Submit: w.Submit, Limit: w.Limit, Model: &m,
		Work: time.Duration(seconds * float64(time.Second)),
	}
	switch w.Form {
	case workload.Gpus, workload.PerTask:
		j.Request = sim.Request{GPUs: w.GPUs}
		if w.GPUs == 1 {
			j.Request.MaxNodes = 1
		}
	case workload.Range:
		j.Request = sim.Request{GPUs: w.GPUs, MinNodes: w.Fewest, MaxNodes: w.Most}
	default:
		j.Request = sim.Request{GPUsPerNode: w.GPUs / w.Fewest, MinNodes: w.Fewest}
	}
	return j
}

// lowerBound is what no policy's makespan can be below: from each submission
// on, the GPU time of all later jobs at their best over the cluster's GPUs, and
// the latest end of a job that starts when it is submitted.
func (s setting) lowerBound(jobs []sim.Job) float64 {
	bound, later := 0.0, 0.0
	for i := len(jobs) - 1; i >= 0; i-- {
		j := &jobs[i]
		best := j.Work.Seconds() * s.fastest(j)
		later += best * float64(j.Request.Total())
		bound = max(bound, j.Submit.Seconds()+best, j.Submit.Seconds()+later/float64(s.nodes*s.gpus))
	}
	return bound
}

// fastest is the packed run time's part that the fastest placement takes: for
// some models single GPUs on idle NICs beat the links inside a node.
func (s setting) fastest(j *sim.Job) float64 {
	total := j.Request.Total()
	apart := map[string]int{}
	for i := range total {
		apart[fmt.Sprint(i)] = 1
	}
	rate := sim.Rate(*j.Model, apart, func(string) (float64, int) { return s.nic * 1e9 / 8, 1 })
	return min(1, sim.PackedRate(*j.Model, total)/rate)
}

// spec is the setting's cluster: four nodes under each leaf switch.
func (s setting) spec() sim.Spec {
	var out sim.Spec
	for i := range s.nodes {
		out.Nodes = append(out.Nodes, sim.NodeSpec{
			Name: fmt.Sprintf("gpu%02d", i+1), GPUs: s.gpus, GPUType: "t4", CPUs: 4 * s.gpus, Leaf: fmt.Sprint("s", i/4),
			NICSpeed: s.nic * 1e9 / 8,
		})
	}
	out.StartOverhead = 5 * time.Second
	return out
}
