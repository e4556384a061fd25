// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"
	"time"
)

// never stands for the time of what cannot be told: later than all else.
var never = time.Unix(1<<40, 0)

// Bounds of the search for a waiting set: so many targets, the soonest first,
// with so many nodes as slack each. More found nothing better on 16 nodes, and
// a decision pass over 200 nodes must stay cheap.
const (
	targetsTried = 8
	slackTried   = 16
)

// waitOffer names the nodes that are expected to serve the job at its best
// soonest, of those with which the set of a waiting job can be made: inside it
// nothing may complete a worse shape before. It exists only for jobs that Slurm
// could otherwise start in a worse shape: the open ones, and those that need
// several nodes and can start on none.
func (f *fit) waitOffer() (offer, bool) {
	if f.need == 1 && !f.r.open() {
		return offer{}, false
	}
	best := f.pick(f.all, f.need, f.share)
	if best != nil && (f.need == 1 || !f.r.open() || f.leafPick() != nil) {
		return offer{}, false
	}
	known, at := f.readyTimes(f.all)
	startable := f.slurmFit(f.all) != nil
	var spare offer
	var slack []int
	for i := 0; i+f.need <= len(known) && i < targetsTried; i++ {
		target := known[i : i+f.need]
		ready := at[target[f.need-1]]
		if startable && ready.After(deadline(f.j, f.b.in)) {
			break // it could start now, and would have to in the end
		}
		if slack == nil {
			slack = f.slackOrder()
		}
		set := f.waitingSet(target, slack, ready)
		if set == nil {
			continue
		}
		o := offer{action: Wait, target: f.names(target), candidates: set, ready: ready, note: expected(ready)}
		if len(set) >= len(f.hosts) {
			return offer{}, false // there are no other nodes
		}
		if !f.scatters(o.candidates, ready).Before(ready) {
			return o, true
		}
		if spare.candidates == nil {
			spare = o
		}
	}
	return spare, spare.candidates != nil
}

func expected(ready time.Time) string {
	return "a better shape is expected at " + ready.UTC().Format("15:04:05") + " UTC"
}

// readyTimes lists the hosts of the set of which it can be told when they will
// serve the job's share, the soonest first, and these times by place.
func (f *fit) readyTimes(set []int) (known []int, at []time.Time) {
	at = make([]time.Time, len(f.hosts))
	for _, h := range set {
		if t := f.b.freeAt(f.hosts[h], f.share); !t.IsZero() && t != never {
			at[h] = t
			known = append(known, h)
		}
	}
	slices.SortStableFunc(known, func(a, b int) int { return at[a].Compare(at[b]) })
	return known, at
}

// soonest returns the hosts of the set that are expected to serve the job at
// its best first, and when; nil when that cannot be told.
func (f *fit) soonest(set []int) ([]string, time.Time) {
	known, at := f.readyTimes(set)
	if len(known) < f.need {
		return nil, time.Time{}
	}
	target := known[:f.need]
	return f.names(target), at[target[f.need-1]]
}

// slackOrder is the order in which hosts are tried as slack of a waiting set:
// those that serve least now and for longest.
func (f *fit) slackOrder() []int {
	more := make([]time.Time, len(f.hosts))
	for _, h := range f.all {
		more[h] = f.firstFree(h)
	}
	out := slices.Clone(f.all)
	slices.SortStableFunc(out, func(a, b int) int {
		return cmp.Or(cmp.Compare(f.now[a], f.now[b]), more[b].Compare(more[a]))
	})
	return out
}

// waitingSet is the target and the slack that the limits want: each time the
// node that puts off longest what would complete a worse shape. Nil when the
// job would start in one at once, whatever the slack.
func (f *fit) waitingSet(target, slack []int, ready time.Time) []int {
	want := f.b.in.Limits.SlackNodes
	rest := make([]int, 0, slackTried+want)
	for _, h := range slack {
		if len(rest) == cap(rest) {
			break
		}
		if !slices.Contains(target, h) {
			rest = append(rest, h)
		}
	}
	set := slices.Clone(target)
	for range want {
		best, latest := -1, time.Time{}
		for i, h := range rest {
			if t := f.scatters(append(set, h), ready); best < 0 || t.After(latest) {
				best, latest = i, t
			}
		}
		if best < 0 {
			break
		}
		set = append(set, rest[best])
		rest = slices.Delete(rest, best, best+1)
	}
	if !f.keepsWaiting(set) {
		return nil
	}
	slices.Sort(set)
	return set
}

// scatters is when an open job is expected to be able to start in a worse shape
// inside the set, ready at the latest: by then the better one is there.
func (f *fit) scatters(set []int, ready time.Time) time.Time {
	now := f.b.in.Snapshot.TakenAt
	if !f.r.open() {
		return ready
	}
	free := make([]int, len(set))
	type change struct {
		event
		node int
	}
	var ends []change
	for i, h := range set {
		free[i] = f.now[h]
		for _, e := range f.b.endsOn(f.hosts[h]) {
			if e.at.Before(ready) {
				ends = append(ends, change{e, i})
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b change) int { return a.at.Compare(b.at) })
	at := now
	for k := 0; ; k++ {
		if f.enough(free) {
			return at
		}
		if k == len(ends) {
			return ready
		}
		free[ends[k].node] += ends[k].gpus
		at = ends[k].at
	}
}

// enough reports whether nodes with so many GPUs free can start the job on more
// of them than needed, and not on as few.
func (f *fit) enough(free []int) bool {
	most := slices.Clone(free)
	slices.SortFunc(most, func(a, b int) int { return cmp.Compare(b, a) })
	sum := 0
	for i, g := range most {
		if f.r.maxNodes > 0 && i == f.r.maxNodes {
			break
		}
		if sum += g; i+1 == f.need && sum >= f.r.total {
			return false
		}
	}
	return sum >= f.r.total
}

// firstFree is when the node is expected to have one GPU more than now.
func (f *fit) firstFree(h int) time.Time {
	if t := f.b.freeAt(f.hosts[h], f.free[h]+1); !t.IsZero() {
		return t
	}
	return never
}

// keepsWaiting reports whether the job does not start in a worse shape inside
// the set now.
func (f *fit) keepsWaiting(set []int) bool { return len(f.slurmFit(set)) <= f.need }

// What was waited for before may come later than the best that there is now by
// these parts of the time still to wait and of the job's run time: predictions
// are not that good, and each new list is a write.
const (
	patience    = 0.25
	patienceRun = 0.1
)

// keep returns the offer with the candidates of the job's last decision when
// they still do, whatever they were made for: a list that is rewritten in each
// cycle for next to nothing only costs slurmctld. When the nodes come free that
// a job waited for, its list already leads there.
func (f *fit) keep(o offer, last Decision) offer {
	if last.Candidates == nil || o.candidates == nil ||
		len(last.Candidates) < max(f.need, len(o.shape))+f.b.in.Limits.SlackNodes {
		return o
	}
	set, ok := f.places(last.Candidates)
	if !ok {
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

func (f *fit) keepWaiting(o offer, set []int) offer {
	target, ready := f.soonest(set)
	now, run := f.b.in.Snapshot.TakenAt, f.run(f.b.in.Profiles[f.j.ID])
	latest := o.ready.Add(time.Duration(max(patience*float64(o.ready.Sub(now)), patienceRun*float64(run))))
	if target == nil || ready.After(latest) || !f.keepsWaiting(set) ||
		f.scatters(set, ready).Before(ready) && !f.scatters(o.candidates, o.ready).Before(o.ready) {
		return o
	}
	o.candidates, o.target, o.ready, o.note = set, target, ready, expected(ready)
	return o
}
