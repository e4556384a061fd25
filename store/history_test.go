// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
)

// pastRun is a run of an hour that ended so long after t0.
func pastRun(id slurm.JobID, ended time.Duration) slurm.PastJob {
	end := t0.Add(ended)
	return slurm.PastJob{
		ID: id, ArrayTaskID: -1, Name: "train", User: "ada", Account: "lab", Partition: "gpu", QOS: "normal",
		Cluster: "c1", Command: "sbatch train.sh", State: slurm.State{Base: "COMPLETED"},
		Submit: end.Add(-2 * time.Hour), Eligible: end.Add(-2 * time.Hour), Start: end.Add(-time.Hour), End: end, Elapsed: time.Hour,
		TimeLimit: 2 * time.Hour, GPUs: 8, GPUType: "a100", NodeCount: 2, Nodes: []string{"gpu01", "gpu02"},
		CPUs: 32, Priority: 1000, GPUUtil: 0.5, GPUMemory: 4 << 30,
	}
}

func savePast(t *testing.T, s *Store, want [2]int, runs ...slurm.PastJob) {
	t.Helper()
	fresh, changed, err := s.PastWriter().SavePast(context.Background(), runs, time.Time{}, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	if got := [2]int{fresh, changed}; got != want {
		t.Errorf("new and changed: %v, want %v", got, want)
	}
}

func allPast(t testing.TB, s *Store, since, until time.Time) []slurm.PastJob {
	t.Helper()
	var out []slurm.PastJob
	if err := s.EachPast(context.Background(), since, until, func(j *slurm.PastJob) error {
		out = append(out, *j)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return out
}

func TestPastRunsComeBackAsStored(t *testing.T) {
	s := openTest(t, testPath(t))
	n := slurm.JobID(0)
	rapid.Check(t, func(rt *rapid.T) {
		n++
		j := pastRun(n, time.Duration(n)*time.Second)
		j.Name = rapid.String().Draw(rt, "name")
		j.Command = rapid.StringN(0, 40, -1).Draw(rt, "command")
		j.User = rapid.SampledFrom([]string{"", "ada", "bob"}).Draw(rt, "user")
		j.Cluster = rapid.SampledFrom([]string{"", "c1", "c2"}).Draw(rt, "cluster")
		j.State.Base = rapid.SampledFrom([]string{"COMPLETED", "REQUEUED", "CANCELLED"}).Draw(rt, "state")
		j.GPUUtil, j.GPUMemory = float64(rapid.IntRange(0, 1000).Draw(rt, "util"))/1000, -1
		j.ExitCode, j.Restarts = rapid.IntRange(0, 255).Draw(rt, "exit"), rapid.IntRange(0, 3).Draw(rt, "restarts")
		if rapid.Bool().Draw(rt, "array") {
			j.ArrayJobID, j.ArrayTaskID = 7, rapid.Int64Range(-1, 9).Draw(rt, "task")
		}
		if rapid.Bool().Draw(rt, "unlimited") {
			j.TimeLimit, j.Unlimited = 0, true
		}
		if rapid.Bool().Draw(rt, "never ran") {
			j.Start, j.Elapsed, j.Nodes, j.Eligible, j.GPUUtil = time.Time{}, 0, nil, time.Time{}, -1
		}
		savePast(t, s, [2]int{1, 0}, j)
		savePast(t, s, [2]int{0, 0}, j)
		got := allPast(t, s, j.End, j.End.Add(time.Second))
		if diff := cmp.Diff([]slurm.PastJob{j}, got); diff != "" {
			rt.Fatalf("(-stored +read):\n%s", diff)
		}
	})
}

func TestARunThatGoesOnIsBroughtUpToDate(t *testing.T) {
	s := openTest(t, testPath(t))
	done := pastRun(7, 0)
	running := done
	running.State, running.End, running.Elapsed = slurm.State{Base: "RUNNING"}, time.Time{}, 10*time.Minute
	running.GPUUtil, running.GPUMemory = -1, -1
	again := pastRun(7, time.Hour) // requeued: another submit time
	savePast(t, s, [2]int{1, 0}, running)
	if got := allPast(t, s, time.Time{}, time.Time{}); len(got) != 0 {
		t.Errorf("a run that is not over is among those that ended: %+v", got)
	}
	savePast(t, s, [2]int{1, 1}, done, again)
	savePast(t, s, [2]int{0, 0}, running, done, again) // an old reading comes late
	less := done
	less.GPUUtil, less.GPUMemory = -1, -1
	savePast(t, s, [2]int{0, 0}, less) // a reading without steps
	if diff := cmp.Diff([]slurm.PastJob{done, again}, allPast(t, s, time.Time{}, time.Time{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestWordsOfOneHash(t *testing.T) {
	defer func(f func(string) int64) { hashWord = f }(hashWord)
	hashWord = func(string) int64 { return 7 }
	s := openTest(t, testPath(t))
	var want []slurm.PastJob
	for i := range 20 {
		j := pastRun(slurm.JobID(i+1), time.Duration(i)*time.Hour)
		j.Name, j.User = fmt.Sprint("name", i%5), fmt.Sprint("user", i%3)
		want = append(want, j)
		savePast(t, s, [2]int{1, 0}, j) // each with a writer that knows no word yet
	}
	if diff := cmp.Diff(want, allPast(t, s, time.Time{}, time.Time{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if st, err := s.PastStatus(context.Background()); err != nil || st.Words != 5+3+8 {
		t.Errorf("%+v, %v", st, err)
	}
}

func TestEachPastReadsByEndInPages(t *testing.T) {
	s := openTest(t, testPath(t))
	var runs []slurm.PastJob
	for i := range 3*pastPage + 1 { // many end in the same second, across pages
		runs = append(runs, pastRun(slurm.JobID(1+i*7919%(3*pastPage+1)), time.Duration(i/1500)*time.Minute))
	}
	savePast(t, s, [2]int{len(runs), 0}, runs...)
	seen := map[slurm.JobID]bool{}
	var last time.Time
	for _, j := range allPast(t, s, t0, time.Time{}) {
		if seen[j.ID] || j.End.Before(last) {
			t.Fatalf("run %d, ended %s after %s, seen before: %v", j.ID, j.End, last, seen[j.ID])
		}
		seen[j.ID], last = true, j.End
	}
	if len(seen) != len(runs) {
		t.Errorf("%d of %d", len(seen), len(runs))
	}
	if got := allPast(t, s, t0.Add(time.Minute), t0.Add(2*time.Minute)); len(got) != 1500 || !got[0].End.Equal(t0.Add(time.Minute)) {
		t.Errorf("%d runs of one minute of 1500", len(got))
	}
	// Others write while somebody reads.
	n := 0
	if err := s.EachPast(context.Background(), t0, time.Time{}, func(*slurm.PastJob) error {
		if n++; n == 10 {
			savePast(t, s, [2]int{1, 0}, pastRun(1_000_000, -time.Hour))
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

func TestRangesJoin(t *testing.T) {
	s := openTest(t, testPath(t))
	hour := func(h int) time.Time { return t0.Add(time.Duration(h) * time.Hour) }
	for _, r := range [][2]int{{0, 2}, {4, 6}, {9, 12}, {2, 4}, {5, 7}, {20, 30}, {3, 3}} {
		if _, _, err := s.PastWriter().SavePast(context.Background(), nil, hour(r[0]), hour(r[1])); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.PastRanges(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	read := hostNow
	want := []PastRange{{hour(0), hour(7), read}, {hour(9), hour(12), read}, {hour(20), hour(30), read}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestPrunePast(t *testing.T) {
	s := openTest(t, testPath(t))
	ctx := context.Background()
	old, young := pastRun(1, -100*24*time.Hour), pastRun(2, 0)
	old.Name, old.Nodes = "forgotten", []string{"gone1"}
	lost := pastRun(3, -100*24*time.Hour)
	lost.End, lost.State.Base = time.Time{}, "RUNNING"
	w := s.PastWriter()
	if _, _, err := w.SavePast(ctx, []slurm.PastJob{old, young, lost}, old.Submit, young.End); err != nil {
		t.Fatal(err)
	}
	cut := t0.Add(-50 * 24 * time.Hour)
	if err := s.PrunePast(ctx, cut); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]slurm.PastJob{young}, allPast(t, s, time.Time{}, time.Time{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	st, err := s.PastStatus(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if st.Runs != 1 || st.Open != 0 || len(st.Ranges) != 1 || !st.Ranges[0].Since.Equal(cut) {
		t.Errorf("%+v", st)
	}
	var n int
	if err := s.db.Get(&n, `SELECT count(*) FROM past_words WHERE word IN ('forgotten', 'gone1')`); err != nil || n != 0 {
		t.Errorf("%d words of runs that are gone, %v", n, err)
	}
	// The writer that knew the words finds out that they are gone.
	back := pastRun(4, time.Hour)
	back.Name = "forgotten"
	if _, _, err := w.SavePast(ctx, []slurm.PastJob{back}, time.Time{}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]slurm.PastJob{young, back}, allPast(t, s, time.Time{}, time.Time{})); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestTwoProcessesWritePastTogether(t *testing.T) {
	path := testPath(t)
	a, b := openTest(t, path), openTest(t, path)
	wa, wb := a.PastWriter(), b.PastWriter()
	for i := range 50 {
		for k, w := range []*PastWriter{wa, wb} {
			j := pastRun(slurm.JobID(10*i+k+1), time.Duration(i)*time.Hour)
			j.Name = fmt.Sprint("name", i)
			if _, _, err := w.SavePast(context.Background(), []slurm.PastJob{j, pastRun(9, 0)}, time.Time{}, time.Time{}); err != nil {
				t.Fatal(err)
			}
		}
	}
	ro, err := OpenReadOnly(path)
	if err != nil {
		t.Fatal(err)
	}
	defer ro.Close()
	for _, j := range allPast(t, ro, time.Time{}, time.Time{}) {
		if want := fmt.Sprint("name", (int(j.ID)-1)/10); j.Name != want && j.ID != 9 {
			t.Errorf("run %d is called %q, want %q", j.ID, j.Name, want)
		}
	}
}

func BenchmarkSavePast(b *testing.B) {
	s, err := Open(filepath.Join(b.TempDir(), "rifling.db"), Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	w := s.PastWriter()
	runs := make([]slurm.PastJob, 4000)
	id := slurm.JobID(0)
	for b.Loop() {
		for i := range runs {
			id++
			runs[i] = pastRun(id, time.Duration(id)*30*time.Second)
		}
		if _, _, err := w.SavePast(context.Background(), runs, time.Time{}, time.Time{}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(id), "ns/run")
}
