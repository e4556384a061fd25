// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"rifling/cmd/internal/brake"
	"rifling/cycle"
	"rifling/policy"
)

// brakes are what may keep the loop from steering, as the configuration says.
func (d *daemon) brakes() (cycle.Brakes, error) {
	quiet, err := d.conf.QuietHours()
	if err != nil {
		return cycle.Brakes{}, err
	}
	return cycle.Brakes{
		Word:     func() *cycle.Held { return d.word(time.Now(), quiet) },
		Resume:   d.resumed,
		Load:     d.slurmctldLoad,
		Fallback: d.conf.NewFallback(),
	}, nil
}

// word is what the admin or the hour says against steering now.
func (d *daemon) word(now time.Time, quiet policy.QuietHours) *cycle.Held {
	if path := d.conf.Brakes.KillSwitch; path != "" {
		if p := brake.Read(path, now); p != nil {
			return &cycle.Held{Kind: cycle.HeldPause, Why: p.Why, Ends: "ends when " + path + " is removed"}
		}
	}
	if p := brake.Read(d.conf.PauseFile(), now); p != nil {
		h := &cycle.Held{Kind: cycle.HeldPause, Why: p.Why, Ends: "ends with `rifling resume`", Since: p.At}
		if p.By != "" {
			h.Why = p.By + ": " + h.Why
		}
		if p.Until != nil {
			h.Ends += ", or at " + p.Until.Local().Format("2006-01-02 15:04 MST")
		}
		return h
	}
	if quiet.At(now) {
		h := &cycle.Held{Kind: cycle.HeldQuiet, Why: "quiet hours", Ends: "never ends by itself"}
		if until := quiet.Until(now); !until.IsZero() {
			h.Ends = "ends at " + until.Local().Format("2006-01-02 15:04 MST")
		}
		return h
	}
	return nil
}

// resumed reports whether `rifling resume` was called since the last cycle.
func (d *daemon) resumed() bool {
	was, err := brake.Remove(d.conf.ResumeFile())
	if err != nil {
		d.once("the word of `rifling resume` cannot be removed: "+err.Error(),
			"remove "+d.conf.ResumeFile()+"; until then no fall-back lasts")
		return true
	}
	return was
}

// slurmctldLoad asks slurmctld how it fares.
func (d *daemon) slurmctldLoad(ctx context.Context) (cycle.Load, error) {
	began := time.Now()
	diag, err := d.client.Diag(ctx)
	return cycle.Load{Answer: time.Since(began), Threads: diag.ServerThreads, Schedule: diag.ScheduleLast}, err
}
