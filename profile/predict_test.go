// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/slurm"
)

func TestBackOff(t *testing.T) {
	b := newBook(t)
	// Three families of ann's and one of bob's, all seen across nodes.
	for i, name := range []string{"resnet50", "bert", "vit"} {
		j := newJob(slurm.JobID(i+1)).named(name).on(t0, 2, "n1", "n2")
		s, _ := heavy.run(j, 1)
		feed(t, b, j, 6, s)
	}
	bob := newJob(4).of("bob").named("gan").on(t0, 2, "n1", "n2")
	s, _ := light.run(bob, 1)
	now := feed(t, b, bob, 6, s)
	b.Regroup(now)

	tests := map[string]struct {
		j     *job
		level Level
		group int
	}{
		"its own counters":                         {newJob(4).of("bob").named("gan").on(t0, 2, "n1", "n2"), LevelJob, 1},
		"the same work again":                      {newJob(11), LevelFamily, 0},
		"the same work with more GPUs":             {newJob(12).gpus(8), LevelName, 0},
		"something new of a user whose jobs agree": {newJob(13).named("llama"), LevelUser, 0},
		"a new user, and jobs of that size differ": {newJob(14).of("eve"), LevelClass, GroupUnknown},
		"a new user with a job of another size":    {newJob(17).of("eve").gpus(16), LevelCluster, GroupUnknown},
		"a user of whom one family is known":       {newJob(15).of("bob").named("new"), LevelClass, GroupUnknown},
		"one GPU needs no evidence":                {newJob(16).of("eve").gpus(1), LevelJob, 1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := b.Profiles(snapshot(now, tt.j))[tt.j.ID]
			if p.Level != tt.level || p.Group != tt.group {
				t.Errorf("level %q, group %d (log cc %.2f, sd %.2f); want %q, %d; groups %+v",
					p.Level, p.Group, p.LogCC, math.Sqrt(p.Var), tt.level, tt.group, b.Groups())
			}
			if p.CommBound != (tt.group == 0) || p.ComputeBound != (tt.group == 1) {
				t.Errorf("communication-bound %v, compute-bound %v in group %d", p.CommBound, p.ComputeBound, p.Group)
			}
		})
	}
}

