// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/sim/trace"
)

// job is work in whole seconds.
func job(gpus int, submit, run float64) Work {
	return Work{ID: "j", GPUs: gpus, Submit: submit, Iterations: run, IterSeconds: 1, Run: run}
}

// Schedules that were worked out by hand.
func TestReplay(t *testing.T) {
	one, two := Machine{Nodes: 1, GPUs: 2}, Machine{Nodes: 2, GPUs: 2}
	estimated := func(w Work, e float64) Work { w.Estimate = e; return w }
	slow := func(w Work) Work { w.Restart = 2; return w }
	for name, tc := range map[string]struct {
		m    Machine
		o    Options
		jobs []Work
		want []Done
	}{
		"FIFO: nothing passes the first": {two, Options{Order: FIFO, Placement: Counted},
			[]Work{job(3, 0, 10), job(3, 1, 5), job(1, 2, 1)},
			[]Done{{0, 10, 0, 0}, {10, 15, 9, 0}, {10, 11, 8, 0}}},
		"fit first: what fits passes": {two, Options{Order: FitFirst, Placement: Counted},
			[]Work{job(3, 0, 10), job(3, 1, 5), job(1, 2, 1)},
			[]Done{{0, 10, 0, 0}, {10, 15, 9, 0}, {2, 3, 0, 0}}},
		"a job in one node does not fit two halves": {two, Options{Order: FIFO},
			[]Work{job(1, 0, 10), job(1, 0, 20), job(2, 0, 5), job(2, 1, 5)},
			[]Done{{0, 10, 0, 0}, {0, 20, 0, 0}, {0, 5, 0, 0}, {5, 10, 4, 0}}},
		"first node by number": {two, Options{Order: FIFO},
			[]Work{job(2, 0, 1), job(1, 0, 10), job(1, 2, 10), job(2, 3, 1)},
			[]Done{{0, 1, 0, 0}, {0, 10, 0, 0}, {2, 12, 0, 0}, {10, 11, 7, 0}}},
		"fullest node": {two, Options{Order: FIFO, Placement: BestWhole},
			[]Work{job(2, 0, 1), job(1, 0, 10), job(1, 2, 10), job(2, 3, 1)},
			[]Done{{0, 1, 0, 0}, {0, 10, 0, 0}, {2, 12, 0, 0}, {3, 4, 0, 0}}},
		"the rest goes to the emptiest node": {Machine{Nodes: 3, GPUs: 2}, Options{Order: FIFO, Placement: BestWhole},
			[]Work{job(1, 0, 100), job(3, 1, 10), job(2, 1, 5)},
			[]Done{{0, 100, 0, 0}, {1, 11, 0, 0}, {11, 16, 10, 0}}},
		"more than a node: whole nodes and a rest": {two, Options{Order: FIFO},
			[]Work{job(3, 0, 4), job(1, 1, 1), job(1, 2, 1)},
			[]Done{{0, 4, 0, 0}, {1, 2, 0, 0}, {2, 3, 0, 0}}},
		"SRTF preempts": {one, Options{Order: SRTF},
			[]Work{job(2, 0, 10), job(1, 1, 4)},
			[]Done{{0, 14, 4, 1}, {1, 5, 0, 0}}},
		"SRSF counts GPUs": {one, Options{Order: SRSF},
			[]Work{job(1, 0, 10), job(2, 1, 4)}, // 9 left against 8
			[]Done{{0, 14, 4, 1}, {1, 5, 0, 0}}},
		"SRTF does not": {one, Options{Order: SRTF},
			[]Work{job(1, 0, 4), job(2, 1, 3.5)},
			[]Done{{0, 4, 0, 0}, {4, 7.5, 3, 0}}},
		"LAS: the second gets its turn at the limit": {one, Options{Order: LAS, Placement: Counted, Limits: []float64{4}},
			[]Work{job(2, 0, 10), job(2, 0, 3)},
			// 2 s are 4 GPU seconds: the first is moved down at 2, the second at 4,
			// behind the first.
			[]Done{{0, 12, 2, 1}, {2, 13, 10, 1}}},
		"demoted late": {one, Options{Order: LAS, Placement: Counted, Limits: []float64{9}, DemoteLate: true},
			[]Work{job(2, 0, 10), job(2, 0, 3)},
			// The first look is at floor(9/2) = 4 s with 8 GPU seconds, the next
			// floor((9-4)/2) = 2 s on.
			[]Done{{0, 13, 3, 1}, {6, 9, 6, 0}}},
		"Muri's restarts": {one, Options{Order: SRTF, RestartInEveryInterval: true},
			[]Work{slow(job(1, 0, 10)), slow(job(1, 5, 20)), slow(job(2, 6, 1))},
			// At 5 the first has done 3 of 10, at 6 no more; from 7 on nothing
			// disturbs it. When it ends, at 14, the second has done 5 of 20.
			[]Done{{0, 14, 1, 1}, {5, 29, 1, 1}, {6, 7, 0, 0}}},
		"QSSF": {one, Options{Order: QSSF, Placement: BestWhole},
			[]Work{estimated(job(2, 0, 5), 9), estimated(job(2, 1, 5), 7), estimated(job(1, 2, 5), -3)},
			[]Done{{0, 5, 0, 0}, {10, 15, 9, 0}, {5, 10, 3, 0}}},
		"QSSF without estimates at first": {one, Options{Order: QSSF, Placement: BestWhole, EstimateLate: true},
			[]Work{estimated(job(1, 0, 5), 9), estimated(job(2, 0, 5), 1)},
			[]Done{{0, 5, 0, 0}, {5, 10, 5, 0}}},
		"SJF": {one, Options{Order: SJF},
			[]Work{job(2, 0, 5), job(2, 1, 5), job(2, 2, 4)},
			[]Done{{0, 5, 0, 0}, {9, 14, 8, 0}, {5, 9, 3, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := Replay(tc.m, tc.jobs, tc.o)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestReplayRefuses(t *testing.T) {
	for name, jobs := range map[string][]Work{
		"a job larger than the machine": {job(5, 0, 1)},
		"unsorted jobs":                 {job(1, 2, 1), job(1, 1, 1)},
	} {
		if _, err := Replay(Machine{Nodes: 2, GPUs: 2}, jobs, Options{}); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}

// Every job gets its run time and ends after it came, and no instant has more
// GPUs in use than there are.
func TestReplayProperties(t *testing.T) {
	all := append(append(Tiresias(), Muri()...), Helios()...)
	rapid.Check(t, func(t *rapid.T) {
		s := rapid.SampledFrom(all).Draw(t, "policy")
		m := Machine{Nodes: 3, GPUs: 4}
		var jobs []Work
		at := 0.0
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			at += float64(rapid.IntRange(0, 2000).Draw(t, "gap"))
			j := job(rapid.IntRange(1, 12).Draw(t, "gpus"), at, float64(rapid.IntRange(1, 9000).Draw(t, "run")))
			j.Estimate = float64(rapid.IntRange(-9000, 90000).Draw(t, "estimate"))
			jobs = append(jobs, j)
		}
		done, err := Replay(m, jobs, s.Options)
		if err != nil {
			t.Fatal(err)
		}
		again, _ := Replay(m, jobs, s.Options)
		if diff := cmp.Diff(done, again); diff != "" {
			t.Fatalf("the second run differs: %s", diff)
		}
		busy, end := 0.0, 0.0
		for i, d := range done {
			if ran := d.End - jobs[i].Submit - d.Wait; math.Abs(ran-jobs[i].Run) > 1e-6 {
				t.Fatalf("%s: job %d ran %v s of %v: %+v", s.Name, i, ran, jobs[i].Run, d)
			}
			busy += jobs[i].Run * float64(jobs[i].GPUs)
			end = max(end, d.End)
		}
		if most := (end - jobs[0].Submit) * 12; busy > most+1e-6 {
			t.Fatalf("%s: %v GPU seconds on a machine that had %v", s.Name, busy, most)
		}
	})
}

// shared returns the folder of the workloads, or skips.
func shared(t testing.TB, path ...string) string {
	dir := os.Getenv("RIFLING_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	file := filepath.Join(append([]string{dir}, path...)...)
	if _, err := os.Stat(file); err != nil {
		t.Skipf("skipped: %v; set RIFLING_SHARED", err)
	}
	return file
}

func read(t testing.TB, f trace.Format, path ...string) []trace.Job {
	file, err := os.Open(shared(t, path...))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	jobs, _, err := trace.ReadAll(file, f, trace.Options{})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// Muri's published digits on trace4 (SIGCOMM 2022 artifact).
func TestMuriPublished(t *testing.T) {
	work, err := FromMuri(read(t, trace.Muri, "traces", "muri", "trace4.csv"))
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []float64{581982.9, 487167.2, 1319382.9} {
		s := Muri()[i]
		done, err := Replay(Machine{Nodes: 8, GPUs: 8}, work, s.Options)
		if err != nil {
			t.Fatal(err)
		}
		if got, _ := Means(work, done); math.Abs(got-want) > 0.06 {
			t.Errorf("%s: mean completion time %.1f s, published %.1f", s.Name, got, want)
		}
	}
}

func BenchmarkMuriTrace3(b *testing.B) {
	work, err := FromMuri(read(b, trace.Muri, "traces", "muri", "trace3.csv"))
	if err != nil {
		b.Fatal(err)
	}
	for _, s := range Muri() {
		b.Run(s.Name, func(b *testing.B) {
			for b.Loop() {
				if _, err := Replay(Machine{Nodes: 8, GPUs: 8}, work, s.Options); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
