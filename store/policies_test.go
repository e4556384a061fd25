// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/policy"
)

const (
	v1 = "0123456789ab"
	v2 = "0123ffffffff"
)

func TestPoliciesAreKept(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	for range 2 { // once more changes nothing
		if err := s.AddPolicy(ctx, v1, []byte("file"), "root", "trained"); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.AddPolicy(ctx, v2, []byte("other"), "root", "trained"); err != nil {
		t.Fatal(err)
	}
	got, err := s.Policy(ctx, "01234")
	if want := (KeptPolicy{Version: v1, Added: hostNow, By: "root", File: []byte("file")}); err != nil || cmp.Diff(want, got) != "" {
		t.Errorf("%v, %s", err, cmp.Diff(want, got))
	}
	for _, ref := range []string{"", "0123", "ff", "%"} {
		if _, err := s.Policy(ctx, ref); err == nil || (ref != "0123") != errors.Is(err, ErrUnknownPolicy) {
			t.Errorf("%q: %v", ref, err)
		}
	}
	list, err := s.Policies(ctx)
	if err != nil || len(list) != 2 {
		t.Errorf("%v, %v", list, err)
	}
	changes, err := s.StageChanges(ctx)
	want := []policy.StageChange{
		{ID: 1, At: hostNow, Version: v1, Stage: policy.StageCandidate, By: "root", Why: "trained"},
		{ID: 2, At: hostNow, Version: v2, Stage: policy.StageCandidate, By: "root", Why: "trained"},
	}
	if diff := cmp.Diff(want, changes); err != nil || diff != "" {
		t.Errorf("%v, %s", err, diff)
	}
}

func TestTwoAdminsDoNotPromoteAtOnce(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	if err := s.AddPolicy(ctx, v1, []byte("file"), "root", ""); err != nil {
		t.Fatal(err)
	}
	last, err := s.LastStageChange(ctx)
	if err != nil {
		t.Fatal(err)
	}
	step := policy.StageChange{Version: v1, Stage: policy.StageShare, Share: 0.1, By: "ada", Why: "it is good", Forced: true}
	if err := s.ChangeStage(ctx, last, step); err != nil {
		t.Fatal(err)
	}
	if err := s.ChangeStage(ctx, last, step); !errors.Is(err, ErrPolicyMoved) {
		t.Errorf("a change after one that is not the last: %v", err)
	}
	changes, err := s.StageChanges(ctx)
	step.ID, step.At = 2, hostNow
	if err != nil || len(changes) != 2 || cmp.Diff(step, changes[1]) != "" {
		t.Errorf("%v, %v", changes, err)
	}
	if err := s.ChangeStage(ctx, 2, policy.StageChange{Version: "none", Stage: policy.StageLive}); err == nil {
		t.Error("a policy that is not kept went live")
	}
}

func TestEvaluationsAndPairs(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	if err := s.AddPolicy(ctx, v1, []byte("file"), "root", ""); err != nil {
		t.Fatal(err)
	}
	e := policy.Evaluation{At: t0, Version: v1, Against: "rule", By: "ada", Data: "generated", Pairs: 5, HeldOut: true, Cost: policy.Span{Mean: -0.1, Low: -0.2, High: -0.05}}
	if err := s.SaveEvaluation(ctx, e); err != nil {
		t.Fatal(err)
	}
	got, err := s.Evaluations(ctx, v1)
	e.ID = 1
	if err != nil || len(got) != 1 || cmp.Diff(e, got[0]) != "" {
		t.Errorf("%v, %v", got, err)
	}

	pair := func(candidate policy.Action) policy.PlanPair {
		d := packed(7, "a")
		d.JobID = 7
		c := d
		c.Action = candidate
		return policy.PlanPair{Incumbent: d, Candidate: c}
	}
	for i, action := range []policy.Action{policy.Pack, policy.Wait, policy.Pack} {
		if err := s.SavePairs(ctx, v1, t0.Add(time.Duration(i)*time.Minute), []policy.PlanPair{pair(action)}); err != nil {
			t.Fatal(err)
		}
	}
	n, err := s.PairsSince(ctx, v1, t0)
	if want := (PairCounts{Jobs: 1, Differed: 1, Cycles: 3}); err != nil || n != want {
		t.Errorf("%+v, %v; want %+v", n, err, want)
	}
	if n, err := s.PairsSince(ctx, v1, t0.Add(time.Hour)); err != nil || n.Jobs != 0 {
		t.Errorf("since an hour later: %+v, %v", n, err)
	}
	if err := s.PrunePairs(ctx, t0.Add(time.Hour)); err != nil {
		t.Fatal(err)
	}
	if n, err := s.PairsSince(ctx, v1, t0); err != nil || n.Jobs != 0 {
		t.Errorf("after pruning: %+v, %v", n, err)
	}
}
