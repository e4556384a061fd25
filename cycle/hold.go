// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rifling/policy"
	"rifling/slurm"
)

// StateHeld is the name under which a loop keeps its Held, for those who show
// it; null when nothing holds it.
const StateHeld = "held"

// stateFallback is the name under which the fall-back's own state is kept.
const stateFallback = "fallback"

// loadEvery is how often slurmctld is asked for its figures.
const loadEvery = 30 * time.Second

// Brakes are what may keep a loop from steering. Nil parts hold nothing.
type Brakes struct {
	// Word returns what the admin or the hour says; nil for nothing. It is
	// asked in each cycle.
	Word func() *Held
	// Resume reports whether the admin has ended a fall-back since the last call.
	Resume func() bool
	// Load asks slurmctld how it fares; it answers with its lightest question.
	Load     func(context.Context) (Load, error)
	Fallback *Fallback
}

// brake works out what holds the loop back in this cycle, and makes it known.
func (l *Loop) brake(ctx context.Context, now time.Time) error {
	b := &l.Brakes
	if b.Fallback != nil {
		l.askLoad(ctx, now)
		if b.Resume != nil && b.Resume() {
			b.Fallback.Clear()
		}
	}
	var held *Held
	if b.Word != nil {
		held = b.Word()
	}
	if held == nil && b.Fallback != nil {
		held = b.Fallback.Held(now)
	}
	return l.hold(ctx, held, now)
}

// hold makes held what holds the loop back. It is kept and logged when it
// comes, changes or goes.
func (l *Loop) hold(ctx context.Context, held *Held, now time.Time) error {
	if held != nil && held.Since.IsZero() {
		held.Since = now
	}
	was := l.held
	if held != nil && was != nil && held.Kind == was.Kind && held.Why == was.Why {
		return nil
	}
	if held == nil && was == nil && l.heldKept {
		return nil
	}
	blob, err := json.Marshal(held)
	if err != nil {
		return fmt.Errorf("record what holds back: %w", err)
	}
	if err := l.Recorder.SaveState(ctx, StateHeld, blob); err != nil {
		return fmt.Errorf("record what holds back: %w", err)
	}
	l.held, l.heldKept = held, true
	switch {
	case held != nil:
		l.Log.Warn("nothing is set on jobs now, and what was set is taken back", "kind", held.Kind, "why", held.Why, "ends", held.Ends)
	case was != nil:
		l.Log.Info("jobs may be steered again", "was", was.Kind, "why", was.Why)
	}
	return l.keepFallback(ctx)
}

func (l *Loop) askLoad(ctx context.Context, now time.Time) {
	if l.Brakes.Load == nil || l.Mode != Steer || now.Sub(l.loadAt) < loadEvery && !now.Before(l.loadAt) {
		return
	}
	l.loadAt = now
	load, err := l.Brakes.Load(ctx)
	if err != nil && !errors.Is(err, slurm.ErrBusy) {
		return // the next poll will tell
	}
	load.Busy = err != nil
	l.Brakes.Fallback.Load(now, load)
}

// watch takes in how a cycle's updates ended and what was learnt.
func (l *Loop) watch(now time.Time, results []policy.Result) {
	if l.Brakes.Fallback != nil {
		l.Brakes.Fallback.Results(now, results)
	}
}

func (l *Loop) keepFallback(ctx context.Context) error {
	if l.Brakes.Fallback == nil {
		return nil
	}
	blob, err := json.Marshal(l.Brakes.Fallback)
	if err != nil {
		return fmt.Errorf("check-point the fall-back: %w", err)
	}
	if err := l.Recorder.SaveState(ctx, stateFallback, blob); err != nil {
		return fmt.Errorf("check-point the fall-back: %w", err)
	}
	return nil
}

// restoreFallback reads what the last run kept. What cannot be read is begun
// anew.
func (l *Loop) restoreFallback(ctx context.Context) error {
	if l.Brakes.Fallback == nil {
		return nil
	}
	blob, err := l.Recorder.LoadState(ctx, stateFallback)
	if err != nil {
		return fmt.Errorf("restore the fall-back: %w", err)
	}
	if blob == nil {
		return nil
	}
	if err := json.Unmarshal(blob, l.Brakes.Fallback); err != nil {
		l.Log.Warn("check-point cannot be read, starting that part anew", "part", stateFallback, "err", err)
		l.Brakes.Fallback.Clear()
	}
	return nil
}

// mode is what the cycle does: steer only when nothing holds it back.
func (l *Loop) mode() string {
	if l.held != nil {
		return Observe
	}
	return l.Mode
}
