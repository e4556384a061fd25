// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"
	"strings"
	"time"

	"rifling/slurm"
)

// Writes is what a plan asks of Slurm and of the owner records.
type Writes struct {
	Changes []Change
	Renew   []Owner       // nothing to write, but what is set lives on
	Forget  []slurm.JobID // jobs that are gone from Slurm
	Left    int           // changes that Limits.MaxChanges put off to a later cycle
}

// Steer turns a restricted plan into the writes that make it true. It is
// absolute: where Slurm already says what the plan wants, nothing is written.
// Take-backs come first and are not counted against Limits.MaxChanges, since
// nothing is safer than a job as its user left it.
func Steer(p Plan, in Input) Writes {
	in = in.indexed()
	var w Writes
	touched := map[slurm.JobID]bool{}
	var sets []Change
	for _, d := range p.Decisions {
		j := in.Snapshot.Job(d.JobID)
		if j == nil {
			continue
		}
		if d.Skipped != "" || !steered(j, in.Limits) {
			continue
		}
		c, wanted := set(j, d, in)
		switch {
		case !wanted:
			continue
		case !c.Update.Empty():
			sets = append(sets, c)
		case c.Owner.ExpiresAt.After(in.Owned[j.ID].ExpiresAt):
			w.Renew = append(w.Renew, c.Owner)
		}
		touched[j.ID] = true
	}
	for _, id := range SortedIDs(in.Owned) {
		if touched[id] {
			continue
		}
		back(&w, in.Owned[id], in)
	}
	if n := in.Limits.MaxChanges; len(sets) > n {
		w.Left = len(sets) - n
		sets = sets[:n]
	}
	w.Changes = append(w.Changes, sets...)
	return w
}

// back decides what to do with a job that rifling owns and no longer wants to
// steer: it left the queue, may not be touched any more, or nothing is wanted.
func back(w *Writes, o Owner, in Input) {
	j := in.Snapshot.Job(o.JobID)
	if j == nil {
		w.Forget = append(w.Forget, o.JobID)
		return
	}
	if Stranded(j, o) {
		o = o.Impossible(j)
	}
	c := PlanTakeBack(o, j, in.Snapshot)
	if c.Update.Empty() {
		settle(w, o, j, in)
		return
	}
	if in.Owned[o.JobID].Shunned != "" && in.Snapshot.TakenAt.Before(o.ExpiresAt) {
		return // Slurm rejected it a moment ago
	}
	if o.Shunned != "" {
		c.Why = o.Shunned + ": " + c.Why
	}
	w.Changes = append(w.Changes, c)
}

// settle keeps the record of a job that needs no write now: it may be requeued
// with what was set, or must not be touched again. A pending job that holds
// nothing of rifling's needs no record.
func settle(w *Writes, o Owner, j *slurm.Job, in Input) {
	switch {
	case o.Shunned != "" && o.Shunned != in.Owned[o.JobID].Shunned:
		w.Renew = append(w.Renew, o)
	case j.Pending() && o.Shunned == "" && o.SetSiteFactor == nil:
		w.Forget = append(w.Forget, o.JobID)
	}
}

// Stranded tells a job that cannot start since rifling changed it: slurmctld
// calls it impossible, though it was not before (docs/design/steering.md).
func Stranded(j *slurm.Job, o Owner) bool {
	return j.Pending() && o.Shunned == "" && (o.SetExclude != nil || o.SetRequired != nil) &&
		(j.Reason == "BadConstraints" || j.Priority == 0 && !j.Held && j.Dependency == "")
}

// Impossible is the owner record of a job that Slurm called impossible.
func (o Owner) Impossible(j *slurm.Job) Owner {
	o.Shunned = "Slurm called it impossible (" + j.Reason + ")"
	return o
}

