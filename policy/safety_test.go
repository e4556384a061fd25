// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rifling/agent"
	"rifling/slurm"
)

// policies are those under test; nonsense stands for any that is wrong.
func policies(t *rapid.T, in Input) map[string]Plan {
	r := &Rifling{Table: agent.NewTable(agent.DefaultParams()), FCFS: true, Prior: RulePrior, PriorWeight: 3}
	out := map[string]Plan{"rifling": r.Decide(in), "nonsense": genPlan(t, in)}
	for _, name := range Names() {
		if name != "rifling" {
			p, err := New(name, Options{Rule: DefaultRule()})
			if err != nil {
				t.Fatal(err)
			}
			out[name] = p.Decide(in)
		}
	}
	return out
}

func TestGuardRailsHoldForAnyPlan(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		for name, plan := range policies(t, in) {
			w := Steer(Restrict(plan, in), in)
			if len(w.Changes) > in.Limits.MaxChanges {
				t.Fatalf("%s: %d changes, at most %d are allowed", name, len(w.Changes), in.Limits.MaxChanges)
			}
			for _, c := range w.Changes {
				checkChange(t, name, c, in)
			}
		}
	})
}

func checkChange(t *rapid.T, name string, c Change, in Input) {
	j := in.Snapshot.Job(c.Update.JobID)
	if j == nil || !mayTouch(j) {
		t.Fatalf("%s: touches job %+v, which is not to be touched", name, j)
	}
	if list := c.Update.RequiredNodes; list != nil {
		if len(in.Limits.RequiredNodes) == 0 {
			t.Fatalf("%s: names nodes though no partition allows it", name)
		}
		if len(*list) != NodesNeeded(j, in.Snapshot) || !Within(*list, openNodes(j, in)) {
			t.Fatalf("%s: names %v, not the usable nodes that job %d needs", name, *list, j.ID)
		}
	}
	if f := c.Update.SiteFactor; f != nil && (*f < 0 || *f > in.Limits.MaxOffset) {
		t.Fatalf("%s: site factor %d is out of 0..%d", name, *f, in.Limits.MaxOffset)
	}
	if n := c.Update.Nice; n != nil && (*n > j.Nice || j.Nice-*n > in.Limits.MaxOffset) {
		t.Fatalf("%s: nice %d from the user's %d is out of bounds", name, *n, j.Nice)
	}
	if c.Update.ExcludedNodes == nil {
		return
	}
	excluded := *c.Update.ExcludedNodes
	for _, n := range j.ExcludedNodes {
		if !slices.Contains(excluded, n) {
			t.Fatalf("%s: the user's own exclusion of %s is lost", name, n)
		}
	}
	left := 0
	for i := range in.Snapshot.Nodes {
		if n := &in.Snapshot.Nodes[i]; n.Usable() && !slices.Contains(excluded, n.Name) {
			left++
		}
	}
	if need := NodesNeeded(j, in.Snapshot) + in.Limits.SlackNodes; left < need {
		t.Fatalf("%s: leaves %d usable nodes to job %d, which needs %d with slack", name, left, j.ID, need)
	}
}

func TestSecondApplyWritesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		in.Limits.MaxChanges = 1000
		for name, plan := range policies(t, in) {
			first := Steer(Restrict(plan, in), in)
			after := applyAll(in, first.Changes)
			second := Steer(Restrict(plan, after), after)
			if len(second.Changes) > 0 {
				t.Fatalf("%s: writes again: %+v", name, second.Changes)
			}
		}
	})
}

// A lifted job does not pass one of another QOS or partition that may want the
// same nodes, by more points than the site allows.
func TestOffsetNeverOvertakesAnotherQOSOrPartition(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		for name, plan := range policies(t, in) {
			after := applyAll(in, Steer(Restrict(plan, in), in).Changes)
			for i := range in.Snapshot.Jobs {
				a, now := &in.Snapshot.Jobs[i], &after.Snapshot.Jobs[i]
				for k := range in.Snapshot.Jobs {
					b := &in.Snapshot.Jobs[k]
					if a.QOS == b.QOS && a.Partition == b.Partition || !b.Pending() || b.Priority == 0 || !sameNodes(a, b, in) {
						continue
					}
					if a.Priority <= b.Priority && now.Priority > a.Priority && now.Priority >= b.Priority+max(1, in.Limits.MaxOvertake) {
						t.Fatalf("%s: job %d (%s, %s) goes from %d to %d points, past job %d (%s, %s) with %d",
							name, a.ID, a.QOS, a.Partition, a.Priority, now.Priority, b.ID, b.QOS, b.Partition, b.Priority)
					}
				}
			}
		}
	})
}

func sameNodes(a, b *slurm.Job, in Input) bool {
	return Share(in.Snapshot.JobNodes(a), in.Snapshot.JobNodes(b))
}

