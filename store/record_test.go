// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

func TestACycleComesBackAsItWas(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	r := record(t0, pendingJob(1), runningJob(2, "gpu02"))
	r.Profiles = map[slurm.JobID]profile.Profile{1: knownProfile(1)}
	r.Plan.Decisions = []policy.Decision{packed(1, "gpu01", "gpu03")}
	n := begin(t, s, r)
	end(t, s, n)
	got, err := s.LastCycle(ctx)
	if err != nil {
		t.Fatal(err)
	}
	want := &Cycle{ID: n, At: t0, Begun: hostNow, Ended: hostNow, Took: 120 * time.Millisecond, Mode: "steer",
		Policy: "rifling", Seed: 1 << 63, Pending: 1, PendingGPUs: 8, Running: 1, GPUs: 64, GPUsUsed: 40,
		ANPR: 0.875, ANPRGPUs: 24, Odd: map[string]int{"job without id": 2}}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("cycle (-want +got):\n%s", d)
	}
	jobs, err := s.Jobs(ctx, Filter{Jobs: []slurm.JobID{1}})
	if err != nil || len(jobs) != 1 {
		t.Fatalf("jobs: %v, %v", jobs, err)
	}
	if d := cmp.Diff(knownProfile(1), jobs[0].Profile); d != "" {
		t.Errorf("profile (-want +got):\n%s", d)
	}
	if d := cmp.Diff(packed(1, "gpu01", "gpu03"), jobs[0].Decision.Decision); d != "" {
		t.Errorf("decision (-want +got):\n%s", d)
	}
	if !jobs[0].Start.IsZero() || jobs[0].Estimate != t0.Add(time.Hour) {
		t.Errorf("an estimated start became a start: %v, %v", jobs[0].Start, jobs[0].Estimate)
	}
}

func TestAnArrayCountsByItsTasks(t *testing.T) {
	s := openTest(t, testPath(t))
	array := pendingJob(30)
	array.ArrayJobID, array.ArrayTaskString = 30, "4-6%2"
	task := pendingJob(31)
	task.ArrayJobID, task.ArrayTaskID = 30, 3
	odd := pendingJob(40)
	odd.ArrayJobID, odd.ArrayTaskString = 40, "?"
	begin(t, s, record(t0, array, task, odd))
	c, err := s.LastCycle(context.Background())
	if err != nil || c.Pending != 5 || c.PendingGPUs != 40 {
		t.Errorf("%+v, %v; want 5 jobs and 40 GPUs", c, err)
	}
}

func TestADecisionThatStandsIsOneRow(t *testing.T) {
	base := packed(1, "gpu01", "gpu03")
	tests := map[string]struct {
		change func(*policy.Decision, *policy.Record)
		rows   int
	}{
		"the same":          {func(*policy.Decision, *policy.Record) {}, 1},
		"only values moved": {func(d *policy.Decision, _ *policy.Record) { d.Value, d.Considered = -0.5, nil }, 1},
		"only other words":  {func(d *policy.Decision, _ *policy.Record) { d.Reason = "still" }, 1},
		"the target moved":  {func(d *policy.Decision, _ *policy.Record) { d.Target = nil }, 1},
		"another action":    {func(d *policy.Decision, _ *policy.Record) { d.Action = policy.Quiet }, 2},
		"other nodes":       {func(d *policy.Decision, _ *policy.Record) { d.Candidates = []string{"gpu01"} }, 2},
		"all nodes":         {func(d *policy.Decision, _ *policy.Record) { d.Candidates = nil }, 2},
		"another offset":    {func(d *policy.Decision, _ *policy.Record) { d.Offset = 5 }, 2},
		"another state":     {func(d *policy.Decision, _ *policy.Record) { d.State = "g1" }, 2},
		"hands off":         {func(d *policy.Decision, _ *policy.Record) { d.Skipped = "it is held" }, 2},
		"observed from now": {func(_ *policy.Decision, r *policy.Record) { r.Mode = "observe" }, 2},
		"by another policy": {func(_ *policy.Decision, r *policy.Record) { r.Plan.Policy = "pack" }, 2},
		"explored from now": {func(d *policy.Decision, _ *policy.Record) { d.Explored = true }, 2},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := openTest(t, testPath(t))
			r := record(t0, pendingJob(1))
			r.Plan.Decisions = []policy.Decision{base}
			first := begin(t, s, r)
			d := base
			r = record(t0.Add(time.Minute), pendingJob(1))
			tc.change(&d, &r)
			r.Plan.Decisions = []policy.Decision{d}
			last := begin(t, s, r)
			st, err := s.Story(context.Background(), 1)
			if err != nil {
				t.Fatal(err)
			}
			if len(st.Decisions) != tc.rows {
				t.Fatalf("%d rows, want %d", len(st.Decisions), tc.rows)
			}
			got := st.Decisions[len(st.Decisions)-1]
			if d := cmp.Diff(d, got.Decision); d != "" {
				t.Errorf("newest words (-want +got):\n%s", d)
			}
			wantFirst := last
			if tc.rows == 1 {
				wantFirst = first
			}
			if got.FirstCycle != wantFirst || got.LastCycle != last || got.LastAt != t0.Add(time.Minute) {
				t.Errorf("stood over cycles %d to %d until %v", got.FirstCycle, got.LastCycle, got.LastAt)
			}
		})
	}
}

