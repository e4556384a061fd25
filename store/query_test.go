// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// filled holds two cycles: in the first 1 waits, 2 runs and 3 has ended; in
// the second 1 runs, packed, and 2 is no longer listed.
func filled(t *testing.T) *Store {
	t.Helper()
	s := openTest(t, testPath(t))
	two := runningJob(2, "gpu02")
	two.User, two.Account, two.Partition = "bob", "physics", "long"
	r := record(t0, pendingJob(1), two, endedJob(3, time.Minute, "gpu03"))
	r.Profiles = map[slurm.JobID]profile.Profile{1: knownProfile(1)}
	r.Plan.Decisions = []policy.Decision{packed(1, "gpu01", "gpu03")}
	r.Changes = []policy.Change{exclude(1, "gpu02")}
	n := begin(t, s, r)
	end(t, s, n, policy.Result{Change: r.Changes[0], Outcome: policy.Applied})

	one := runningJob(1, "gpu01")
	one.StartTime = t0.Add(time.Minute)
	r = record(t0.Add(11*time.Minute), one)
	p := knownProfile(1)
	p.NPR, p.NPRCount = 0.9, 4
	r.Profiles = map[slurm.JobID]profile.Profile{1: p}
	end(t, s, begin(t, s, r))
	err := s.SaveEpisodes(context.Background(), []policy.Episode{{JobID: 1, Decided: t0, Action: policy.Pack,
		Actual: policy.Pack, Started: t0.Add(time.Minute), Nodes: []string{"gpu01"}, Reward: -0.01, Learned: true}})
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestFilters(t *testing.T) {
	s := filled(t)
	tests := map[string]struct {
		f    Filter
		want []slurm.JobID
	}{
		"all":                       {Filter{}, []slurm.JobID{1, 2, 3}},
		"what the last cycle saw":   {Filter{Current: true}, []slurm.JobID{1}},
		"by user":                   {Filter{Users: []string{"bob", "eve"}}, []slurm.JobID{2}},
		"by account":                {Filter{Accounts: []string{"lab"}}, []slurm.JobID{1, 3}},
		"by one of two partitions":  {Filter{Partitions: []string{"gpu"}}, []slurm.JobID{1, 3}},
		"by partition":              {Filter{Partitions: []string{"long"}}, []slurm.JobID{1, 2, 3}},
		"not by a part of its name": {Filter{Partitions: []string{"lon"}}, nil},
		"by QOS":                    {Filter{QOS: []string{"high"}}, nil},
		"by group":                  {Filter{Groups: []int{0}}, []slurm.JobID{1}},
		"of unknown group":          {Filter{Groups: []int{profile.GroupUnknown}}, []slurm.JobID{2, 3}},
		"by id":                     {Filter{Jobs: []slurm.JobID{3, 99}}, []slurm.JobID{3}},
		"since an end":              {Filter{Since: t0.Add(-time.Minute)}, []slurm.JobID{1, 2}},
		"until before submission":   {Filter{Until: t0.Add(-time.Hour)}, nil},
		"text of users is no SQL":   {Filter{Users: []string{"x' OR '1'='1"}}, nil},
		"several conditions":        {Filter{Users: []string{"ada"}, Groups: []int{0}, Since: t0}, []slurm.JobID{1}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			jobs, err := s.Jobs(context.Background(), tc.f)
			if err != nil {
				t.Fatal(err)
			}
			var got []slurm.JobID
			for _, j := range jobs {
				got = append(got, j.ID)
			}
			if d := cmp.Diff(tc.want, got); d != "" {
				t.Errorf("(-want +got):\n%s", d)
			}
		})
	}
}

