// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"errors"
	"fmt"

	"rifling/policy"
	"rifling/slurm"
)

// Release takes back what the owner records say, and returns one result per
// record. It serves the clean stop, `rifling release` and the watchdog alike,
// and needs nothing but the cluster: no policy, no daemon. A result is Skipped
// when there was nothing to do; its Owner tells what is left of the record
// (without SetAt: nothing, it can be forgotten).
func Release(ctx context.Context, c Cluster, owners []policy.Owner) ([]policy.Result, error) {
	if len(owners) == 0 {
		return nil, nil
	}
	snap, err := c.Snapshot(ctx)
	if err != nil {
		return nil, fmt.Errorf("release: %w", err)
	}
	var results []policy.Result
	for _, o := range owners {
		results = append(results, releaseOne(ctx, c, snap, o))
	}
	return results, nil
}

func releaseOne(ctx context.Context, c Cluster, snap *slurm.Snapshot, o policy.Owner) policy.Result {
	r := policy.Result{
		Change:  policy.Change{Kind: policy.KindTakeBack, Update: slurm.Update{JobID: o.JobID}, Owner: o},
		Outcome: policy.Skipped, Owner: &policy.Owner{JobID: o.JobID},
	}
	j := snap.Job(o.JobID)
	if j == nil {
		// A record that could not be read is left out of the snapshot.
		fresh, err := c.Job(ctx, o.JobID)
		if err != nil {
			r.Detail = "the job is gone from Slurm"
			if !errors.Is(err, slurm.ErrGone) {
				r.Outcome, r.Detail, r.Owner = policy.Failed, fmt.Sprintf("read the job: %v", err), &o
			}
			return r
		}
		j = &fresh
	}
	if policy.Stranded(j, o) {
		o = o.Impossible(j) // the next daemon must not do it again
	}
	r.Change = policy.PlanTakeBack(o, j, snap)
	if o.Shunned != "" {
		r.Change.Why = o.Shunned + ": " + r.Change.Why
	}
	if r.Change.Update.Empty() {
		r.Detail = r.Change.Why
		if j.Running() || o.Shunned != "" {
			r.Owner = nil // it may be requeued with what was set
		}
		return r
	}
	r.Outcome, r.Detail, _, _ = Apply(ctx, c, r.Change)
	switch {
	case r.Outcome == policy.Applied && (j.Running() || o.Shunned != ""):
		r.Owner = nil
	case r.Outcome != policy.Applied:
		r.Owner = &o
	}
	return r
}

// Stop takes everything back and keeps what was learned. It is the clean end
// of a loop.
func (l *Loop) Stop(ctx context.Context) ([]policy.Result, error) {
	owners := make([]policy.Owner, 0, len(l.owned))
	for _, id := range policy.SortedIDs(l.owned) {
		owners = append(owners, l.owned[id])
	}
	results, err := Release(ctx, l.Cluster, owners)
	if err != nil {
		return results, err
	}
	rec := policy.Record{At: l.lastAt, Mode: l.Mode, Seed: l.Seed, Plan: policy.Plan{Policy: policy.PlanStop, At: l.lastAt}}
	for _, r := range results {
		rec.Changes = append(rec.Changes, r.Change)
	}
	id, err := l.Recorder.Begin(ctx, rec)
	if err != nil {
		return results, fmt.Errorf("record the stop: %w", err)
	}
	if err := l.Recorder.End(ctx, id, results, 0); err != nil {
		return results, fmt.Errorf("record the stop: %w", err)
	}
	return results, l.Checkpoint(ctx, l.lastAt)
}
