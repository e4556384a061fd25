// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

var near = cmp.Comparer(func(a, b float64) bool { return a-b < 1e-6 && b-a < 1e-6 })

func reportOf(t *testing.T, s *Store, q ReportQuery) *Report {
	t.Helper()
	r, err := s.Report(context.Background(), q)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestReport(t *testing.T) {
	s := filled(t)
	got := reportOf(t, s, ReportQuery{})
	want := &Report{
		First: t0.Add(-5 * time.Minute), Last: t0.Add(-5 * time.Minute),
		Rows: []Figures{{
			Jobs: 3, Started: 3, Finished: 1, GPUHours: 8*(10.0/60) + 8*(2.0/60) + 8*(1.0/60),
			Wait: Spread{3, 240, 180, 360}, JCT: Spread{1, 240, 240, 240}, Slowdown: Spread{1, 4, 4, 4},
			ANPR: 0.9, ANPRJobs: 1, Decided: 1, Steered: 1, Applied: 1, Reward: -0.01, Rewards: 1,
		}},
	}
	if d := cmp.Diff(want, got, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestReportSplits(t *testing.T) {
	s := filled(t)
	for _, tc := range []struct {
		by   []string
		want []string
	}{
		{[]string{"user"}, []string{"[ada]2", "[bob]1"}},
		{[]string{"account"}, []string{"[lab]2", "[physics]1"}},
		{[]string{"partition"}, []string{"[gpu,long]2", "[long]1"}},
		{[]string{"qos"}, []string{"[normal]3"}},
		{[]string{"gpu"}, []string{"[a100]3"}},
		{[]string{"group"}, []string{"[0]1", "[unknown]2"}},
		{[]string{"action"}, []string{"[none]2", "[pack]1"}},
		{[]string{"day"}, []string{"[2026-12-01]3"}},
		{[]string{"user", "action"}, []string{"[ada none]1", "[ada pack]1", "[bob none]1"}},
		{[]string{"day", "gpu", "user"}, []string{"[2026-12-01 a100 ada]2", "[2026-12-01 a100 bob]1"}},
	} {
		var got []string
		for _, r := range reportOf(t, s, ReportQuery{By: tc.by}).Rows {
			got = append(got, fmt.Sprintf("%v%d", r.Key, r.Jobs))
		}
		if d := cmp.Diff(tc.want, got); d != "" {
			t.Errorf("by %v (-want +got):\n%s", tc.by, d)
		}
	}
	if _, err := s.Report(context.Background(), ReportQuery{By: []string{"colour"}}); slurm.HintOf(err) == "" {
		t.Errorf("by an unknown key: %v", err)
	}
}

// A day is one of the asker's calendar.
func TestReportDaysAreOfAZone(t *testing.T) {
	s := filled(t)
	west := time.FixedZone("west", -7*3600)
	rows := reportOf(t, s, ReportQuery{By: []string{"day"}, Zone: west, Blocks: true}).Rows
	if len(rows) != 1 || rows[0].Key[0] != "2026-11-30" || len(rows[0].Days) != 1 || rows[0].Days[0].Jobs != 3 {
		t.Errorf("got %+v", rows)
	}
}

func TestReportOfNothing(t *testing.T) {
	s := openTest(t, testPath(t))
	if d := cmp.Diff(&Report{Rows: []Figures{{}}}, reportOf(t, s, ReportQuery{})); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if rows := reportOf(t, s, ReportQuery{By: []string{"user"}}).Rows; rows != nil {
		t.Errorf("by user: %+v", rows)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := s.Report(ctx, ReportQuery{}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled report: %v", err)
	}
}

// A job that waited through the switch counts on neither side.
func TestReportBeforeAndAfter(t *testing.T) {
	s := openTest(t, testPath(t))
	at := func(id slurm.JobID, submit, wait, run time.Duration) slurm.Job {
		j := endedJob(id, run, "gpu01")
		j.SubmitTime, j.EligibleTime = t0.Add(submit), t0.Add(submit)
		j.StartTime = j.SubmitTime.Add(wait)
		j.EndTime = j.StartTime.Add(run)
		return j
	}
	waits := pendingJob(5)
	waits.SubmitTime = t0.Add(-time.Hour)
	r := record(t0, at(1, -48*time.Hour, time.Hour, time.Minute), at(2, -time.Hour, 2*time.Hour, time.Minute),
		at(3, 0, 10*time.Minute, time.Minute), at(4, time.Hour, 20*time.Minute, time.Second), waits)
	begin(t, s, r)
	rep := reportOf(t, s, ReportQuery{Switch: t0, Blocks: true})
	if rep.Straddling != 2 || len(rep.Rows) != 2 {
		t.Fatalf("got %+v", rep)
	}
	before, after := rep.Rows[0], rep.Rows[1]
	if before.Side != SideBefore || before.Jobs != 1 || before.Wait.Mean != 3600 {
		t.Errorf("before: %+v", before)
	}
	if after.Side != SideAfter || after.Jobs != 2 || after.Wait.Mean != 900 || after.Slowdown.Mean != (660.0/60+1201.0/10)/2 {
		t.Errorf("after: %+v", after)
	}
	if d := cmp.Diff([]Block{{Day: t0.Truncate(24 * time.Hour), Jobs: 2, Wait: Sum{1800, 2}, JCT: Sum{1861, 2}, Slowdown: Sum{11 + 120.1, 2}}}, after.Days, near); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

// Each sample counts once, whether it was counted already or not, and goes on
// counting when it has become a mean.
func TestReportKnowsHowBusyGPUsWere(t *testing.T) {
	now := hostNow
	s, err := Open(testPath(t), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	ctx := context.Background()
	begin(t, s, record(t0, runningJob(1, "gpu01")))
	keep := func(compute float64, n int) {
		var list []profile.Sample
		for i := range n {
			list = append(list, profile.Sample{JobID: 1, Node: "gpu01", At: now.Add(time.Duration(i) * time.Second), Interval: time.Hour, GPUs: 8, Compute: compute})
		}
		if err := s.KeepSamples(ctx, list, nil); err != nil {
			t.Fatal(err)
		}
	}
	check := func(measured, busy float64) {
		t.Helper()
		f := reportOf(t, s, ReportQuery{}).Rows[0]
		if d := cmp.Diff([]float64{measured, busy}, []float64{f.MeasuredHours, f.BusyHours}, near); d != "" {
			t.Errorf("(-want +got):\n%s", d)
		}
	}
	keep(0.5, 2)
	check(16, 8)
	fold := func() {
		t.Helper()
		if _, err := s.FoldSamples(ctx, SampleAges{Raw: time.Minute}, 0); err != nil {
			t.Fatal(err)
		}
		check(24, 16)
	}
	keep(1, 1)
	fold()
	fold()
	now = now.Add(time.Hour)
	fold() // now they are old
	fold()
}

// Whatever happens to a job, its row and the rows beside it are told apart.
func TestReportTellsJobsApart(t *testing.T) {
	s := openTest(t, testPath(t))
	r := record(t0, pendingJob(1), pendingJob(3), pendingJob(5), pendingJob(9))
	r.Plan.Decisions = []policy.Decision{packed(1, "gpu01"), {JobID: 3, Action: policy.Leave, Skipped: "it is held"}, packed(9, "gpu02")}
	r.Changes = []policy.Change{exclude(1, "gpu02"), exclude(9, "gpu01")}
	end(t, s, begin(t, s, r), policy.Result{Change: r.Changes[0], Outcome: policy.Failed}, policy.Result{Change: r.Changes[1], Outcome: policy.Applied})
	got := reportOf(t, s, ReportQuery{By: []string{"action"}}).Rows
	want := []Figures{
		{Key: []string{"none"}, Jobs: 1},
		{Key: []string{"pack"}, Jobs: 2, Decided: 2, Steered: 1, Applied: 1, Failed: 1},
		{Key: []string{"skipped"}, Jobs: 1},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}
