// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"time"
)

// Stage is how far a trained policy has come.
type Stage string

// The stages, in the order in which a policy passes them, and its two ends.
const (
	StageCandidate  Stage = "candidate" // known, decides nothing
	StageObserve    Stage = "observe"   // decides beside the incumbent, changes nothing
	StageShare      Stage = "share"     // decides for a share of the jobs
	StageLive       Stage = "live"      // decides for all jobs
	StageRolledBack Stage = "rolled-back"
)

// Stages lists those that a policy passes, in order.
var Stages = []Stage{StageCandidate, StageObserve, StageShare, StageLive}

// Next returns the stage after s, "" when there is none.
func (s Stage) Next() Stage {
	if i := slices.Index(Stages, s); i >= 0 && i+1 < len(Stages) {
		return Stages[i+1]
	}
	return ""
}

// StageChange is one step in the life of a policy.
type StageChange struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Stage   Stage     `json:"stage"`
	Share   float64   `json:"share,omitempty"` // of the jobs, 0..1, of StageShare
	By      string    `json:"by"`
	Why     string    `json:"why"`
	Forced  bool      `json:"forced,omitempty"` // without the evidence that the stage asks for
}

// Standing is what follows from all changes so far.
type Standing struct {
	// Live is the version that decides, "" for the configured policy.
	Live string
	// Trial is the version that is being tried, "" for none; Stage is then
	// StageObserve or StageShare.
	Trial string
	Stage Stage
	Share float64
	Since time.Time // of the trial's stage
	Last  int64     // ID of the last change
}

// StandingOf plays the changes, in their order. A policy that is rolled back
// leaves the trial, or hands back to the one that was live before it. At most
// one policy is on trial: a new one takes the place of the old.
func StandingOf(changes []StageChange) Standing {
	var s Standing
	var before []string // live versions under the one that is
	for _, c := range changes {
		s.Last = c.ID
		switch c.Stage {
		case StageObserve, StageShare:
			s.Trial, s.Stage, s.Share, s.Since = c.Version, c.Stage, c.Share, c.At
			continue
		case StageLive:
			if s.Live != c.Version {
				before, s.Live = append(before, s.Live), c.Version
			}
		case StageRolledBack:
			if s.Live == c.Version && s.Trial != c.Version && len(before) > 0 {
				s.Live, before = before[len(before)-1], before[:len(before)-1]
			}
		}
		if s.Trial == c.Version && c.Stage != StageCandidate {
			s.Trial, s.Stage, s.Share, s.Since = "", "", 0, time.Time{}
		}
	}
	return s
}

// StageOf returns where the version stands: its last stage, "" for one that is
// not known. A policy whose place another one took is a candidate again.
func StageOf(changes []StageChange, version string) Stage {
	s, last := StandingOf(changes), Stage("")
	for _, c := range changes {
		if c.Version == version {
			last = c.Stage
		}
	}
	switch {
	case last == "" || last == StageRolledBack:
		return last
	case s.Trial == version:
		return s.Stage
	case s.Live == version:
		return StageLive
	}
	return StageCandidate
}

// Evaluation is one recorded comparison with an incumbent. Differences are the
// version's less the incumbent's, paired, with intervals that hold 95 %.
type Evaluation struct {
	ID      int64     `json:"id"`
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Against string    `json:"against"` // a version, or the name of a policy
	By      string    `json:"by"`
	Data    string    `json:"data"`     // in words
	Pairs   int       `json:"pairs"`    // lists or blocks of jobs that were paired
	HeldOut bool      `json:"held_out"` // nothing of it was in the training
	// Cost is the objective relative to the incumbent's 1, JCT the mean
	// completion time in seconds.
	Cost Span `json:"cost"`
	JCT  Span `json:"jct_s"`
	// Figures are those of both, for people.
	Figures []Figure `json:"figures"`
}

// Span is a difference with an interval of 95 %.
type Span struct {
	Mean float64 `json:"mean"`
	Low  float64 `json:"low"`
	High float64 `json:"high"`
}

// Better reports whether the evaluation shows an improvement: the whole
// interval of the objective lies below 0, on data that the training has not
// seen. Worse is the other end.
func (e *Evaluation) Better() bool { return e.HeldOut && e.Pairs >= leastPairs && e.Cost.High < 0 }

// Worse reports whether the whole interval lies above 0.
func (e *Evaluation) Worse() bool { return e.Cost.Low > 0 }

// What promotion asks for at least. An interval over fewer than five pairs is a
// guess. Fifty jobs show what a policy does, thirty of the share's how they fare.
const (
	leastPairs    = 5
	leastObserved = 50
	leastShare    = 30
)

// Evidence is what is known for a promotion.
type Evidence struct {
	// Evaluations of the version against what now decides.
	Evaluations []Evaluation
	// Observed counts the jobs that the version decided on beside the
	// incumbent since its stage began.
	Observed int
	Share    ShareFigures
}

// ErrNoEvidence is in what Promotion returns when evidence lacks; only then
// may the caller go on by force.
var ErrNoEvidence = errors.New("the evidence lacks")

// Promotion tells whether the version may go to the stage now. from is its
// stage, s the standing of all.
func Promotion(s Standing, version string, from, to Stage, e Evidence) error {
	switch {
	case from == "":
		return fmt.Errorf("there is no policy %s", version)
	case from == StageLive && to != StageLive:
		return errors.New("it is live; roll it back to take it out")
	case from == to:
		return fmt.Errorf("it is in the stage %s already", to)
	case slices.Index(Stages, to) < 1:
		return fmt.Errorf("there is no stage %q to promote to; there are observe, share and live", to)
	case s.Trial != "" && s.Trial != version && to != StageLive:
		return fmt.Errorf("%s is being tried; roll it back first", s.Trial)
	}
	if want := from.Next(); want != to && (from != StageRolledBack || to != StageObserve) {
		if from == StageRolledBack {
			want = StageObserve
		}
		return fmt.Errorf("%w: from %s the next stage is %s", ErrNoEvidence, from, want)
	}
	return e.enough(s, to)
}

func (e *Evidence) enough(s Standing, to Stage) error {
	switch to {
	case StageObserve:
		if !slices.ContainsFunc(e.Evaluations, func(v Evaluation) bool { return v.Better() }) {
			return fmt.Errorf("%w: no recorded evaluation on held-out data shows it better than what now decides", ErrNoEvidence)
		}
	case StageShare:
		if e.Observed < leastObserved {
			return fmt.Errorf("%w: it was observed on %d jobs; %d are asked for", ErrNoEvidence, e.Observed, leastObserved)
		}
		late := slices.DeleteFunc(slices.Clone(e.Evaluations), func(v Evaluation) bool { return v.At.Before(s.Since) })
		if len(late) == 0 {
			return fmt.Errorf("%w: no evaluation since it is observed", ErrNoEvidence)
		}
		if last := late[len(late)-1]; last.Worse() {
			return fmt.Errorf("%w: the last evaluation shows it worse than what now decides", ErrNoEvidence)
		}
	case StageLive:
		f := e.Share
		switch {
		case f.Mine < leastShare:
			return fmt.Errorf("%w: %d jobs of its share have ended; %d are asked for", ErrNoEvidence, f.Mine, leastShare)
		case f.Alarm:
			return fmt.Errorf("%w: its share's jobs do worse than the others", ErrNoEvidence)
		case f.Diff > f.SE:
			return fmt.Errorf("%w: its share's jobs rank %.2f ± %.2f worse than the others", ErrNoEvidence, f.Diff, f.SE)
		}
	}
	return nil
}
