// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"pgregory.net/rapid"

	"rifling/profile"
	"rifling/slurm"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// genInput draws a cluster, a queue with jobs of every kind that must not be
// touched, profiles, and limits.
func genInput(t *rapid.T) Input {
	s := &slurm.Snapshot{TakenAt: noon, Release: rapid.SampledFrom([]slurm.Release{
		{Major: 22, Minor: 5, REST: 38}, {Major: 24, Minor: 11, REST: 42}, {Major: 26, Minor: 5, REST: 45},
	}).Draw(t, "release")}
	nodes := rapid.IntRange(1, 12).Draw(t, "nodes")
	perNode := rapid.SampledFrom([]int{1, 4, 8}).Draw(t, "gpus")
	var names []string
	for i := range nodes {
		n := slurm.Node{
			Name: fmt.Sprintf("gpu%02d", i+1), GPUs: perNode, GPUType: "a100", CPUs: 64, MemoryMB: 1 << 20,
			Leaf: fmt.Sprintf("s%d", i/4), State: slurm.State{Base: "MIXED"},
			GPUsUsed: rapid.IntRange(0, perNode).Draw(t, "used"),
		}
		if rapid.IntRange(0, 9).Draw(t, "sick") == 0 {
			n.State.Flags = []string{"DRAIN"}
		}
		s.Nodes = append(s.Nodes, n)
		names = append(names, n.Name)
	}
	s.Partitions = []slurm.Partition{{Name: "gpu", Nodes: names, Up: true}, {Name: "other", Nodes: names, Up: true}, {Name: "debug", Nodes: names, Up: true}}
	if rapid.Bool().Draw(t, "far away") {
		s.Partitions[1].Nodes = []string{"cpu01"}
	}
	in := Input{
		Snapshot: s, Profiles: map[slurm.JobID]profile.Profile{}, Owned: map[slurm.JobID]Owner{},
		Previous: map[slurm.JobID]Decision{}, Heads: map[slurm.JobID]time.Time{},
		Rand: rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1)),
		Limits: Limits{
			Partitions: []string{"gpu"}, OptOut: "rifling=off", SkipUsers: []string{"mallory"},
			Depth: rapid.IntRange(0, 20).Draw(t, "depth"), SlackNodes: rapid.IntRange(0, 3).Draw(t, "slack"),
			MaxOffset: int64(rapid.IntRange(0, 500).Draw(t, "offset")), MaxChanges: rapid.IntRange(0, 10).Draw(t, "changes"),
			MaxWait: time.Duration(rapid.IntRange(0, 3).Draw(t, "wait")) * time.Hour, TTL: 10 * time.Minute,
			SkipAccounts: []string{"secret"}, SkipQOS: []string{"urgent"}, SkipPartitions: []string{"debug"},
			SkipConstraints: []string{"norifling"}, MaxOvertake: int64(rapid.SampledFrom([]int{0, 0, 50}).Draw(t, "overtake")),
			Starvation: 100 * time.Hour, RequiredNodes: rapid.SampledFrom([][]string{nil, nil, {"gpu"}}).Draw(t, "exact"),
		},
	}
	for i := range rapid.IntRange(0, 12).Draw(t, "jobs") {
		j := genJob(t, slurm.JobID(100+i), names, perNode)
		s.Jobs = append(s.Jobs, j)
		in.Profiles[j.ID] = genProfile(t, j.ID)
		in.Heads[j.ID] = noon.Add(-time.Duration(rapid.IntRange(0, 5).Draw(t, "head")) * time.Hour)
	}
	return in
}

func genProfile(t *rapid.T, id slurm.JobID) profile.Profile {
	g := rapid.IntRange(profile.GroupUnknown, 2).Draw(t, "group")
	return profile.Profile{
		JobID: id, Group: g, CommBound: g == 0, ComputeBound: g == 2,
		RunTime: time.Duration(rapid.IntRange(0, 5).Draw(t, "run")) * time.Hour,
	}
}

func genJob(t *rapid.T, id slurm.JobID, names []string, perNode int) slurm.Job {
	j := slurm.Job{
		ID: id, User: rapid.SampledFrom([]string{"alice", "bob", "mallory"}).Draw(t, "user"),
		Partition: rapid.SampledFrom([]string{"gpu", "gpu", "gpu", "other", "gpu,other", "gpu,debug"}).Draw(t, "partition"),
		QOS:       rapid.SampledFrom([]string{"normal", "normal", "high"}).Draw(t, "qos"),
		State:     slurm.State{Base: "PENDING"}, Priority: int64(rapid.IntRange(1, 1000).Draw(t, "priority")),
		SubmitTime: noon.Add(-time.Duration(rapid.IntRange(0, 200).Draw(t, "age")) * time.Hour),
		Nice:       int64(rapid.IntRange(-5, 5).Draw(t, "nice")), ArrayTaskID: -1, MinNodes: 1, Tasks: 1,
		TimeLimit: time.Hour,
	}
	switch rapid.IntRange(0, 3).Draw(t, "request") {
	case 0:
		j.Request.PerNode = rapid.IntRange(1, perNode).Draw(t, "per node")
		j.MaxNodes = 1
	case 1:
		j.Request.PerJob = rapid.IntRange(1, 2*perNode).Draw(t, "per job")
	case 2:
		j.Request.PerNode = rapid.IntRange(1, perNode).Draw(t, "per node")
		j.MinNodes = rapid.IntRange(1, 4).Draw(t, "min")
		j.MaxNodes = j.MinNodes
	case 3:
		j.Request.PerTask, j.Tasks = 1, rapid.IntRange(1, perNode).Draw(t, "tasks")
	}
	if rapid.IntRange(0, 2).Draw(t, "excludes") == 0 {
		j.ExcludedNodes = []string{rapid.SampledFrom(names).Draw(t, "exclude")}
	}
	spoil(t, &j, names)
	return j
}