func TestNothingIsKnownOfAnEmptyCluster(t *testing.T) {
	b := newBook(t)
	got := b.Profiles(snapshot(t0, newJob(1), newJob(2).gpus(0)))
	want := map[slurm.JobID]Profile{1: {
		JobID: 1, Family: "ann/vision/resnet50/train-sh/g4", GPUs: 4,
		Level: LevelNone, Group: GroupUnknown, RunTimeLevel: LevelNone,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("profiles (-want +got):\n%s", diff)
	}
	if g, changed := b.Regroup(t0); len(g) != 0 || changed {
		t.Errorf("Regroup = %v, %v; want none", g, changed)
	}
}

func TestEvidenceAcrossNodesIsPreferred(t *testing.T) {
	b := newBook(t)
	packed, spread := newJob(1).on(t0, 4, "n1"), newJob(2).on(t0, 2, "n2", "n3")
	s, _ := light.run(packed, 1)
	feed(t, b, packed, 20, s)
	s, _ = heavy.run(spread, 1)
	now := feed(t, b, spread, 5, s)
	p := b.Profiles(snapshot(now, newJob(3)))[3]
	near(t, "log cc", p.LogCC, b.runs[2].CC.Spread.Mean, 1e-9)
	m := b.Members()
	if len(m) != 1 || !m[0].Spread || m[0].Count != 5 {
		t.Errorf("members %+v, want one, spread, 5 intervals", m)
	}
}

func TestUtilizationIsWeak(t *testing.T) {
	b := newBook(t)
	j := newJob(1).on(t0, 2, "n1", "n2")
	s, _ := heavy.run(j, 1)
	feed(t, b, j, 4, func(at time.Time) []Sample {
		out := s(at)
		for i := range out {
			out[i].Source, out[i].Compute = SourceUtilization, 1 // collectives included
		}
		return out
	})
	near(t, "weight", b.runs[1].CC.Spread.W, 2, 1e-3)
	near(t, "log cc without the collectives", b.runs[1].CC.Spread.Mean,
		math.Log(heavy.compute.Seconds()/(heavy.bytes*1.5*2/nicSpeed)), 1e-9)
}

func TestRegroup(t *testing.T) {
	b := newBook(t)
	j := newJob(1).on(t0, 2, "n1", "n2")
	s, _ := heavy.run(j, 1)
	now := feed(t, b, j, 6, s)
	if g, changed := b.Regroup(now); len(g) != 1 || !changed {
		t.Fatalf("first: %+v, %v; want one group, changed", g, changed)
	}
	k := newJob(2).named("vit").on(t0, 2, "n1", "n2")
	s, _ = light.run(k, 1)
	feed(t, b, k, 6, s)
	if g, changed := b.Regroup(now.Add(time.Minute)); len(g) != 1 || changed {
		t.Fatalf("a minute later: %+v, %v; want no change yet", g, changed)
	}
	g, changed := b.Regroup(now.Add(time.Hour))
	if len(g) != 2 || !changed || g[0].Center >= g[1].Center {
		t.Fatalf("an hour later: %+v, %v; want two groups by ascending centre", g, changed)
	}
	if _, changed := b.Regroup(now.Add(2 * time.Hour)); changed {
		t.Error("two hours later: changed, though nothing was seen in between")
	}
	g[0].Center = 99
	if b.Groups()[0].Center == 99 {
		t.Error("a caller can change the book's groups")
	}
}

func TestRunTime(t *testing.T) {
	ended := func(minutes ...int) []*job {
		var out []*job
		for i, m := range minutes {
			out = append(out, newJob(slurm.JobID(100+i)).ended("COMPLETED", time.Duration(m)*time.Minute))
		}
		return out
	}
	with := func(j *job, change func(*job)) *job { change(j); return j }
	now := t0.Add(3 * time.Hour)
	tests := map[string]struct {
		before []*job
		j      *job
		want   time.Duration
		level  Level
	}{
		"nothing is known": {nil, newJob(1), 0, LevelNone},
		"the median":       {ended(10, 20, 90), newJob(1), 20 * time.Minute, LevelFamily},
		"never above the limit": {ended(90, 90), with(newJob(1), func(j *job) { j.TimeLimit = time.Hour }),
			time.Hour, LevelFamily},
		"no limit": {ended(90), with(newJob(1), func(j *job) { j.TimeLimit, j.Unlimited = 0, true }),
			90 * time.Minute, LevelFamily},
		"a run that hit its limit took that long": {
			[]*job{newJob(5).ended("TIMEOUT", 4*time.Hour+30*time.Second)},
			newJob(1), 4 * time.Hour, LevelFamily},
		"one that failed says nothing":       {[]*job{newJob(5).ended("FAILED", time.Minute)}, newJob(1), 0, LevelNone},
		"nor one that was cancelled":         {[]*job{newJob(5).ended("CANCELLED", time.Minute)}, newJob(1), 0, LevelNone},
		"nor one that a node took down":      {[]*job{newJob(5).ended("NODE_FAIL", time.Hour)}, newJob(1), 0, LevelNone},
		"the same name with other GPUs":      {ended(10), newJob(1).gpus(8), 10 * time.Minute, LevelName},
		"another name of the user, too few":  {ended(10, 20), newJob(1).named("x"), 0, LevelNone},
		"another name of the user":           {ended(10, 20, 30), newJob(1).named("x"), 20 * time.Minute, LevelUser},
		"another user":                       {ended(10, 20, 30), newJob(1).of("eve"), 20 * time.Minute, LevelClass},
		"another user and size":              {ended(10, 20, 30), newJob(1).of("eve").gpus(16), 20 * time.Minute, LevelCluster},
		"a running job outlived the shorter": {ended(10, 20, 80, 90, 200), newJob(1).on(now.Add(-30*time.Minute), 4, "n1"), 90 * time.Minute, LevelFamily},
		"and all of them":                    {ended(10, 20), newJob(1).on(now.Add(-30*time.Minute), 4, "n1"), time.Hour, LevelFamily},
		"but never its limit": {ended(10, 20), with(newJob(1), func(j *job) { j.TimeLimit = 40 * time.Minute }).on(now.Add(-30*time.Minute), 4, "n1"),
			40 * time.Minute, LevelFamily},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			for range 3 { // ended jobs stay in the queue for MinJobAge
				b.Track(snapshot(now, tt.before...))
			}
			p := b.Profiles(snapshot(now, tt.j))[tt.j.ID]
			if p.RunTime != tt.want || p.RunTimeLevel != tt.level {
				t.Errorf("run time %v at level %q, want %v at %q", p.RunTime, p.RunTimeLevel, tt.want, tt.level)
			}
		})
	}
}

