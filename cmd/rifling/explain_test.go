// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"rifling/policy"
)

func TestExplainSaysWhetherADecisionIsInForce(t *testing.T) {
	leave := packed(11)
	leave.Action, leave.Candidates, leave.Target, leave.Reason = policy.Leave, nil, nil, "nothing it could use is free"
	ahead := leave
	leave.Offset = 0
	all := packed(11)
	all.Candidates, all.Offset = nil, 0
	change := exclude(11, "gpu02", "gpu04")
	tests := map[string]struct {
		mode    string
		decided policy.Decision
		outcome policy.Outcome // of a change; empty: none is planned
		detail  string
		again   bool // a later cycle no longer decides on the job
		want    string
		not     string
	}{
		"observing": {mode: "observe", decided: waiting(11), want: "But riflingd only observes: nothing of this was written to Slurm"},
		"written":   {mode: "steer", decided: packed(11), outcome: policy.Applied, want: "it may start on gpu[01,03] only, with +300 points of priority. The job is", not: "But "},
		"put off":   {mode: "steer", decided: packed(11), want: "it could start on gpu[01,03] only, with +300 points of priority. But nothing of this is in force"},
		"skipped": {mode: "steer", decided: packed(11), outcome: policy.Skipped, detail: "someone changed the job's exclude list meanwhile",
			want: "the change was skipped (someone changed the job's exclude list meanwhile)"},
		"failed":                 {mode: "steer", decided: packed(11), outcome: policy.Failed, detail: "permission denied", want: "the change failed (permission denied)"},
		"left to Slurm":          {mode: "steer", decided: leave, want: "rifling leaves its place to Slurm. Nothing it could use is free.", not: "But "},
		"order alone":            {mode: "steer", decided: ahead, outcome: policy.Applied, want: "leaves its place to Slurm, with +300 points of priority. Nothing", not: "But "},
		"order alone, observing": {mode: "observe", decided: ahead, want: "with +300 points of priority. But riflingd only observes"},
		"nothing to bar":         {mode: "steer", decided: all, want: "no node needs to be excluded for that", not: "But "},
		"behind by now":          {mode: "steer", decided: packed(11), again: true, want: "no longer stands: it is not among the first 50"},
		"waits, in force":        {mode: "steer", decided: waiting(11), outcome: policy.Applied, want: "until 2026-12-01 07:00:00 at the latest; then Slurm may start it anywhere. The job", not: "But "},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			r := record(t0, pendingJob(11))
			r.Mode, r.Plan.Decisions = tc.mode, []policy.Decision{tc.decided}
			var results []policy.Result
			if tc.outcome != "" {
				r.Changes = []policy.Change{change}
				res := policy.Result{Change: change, Outcome: tc.outcome, Detail: tc.detail, Owner: &policy.Owner{JobID: 11}}
				if tc.outcome == policy.Applied {
					res.Owner = &change.Owner
				}
				results = append(results, res)
			}
			s.cycle(r, results...)
			if tc.again {
				s.cycle(record(t0.Add(time.Minute), pendingJob(11)))
			}
			code, out, errs := s.run("explain", "11")
			if code != 0 || errs != "" || !strings.Contains(out, tc.want) {
				t.Errorf("exit %d, stderr %q, want %q in\n%s", code, errs, tc.want, out)
			}
			answer, _, _ := strings.Cut(out, "\nThe job\n")
			if tc.not != "" && strings.Contains(answer, tc.not) {
				t.Errorf("%q in\n%s", tc.not, answer)
			}
		})
	}
}

// A daemon that died between record and answer leaves a change of unknown end.
func TestExplainSaysWhenTheEndOfAChangeIsNotKnown(t *testing.T) {
	s := newSite(t)
	r := record(t0, pendingJob(11))
	r.Plan.Decisions = []policy.Decision{packed(11)}
	r.Changes = []policy.Change{exclude(11, "gpu02", "gpu04")}
	st := s.writer()
	if _, err := st.Begin(t.Context(), r); err != nil {
		t.Fatal(err)
	}
	st.Close()
	_, out, _ := s.run("explain", "11")
	if !strings.Contains(out, "But whether that reached Slurm is not known") ||
		!strings.Contains(lines(out, "set excluded_nodes"), "end not known, riflingd stopped between record and answer") {
		t.Errorf("got:\n%s", out)
	}
}