// fill gives every field of a struct a value that is not zero.
func fill(t *testing.T, v reflect.Value, n *int64) {
	t.Helper()
	*n++
	switch {
	case v.Type() == reflect.TypeFor[time.Time]():
		v.Set(reflect.ValueOf(t0.Add(time.Duration(*n) * time.Second)))
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			fill(t, v.Field(i), n)
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		fill(t, v.Index(0), n)
		fill(t, v.Index(1), n)
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(t, v.Elem(), n)
	case v.Kind() == reflect.String:
		v.SetString(fmt.Sprintf("gpu%03d", *n))
	case v.CanInt():
		v.SetInt(*n)
	case v.CanUint():
		v.SetUint(uint64(*n))
	case v.Kind() == reflect.Float64:
		v.SetFloat(float64(*n) / 8)
	case v.Kind() == reflect.Bool:
		v.SetBool(true)
	default:
		t.Fatalf("no value for %s", v.Type())
	}
}

// A field that is added to these structs and forgotten here fails.
func TestEveryFieldIsKept(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	var n int64
	var owner policy.Owner
	fill(t, reflect.ValueOf(&owner).Elem(), &n)
	if err := s.SaveOwner(ctx, owner); err != nil {
		t.Fatal(err)
	}
	owners, err := s.Owners(ctx)
	if d := cmp.Diff([]policy.Owner{owner}, owners); d != "" || err != nil {
		t.Errorf("owner (-want +got):\n%s%v", d, err)
	}
	var e policy.Episode
	fill(t, reflect.ValueOf(&e).Elem(), &n)
	for range 2 { // saved again, it replaces itself
		if err := s.SaveEpisodes(ctx, []policy.Episode{e}); err != nil {
			t.Fatal(err)
		}
	}
	eps, err := s.episodes(ctx, "")
	if d := cmp.Diff([]policy.Episode{e}, eps); d != "" || err != nil {
		t.Errorf("episode (-want +got):\n%s%v", d, err)
	}
	var q policy.QEntry
	fill(t, reflect.ValueOf(&q).Elem(), &n)
	if err := s.SaveTable(ctx, t0, []policy.QEntry{{State: "old", Action: "pack"}}); err != nil {
		t.Fatal(err)
	}
	if err := s.SaveTable(ctx, t0, []policy.QEntry{q}); err != nil {
		t.Fatal(err)
	}
	table, err := s.LoadTable(ctx)
	if d := cmp.Diff([]policy.QEntry{q}, table); d != "" || err != nil {
		t.Errorf("table (-want +got):\n%s%v", d, err)
	}
	var d policy.Decision
	fill(t, reflect.ValueOf(&d).Elem(), &n)
	r := record(t0)
	r.Plan.Decisions = []policy.Decision{d}
	begin(t, s, r)
	var rows []decisionRow
	if err := s.db.Select(&rows, `SELECT `+decisionColumns+` FROM decisions`); err != nil {
		t.Fatal(err)
	}
	got, err := decisionsOf(rows)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(d, got[0].Decision); diff != "" {
		t.Errorf("decision (-want +got):\n%s", diff)
	}
}

