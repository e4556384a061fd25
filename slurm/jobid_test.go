// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestParseJobID(t *testing.T) {
	plain := func(id JobID) JobRef { return JobRef{Job: id, Task: -1, HetOffset: -1} }
	with := func(id JobID, change func(*JobRef)) JobRef {
		r := plain(id)
		change(&r)
		return r
	}
	cases := map[string]JobRef{
		"77":                plain(77),
		" 77 ":              plain(77),
		"4294967295":        plain(4294967295),
		"77.0":              with(77, func(r *JobRef) { r.Step = "0" }),
		"77.extern":         with(77, func(r *JobRef) { r.Step = "extern" }),
		"77_0":              with(77, func(r *JobRef) { r.Task = 0 }),
		"77_12.interactive": with(77, func(r *JobRef) { r.Task, r.Step = 12, "interactive" }),
		"77_*":              plain(77),
		"77_[3]":            with(77, func(r *JobRef) { r.Tasks, r.TasksKnown = 1, true }),
		"77_[0-19:4%3]":     with(77, func(r *JobRef) { r.Tasks, r.TasksKnown, r.Throttle = 5, true, 3 }),
		"77_[0-4,9,...]":    with(77, func(r *JobRef) { r.Tasks = 6 }),
		"77+0":              with(77, func(r *JobRef) { r.HetOffset = 0 }),
		"77+2.batch":        with(77, func(r *JobRef) { r.HetOffset, r.Step = 2, "batch" }),
		"77.3+1":            with(77, func(r *JobRef) { r.Step = "3+1" }),
	}
	for in, want := range cases {
		t.Run(in, func(t *testing.T) {
			got, err := ParseJobID(in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	for _, in := range []string{
		"", "0", "-1", "+1", "x", "4294967296", "77_", "77_x", "77_-1", "77_[", "77_[]", "77_[1-2]x",
		"77_[2-1]", "77.", "77.ba tch", "77+", "77+x", "77+1_2", "77x", "77_4294967296", "77.0+",
	} {
		if got, err := ParseJobID(in); err == nil {
			t.Errorf("ParseJobID(%q) = %+v, want an error", in, got)
		}
	}
}

func TestParseTasks(t *testing.T) {
	cases := map[string]struct {
		in              string
		count, throttle int
		known           bool
	}{
		"no array":                           {in: ""},
		"no array, by squeue":                {in: "N/A"},
		"one task":                           {in: "4", count: 1, known: true},
		"a range with a throttle":            {in: "1-6%2", count: 6, throttle: 2, known: true},
		"every second":                       {in: "1-9:2", count: 5, known: true},
		"a step that does not meet the end":  {in: "0-10:4", count: 3, known: true},
		"ranges and singles, in any order":   {in: "9,1-3,7", count: 5, known: true},
		"cut off behind a comma":             {in: "1-3,7,...", count: 4},
		"cut off within a number":            {in: "1-3,7,12...", count: 4},
		"cut off, with a throttle":           {in: "1-3,7,...%5", count: 4, throttle: 5},
		"cut off within the first of them":   {in: "1000...", count: 0},
		"no throttle, spelled out":           {in: "1-2%0", count: 2, known: true},
		"the largest array that Slurm knows": {in: "0-4000000", count: 4000001, known: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			count, throttle, known, err := ParseTasks(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if count != tc.count || throttle != tc.throttle || known != tc.known {
				t.Errorf("ParseTasks(%q) = %d, %d, %t; want %+v", tc.in, count, throttle, known, tc)
			}
		})
	}
	for _, in := range []string{"x", "1-", "-1", "3-1", "1-9:0", "1,,2", "1%x", "1-5,3", "1-4294967296", "1,2,", "%3"} {
		if count, _, _, err := ParseTasks(in); err == nil {
			t.Errorf("ParseTasks(%q) = %d, want an error", in, count)
		}
	}
}

func TestJobIDsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Uint32Range(1, 1<<32-1).Draw(t, "id")
		task := rapid.Int64Range(0, 4_000_000).Draw(t, "task")
		step := rapid.SampledFrom([]string{"batch", "0", "17", "extern"}).Draw(t, "step")
		got, err := ParseJobID(fmt.Sprintf("%d_%d.%s", id, task, step))
		want := JobRef{Job: JobID(id), Task: task, HetOffset: -1, Step: step}
		if diff := cmp.Diff(want, got); diff != "" || err != nil {
			t.Fatalf("%v (-want +got):\n%s", err, diff)
		}
	})
}

func FuzzParseJobID(f *testing.F) {
	for _, s := range []string{"123_[1-10%2].batch", "93+1.0", "1_[1,3,...]"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ref, err := ParseJobID(s)
		if ref.Tasks < 0 || ref.Throttle < 0 || ref.Task < -1 || ref.HetOffset < -1 {
			t.Fatalf("%q gives %+v", s, ref)
		}
		if (err == nil) != (ref.Job != 0) {
			t.Fatalf("%q gives %+v and %v", s, ref, err)
		}
		count, throttle, known, err := ParseTasks(s)
		if count < 0 || throttle < 0 || known && count == 0 || err != nil && (count != 0 || known) {
			t.Fatalf("%q gives %d, %d, %t, %v", s, count, throttle, known, err)
		}
	})
}
