// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"
)

// never stands for the time of what cannot be told: later than all else.
var never = time.Unix(1<<40, 0)

// waitOffer names the nodes that are expected to serve the job at its best
// soonest. It exists only for jobs that Slurm could otherwise start in a worse
// shape: the open ones, and those that need several nodes.
func (f *fit) waitOffer() (offer, bool) {
	if f.need == 1 && !f.r.open() {
		return offer{}, false
	}
	if best := f.pick(f.hosts, f.need, f.share); best != nil && (f.need == 1 || f.leafPick(f.hosts) != nil) {
		return offer{}, false
	}
	target, ready := f.soonest(f.hosts)
	if target == nil || ready.After(deadline(f.j, f.b.in)) && f.slurmFit(f.hosts) != nil {
		return offer{}, false // it could start now, and would have to in the end
	}
	in := map[string]bool{}
	for _, n := range target {
		in[n] = true
	}
	f.addLateSlack(in, f.need+f.b.in.Limits.SlackNodes)
	o := offer{
		action: Wait, target: target, candidates: f.ordered(in), ready: ready,
		note: expected(ready),
	}
	return o, o.candidates != nil && f.keepsWaiting(o.candidates)
}

func expected(ready time.Time) string {
	return "a better shape is expected at " + ready.UTC().Format("15:04:05") + " UTC"
}

// soonest returns the nodes of the set that are expected to serve the job at
// its best first, and when; nil when that cannot be told.
func (f *fit) soonest(set []string) ([]string, time.Time) {
	at := map[string]time.Time{}
	var known []string
	for _, n := range set {
		if t := f.b.freeAt(n, f.share); !t.IsZero() {
			at[n] = t
			known = append(known, n)
		}
	}
	if len(known) < f.need {
		return nil, time.Time{}
	}
	slices.SortStableFunc(known, func(a, b string) int { return at[a].Compare(at[b]) })
	target := known[:f.need]
	return target, at[target[f.need-1]]
}

// addLateSlack fills the set with the nodes that will have something free last:
// inside it, what is free on a slack node could otherwise complete a scattered
// shape before the nodes that are waited for are free.
func (f *fit) addLateSlack(in map[string]bool, want int) {
	rest := slices.DeleteFunc(slices.Clone(f.hosts), func(n string) bool { return in[n] })
	slices.SortStableFunc(rest, func(a, b string) int {
		if c := cmp.Compare(f.now[a], f.now[b]); c != 0 {
			return c
		}
		return f.firstFree(b).Compare(f.firstFree(a))
	})
	for _, n := range rest {
		if len(in) >= want {
			return
		}
		in[n] = true
	}
}

// firstFree is when the node is expected to have one GPU more than now.
func (f *fit) firstFree(n string) time.Time {
	if t := f.b.freeAt(n, f.b.free[n]+1); !t.IsZero() {
		return t
	}
	return never
}

// keepsWaiting reports whether the job does not start in a worse shape inside
// the set now.
func (f *fit) keepsWaiting(set []string) bool { return len(f.slurmFit(set)) <= f.need }

// patience is by how much later, as a part of the time still to wait, what was
// waited for before may come than the best that there is now.
const patience = 0.25

// keep returns the offer with the candidates of the job's last decision when
// that was the same action and they still do: a list that is rewritten in each
// cycle for next to nothing only costs slurmctld.
func (f *fit) keep(o offer, last Decision) offer {
	set := last.Candidates
	if last.Action != o.action || set == nil || o.candidates == nil ||
		len(set) < max(f.need, len(o.shape))+f.b.in.Limits.SlackNodes || !Within(set, f.hosts) {
		return o
	}
	if o.action == Wait {
		return f.keepWaiting(o, set)
	}
	got := f.slurmFit(set)
	kept := offer{action: o.action, candidates: set, target: keys(got), shape: got, note: o.note}
	busy := slices.ContainsFunc(kept.target, func(n string) bool { return f.b.busy[n] })
	if got == nil || len(got) > len(o.shape) || f.b.leafCount(kept.target) > f.b.leafCount(o.target) ||
		(o.action == Even || o.action == Quiet) && busy || o.action == Even && len(got) != len(o.shape) {
		return o
	}
	return kept
}

func (f *fit) keepWaiting(o offer, set []string) offer {
	target, ready := f.soonest(set)
	now := f.b.in.Snapshot.TakenAt
	latest := o.ready.Add(time.Duration(patience * float64(o.ready.Sub(now))))
	if target == nil || ready.After(latest) || !f.keepsWaiting(set) {
		return o
	}
	o.candidates, o.target, o.ready, o.note = set, target, ready, expected(ready)
	return o
}