func TestNewerRunTimesWeighMore(t *testing.T) {
	b := newBook(t)
	var jobs []slurm.Job
	for i := range 6 {
		j := newJob(slurm.JobID(i+1)).on(t0.Add(time.Duration(i)*time.Minute), 4, "n1").ended("COMPLETED", time.Hour)
		jobs = append(jobs, j.Job)
	}
	later := t0.Add(60 * 24 * time.Hour)
	for i := range 2 {
		j := newJob(slurm.JobID(i+10)).on(later, 4, "n1").ended("COMPLETED", 2*time.Hour)
		jobs = append(jobs, j.Job)
	}
	b.History(jobs)
	b.History(jobs) // sacct asked twice
	now := later.Add(3 * time.Hour)
	b.Track(snapshot(now))
	if p := b.Profiles(snapshot(now, newJob(99)))[99]; p.RunTime != 2*time.Hour {
		t.Errorf("run time %v, want the newer 2h", p.RunTime)
	}
	if m := b.Members(); m[0].Runs != 8 {
		t.Errorf("%d runs, want 8", m[0].Runs)
	}
}

func TestARequeuedJobBeginsAnotherRun(t *testing.T) {
	b := newBook(t)
	j := newJob(1).on(t0, 2, "n1", "n2")
	s, _ := heavy.run(j, 1)
	now := feed(t, b, j, 6, s)

	b.Track(snapshot(now.Add(time.Minute), newJob(1)))
	if b.runs[1].Ended.IsZero() {
		t.Error("the run goes on while the job is pending again")
	}
	again := newJob(1).on(now.Add(10*time.Minute), 4, "n3")
	b.Track(snapshot(now.Add(20*time.Minute), again))
	if r := b.runs[1]; r.Seen != 0 || !r.Ended.IsZero() || r.spread() {
		t.Errorf("run %+v, want a new one on one node", r)
	}
	again.ended("COMPLETED", 30*time.Minute)
	b.Track(snapshot(now.Add(time.Hour), again))
	if p := b.Profiles(snapshot(now.Add(time.Hour), newJob(2)))[2]; p.RunTime != 30*time.Minute {
		t.Errorf("run time %v, want that of the run that completed, 30m", p.RunTime)
	}
}

func TestOldFamiliesAreForgotten(t *testing.T) {
	o := DefaultOptions()
	o.MaxFamilies = 10
	b := NewBook(o)
	for i := range 50 {
		j := newJob(slurm.JobID(i+1)).named("work"+string(rune('a'+i%26))+string(rune('a'+i/26))).ended("COMPLETED", time.Hour)
		b.Track(snapshot(t0.Add(time.Duration(i)*time.Hour), j))
	}
	if got := len(b.Members()); got != 10 {
		t.Errorf("%d families, want 10", got)
	}
	if got := b.Members()[9].Family; got != fmt.Sprintf("ann/vision/work%s/train-sh/g4", "xb") {
		t.Errorf("the last of the newest ten is %q", got)
	}
}