// Whatever a policy wants, a job waits for MaxWait at most from when it came to
// its queue's head, and a job that has been eligible for longer than
// Starvation carries nothing of rifling's.
func TestWaitingIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		in.Limits.MaxChanges, in.Limits.Starvation = 1000, 200*time.Hour
		heads, users := map[slurm.JobID]time.Time{}, *in.Snapshot
		end := noon.Add(in.Limits.Starvation + time.Hour)
		step := time.Duration(rapid.IntRange(20, 150).Draw(t, "hours")) * time.Hour
		for now := noon; !now.After(end); now = now.Add(step / time.Duration(rapid.IntRange(1, 100).Draw(t, "part"))) {
			s := *in.Snapshot
			s.TakenAt = now
			in.Snapshot = &s
			heads = Heads(in, heads)
			in.Heads = heads
			plan := Restrict(genPlan(t, in), in)
			in.Previous = map[slurm.JobID]Decision{}
			for _, d := range plan.Decisions {
				j := s.Job(d.JobID)
				in.Previous[d.JobID] = d
				if at, ok := heads[d.JobID]; d.Action == Wait && ok && now.Sub(at) >= in.Limits.MaxWait {
					t.Fatalf("job %d still waits %s after it came to the head, %s are allowed", d.JobID, now.Sub(at), in.Limits.MaxWait)
				}
				if now.Sub(eligibleSince(j)) > in.Limits.Starvation && d.Skipped == "" {
					t.Fatalf("job %d is decided on after %s", j.ID, now.Sub(eligibleSince(j)))
				}
			}
			in = applyAll(in, Steer(plan, in).Changes)
			for i := range in.Snapshot.Jobs {
				j := &in.Snapshot.Jobs[i]
				u := users.Job(j.ID)
				if j.Pending() && now.Sub(eligibleSince(j)) > in.Limits.Starvation &&
					(!SameNodes(j.ExcludedNodes, u.ExcludedNodes) || j.Priority != u.Priority || j.Nice != u.Nice) {
					t.Fatalf("after %s job %d is %+v, its user's word is %+v", now.Sub(eligibleSince(j)), j.ID, j, u)
				}
			}
		}
	})
}

func TestDecideIsPure(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		before := cloneJobs(in.Snapshot.Jobs)
		for range policies(t, in) {
			continue
		}
		if !slices.EqualFunc(before, in.Snapshot.Jobs, func(a, b slurm.Job) bool {
			return a.ID == b.ID && slices.Equal(a.ExcludedNodes, b.ExcludedNodes) && a.Priority == b.Priority
		}) {
			t.Fatal("a policy changed its input")
		}
	})
}

func cloneJobs(jobs []slurm.Job) []slurm.Job {
	out := slices.Clone(jobs)
	for i := range out {
		out[i].ExcludedNodes = slices.Clone(out[i].ExcludedNodes)
	}
	return out
}

// What rifling set, and everything that can happen to it, ends with the job as
// its user left it.
func TestTakeBackRestoresTheUsersWord(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := genInput(t)
		in.Limits.MaxChanges = 1000
		for name, plan := range policies(t, in) {
			w := Steer(Restrict(plan, in), in)
			for _, c := range w.Changes {
				user := in.Snapshot.Job(c.Update.JobID)
				j := *user
				wantExclude, wantNice := user.ExcludedNodes, user.Nice
				switch rapid.SampledFrom([]string{"written", "crashed before the write", "user edits"}).Draw(t, "what") {
				case "written":
					applyUpdate(&j, c.Update)
				case "user edits":
					applyUpdate(&j, c.Update)
					j.ExcludedNodes, j.Nice = []string{"gpu01", "gpu77"}, 42
					wantExclude, wantNice = j.ExcludedNodes, j.Nice
				}
				u, _ := TakeBack(c.Owner, j, in.Snapshot.Release)
				applyUpdate(&j, u)
				if !SameNodes(j.RequiredNodes, user.RequiredNodes) {
					t.Fatalf("%s: job %d is left with the node list %v", name, j.ID, j.RequiredNodes)
				}
				if !SameNodes(j.ExcludedNodes, wantExclude) || j.Nice != wantNice {
					t.Fatalf("%s: job %d ends with exclude %v nice %d, its user's word is %v and %d",
						name, j.ID, j.ExcludedNodes, j.Nice, wantExclude, wantNice)
				}
				if c.Update.SiteFactor != nil && (u.SiteFactor == nil || *u.SiteFactor != 0) {
					t.Fatalf("%s: the site factor of job %d is not cleared", name, j.ID)
				}
			}
		}
	})
}

func TestRunningJobKeepsItsNodeLists(t *testing.T) {
	o := Owner{JobID: 7, SetAt: noon, UserExclude: []string{}, SetExclude: []string{"gpu01"}, SetSiteFactor: new(int64)}
	j := slurm.Job{ID: 7, State: slurm.State{Base: "RUNNING"}, ExcludedNodes: []string{"gpu01"}}
	u, why := TakeBack(o, j, slurm.Release{Major: 24, Minor: 11, REST: 42})
	if u.ExcludedNodes != nil || u.SiteFactor == nil || why == "" {
		t.Errorf("take-back of a running job is %+v (%s); only the site factor can be cleared", u, why)
	}
}

func TestStrandedJobIsGivenBackAndLeftAlone(t *testing.T) {
	in := Input{
		Snapshot: &slurm.Snapshot{
			TakenAt: noon, Release: slurm.Release{Major: 26, Minor: 5, REST: 45},
			Nodes: []slurm.Node{{Name: "gpu01"}, {Name: "gpu02"}},
			Jobs: []slurm.Job{{
				ID: 7, State: slurm.State{Base: "PENDING"}, Reason: "BadConstraints", ExcludedNodes: []string{"gpu01"},
				Request: slurm.GPURequest{PerNode: 1}, Partition: "gpu",
			}},
		},
		Owned: map[slurm.JobID]Owner{7: {JobID: 7, SetAt: noon, SetExclude: []string{"gpu01"}}},
	}
	w := Steer(Plan{}, in)
	if len(w.Changes) != 1 || w.Changes[0].Kind != KindTakeBack || len(*w.Changes[0].Update.ExcludedNodes) != 0 {
		t.Fatalf("changes %+v, want one take-back that clears the list", w.Changes)
	}
	after := applyAll(in, w.Changes)
	job := &after.Snapshot.Jobs[0]
	job.Reason, job.Priority = "Priority", 10
	after.Snapshot.Partitions = []slurm.Partition{{Name: "gpu", Up: true, Nodes: []string{"gpu01", "gpu02"}}}
	if why := Untouchable(job, after); why == "" {
		t.Error("the job may be touched again")
	}
}
