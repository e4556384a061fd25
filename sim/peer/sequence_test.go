// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rifling/sim/trace"
)

// The authors' own test vector for a seed that is an array.
func TestTwister(t *testing.T) {
	r := newTwister([]uint32{0x123, 0x234, 0x345, 0x456})
	for i, want := range []uint32{1067595299, 955945823, 477289528, 4107218783, 4228976476} {
		if got := r.next(); got != want {
			t.Errorf("word %d = %d, want %d", i, got, want)
		}
	}
	seen := map[int]bool{}
	for range 2000 {
		v := r.between(3, 8)
		if v < 3 || v > 7 {
			t.Fatalf("drew %d from [3, 8)", v)
		}
		seen[v] = true
	}
	if len(seen) != 5 {
		t.Errorf("drew only %v", seen)
	}
}

// Schedules that were worked out by hand, on 4 nodes with 2 processors each.
func TestSequence(t *testing.T) {
	m := BatchMachine{Nodes: 4, Procs: 8}
	scores := map[string]Score{}
	for _, s := range RLScheduler() {
		scores[s.Name] = s
	}
	jobs := []Batch{
		{Submit: 0, Run: 100, Asked: 120, Procs: 5}, // 3 nodes
		{Submit: 1, Run: 50, Asked: 50, Procs: 8},
		{Submit: 2, Run: 30, Asked: 30, Procs: 1},
		{Submit: 3, Run: 10, Asked: 200, Procs: 2},
	}
	for name, tc := range map[string]struct {
		score    string
		backfill bool
		want     []int
	}{
		"FCFS waits for the second":           {"FCFS", false, []int{0, 100, 150, 150}},
		"what ends in time starts before it":  {"FCFS", true, []int{0, 100, 2, 150}},
		"SJF chose the second while alone":    {"SJF", false, []int{0, 100, 150, 150}},
		"F1 likewise, and the small one then": {"F1", false, []int{0, 100, 150, 150}},
	} {
		got, err := Sequence(m, jobs, scores[tc.score], tc.backfill)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, got); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
	later := []Batch{{0, 10, 10, 8}, {1, 9, 9, 8}, {2, 9, 5, 8}, {3, 9, 7, 8}}
	got, err := Sequence(m, later, scores["SJF"], false)
	if err != nil {
		t.Fatal(err)
	}
	// The second is chosen at 1, when it is alone; the others in order.
	if diff := cmp.Diff([]int{0, 10, 19, 28}, got); diff != "" {
		t.Error(diff)
	}
	if got, want := MeanBoundedSlowdown(later, got), (1+18/10.+26/10.+34/10.)/4; math.Abs(got-want) > 1e-9 {
		t.Errorf("bounded slowdown %v, want %v", got, want)
	}
	if _, err := Sequence(m, []Batch{{0, 1, 1, 9}}, scores["SJF"], false); err == nil {
		t.Error("a job larger than the machine: no error")
	}
}

// RLScheduler's published digits for Lublin-1 with backfill.
func TestRLSchedulerPublished(t *testing.T) {
	jobs := FromBatch(read(t, trace.SWF, "traces", "rlscheduler", "lublin_256.swf"))
	want := []float64{235.82, 133.87, 307.23, 73.31, 75.07}
	for i, score := range RLScheduler() {
		sum := 0.0
		for _, from := range Draws(1, len(jobs), 1024, 10) {
			part := jobs[from : from+1024]
			starts, err := Sequence(BatchMachine{Nodes: 256, Procs: 256}, part, score, true)
			if err != nil {
				t.Fatal(err)
			}
			sum += MeanBoundedSlowdown(part, starts)
		}
		if got := sum / 10; math.Abs(got-want[i]) > 0.006 {
			t.Errorf("%s: bounded slowdown %.2f, published %.2f", score.Name, got, want[i])
		}
	}
}
