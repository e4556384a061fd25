// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"errors"
	"fmt"

	"rifling/policy"
	"rifling/slurm"
)

// apply sends the changes one by one and returns how each ended. When Slurm
// itself is in trouble the rest of the batch is put off: pressing on would
// only add load.
func (l *Loop) apply(ctx context.Context, changes []policy.Change, snap *slurm.Snapshot) []policy.Result {
	var results []policy.Result
	var written []policy.Change
	var trouble error
	for _, c := range changes {
		r := policy.Result{Change: c, Outcome: policy.Skipped}
		sure := true
		if trouble == nil {
			r.Outcome, r.Detail, sure, trouble = Apply(ctx, l.Cluster, c)
		} else {
			r.Detail = "put off: " + trouble.Error()
		}
		l.settle(&r, sure)
		if r.Outcome == policy.Failed && sure && trouble == nil {
			l.shun(&r, snap)
		}
		results = append(results, r)
		if r.Outcome == policy.Applied && c.Kind == policy.KindSet {
			written = append(written, c)
		}
	}
	if trouble != nil {
		return results
	}
	return append(results, l.verify(ctx, written, snap)...)
}

// Apply makes one change: it reads the job afresh, compares it with what the
// change expects, since Slurm has no compare-and-swap, and writes. sure is
// false when a write was sent and its fate is not known; trouble is set when
// Slurm itself, not this job, is the reason.
func Apply(ctx context.Context, c Cluster, ch policy.Change) (o policy.Outcome, detail string, sure bool, trouble error) {
	fresh, err := c.Job(ctx, ch.Update.JobID)
	if errors.Is(err, slurm.ErrGone) {
		return policy.Skipped, "the job is gone from Slurm", true, nil
	}
	if err != nil {
		return policy.Failed, fmt.Sprintf("read the job again: %v", err), true, err
	}
	if why := changed(&fresh, ch.Expect); why != "" {
		return policy.Skipped, why, true, nil
	}
	err = c.Update(ctx, ch.Update)
	switch {
	case err == nil:
		return policy.Applied, "", true, nil
	case errors.Is(err, slurm.ErrStarted):
		return policy.Skipped, "the job started meanwhile", true, nil
	case errors.Is(err, slurm.ErrGone):
		return policy.Skipped, "the job is gone from Slurm", true, nil
	case errors.Is(err, slurm.ErrHeld):
		return policy.Skipped, "the job is held", true, nil
	case errors.Is(err, slurm.ErrDenied), errors.Is(err, slurm.ErrAuth):
		return policy.Failed, err.Error(), true, err
	case errors.Is(err, slurm.ErrRejected), errors.Is(err, slurm.ErrUnsafe):
		return policy.Failed, err.Error(), true, nil
	}
	return policy.Failed, err.Error(), false, err
}

// changed says what differs from what the change was planned on; "" if nothing.
func changed(j *slurm.Job, e policy.Expect) string {
	switch {
	case e.Pending && !j.Pending():
		return "the job started meanwhile"
	case !e.Pending && j.Pending():
		return "the job was requeued meanwhile"
	case !policy.SameNodes(j.ExcludedNodes, e.ExcludedNodes):
		return "someone changed the job's exclude list meanwhile"
	case !policy.SameNodes(j.RequiredNodes, e.RequiredNodes):
		return "someone changed the job's node list meanwhile"
	case j.Nice != e.Nice:
		return "someone changed the job's nice value meanwhile"
	}
	return ""
}

// settle brings the owner records in line with how a change ended, and notes
// in the result which record stands now.
func (l *Loop) settle(r *policy.Result, sure bool) {
	id := r.Change.Update.JobID
	before, had := l.owned[id]
	switch {
	case r.Outcome == policy.Applied:
		o := policy.Settled(r.Change.Owner, r.Change.Update)
		l.owned[id], r.Owner = o, &o
	case !sure:
		// It may have reached Slurm: the record that covers both cases stands.
		if r.Change.Kind == policy.KindSet {
			l.owned[id] = r.Change.Owner
		}
	case had:
		r.Owner = &before
	default:
		r.Owner = &policy.Owner{JobID: id}
	}
}

// shun keeps rifling away from a job of which Slurm rejected a change: it would
// reject the next one too. (24.11 refuses every change of a job whose exclude
// list names a node that was deleted.) What is set on it is tried to be taken
// back again when the record's time is over.
func (l *Loop) shun(r *policy.Result, snap *slurm.Snapshot) {
	id := r.Change.Update.JobID
	o := l.owned[id]
	o.JobID, o.SetAt, o.ExpiresAt = id, snap.TakenAt, snap.TakenAt.Add(l.Limits.TTL)
	o.Shunned = "Slurm rejected a change: " + r.Detail
	l.owned[id], r.Owner = o, &o
}

// verify reads each job again that was narrowed. What Slurm now calls impossible
// is taken back at once; what it finds out later the next cycle sees.
func (l *Loop) verify(ctx context.Context, written []policy.Change, snap *slurm.Snapshot) []policy.Result {
	var results []policy.Result
	for _, c := range written {
		id := c.Update.JobID
		j, err := l.Cluster.Job(ctx, id)
		if err != nil || !policy.Stranded(&j, c.Owner) {
			continue // the next cycle reads it anyway
		}
		o := c.Owner.Impossible(&j)
		back := policy.PlanTakeBack(o, &j, snap)
		back.Why = o.Shunned
		r := policy.Result{Change: back}
		var sure bool
		r.Outcome, r.Detail, sure, _ = Apply(ctx, l.Cluster, back)
		l.settle(&r, sure)
		results = append(results, r)
	}
	return results
}
