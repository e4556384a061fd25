// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// prompt are settings under which slurmctld acts at once, so that schedules can
// be worked out by hand.
func prompt() SlurmSettings {
	s := DefaultSlurm()
	s.Basic, s.Poll, s.BatchDelay = true, 0, 0
	s.BackfillInterval, s.BackfillResolution = time.Second, time.Second
	return s
}

// within sets a job's limit in seconds.
func within(j Job, limit int) Job {
	j.Limit = time.Duration(limit) * time.Second
	return j
}

func open(at, gpus, run int) Job {
	j := job(at, gpus, run)
	j.Request = Request{GPUs: gpus}
	return j
}

func onEach(at, nodes, gpus, run int) Job {
	j := job(at, gpus, run)
	j.Request = Request{GPUsPerNode: gpus, MinNodes: nodes}
	return j
}

func TestSlurm(t *testing.T) {
	tree := small(4, 4, 4, 4, 4)
	for i, leaf := range []string{"a", "a", "b", "b", "b"} {
		tree.Nodes[i].Leaf = leaf
	}
	cores := prompt()
	cores.Cores = true
	off := prompt()
	off.NoBackfill = true
	away := job(0, 2, 100)
	away.Request.Exclude = []string{"n0"}
	two := small(4, 4)
	two.Partitions = []PartitionSpec{{Name: "low", Nodes: []string{"n0", "n1"}}, {Name: "high", Nodes: []string{"n1"}, Tier: 2}}
	in := func(j Job, p string) Job { j.Partition = p; return j }
	for name, tc := range map[string]struct {
		spec Spec
		set  SlurmSettings
		jobs []Job
		want string
	}{
		"what ends before the plan may go first": {
			small(4), prompt(),
			[]Job{within(job(0, 3, 100), 120), within(job(1, 4, 50), 60), within(job(2, 1, 30), 40)},
			"3 3-33 n0:1; 1 0-100 n0:3; 2 100-150 n0:4",
		},
		"what would not, waits": {
			small(4), prompt(),
			[]Job{within(job(0, 3, 100), 120), within(job(1, 4, 50), 60), within(job(2, 1, 30), 400)},
			"1 0-100 n0:3; 2 100-150 n0:4; 3 150-180 n0:1",
		},
		"without backfill nobody passes": {
			small(4), off,
			[]Job{within(job(0, 3, 100), 120), within(job(1, 4, 50), 60), within(job(2, 1, 30), 40)},
			"1 0-100 n0:3; 2 100-150 n0:4; 3 150-180 n0:1",
		},
		// The second is planned on n0 at 200, on two GPUs, and keeps all of it.
		"a plan keeps whole nodes": {
			small(4), prompt(),
			[]Job{within(job(0, 3, 200), 200), within(job(1, 2, 50), 60), within(job(2, 1, 30), 300)},
			"1 0-200 n0:3; 3 200-230 n0:1; 2 200-250 n0:2",
		},
		"the tightest node of a set, by cores": {
			small(4, 8, 4), cores,
			[]Job{job(0, 4, 100), job(1, 6, 100), job(2, 2, 50)},
			"3 2-52 n1:2; 1 0-100 n0:4; 2 1-101 n1:6",
		},
		"the first node, by generic resources": {
			small(4, 4), prompt(),
			[]Job{job(0, 1, 100), job(1, 3, 10), job(2, 1, 10)},
			"2 1-11 n0:3; 3 2-12 n1:1; 1 0-100 n0:1",
		},
		"the smallest set of neighbours that suffices": {
			small(4, 4, 4, 4), prompt(),
			[]Job{onEach(0, 1, 4, 100), onEach(0, 1, 4, 10), onEach(20, 1, 2, 5)},
			"2 0-10 n1:4; 3 20-25 n1:2; 1 0-100 n0:4",
		},
		"the switch with the fewest nodes that suffice": {
			tree, prompt(), []Job{onEach(0, 2, 4, 10), onEach(0, 3, 4, 10)},
			"1 0-10 n0:4 n1:4; 2 0-10 n2:4 n3:4 n4:4",
		},
		"an open request does not look where most is free": {
			small(4, 4), prompt(), []Job{job(0, 2, 100), open(1, 2, 10)},
			"2 1-11 n0:2; 1 0-100 n0:2",
		},
		"an open request may be scattered": {
			small(4, 4), prompt(), []Job{job(0, 2, 100), open(1, 6, 10)},
			"2 1-11 n0:2 n1:4; 1 0-100 n0:2",
		},
		"excluded nodes are left alone": {
			small(4, 4), prompt(), []Job{away}, "1 0-100 n1:2",
		},
		"the higher tier goes first, and a closed partition closes its nodes": {
			two, off,
			[]Job{in(job(0, 4, 50), "low"), in(job(0, 4, 50), "low"), in(job(1, 4, 10), "low"), in(job(2, 4, 10), "high")},
			"1 0-50 n0:4; 2 0-50 n1:4; 3 50-60 n0:4; 4 50-60 n1:4",
		},
	} {
		t.Run(name, func(t *testing.T) {
			rs, _ := simulate(t, tc.spec, NewSlurm(tc.set), listed(tc.jobs...))
			if got := story(rs); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

func TestPriorities(t *testing.T) {
	s := prompt()
	s.Basic = false
	s.Weights = PriorityWeights{Age: 1000, FairShare: 1000, QOS: 1000}
	s.Calc = time.Minute
	spec := small(4)
	spec.QOS = []QOSSpec{{Name: "urgent", Priority: 10}, {Name: "one", MaxJobsPerUser: 1}}
	by := func(j Job, user string) Job { j.User, j.Account = user, "a"; return j }
	urgent := by(job(2, 4, 10), "b")
	urgent.QOS = "urgent"
	nice := by(job(1, 4, 10), "b")
	nice.Nice = 100
	one := func(at int) Job { j := by(job(at, 1, 10), "b"); j.QOS = "one"; return j }
	task := func(at int) Job { j := by(job(at, 1, 10), "b"); j.ArrayID, j.ArrayMax = 7, 2; return j }
	for name, tc := range map[string]struct {
		jobs []Job
		want string
	}{
		"QOS":              {[]Job{by(job(0, 4, 50), "b"), by(job(1, 4, 10), "b"), urgent}, "1 0-50 n0:4; 3 50-60 n0:4; 2 60-70 n0:4"},
		"nice":             {[]Job{by(job(0, 4, 50), "b"), nice, by(job(2, 4, 10), "b")}, "1 0-50 n0:4; 3 50-60 n0:4; 2 60-70 n0:4"},
		"who used less":    {[]Job{by(job(0, 4, 90), "a"), by(job(1, 4, 10), "a"), by(job(2, 4, 10), "b")}, "1 0-90 n0:4; 3 90-100 n0:4; 2 100-110 n0:4"},
		"a limit of a QOS": {[]Job{one(0), one(1)}, "1 0-10 n0:1; 2 10-20 n0:1"},
		"an array's limit": {[]Job{task(0), task(0), task(0)}, "1 0-10 n0:1; 2 0-10 n0:1; 3 10-20 n0:1"},
	} {
		t.Run(name, func(t *testing.T) {
			rs, _ := simulate(t, spec, NewSlurm(s), listed(tc.jobs...))
			if got := story(rs); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}

// What rifling writes takes effect as in Slurm: a site factor reorders, an
// exclude list moves, clearing it frees.
func TestUpdatesTakeEffect(t *testing.T) {
	s := prompt()
	s.Basic, s.Weights = false, PriorityWeights{Age: 1}
	var rs []Result
	e, err := NewEngine(small(4, 4), NewSlurm(s), listed(job(0, 4, 50), job(0, 4, 60), job(1, 4, 10), job(2, 4, 10)), func(r *Result) { rs = append(rs, *r) })
	if err != nil {
		t.Fatal(err)
	}
	if err := e.RunTo(10 * time.Second); err != nil {
		t.Fatal(err)
	}
	var waiting []*JobState
	for j := range e.State().Pending() {
		waiting = append(waiting, j)
	}
	up, away, none := int64(100), []string{"n0"}, []string{}
	if err := e.State().Update(waiting[1], &away, &up, nil); err != nil {
		t.Fatal(err)
	}
	if err := e.State().Update(waiting[0], &[]string{"nowhere"}, nil, nil); err == nil {
		t.Error("an unknown node is accepted")
	}
	if _, err := e.Run(); err != nil {
		t.Fatal(err)
	}
	// Job 4 stands first and may only use n1; backfill still gives n0 to job 3.
	if got, want := story(rs), "1 0-50 n0:4; 2 0-60 n1:4; 3 51-61 n0:4; 4 60-70 n1:4"; got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if err := e.State().Update(waiting[1], &none, nil, nil); err != nil || waiting[1].Excluded != nil {
		t.Errorf("clearing the list: %v, %v", err, waiting[1].Excluded)
	}
}

// watched looks, before and after each backfill pass, when the first waiting
// job could start.
type watched struct {
	*SlurmModel
	t *rapid.T
}

func (w watched) Pass(st *State, what Change) {
	m := w.SlurmModel
	var head *JobState
	planned := time.Duration(0)
	if m.st != nil && m.mainAt < 0 && m.backAt >= 0 && st.now >= m.backAt && what == Woken {
		m.squeeze()
		m.plan.refresh()
		if len(m.queue) > 0 {
			head = m.queue[0]
			m.reach(m.base, head)
			planned, _ = m.when(head, m.base)
		}
	}
	m.Pass(st, what)
	if head == nil || head.Status != Pending {
		return
	}
	m.reach(m.base, head)
	m.plan.refresh()
	least, _ := head.nodeRange()
	if after := m.plan.sorted(head.perNode()).nth(m.base, least); after > planned {
		w.t.Fatalf("at %v a pass put the first job off from %v to %v", st.now, planned, after)
	}
}

// A backfill pass never puts off the job that stands first.
func TestBackfillNeverDelaysTheHead(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var jobs []Job
		at := 0
		for range rapid.IntRange(2, 40).Draw(t, "jobs") {
			at += rapid.IntRange(0, 60).Draw(t, "gap")
			run := rapid.IntRange(1, 600).Draw(t, "run")
			g := rapid.SampledFrom([]int{1, 2, 4}).Draw(t, "gpus")
			jobs = append(jobs, within(onEach(at, rapid.IntRange(1, 3).Draw(t, "nodes"), g, run), run))
		}
		set := prompt()
		set.BackfillResolution = time.Duration(rapid.SampledFrom([]int{1, 60}).Draw(t, "resolution")) * time.Second
		e, err := NewEngine(small(4, 4, 4, 4), watched{NewSlurm(set), t}, listed(jobs...), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Run(); err != nil {
			t.Fatal(err)
		}
	})
}

// compared answers, beside the model, when the first waiting job could start by
// going through the windows one by one, and counts how often the short cut for
// fixed GPUs on each node says otherwise.
type compared struct {
	*SlurmModel
	t    *rapid.T
	seen *int
}

func (c compared) Pass(st *State, what Change) {
	c.SlurmModel.Pass(st, what)
	m := c.SlurmModel
	m.squeeze()
	m.plan.refresh()
	for _, j := range m.queue {
		if j.perNode() == 0 || !j.simple() {
			continue
		}
		m.reach(m.base, j)
		at, on := m.when(j, m.base)
		where := fmt.Sprint(on)
		if at <= st.now {
			continue
		}
		*c.seen++
		slow, slowOn, done := time.Duration(0), "", 0
		m.plan.windows(m.base, m.Settings.Phase, func(end time.Duration, upTo int) bool {
			v := m.plan.at(done, upTo)
			done = upTo
			if on := m.fit.try(j, m.base, v); on != nil {
				slow, slowOn = max(end, st.now+time.Second), fmt.Sprint(on)
			}
			return slow > 0
		})
		if at != slow || where != slowOn {
			c.t.Fatalf("job %d at %v: %v on %s, one by one %v on %s", j.ID, st.now, at, where, slow, slowOn)
		}
	}
}

func TestShortCutsOfThePlan(t *testing.T) {
	seen := 0
	rapid.Check(t, func(t *rapid.T) {
		spec, jobs := drawSpec(t), drawJobs(t)
		e, err := NewEngine(spec, compared{NewSlurm(prompt()), t, &seen}, listed(jobs...), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := e.Run(); err != nil {
			t.Fatal(err)
		}
	})
	if seen == 0 {
		t.Error("no job ever had to wait")
	}
}

// slurmctld counts the CPUs that come with GPUs in the size of a job only after
// it has looked for a place for it: until the next calculation, jobs on one node
// are of one size.
func TestSizeGrowsWithTheFirstLook(t *testing.T) {
	s := prompt()
	s.Basic = false
	s.Weights = PriorityWeights{JobSize: 1000}
	s.Calc = time.Minute
	for name, tc := range map[string]struct {
		free int // when the node is free again
		want string
	}{
		"before": {30, "1 0-30 n0:4; 2 30-40 n0:1; 3 40-50 n0:4"},
		"after":  {90, "1 0-90 n0:4; 3 90-100 n0:4; 2 100-110 n0:1"},
	} {
		t.Run(name, func(t *testing.T) {
			rs, _ := simulate(t, small(4), NewSlurm(s), listed(job(0, 4, tc.free), job(1, 1, 10), job(2, 4, 10)))
			if got := story(rs); got != tc.want {
				t.Errorf("got  %s\nwant %s", got, tc.want)
			}
		})
	}
}
