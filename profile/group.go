// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"slices"
	"time"
)

// mostWeight bounds what one family weighs in grouping, in intervals, so that
// one job that runs for weeks does not set the groups alone.
const mostWeight = 100

// Regroup groups the families by log cc when Options.RegroupEvery has passed
// and at least one is known well enough; changed tells whether the groups are
// others than before. Families of a single GPU count as one together. A group
// keeps its number: see relabel.
func (b *Book) Regroup(now time.Time) (groups []Group, changed bool) {
	if !b.grouped.IsZero() && now.Sub(b.grouped) < b.opts.RegroupEvery {
		return b.Groups(), false
	}
	points := b.points()
	if len(points) == 0 {
		return b.Groups(), false
	}
	k := b.opts.Groups
	if k == 0 {
		b.auto = b.auto.next(points, b.opts)
		k = b.auto.K
	}
	b.grouped = now
	next := b.relabel(group(points, k, b.opts.MinGap), now)
	changed = !slices.Equal(next, b.groups)
	b.groups = next
	return b.Groups(), changed
}

// points are the families that are known well enough to be grouped.
func (b *Book) points() []weighted {
	var out []weighted
	single := false
	for _, f := range b.sorted() {
		if f.ID.GPUs == 1 {
			single = true
			continue
		}
		if s, _, ok := b.evidenceOf(f); ok {
			out = append(out, weighted{s.Mean, min(s.W, mostWeight)})
		}
	}
	if single {
		s := b.single()
		out = append(out, weighted{s.Mean, s.W})
	}
	return out
}

// group makes at most k groups whose centres are at least gap apart, numbered
// from the most communication-bound.
func group(points []weighted, k int, gap float64) []Group {
	for ; ; k-- {
		parts := kmeans(points, k)
		groups := make([]Group, len(parts))
		apart := true
		for i, p := range parts {
			groups[i] = Group{Index: i, Center: center(p), Spread: deviation(p), Members: len(p)}
			apart = apart && (i == 0 || groups[i].Center-groups[i-1].Center >= gap)
		}
		if apart || k <= 1 {
			return groups
		}
	}
}

// GroupValues groups single values of log cc as Regroup groups families that
// are all known alike, with k of Options.Groups.
func GroupValues(logCC []float64, o Options) []Group {
	points := make([]weighted, len(logCC))
	for i, x := range logCC {
		points[i] = weighted{x, mostWeight}
	}
	k := o.Groups
	if k == 0 {
		k = chooseK(points, o, 0)
	}
	return group(points, k, o.MinGap)
}

// Groups returns the groups, the most communication-bound first.
func (b *Book) Groups() []Group { return slices.Clone(b.groups) }

// groupOf returns the number of the group whose centre is nearest, the more
// communication-bound of two; GroupUnknown when there are no groups.
func (b *Book) groupOf(logCC float64) int {
	if g := b.nearest(logCC); g != nil {
		return g.Index
	}
	return GroupUnknown
}

func (b *Book) nearest(logCC float64) *Group {
	var best *Group
	least := math.Inf(1)
	for i := range b.groups {
		if d := math.Abs(b.groups[i].Center - logCC); d < least {
			best, least = &b.groups[i], d
		}
	}
	return best
}