func TestAStoryHoldsAllOfAJob(t *testing.T) {
	s := filled(t)
	st, err := s.Story(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	if !st.Job.Running() || st.Job.Wait() != 6*time.Minute || st.Job.Elapsed() != 10*time.Minute || !st.Job.Owned {
		t.Errorf("job: %+v", st.Job)
	}
	if st.Job.Profile.NPR != 0.9 || !st.Job.Profile.CommBound {
		t.Errorf("profile: %+v", st.Job.Profile)
	}
	if len(st.Decisions) != 1 || len(st.Changes) != 1 || len(st.Episodes) != 1 || st.Owner == nil || st.Last == nil {
		t.Errorf("story: %+v", st)
	}
	if _, err := s.Story(context.Background(), 4711); !errors.Is(err, ErrUnknownJob) || slurm.HintOf(err) == "" {
		t.Errorf("an unknown job: %v", err)
	}
}

func TestStatusOfNothing(t *testing.T) {
	s := openTest(t, testPath(t))
	st, err := s.Status(context.Background())
	if err != nil || st.Last != nil {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestStatusTellsTheLastCycle(t *testing.T) {
	s := filled(t)
	ctx := context.Background()
	r := record(t0.Add(20*time.Minute), pendingJob(5), pendingJob(6))
	skip := policy.Decision{JobID: 6, Action: policy.Leave, Skipped: "it is held"}
	r.Plan.Decisions = []policy.Decision{packed(5, "gpu01", "gpu03"), skip}
	r.Samples = []profile.Sample{{JobID: 1, Node: "gpu01", At: t0.Add(19 * time.Minute)}, {JobID: 1, Node: "gpu02", At: t0.Add(-time.Hour)}}
	begin(t, s, r)
	st, err := s.Status(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Decisions[policy.Pack] != 1 || st.Skipped != 1 || st.Owned != 1 || st.Changes != 1 || st.Collectors != 1 ||
		st.LastSample != t0.Add(19*time.Minute) || len(st.Problems) != 0 {
		t.Errorf("%+v", st)
	}
}

func TestGroupsAndMembers(t *testing.T) {
	s := filled(t)
	ctx := context.Background()
	if gs, at, err := s.Groups(ctx); len(gs) != 0 || !at.IsZero() || err != nil {
		t.Errorf("before the first grouping: %v, %v, %v", gs, at, err)
	}
	old := []profile.Group{{Index: 0, Center: 1, Members: 9}}
	want := []profile.Group{{Index: 0, Center: -0.7, Spread: 0.1, Members: 1}, {Index: 1, Center: 2, Spread: 0.4, Members: 3}}
	for i, g := range [][]profile.Group{old, want} {
		if err := s.SaveGroups(ctx, t0.Add(time.Duration(i)*time.Hour), g); err != nil {
			t.Fatal(err)
		}
	}
	got, at, err := s.Groups(ctx)
	if d := cmp.Diff(want, got); d != "" || err != nil || at != t0.Add(time.Hour) {
		t.Errorf("(-want +got):\n%s%v, %v", d, at, err)
	}
	members, err := s.Members(ctx, Filter{})
	if d := cmp.Diff([]Member{{Group: 0, Family: "ada/lab/train/8", User: "ada", Name: "train", GPUs: 8, Jobs: 1, LogCC: -0.7, Count: 40, Level: "family"}}, members); d != "" || err != nil {
		t.Errorf("members (-want +got):\n%s%v", d, err)
	}
}

func TestDriftsFollowTheNumbers(t *testing.T) {
	s := filled(t)
	ctx := context.Background()
	hour := func(h int) time.Time { return t0.Add(time.Duration(h) * time.Hour) }
	for _, g := range []struct {
		at time.Time
		gs []profile.Group
	}{
		{hour(0), []profile.Group{{Index: 0, Center: -1}, {Index: 2, Center: 2}}},
		{hour(100), []profile.Group{{Index: 0, Center: 0}, {Index: 1, Center: 9}}},
		{hour(200), []profile.Group{{Index: 0, Center: -0.75}, {Index: 1, Center: 0.5}}},
		{hour(201), []profile.Group{{Index: 0, Center: -0.5}, {Index: 2, Center: 2.25}, {Index: 3, Center: 1}}},
	} {
		if err := s.SaveGroups(ctx, g.at, g.gs); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Drifts(ctx)
	want := map[int]Drift{
		0: {Last: 0.25, HasLast: true, Week: 0.5, HasWeek: true}, // 168 h before hour 201 stood what was grouped at 0
		2: {Week: 0.25, HasWeek: true},
		3: {},
	}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("drifts (-want +got):\n%s%v", d, err)
	}
	gs, _, err := s.Groups(ctx)
	if err != nil || len(gs) != 3 || gs[1].Index != 3 || gs[2].Index != 2 {
		t.Errorf("groups %+v, %v; want them by centre", gs, err)
	}
}

func TestPruneForgetsHistoryButNotOwners(t *testing.T) {
	s := filled(t)
	ctx := context.Background()
	for i := range 2 {
		if err := s.SaveGroups(ctx, t0.Add(time.Duration(i)*time.Second), []profile.Group{{}}); err != nil {
			t.Fatal(err)
		}
	}
	res := policy.Result{Change: exclude(3), Outcome: policy.Applied}
	if err := s.SaveRelease(ctx, t0, res); err != nil {
		t.Fatal(err)
	}
	if err := s.Prune(ctx, t0.Add(24*time.Hour)); err != nil {
		t.Fatal(err)
	}
	got := map[string]int{}
	for _, table := range []string{"cycles", "jobs", "decisions", "changes", "samples", "episodes", "groups", "owners"} {
		var n int
		if err := s.db.Get(&n, `SELECT count(*) FROM `+table); err != nil {
			t.Fatal(err)
		}
		got[table] = n
	}
	want := map[string]int{"cycles": 0, "jobs": 1, "decisions": 0, "changes": 0, "samples": 0, "episodes": 0, "groups": 1, "owners": 1}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("rows left (-want +got):\n%s", d)
	}
	var free int
	if err := s.db.Get(&free, `PRAGMA freelist_count`); err != nil || free != 0 {
		t.Errorf("%d free pages, %v", free, err)
	}
}

func TestAReleaseDropsTheOwnerOnlyWhenNothingIsLeft(t *testing.T) {
	s := filled(t)
	ctx := context.Background()
	still := exclude(1, "gpu02").Owner
	for _, stands := range []policy.Owner{still, {JobID: 1}} {
		res := policy.Result{Change: exclude(1), Outcome: policy.Skipped, Detail: "the job runs", Owner: &stands}
		if err := s.SaveRelease(ctx, t0.Add(time.Hour), res); err != nil {
			t.Fatal(err)
		}
		owners, err := s.Owners(ctx)
		if err != nil || (len(owners) == 0) != stands.SetAt.IsZero() {
			t.Errorf("%+v stands: owners %v, %v", stands, owners, err)
		}
	}
	st, err := s.Story(ctx, 1)
	if err != nil || len(st.Changes) != 3 || st.Owner != nil || st.Changes[2].Cycle != 0 {
		t.Errorf("changes: %+v, %v", st.Changes, err)
	}
}

func TestDisplayID(t *testing.T) {
	for want, j := range map[string]Job{
		"7":          {ID: 7, ArrayTaskID: -1},
		"21_3":       {ID: 25, ArrayJobID: 21, ArrayTaskID: 3},
		"21_[4-6%2]": {ID: 21, ArrayJobID: 21, ArrayTaskID: -1, ArrayTasks: "4-6%2"},
	} {
		if got := j.DisplayID(); got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}