// afterTakeBack is the owner record once the update has been made. What was
// set stays known as the previous value, should the job still show it.
func afterTakeBack(o Owner, u slurm.Update) Owner {
	if u.ExcludedNodes != nil {
		o.PrevExclude, o.SetExclude = o.SetExclude, nil
	}
	if u.RequiredNodes != nil {
		o.PrevRequired, o.SetRequired = o.SetRequired, nil
	}
	if u.Nice != nil {
		o.PrevNice, o.SetNice = o.SetNice, nil
	}
	if u.SiteFactor != nil {
		o.SetSiteFactor = nil
	}
	return o
}

// steered reports whether the configuration lets rifling write to this job;
// otherwise its decisions are only observed.
func steered(j *slurm.Job, l Limits) bool {
	in := func(list []string, v string) bool { return len(list) == 0 || slices.Contains(list, v) }
	for p := range strings.SplitSeq(j.Partition, ",") {
		if !in(l.SteerPartitions, p) {
			return false
		}
	}
	return in(l.SteerAccounts, j.Account) && in(l.SteerQOS, j.QOS)
}

// set returns the change that a decision needs; its update is empty when the
// job already is as wanted. wanted is false when nothing of rifling's should be
// on the job: back then takes away what is left of earlier.
func set(j *slurm.Job, d Decision, in Input) (c Change, wanted bool) {
	own := in.Owned[j.ID]
	next := Owner{
		JobID: j.ID, Shunned: own.Shunned,
		SetAt: in.Snapshot.TakenAt, ExpiresAt: in.Snapshot.TakenAt.Add(in.Limits.TTL),
		UserExclude:  slices.Clone(UserExclude(j, in.Owned)),
		UserNice:     userNice(j, in.Owned),
		UserRequired: own.UserRequired,
	}
	u := slurm.Update{JobID: j.ID}
	narrow, pin := d, d
	if exact(j, in.Limits) {
		narrow.Candidates = nil
	} else {
		pin.Target = nil
	}
	setExclude(j, narrow, in, &next, &u)
	setRequired(j, pin, in, &next, &u)
	setOffset(j, d, in, own, &next, &u)
	if next.SetExclude == nil && next.SetRequired == nil && next.SetNice == nil && next.SetSiteFactor == nil {
		return c, false
	}
	if u.Empty() {
		// Renewed when half its life is over, so that a quiet cycle writes nothing.
		if own.ExpiresAt.Sub(in.Snapshot.TakenAt) < in.Limits.TTL/2 {
			own.JobID, own.ExpiresAt = j.ID, next.ExpiresAt
		}
		return Change{Kind: KindSet, Update: u, Owner: own}, own.SetAt != (time.Time{})
	}
	keepPrevious(&next, own, j)
	return Change{Kind: KindSet, Update: u, Owner: next, Why: d.Reason, Expect: expectOf(j)}, true
}

// keepPrevious notes what is on the job now when rifling put it there: should
// the write that follows not come through, that is what has to be taken back.
func keepPrevious(next *Owner, own Owner, j *slurm.Job) {
	if listIsOurs(j.ExcludedNodes, own.SetExclude, own.PrevExclude) {
		next.PrevExclude = append([]string{}, j.ExcludedNodes...)
	}
	if listIsOurs(j.RequiredNodes, own.SetRequired, own.PrevRequired) {
		next.PrevRequired = append([]string{}, j.RequiredNodes...)
	}
	if isOurs(j.Nice, own.SetNice, own.PrevNice) {
		nice := j.Nice
		next.PrevNice = &nice
	}
}

// expectOf is what a job must still look like when a change planned on it is made.
func expectOf(j *slurm.Job) Expect {
	return Expect{
		Pending: j.Pending(), ExcludedNodes: j.ExcludedNodes, RequiredNodes: j.RequiredNodes, Nice: j.Nice,
	}
}