func TestNilAndEmptyListsOfAnOwnerStayApart(t *testing.T) {
	s := openTest(t, testPath(t))
	ctx := context.Background()
	rapid.Check(t, func(rt *rapid.T) {
		list := rapid.OneOf(rapid.Just[[]string](nil),
			rapid.SliceOfN(rapid.StringMatching(`[a-z]{1,4}[0-9]{0,3}`), 0, 4))
		want := policy.Owner{JobID: 9, UserExclude: list.Draw(rt, "user"), SetExclude: list.Draw(rt, "set"),
			PrevExclude: list.Draw(rt, "prev"), SetRequired: list.Draw(rt, "required")}
		if err := s.SaveOwner(ctx, want); err != nil {
			rt.Fatal(err)
		}
		got, err := s.Owners(ctx)
		if d := cmp.Diff([]policy.Owner{want}, got); d != "" || err != nil {
			rt.Fatalf("(-want +got):\n%s%v", d, err)
		}
	})
}

func TestADaemonThatDiesBetweenRecordAndWriteLeavesItsOwners(t *testing.T) {
	ctx := context.Background()
	path := testPath(t)
	s := openTest(t, path)
	r := record(t0, pendingJob(1))
	r.Changes = []policy.Change{exclude(1, "gpu02", "gpu04")}
	begin(t, s, r)
	s.Close() // no End

	s = openTest(t, path)
	owners, err := s.Owners(ctx)
	if err != nil || len(owners) != 1 {
		t.Fatalf("owners after the crash: %v, %v", owners, err)
	}
	if d := cmp.Diff(r.Changes[0].Owner, owners[0]); d != "" {
		t.Errorf("owner (-want +got):\n%s", d)
	}
	last, err := s.LastCycle(ctx)
	if err != nil || !last.Ended.IsZero() {
		t.Errorf("the cycle seems ended: %+v, %v", last, err)
	}
	// The next cycle shows the one without an end as a problem.
	begin(t, s, record(t0.Add(time.Minute), pendingJob(1)))
	st, err := s.Status(ctx)
	if err != nil || len(st.Problems) != 1 || st.Problems[0].Outcome != "" {
		t.Errorf("problems: %+v, %v", st, err)
	}
}