// spoil makes some jobs of the kinds that are not to be touched.
func spoil(t *rapid.T, j *slurm.Job, names []string) {
	switch rapid.IntRange(0, 28).Draw(t, "kind") {
	case 0:
		j.State.Base, j.Nodes = "RUNNING", names[:1]
		j.StartTime, j.EndTime = noon.Add(-time.Hour), noon.Add(time.Hour)
	case 1:
		j.Held, j.Priority = true, 0
	case 2:
		j.Dependency = "afterok:1"
	case 3:
		j.Reservation = "maint"
	case 4:
		j.Het = true
	case 5:
		j.Cron = true
	case 6:
		j.RequiredNodes = names[:1]
	case 7:
		j.Comment = "please rifling=off"
	case 8:
		j.EligibleTime = noon.Add(time.Hour)
	case 9:
		j.Reason = "BadConstraints"
	case 10:
		j.Switches, j.Exclusive = 1, true
	case 11:
		j.Request = slurm.GPURequest{}
	case 12:
		j.Account = "secret"
	case 13:
		j.QOS = "urgent"
	case 15:
		j.Contiguous = true
	case 16:
		j.Switches, j.Request = 1, slurm.GPURequest{PerJob: 3}
	case 14:
		j.Features = "a100&[norifling*1|b]"
	}
}

// mayTouch is written apart from the code under test, from design section 4.
func mayTouch(j *slurm.Job) bool {
	return j.State.Base == "PENDING" && !j.Held && j.Priority > 0 && j.Dependency == "" && j.Reservation == "" &&
		!j.Het && !j.Cron && len(j.RequiredNodes) == 0 && j.Comment == "" && j.User != "mallory" &&
		j.Account == "" && j.QOS != "urgent" && j.Features == "" &&
		j.Partition == "gpu" && !j.Contiguous && j.Switches == 0 && !j.EligibleTime.After(noon) && j.Reason != "BadConstraints" &&
		j.Request != (slurm.GPURequest{})
}

// genPlan draws a plan that no sane policy would make.
func genPlan(t *rapid.T, in Input) Plan {
	p := Plan{Policy: "nonsense", At: noon}
	for _, j := range in.Snapshot.Jobs {
		d := Decision{
			JobID: j.ID, Action: rapid.SampledFrom(Actions).Draw(t, "action"),
			Offset: rapid.Int64().Draw(t, "offset"), Reason: "nonsense",
		}
		for range rapid.IntRange(0, 5).Draw(t, "candidates") {
			d.Candidates = append(d.Candidates, rapid.SampledFrom([]string{
				"gpu01", "gpu02", "gpu03", "gpu04", "gpu05", "nowhere", "",
			}).Draw(t, "node"))
		}
		p.Decisions = append(p.Decisions, d)
	}
	p.Decisions = append(p.Decisions, Decision{JobID: 9999, Action: Pack, Candidates: []string{"gpu01"}})
	return p
}

// applyAll does to the snapshot what Slurm would, and to the owner records what
// the loop would.
func applyAll(in Input, changes []Change) Input {
	s := *in.Snapshot
	s.Jobs = slices.Clone(s.Jobs)
	owned := map[slurm.JobID]Owner{}
	for id, o := range in.Owned {
		owned[id] = o
	}
	for _, c := range changes {
		for i := range s.Jobs {
			if s.Jobs[i].ID == c.Update.JobID {
				if f := c.Update.SiteFactor; f != nil {
					s.Jobs[i].Priority += *f - currentOffset(&s.Jobs[i], in)
				}
				applyUpdate(&s.Jobs[i], c.Update)
			}
		}
		owned[c.Update.JobID] = Settled(c.Owner, c.Update)
	}
	in.Snapshot, in.Owned = &s, owned
	return in
}

func applyUpdate(j *slurm.Job, u slurm.Update) {
	if u.ExcludedNodes != nil {
		j.ExcludedNodes = *u.ExcludedNodes
	}
	if u.RequiredNodes != nil {
		j.RequiredNodes = *u.RequiredNodes
	}
	if u.Nice != nil {
		j.Priority -= *u.Nice - j.Nice
		j.Nice = *u.Nice
	}
}
