// SPDX-License-Identifier: Apache-2.0

package run

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rifling/sim"
	"rifling/sim/trace"
	"rifling/slurm"
)

// Shape is how the jobs of a trace ask for nodes.
type Shape string

// The shapes.
const (
	Told   Shape = "told"   // as the trace says; jobs of which it says nothing leave their nodes open
	Open   Shape = "open"   // all leave their nodes open (--gpus=N)
	Fewest Shape = "fewest" // all ask for the fewest nodes
)

// LimitKind is which time limits the jobs of a trace get.
type LimitKind string

// The limits.
const (
	LimitsTold  LimitKind = "told"  // the trace's; drawn for jobs of which it says nothing
	LimitsDrawn LimitKind = "drawn" // drawn for all, as loose as users' are
	LimitsExact LimitKind = "exact" // the run time, rounded up to minutes
	LimitsNone  LimitKind = "none"
)

// JobOptions say how a trace's jobs become simulated ones.
type JobOptions struct {
	Seed uint64
	// Mix is the models that jobs get of which the trace names none of
	// sim.Models. Jobs of one user and name get the same.
	Mix    trace.Mix
	Shape  Shape     // empty: Told
	Limits LimitKind // empty: LimitsTold
	// NodeGPUs is the size of the largest nodes, for Fewest.
	NodeGPUs int
	// Partitions are those of the cluster: a job whose queue has the name of
	// one is submitted there.
	Partitions []sim.PartitionSpec
}

// JobNotes counts what became of a trace's jobs.
type JobNotes struct {
	NoGPUs    int // left out: they want none
	NoRunTime int // left out: the trace does not tell how long they ran
	Shares    int // want a part of a GPU; they count as one
	Drawn     int // got a model by Mix
	Limits    int // got a limit that was drawn
	Users     int // users told of
}

// Jobs turns a trace's jobs into simulated ones. The run time that the trace
// tells is taken as that on the best placement. Their ids are the places in
// the trace, from 1, so that results can be matched.
func Jobs(in []trace.Job, o JobOptions) ([]sim.Job, JobNotes, error) {
	var notes JobNotes
	rng := rand.New(rand.NewPCG(o.Seed, 0x10b5))
	known := map[string]*sim.Model{}
	for i := range sim.Models {
		known[sim.Models[i].Name] = &sim.Models[i]
	}
	users := map[string]bool{}
	out := make([]sim.Job, 0, len(in))
	for i := range in {
		t := &in[i]
		switch {
		case t.GPUs < 1:
			notes.NoGPUs++
			continue
		case t.Duration <= 0:
			notes.NoRunTime++
			continue
		case t.Milli > 0 && t.Milli < 1000:
			notes.Shares++
		}
		j := sim.Job{
			ID: slurm.JobID(i + 1), Name: t.Name, User: t.User, Account: t.Group, Submit: t.Submit, Work: t.Duration,
			Model: known[t.Model], Limit: o.limit(rng, t, &notes), Request: o.request(t),
		}
		if j.Model == nil && t.Model != "none" {
			m, err := o.model(t)
			if err != nil {
				return nil, notes, err
			}
			if j.Model = m; m != nil {
				notes.Drawn++
			}
		}
		o.name(t, &j)
		if slices.ContainsFunc(o.Partitions, func(p sim.PartitionSpec) bool { return p.Name == t.Queue }) {
			j.Partition = t.Queue
		}
		if !math.IsNaN(t.Estimate) {
			j.GPUSecondsEstimate = t.Estimate
		}
		if t.User != "" && !users[t.User] {
			users[t.User] = true
		}
		out = append(out, j)
	}
	notes.Users = len(users)
	if len(out) == 0 && notes.NoRunTime > 0 {
		return nil, notes, slurm.WithHint(fmt.Errorf("none of the %d jobs tells how long it ran", notes.NoRunTime),
			"traces of models (Pollux, DeepShare) tell work in iterations; simulate needs run times")
	}
	return out, notes, nil
}

func (o *JobOptions) limit(rng *rand.Rand, t *trace.Job, notes *JobNotes) time.Duration {
	drawn := trace.DrawLimit(rng, t.Duration) // for each, so that no job's depends on another's
	switch {
	case o.Limits == LimitsNone:
		return 0
	case o.Limits == LimitsExact:
		return (t.Duration + time.Minute - 1).Truncate(time.Minute)
	case o.Limits != LimitsDrawn && t.Limit > 0:
		return t.Limit
	}
	notes.Limits++
	return drawn
}

func (o *JobOptions) request(t *trace.Job) sim.Request {
	nodes := t.Nodes
	switch o.Shape {
	case Open:
		nodes = 0
	case Fewest:
		per := max(1, o.NodeGPUs)
		nodes = (t.GPUs + per - 1) / per
	}
	switch {
	case nodes <= 0:
		return sim.Request{GPUs: t.GPUs}
	case t.GPUs%nodes == 0:
		return sim.Request{GPUsPerNode: t.GPUs / nodes, MinNodes: nodes}
	}
	return sim.Request{GPUs: t.GPUs, MinNodes: nodes, MaxNodes: nodes}
}

// model draws by what makes two jobs the same work, so that it does not depend
// on the other jobs.
func (o *JobOptions) model(t *trace.Job) (*sim.Model, error) {
	h := fnv.New64a()
	if t.User == "" || t.Name == "" {
		fmt.Fprintf(h, "\x00%s", t.ID)
	} else {
		fmt.Fprintf(h, "%s\x00%s\x00%d", t.User, t.Name, t.GPUs)
	}
	return o.Mix.Draw(rand.New(rand.NewPCG(o.Seed, h.Sum64())))
}

// name makes sure that jobs are not taken for the same work because the trace
// names none: they are then called after their model, or apart.
func (o *JobOptions) name(t *trace.Job, j *sim.Job) {
	if j.Name != "" {
		return
	}
	j.Name = "job-" + t.ID
	if j.Model != nil {
		j.Name = j.Model.Name
	}
}

// Words says in one sentence each what an admin must know of the jobs.
func (n JobNotes) Words(mix trace.Mix) []string {
	var out []string
	add := func(count int, format string) {
		if count > 0 {
			out = append(out, fmt.Sprintf(strings.Replace(format, "N", "%d", 1), count))
		}
	}
	add(n.NoGPUs, "N jobs without GPUs are left out")
	add(n.NoRunTime, "N jobs of which no run time is told are left out")
	add(n.Shares, "N jobs want a part of a GPU and get a whole one")
	add(n.Limits, "N jobs got a drawn time limit (--limits)")
	if n.Drawn > 0 {
		out = append(out, fmt.Sprintf("%d jobs got a drawn model, %v (--mix)", n.Drawn, mix))
	}
	return out
}

// List makes a source of jobs that are sorted.
func List(jobs []sim.Job) sim.Source {
	i := 0
	return func() (sim.Job, bool) {
		if i == len(jobs) {
			return sim.Job{}, false
		}
		i++
		return jobs[i-1], true
	}
}