func TestEndNotesEachOutcome(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	r := record(t0, pendingJob(1), pendingJob(2))
	r.Changes = []policy.Change{exclude(1, "gpu02"), exclude(2, "gpu03")}
	n := begin(t, s, r)
	late := exclude(1)
	late.Kind, late.Why = policy.KindTakeBack, "Slurm called it impossible"
	end(t, s, n,
		policy.Result{Change: r.Changes[0], Outcome: policy.Applied},
		policy.Result{Change: r.Changes[1], Outcome: policy.Failed, Detail: "permission denied"},
		policy.Result{Change: late, Outcome: policy.Applied})
	got, err := s.changes(ctx, "ORDER BY id")
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{
		{JobID: 1, Cycle: n, At: t0, Kind: policy.KindSet, Update: r.Changes[0].Update, Why: "pack on gpu01", Outcome: policy.Applied},
		{JobID: 2, Cycle: n, At: t0, Kind: policy.KindSet, Update: r.Changes[1].Update, Why: "pack on gpu01", Outcome: policy.Failed, Detail: "permission denied"},
		{JobID: 1, Cycle: n, At: t0, Kind: policy.KindTakeBack, Update: late.Update, Why: "Slurm called it impossible", Outcome: policy.Applied},
	}
	for i := range want { // nil and empty are one in a list that clears
		if want[i].Update.ExcludedNodes != nil && *want[i].Update.ExcludedNodes == nil {
			want[i].Update.ExcludedNodes = &[]string{}
		}
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestOwnersFollowWhatIsWritten(t *testing.T) {
	takeBack := exclude(1)
	takeBack.Kind = policy.KindTakeBack
	takeBack.Owner = policy.Owner{JobID: 1, PrevExclude: []string{"gpu02"}, SetAt: t0}
	set := exclude(1, "gpu02")
	none := &policy.Owner{JobID: 1}
	renewed := set.Owner
	renewed.ExpiresAt = t0.Add(time.Hour)
	tests := map[string]struct {
		mode    string
		changes []policy.Change
		renew   []policy.Owner
		forget  []slurm.JobID
		outcome policy.Outcome
		stands  *policy.Owner
		want    []policy.Owner
	}{
		"set is owned before the write":    {mode: "steer", changes: []policy.Change{set}, want: []policy.Owner{set.Owner}},
		"nothing is owned in observe mode": {mode: "observe", changes: []policy.Change{set}, want: []policy.Owner{}},
		"a take-back that failed changes nothing": {mode: "steer", renew: []policy.Owner{set.Owner},
			changes: []policy.Change{takeBack}, outcome: policy.Failed, want: []policy.Owner{set.Owner}},
		"a take-back that was applied counts": {mode: "steer", renew: []policy.Owner{set.Owner},
			changes: []policy.Change{takeBack}, outcome: policy.Applied, want: []policy.Owner{takeBack.Owner}},
		"a set that did not come through is none": {mode: "steer", changes: []policy.Change{set},
			outcome: policy.Skipped, stands: none, want: []policy.Owner{}},
		"a set of unknown end stays owned": {mode: "steer", changes: []policy.Change{set},
			outcome: policy.Failed, want: []policy.Owner{set.Owner}},
		"what the result says stands": {mode: "steer", changes: []policy.Change{set},
			outcome: policy.Applied, stands: &renewed, want: []policy.Owner{renewed}},
		"renewed":         {mode: "steer", renew: []policy.Owner{renewed}, want: []policy.Owner{renewed}},
		"gone from Slurm": {mode: "observe", forget: []slurm.JobID{1}, want: []policy.Owner{}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			ctx := context.Background()
			s := openTest(t, testPath(t))
			r := record(t0, pendingJob(1))
			r.Mode, r.Changes, r.Renew, r.Forget = tc.mode, tc.changes, tc.renew, tc.forget
			n := begin(t, s, r)
			if tc.outcome != "" {
				end(t, s, n, policy.Result{Change: tc.changes[0], Outcome: tc.outcome, Owner: tc.stands})
			}
			got, err := s.Owners(ctx)
			if d := cmp.Diff(tc.want, got); d != "" || err != nil {
				t.Errorf("(-want +got):\n%s%v", d, err)
			}
		})
	}
}

func TestAReaderWorksWhileTheDaemonWrites(t *testing.T) {
	ctx := context.Background()
	path := testPath(t)
	s := openTest(t, path)
	begin(t, s, record(t0, pendingJob(1)))
	r, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	tx, err := s.db.Beginx() // a write transaction is open
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(`UPDATE jobs SET user = 'eve'`); err != nil {
		t.Fatal(err)
	}
	jobs, err := r.Jobs(ctx, Filter{})
	if err != nil || len(jobs) != 1 || jobs[0].User != "ada" {
		t.Errorf("during the write: %v, %v", jobs, err)
	}
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	if jobs, err = r.Jobs(ctx, Filter{}); err != nil || jobs[0].User != "eve" {
		t.Errorf("after the write: %v, %v", jobs, err)
	}
}

func TestStatesComeBack(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	if b, err := s.LoadState(ctx, "book"); b != nil || err != nil {
		t.Fatalf("before the first: %v, %v", b, err)
	}
	for _, text := range []string{"one", "two", ""} {
		if err := s.SaveState(ctx, "book", []byte(text)); err != nil {
			t.Fatal(err)
		}
		if b, err := s.LoadState(ctx, "book"); string(b) != text || b == nil || err != nil {
			t.Errorf("got %q, %v, want %q", b, err, text)
		}
	}
}
