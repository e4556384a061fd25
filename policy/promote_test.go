// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

const vA, vB = "aaaaaaaaaaaa", "bbbbbbbbbbbb"

func lifeAt(minutes int) time.Time {
	return time.Date(2026, 12, 1, 0, minutes, 0, 0, time.UTC)
}

func life(steps ...any) (out []StageChange) {
	for i := 0; i < len(steps); i += 2 {
		id := int64(len(out) + 1)
		out = append(out, StageChange{ID: id, At: lifeAt(int(id)), Version: steps[i].(string), Stage: steps[i+1].(Stage)})
	}
	return out
}

func TestStandingOf(t *testing.T) {
	tests := map[string]struct {
		life []StageChange
		want Standing
	}{
		"nothing yet":                          {nil, Standing{}},
		"a candidate decides nothing":          {life(vA, StageCandidate), Standing{Last: 1}},
		"a trial":                              {life(vA, StageCandidate, vA, StageObserve), Standing{Trial: vA, Stage: StageObserve, Since: lifeAt(2), Last: 2}},
		"a trial that is rolled back":          {life(vA, StageShare, vA, StageRolledBack), Standing{Last: 2}},
		"a trial that goes live":               {life(vA, StageShare, vA, StageLive), Standing{Live: vA, Last: 2}},
		"a live one that is rolled back":       {life(vA, StageLive, vB, StageLive, vB, StageRolledBack), Standing{Live: vA, Last: 3}},
		"the first live one is rolled back":    {life(vA, StageLive, vA, StageRolledBack), Standing{Last: 2}},
		"a live one, tried again, rolled back": {life(vA, StageLive, vB, StageLive, vA, StageObserve, vA, StageRolledBack), Standing{Live: vB, Last: 4}},
		"a new trial takes the place":          {life(vA, StageObserve, vB, StageObserve), Standing{Trial: vB, Stage: StageObserve, Since: lifeAt(2), Last: 2}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, StandingOf(tc.life)); diff != "" {
				t.Error(diff)
			}
		})
	}
	if got := StageOf(life(vA, StageObserve, vB, StageObserve), vA); got != StageCandidate {
		t.Errorf("one whose place another took is %s", got)
	}
}

func TestPromotionAsksForEvidence(t *testing.T) {
	good := Evaluation{At: lifeAt(5), Pairs: 5, HeldOut: true, Cost: Span{-0.1, -0.2, -0.01}}
	with := func(change func(*Evaluation)) Evidence {
		e := good
		change(&e)
		return Evidence{Evaluations: []Evaluation{e}, Observed: 50}
	}
	observing := Standing{Trial: vA, Stage: StageObserve, Since: lifeAt(4)}
	share := func(f ShareFigures) Evidence { return Evidence{Share: f} }
	tests := map[string]struct {
		standing Standing
		from, to Stage
		evidence Evidence
		says     string // "": it may
		lacks    bool   // only evidence lacks
	}{
		"better on held-out data":           {Standing{}, StageCandidate, StageObserve, with(func(*Evaluation) {}), "", false},
		"no evaluation":                     {Standing{}, StageCandidate, StageObserve, Evidence{}, "no recorded evaluation", true},
		"an interval that holds 0":          {Standing{}, StageCandidate, StageObserve, with(func(e *Evaluation) { e.Cost.High = 0.01 }), "no recorded evaluation", true},
		"better on what it was trained on":  {Standing{}, StageCandidate, StageObserve, with(func(e *Evaluation) { e.HeldOut = false }), "no recorded evaluation", true},
		"too few pairs":                     {Standing{}, StageCandidate, StageObserve, with(func(e *Evaluation) { e.Pairs = 4 }), "no recorded evaluation", true},
		"a stage left out":                  {Standing{}, StageCandidate, StageLive, with(func(*Evaluation) {}), "next stage is observe", true},
		"observed and evaluated since":      {observing, StageObserve, StageShare, with(func(*Evaluation) {}), "", false},
		"observed too shortly":              {observing, StageObserve, StageShare, Evidence{Observed: 49}, "on 49 jobs", true},
		"no evaluation since":               {observing, StageObserve, StageShare, with(func(e *Evaluation) { e.At = lifeAt(3) }), "no evaluation since", true},
		"worse since":                       {observing, StageObserve, StageShare, with(func(e *Evaluation) { e.Cost = Span{0.1, 0.05, 0.2} }), "shows it worse", true},
		"a share that does well":            {Standing{}, StageShare, StageLive, share(ShareFigures{Mine: 30, Diff: -0.1, SE: 0.1}), "", false},
		"a share of which little is known":  {Standing{}, StageShare, StageLive, share(ShareFigures{Mine: 29}), "29 jobs", true},
		"a share that does worse":           {Standing{}, StageShare, StageLive, share(ShareFigures{Mine: 30, Diff: 0.2, SE: 0.1}), "worse than the others", true},
		"after a roll-back, from the start": {Standing{}, StageRolledBack, StageObserve, with(func(*Evaluation) {}), "", false},
		"after a roll-back, to the top":     {Standing{}, StageRolledBack, StageLive, with(func(*Evaluation) {}), "next stage is observe", true},
		"one that is not known":             {Standing{}, "", StageObserve, with(func(*Evaluation) {}), "no policy", false},
		"a second trial":                    {Standing{Trial: vB, Stage: StageShare}, StageCandidate, StageObserve, with(func(*Evaluation) {}), vB, false},
		"a stage that there is not":         {Standing{}, StageCandidate, "heaven", with(func(*Evaluation) {}), "heaven", false},
		"to where it is":                    {observing, StageObserve, StageObserve, with(func(*Evaluation) {}), "already", false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			err := Promotion(tc.standing, vA, tc.from, tc.to, tc.evidence)
			switch {
			case (err == nil) != (tc.says == ""), err != nil && !strings.Contains(err.Error(), tc.says):
				t.Errorf("error %v; want one that says %q", err, tc.says)
			case errors.Is(err, ErrNoEvidence) != tc.lacks:
				t.Errorf("may be forced: %v, want %v (%v)", !tc.lacks, tc.lacks, err)
			}
		})
	}
}

// Whatever happens, a policy that was rolled back decides nothing any more.
func TestARollBackTakesAPolicyOut(t *testing.T) {
	versions := []string{vA, vB, "cccccccccccc"}
	rapid.Check(t, func(t *rapid.T) {
		var changes []StageChange
		for i := range rapid.IntRange(0, 30).Draw(t, "steps") {
			v := rapid.SampledFrom(versions).Draw(t, "version")
			to := rapid.SampledFrom([]Stage{StageCandidate, StageObserve, StageShare, StageLive, StageRolledBack}).Draw(t, "stage")
			before := StandingOf(changes)
			changes = append(changes, StageChange{ID: int64(i + 1), At: lifeAt(i), Version: v, Stage: to})
			s := StandingOf(changes)
			if to == StageRolledBack && s.Trial == v {
				t.Fatalf("%s is still tried", v)
			}
			if to != StageLive && to != StageRolledBack && s.Live != before.Live {
				t.Fatalf("%s changed what is live from %q to %q", to, before.Live, s.Live)
			}
			if (s.Trial == "") != (s.Stage == "") {
				t.Fatalf("a trial of %q in the stage %q", s.Trial, s.Stage)
			}
		}
	})
}