// setExclude narrows by exclusion: the open nodes that are no candidates, and
// the user's own list. Without candidates it puts back the user's list alone.
func setExclude(j *slurm.Job, d Decision, in Input, next *Owner, u *slurm.Update) {
	want := in.known(next.UserExclude)
	if d.Candidates != nil {
		allowed := in.marked(d.Candidates)
		for _, n := range openNodes(j, in) {
			if !allowed[in.index.at[n]] {
				want = append(want, n)
			}
		}
	}
	slices.Sort(want)
	want = slices.Compact(want)
	if d.Candidates != nil {
		next.SetExclude = want
	}
	if !SameNodes(want, j.ExcludedNodes) && !SameNodes(want, in.known(j.ExcludedNodes)) {
		u.ExcludedNodes = &want
		next.SetExclude = want
	}
}

// setRequired names the exact nodes, where the site chose that lever: just as
// many as the job needs, never more than it may have, and only usable ones.
// Without a target it clears a list of rifling's; a user's list never gets here,
// since a job whose user named nodes is not touched.
func setRequired(j *slurm.Job, d Decision, in Input, next *Owner, u *slurm.Update) {
	want := []string{}
	if d.Candidates != nil && len(d.Target) > 0 && len(d.Target) == NodesNeeded(j, in.Snapshot) && Within(d.Target, openNodes(j, in)) {
		want = slices.Clone(d.Target)
		slices.Sort(want)
		next.SetRequired = want
	}
	if !SameNodes(want, j.RequiredNodes) {
		u.RequiredNodes = &want
		next.SetRequired = want
	}
}

func setOffset(j *slurm.Job, d Decision, in Input, own Owner, next *Owner, u *slurm.Update) {
	if in.Snapshot.Release.HasSiteFactor() {
		have := int64(0)
		if own.SetSiteFactor != nil {
			have = *own.SetSiteFactor
		}
		if d.Offset != have {
			u.SiteFactor = &d.Offset
		}
		if d.Offset != 0 || d.Offset != have {
			next.SetSiteFactor = &d.Offset
		}
		return
	}
	want := next.UserNice - d.Offset
	if want != j.Nice {
		u.Nice = &want
	}
	if d.Offset != 0 || want != j.Nice {
		next.SetNice = &want
	}
}

// exact reports whether the site chose exact node lists for all the partitions
// of the job.
func exact(j *slurm.Job, l Limits) bool {
	for p := range strings.SplitSeq(j.Partition, ",") {
		if !slices.Contains(l.RequiredNodes, p) {
			return false
		}
	}
	return true
}

// knownNodes leaves names out of the update's lists that the cluster no longer
// knows: slurmctld rejects a list that names a deleted node.
func knownNodes(u slurm.Update, s *slurm.Snapshot) slurm.Update {
	if u.ExcludedNodes != nil {
		list := knownOnly(*u.ExcludedNodes, s)
		u.ExcludedNodes = &list
	}
	if u.RequiredNodes != nil {
		list := knownOnly(*u.RequiredNodes, s)
		u.RequiredNodes = &list
	}
	return u
}

func knownOnly(names []string, s *slurm.Snapshot) []string {
	out := make([]string, 0, len(names))
	for _, n := range names {
		if s.Node(n) != nil {
			out = append(out, n)
		}
	}
	return out
}

// SortedIDs returns the keys in ascending order.
func SortedIDs(m map[slurm.JobID]Owner) []slurm.JobID {
	ids := make([]slurm.JobID, 0, len(m))
	for id := range m {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}

// Settled is an owner record once the update is known to have come through: an
// offset of 0 is none, and what was there before the update can no longer be on
// the job, so the same list seen again is the user's word.
func Settled(o Owner, u slurm.Update) Owner {
	if o.SetSiteFactor != nil && *o.SetSiteFactor == 0 {
		o.SetSiteFactor = nil
	}
	if u.ExcludedNodes != nil {
		o.PrevExclude = nil
	}
	if u.RequiredNodes != nil {
		o.PrevRequired = nil
	}
	if u.Nice != nil {
		o.PrevNice = nil
	}
	return o
}
