// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"slices"

	"rifling/slurm"
)

// TakeBack returns the update that gives a job back what its user had, and why
// it does what it does. It compares before it restores: a value that is
// neither what rifling wrote last nor what it wrote before that was changed by
// someone else, and stays. An empty update means that nothing is left to do
// or that nothing can be done.
//
// The site factor cannot be read back from Slurm, so it is cleared whenever
// rifling may have set it. On a job that has started only the priority offset
// can be taken back (slurm-facts: error 2073 for node lists); should the job
// be requeued, it is pending again and the rest follows.
func TakeBack(o Owner, j slurm.Job, rel slurm.Release) (slurm.Update, string) {
	u := slurm.Update{JobID: j.ID}
	if j.Done() {
		return u, "the job has ended"
	}
	if o.SetSiteFactor != nil && rel.HasSiteFactor() {
		zero := int64(0)
		u.SiteFactor = &zero
	}
	if o.SetNice != nil && isOurs(j.Nice, o.SetNice, o.PrevNice) && j.Nice != o.UserNice {
		nice := o.UserNice
		u.Nice = &nice
	}
	if !j.Pending() {
		if u.Empty() {
			return u, "the job runs; node lists of a running job cannot be changed"
		}
		return u, "the job runs: the priority offset is cleared, node lists stay until it is requeued or gone"
	}
	if list, ok := restoreList(j.ExcludedNodes, o.SetExclude, o.PrevExclude, o.UserExclude); ok {
		u.ExcludedNodes = &list
	}
	if list, ok := restoreList(j.RequiredNodes, o.SetRequired, o.PrevRequired, o.UserRequired); ok {
		u.RequiredNodes = &list
	}
	if u.Empty() {
		return u, "the job is as its user left it"
	}
	return u, "the user's own values are restored"
}

// PlanTakeBack is TakeBack as a change, ready to be made: names that the cluster
// no longer knows are left out, and Owner is the record afterwards. Its update
// is empty when nothing is to be written.
func PlanTakeBack(o Owner, j *slurm.Job, s *slurm.Snapshot) Change {
	u, why := TakeBack(o, *j, s.Release)
	u = knownNodes(u, s)
	return Change{Kind: KindTakeBack, Update: u, Owner: afterTakeBack(o, u), Why: why, Expect: expectOf(j)}
}

// restoreList returns the user's list when the present one is rifling's.
func restoreList(now, set, prev, user []string) ([]string, bool) {
	if !listIsOurs(now, set, prev) || SameNodes(now, user) {
		return nil, false
	}
	return append([]string{}, user...), true
}

// listIsOurs reports whether a list is one that rifling wrote.
func listIsOurs(now, set, prev []string) bool {
	return set != nil && SameNodes(now, set) || prev != nil && SameNodes(now, prev)
}

func isOurs(now int64, set, prev *int64) bool {
	return set != nil && now == *set || prev != nil && now == *prev
}

// SameNodes compares two lists of nodes as sets.
func SameNodes(a, b []string) bool {
	if len(a) == 0 || len(b) == 0 {
		return len(a) == len(b)
	}
	if slices.Equal(a, b) {
		return true
	}
	x, y := slices.Clone(a), slices.Clone(b)
	slices.Sort(x)
	slices.Sort(y)
	return slices.Equal(slices.Compact(x), slices.Compact(y))
}
