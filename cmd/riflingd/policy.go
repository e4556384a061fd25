// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rifling/policy"
	"rifling/store"
)

// tableOwner is the state that says whose table the last check-point holds: a
// version, or nothing for the configured policy.
const tableOwner = "table-owner"

// tableOf is the state in which the table of a policy lies while another one
// is in charge.
func tableOf(version string) string { return "table " + version }

// policies is what riflingd knows of trained policies.
type policies struct {
	seen      int64 // the last change that was taken up; -1: none was looked for
	live      string
	incumbent policy.Policy
	trial     *policy.Trial // nil: none
	saved     time.Time     // the trial's state
}

// choosePolicy takes up what an admin has promoted or rolled back since the
// last cycle. What cannot be loaded leaves all as it is: a policy that decides
// is never lost to one that does not.
func (d *daemon) choosePolicy(ctx context.Context) {
	last, err := d.store.LastStageChange(ctx)
	if err != nil {
		d.log.Warn("the policies' stages cannot be read, the next cycle tries again", "err", err)
		return
	}
	if last == d.policies.seen {
		return
	}
	if err := d.takeUp(ctx, last); err != nil {
		d.once("a promoted policy cannot be taken up: "+err.Error(), "rifling policy show tells more; rifling policy rollback takes it out")
	}
}

func (d *daemon) takeUp(ctx context.Context, last int64) error {
	p := &d.policies
	changes, err := d.store.StageChanges(ctx)
	if err != nil {
		return err
	}
	owner, err := d.store.LoadState(ctx, tableOwner)
	if err != nil {
		return err
	}
	now := policy.StandingOf(changes)
	if p.incumbent == nil {
		p.incumbent = d.loop.Policy // the configured one
	}
	if now.Live != p.live || string(owner) != now.Live {
		next, err := d.loadPolicy(ctx, now.Live)
		if err != nil {
			return err
		}
		if err := d.handOver(ctx, string(owner), now.Live, next); err != nil {
			return err
		}
		p.live, p.incumbent = now.Live, next
	}
	p.trial = nil
	in := p.incumbent
	if now.Trial != "" {
		candidate, err := d.loadPolicy(ctx, now.Trial)
		if err != nil {
			return err
		}
		p.trial, in = policy.NewTrial(now.Trial, p.incumbent, candidate, now.Share)
		p.trial.Since = now.Since
		state, err := d.store.LoadState(ctx, policy.TrialStateName)
		if err == nil {
			err = p.trial.Resume(state)
		}
		if err != nil {
			d.log.Warn("the trial's state cannot be read, it begins anew", "err", err)
		}
	}
	d.loop.Policy, p.seen = in, last
	if last > 0 {
		d.log.Info("policies taken up", "decides", orConfigured(now.Live, d.conf.Policy), "on_trial", now.Trial, "stage", string(now.Stage), "share", now.Share)
	}
	return nil
}

func orConfigured(version, configured string) string {
	if version == "" {
		return configured + ", as configured"
	}
	return version
}

// loadPolicy makes the policy of that version, the configured one of "".
func (d *daemon) loadPolicy(ctx context.Context, version string) (policy.Policy, error) {
	if version == "" {
		return d.conf.NewPolicy()
	}
	kept, err := d.store.Policy(ctx, version)
	if err != nil {
		return nil, err
	}
	f, v, err := policy.DecodeFile(kept.File)
	if err != nil {
		return nil, fmt.Errorf("policy %s: %w", version, err)
	}
	if v != version {
		return nil, fmt.Errorf("policy %s: its file is of %s: %w", version, v, policy.ErrBrokenHash)
	}
	o, err := d.conf.PolicyOptions()
	if err != nil {
		return nil, err
	}
	return f.Policy(o)
}

// handOver keeps the table of the learner that was in charge and gives the new
// one its own: that of the last check-point if it was its own, else what it
// left when it was last in charge, else what its file holds.
func (d *daemon) handOver(ctx context.Context, owner, to string, next policy.Policy) error {
	entries, err := d.store.LoadTable(ctx)
	if err != nil {
		return err
	}
	if l, ok := d.policies.incumbent.(policy.Learner); ok {
		entries = l.Entries() // newer than the check-point
	}
	learner, learns := next.(policy.Learner)
	if owner == to {
		if learns && entries != nil {
			learner.Restore(entries)
		}
		return nil
	}
	blob, err := json.Marshal(entries)
	if err != nil {
		return fmt.Errorf("keep the table of %q: %w", owner, err)
	}
	if err := d.store.SaveState(ctx, tableOf(owner), blob); err != nil {
		return err
	}
	if blob, err = d.store.LoadState(ctx, tableOf(to)); err != nil {
		return err
	}
	if learns && len(blob) > 0 {
		var own []policy.QEntry
		if err := json.Unmarshal(blob, &own); err != nil {
			return fmt.Errorf("read the table of %q: %w", to, err)
		}
		learner.Restore(own)
	}
	return d.store.SaveState(ctx, tableOwner, []byte(to))
}

// followTrial records what both policies decided, and rolls the one on trial
// back when its jobs do worse.
func (d *daemon) followTrial(ctx context.Context, at time.Time, plan string) {
	t := d.policies.trial
	if t == nil || plan == policy.PlanRecover {
		return
	}
	if err := d.store.SavePairs(ctx, t.Version, at, t.Pairs()); err != nil {
		d.log.Warn("the plans of a trial could not be recorded", "err", err)
	}
	why := ""
	switch f := t.Figures(); {
	case t.Broken() != "":
		why = "it failed: " + t.Broken()
	case f.Alarm:
		why = fmt.Sprintf("the %d jobs of its share do worse than the %d others: rank %+.2f ± %.2f; evidence %.0f to 1 (false alarms: %g %%)",
			f.Mine, f.Others, f.Diff, f.SE, f.Wealth, 100*policy.FalseAlarm)
	}
	if why == "" && at.Sub(d.policies.saved) < time.Minute {
		return
	}
	d.policies.saved = at
	if err := d.saveTrial(ctx); err != nil {
		d.log.Warn("the state of a trial could not be kept", "err", err)
	}
	if why == "" {
		return
	}
	err := d.store.ChangeStage(ctx, d.policies.seen, policy.StageChange{Version: t.Version, Stage: policy.StageRolledBack, By: "riflingd", Why: why})
	switch {
	case errors.Is(err, store.ErrPolicyMoved): // the next cycle looks again
	case err != nil:
		d.log.Error("a policy on trial does harm and could not be rolled back; it decides nothing until this process ends", "policy", t.Version, "err", err)
	default:
		d.log.Warn("a policy on trial is rolled back", "policy", t.Version, "why", why)
	}
}

func (d *daemon) saveTrial(ctx context.Context) error {
	if d.policies.trial == nil {
		return nil
	}
	state, err := d.policies.trial.State()
	if err != nil {
		return err
	}
	return d.store.SaveState(ctx, policy.TrialStateName, state)
}
