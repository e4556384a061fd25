// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"rifling/contrib/labrun"
	"rifling/policy"
	"rifling/slurm"
	"rifling/store"
)

func TestProgressLine(t *testing.T) {
	p := labrun.Progress{Waiting: 12, Running: 9, Done: 20, GPUsBusy: 52}
	tests := []struct {
		name string
		s    steering
		want string
	}{
		{
			"what was decided last is told",
			steering{decided: 31, changes: 44, last: "57 (alice, 8 GPU): wait for gpu[01,04]"},
			" 2:05   12    9   20 | ########..  52/64  |   31   44 | 57 (alice, 8 GPU): wait for gpu[01,04]",
		},
		{"nothing new leaves no blank at the end", steering{}, " 2:05   12    9   20 | ########..  52/64  |    0    0 |"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, progressLine(125*time.Second, p, 64, tt.s)); diff != "" {
				t.Errorf("line (-want +got):\n%s", diff)
			}
		})
	}
	long := progressLine(time.Hour, p, 64, steering{last: strings.Repeat("gpu01,", 50)})
	if n := utf8.RuneCountInString(long); n != width {
		t.Errorf("a long line has %d columns, want it cut to %d", n, width)
	}
}

func TestBar(t *testing.T) {
	for _, tt := range []struct {
		n, total int
		want     string
	}{{0, 64, ".........."}, {64, 64, "##########"}, {70, 64, "##########"}, {32, 64, "#####....."}, {1, 0, ".........."}} {
		if got := bar(tt.n, tt.total, 10); got != tt.want {
			t.Errorf("bar(%d, %d) = %q, want %q", tt.n, tt.total, got, tt.want)
		}
	}
}

// decided builds a job with a decision that was made so many seconds in.
func decided(id slurm.JobID, action policy.Action, at int64, skipped string, target ...string) store.Job {
	return store.Job{ID: id, User: "alice", GPUs: 4, Decision: &store.Decision{
		Decision: policy.Decision{JobID: id, Action: action, Skipped: skipped, Target: target, Considered: make([]policy.Option, 3)},
		FirstAt:  time.Unix(at, 0),
	}}
}

func TestSteeringOf(t *testing.T) {
	jobs := []store.Job{
		decided(1, policy.Pack, 10, "", "gpu01"),
		decided(2, policy.Wait, 30, "", "gpu02", "gpu03"),
		decided(3, policy.Leave, 40, ""),
		decided(4, policy.Pack, 50, "it is held"),
		{ID: 5},
	}
	want := steering{decided: 2, changes: 7, last: "2 (alice, 4 GPU): wait for gpu[02-03]"}
	got := steeringOf(jobs, &store.Status{Changes: 7})
	if diff := cmp.Diff(want, got, cmp.AllowUnexported(steering{})); diff != "" {
		t.Errorf("steering (-want +got):\n%s", diff)
	}
}

func TestChoose(t *testing.T) {
	story := func(j store.Job, actions ...policy.Action) *store.Story {
		s := &store.Story{Job: j}
		for _, a := range actions {
			s.Decisions = append(s.Decisions, store.Decision{Decision: policy.Decision{Action: a}})
		}
		return s
	}
	placed := decided(1, policy.Pack, 10, "", "gpu01")
	waited := decided(2, policy.Pack, 20, "", "gpu02")
	left := decided(3, policy.Leave, 30, "")
	got := choose([]*store.Story{story(left, policy.Leave), story(placed, policy.Pack), story(waited, policy.Wait, policy.Pack)})
	if diff := cmp.Diff([]slurm.JobID{2, 1}, got); diff != "" {
		t.Errorf("chosen (-want +got):\n%s", diff)
	}
	if got := choose([]*store.Story{story(left, policy.Leave)}); len(got) != 0 {
		t.Errorf("nothing to explain, got %v", got)
	}
}

func TestIndentKeepsLinesWhole(t *testing.T) {
	var b bytes.Buffer
	w := &indent{w: &b}
	for _, part := range []string{"one", " line\ntwo\n", "", "\nthree"} {
		if n, err := w.Write([]byte(part)); n != len(part) || err != nil {
			t.Fatalf("Write(%q) = %d, %v", part, n, err)
		}
	}
	if diff := cmp.Diff("    one line\n    two\n    \n    three", b.String()); diff != "" {
		t.Errorf("indented (-want +got):\n%s", diff)
	}
}

func TestBadFlags(t *testing.T) {
	for _, args := range [][]string{{"-jobs", "0"}, {"-compression", "0"}, {"-nosuch"}, {"extra"}} {
		var out, errs bytes.Buffer
		if code := run(context.Background(), args, &out, &errs); code != exitUsage || errs.Len() == 0 {
			t.Errorf("%v: status %d, said %q; want status %d and a message", args, code, errs.String(), exitUsage)
		}
	}
}

func TestHints(t *testing.T) {
	for _, err := range []error{labrun.ErrNeedsRoot, labrun.ErrHost, labrun.ErrSkip, slurm.WithHint(errors.New("x"), "do y")} {
		if hintOf(fmt.Errorf("wrapped: %w", err)) == "" {
			t.Errorf("no hint for %v", err)
		}
	}
}
