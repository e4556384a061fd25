// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// View is what one cycle saw, decided and did. Nobody changes it once it is
// published; what is worked out of it for showing is worked out when somebody
// first looks, never by the loop.
type View struct {
	Cycle     int64
	Published time.Time     // by the host's clock
	Took      time.Duration // of the cycle
	Mode      string
	Snapshot  *slurm.Snapshot
	Profiles  map[slurm.JobID]profile.Profile
	Groups    []profile.Group
	Plan      policy.Plan
	Owners    map[slurm.JobID]policy.Owner
	Results   []policy.Result
	ANPR      float64 // meaningless when ANPRGPUs is 0
	ANPRGPUs  int
	PutOff    int // changes left to a later cycle
	Rejected  map[string]int

	once  sync.Once
	index index
}

// index is a View sorted for showing.
type index struct {
	pending, running []*slurm.Job // by priority; by start, newest first
	decisions        map[slurm.JobID]*policy.Decision
	onNode           map[string][]share
	users            []string
	partitions       []string
	reasons          []string
	leaves           []leaf
	gpus, used       int // of usable nodes
	pendingGPUs      int
	oldest           time.Time // since when the pending job that waits longest may start
}

// share is what one running job has of one node.
type share struct {
	job  *slurm.Job
	gpus int
}

// leaf is the nodes with GPUs under one leaf switch.
type leaf struct {
	name       string
	nodes      []*slurm.Node
	gpus, free int
}

// sorted returns the index, made on the first call.
func (v *View) sorted() *index {
	v.once.Do(func() { v.index.fill(v) })
	return &v.index
}

// concerns reports whether the job is shown: it asks for GPUs or has some.
func concerns(j *slurm.Job) bool { return j.WantsGPU() || len(j.NodeGPUs) > 0 }

func (x *index) fill(v *View) {
	x.decisions = make(map[slurm.JobID]*policy.Decision, len(v.Plan.Decisions))
	for i := range v.Plan.Decisions {
		x.decisions[v.Plan.Decisions[i].JobID] = &v.Plan.Decisions[i]
	}
	x.onNode = map[string][]share{}
	users, reasons := map[string]bool{}, map[string]bool{}
	for i := range v.Snapshot.Jobs {
		j := &v.Snapshot.Jobs[i]
		if !concerns(j) {
			continue
		}
		switch {
		case j.Pending():
			x.pending = append(x.pending, j)
			x.pendingGPUs += j.Total()
			reasons[cmp.Or(j.Reason, "None")] = true
			if t := since(j); !t.After(v.Snapshot.TakenAt) && (x.oldest.IsZero() || t.Before(x.oldest)) {
				x.oldest = t
			}
		case j.Running():
			x.running = append(x.running, j)
			for node, n := range j.NodeGPUs {
				x.onNode[node] = append(x.onNode[node], share{j, n})
			}
		default:
			continue
		}
		users[j.User] = true
	}
	x.users, x.reasons = slices.Sorted(maps.Keys(users)), slices.Sorted(maps.Keys(reasons))
	slices.SortStableFunc(x.pending, func(a, b *slurm.Job) int {
		return cmp.Or(cmp.Compare(b.Priority, a.Priority), a.SubmitTime.Compare(b.SubmitTime))
	})
	slices.SortStableFunc(x.running, func(a, b *slurm.Job) int { return b.StartTime.Compare(a.StartTime) })
	for _, s := range x.onNode {
		slices.SortFunc(s, func(a, b share) int { return cmp.Compare(a.job.ID, b.job.ID) })
	}
	x.nodes(v)
}

func (x *index) nodes(v *View) {
	gpuNodes := map[string]bool{}
	at := map[string]int{}
	for i := range v.Snapshot.Nodes {
		n := &v.Snapshot.Nodes[i]
		if n.GPUs == 0 {
			continue
		}
		gpuNodes[n.Name] = true
		if n.Usable() {
			x.gpus, x.used = x.gpus+n.GPUs, x.used+n.GPUsUsed
		}
		k, ok := at[n.Leaf]
		if !ok {
			k = len(x.leaves)
			at[n.Leaf] = k
			x.leaves = append(x.leaves, leaf{name: n.Leaf})
		}
		l := &x.leaves[k]
		l.nodes = append(l.nodes, n)
		l.gpus, l.free = l.gpus+n.GPUs, l.free+n.FreeGPUs()
	}
	slices.SortStableFunc(x.leaves, func(a, b leaf) int { return strings.Compare(a.name, b.name) })
	for _, p := range v.Snapshot.Partitions {
		if slices.ContainsFunc(p.Nodes, func(n string) bool { return gpuNodes[n] }) {
			x.partitions = append(x.partitions, p.Name)
		}
	}
	slices.Sort(x.partitions)
}

// since is from when on the job waits: eligible, or submitted where that is
// not known.
func since(j *slurm.Job) time.Time {
	if j.EligibleTime.IsZero() {
		return j.SubmitTime
	}
	return j.EligibleTime
}

// group returns the job's group, profile.GroupUnknown where nothing is known.
func (v *View) group(id slurm.JobID) int {
	p, ok := v.Profiles[id]
	if !ok {
		return profile.GroupUnknown
	}
	return p.Group
}

// action is what was decided on a job in one word, as `rifling jobs` has it.
func (x *index) action(id slurm.JobID) string {
	d := x.decisions[id]
	switch {
	case d == nil:
		return "none"
	case d.Skipped != "":
		return "skipped"
	}
	return string(d.Action)
}
