// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"slices"
	"time"
)

// former is a group that a regrouping left out. Its number waits for it.
type former struct {
	Group Group
	Until time.Time // when it was last there
}

// keepFormer bounds the numbers that wait; that of the group gone longest is
// given away first.
const keepFormer = 16

// relabel gives the groups of a regrouping the numbers that they had. Group
// numbers stand in the agent's table and in the history, so a number must go
// on meaning the same jobs when k changes or centres move. The new groups are
// matched with the old in their order, at the least sum of distances, none
// farther apart than Options.MaxGroupSD; one that matches none takes the number
// of the nearest former group, else one that nobody has.
func (b *Book) relabel(next []Group, now time.Time) []Group {
	taken := map[int]bool{}
	match := matchInOrder(centers(next), centers(b.groups), b.opts.MaxGroupSD)
	var rest []int // of next
	for i := range next {
		if j := match[i]; j >= 0 {
			next[i].Index = b.groups[j].Index
			taken[next[i].Index] = true
		} else {
			rest = append(rest, i)
		}
	}
	for _, g := range b.groups {
		if !taken[g.Index] {
			b.former = append(b.former, former{g, now})
		}
	}
	b.former = slices.DeleteFunc(b.former, func(f former) bool {
		return now.Sub(f.Until) > 4*b.opts.HalfLife
	})
	for _, i := range rest {
		next[i].Index = b.reuse(next[i].Center)
		if next[i].Index == GroupUnknown {
			next[i].Index = b.freeNumber(taken)
		}
		taken[next[i].Index] = true
	}
	if n := len(b.former); n > keepFormer {
		b.former = slices.Delete(b.former, 0, n-keepFormer)
	}
	return next
}

func centers(groups []Group) []float64 {
	out := make([]float64, len(groups))
	for i, g := range groups {
		out[i] = g.Center
	}
	return out
}

// matchInOrder returns for each of a the position in b that it is matched
// with, or -1. Both ascend; matches do not cross, none is farther apart than
// most, and the sum of their distances is the least, a match that could be
// counting as most/2 for each side that is left alone.
func matchInOrder(a, b []float64, most float64) []int {
	n, m := len(a), len(b)
	cost := make([][]float64, n+1)
	for i := range cost {
		cost[i] = make([]float64, m+1)
		for j := range cost[i] {
			switch {
			case i == 0 || j == 0:
				cost[i][j] = float64(i+j) * most / 2
			default:
				cost[i][j] = min(cost[i-1][j]+most/2, cost[i][j-1]+most/2,
					cost[i-1][j-1]+apart(a[i-1], b[j-1], most))
			}
		}
	}
	out := slices.Repeat([]int{-1}, n)
	for i, j := n, m; i > 0 && j > 0; {
		switch cost[i][j] {
		case cost[i-1][j-1] + apart(a[i-1], b[j-1], most):
			i, j = i-1, j-1
			out[i] = j
		case cost[i-1][j] + most/2:
			i--
		default:
			j--
		}
	}
	return out
}

// apart is the distance of two centres, infinite beyond the most.
func apart(a, b, most float64) float64 {
	if d := math.Abs(a - b); d <= most {
		return d
	}
	return math.Inf(1)
}

// reuse takes the number of the nearest former group back, GroupUnknown where
// none is near enough.
func (b *Book) reuse(center float64) int {
	best, least := -1, b.opts.MaxGroupSD
	for i, f := range b.former {
		if d := math.Abs(f.Group.Center - center); d <= least {
			best, least = i, d
		}
	}
	if best < 0 {
		return GroupUnknown
	}
	n := b.former[best].Group.Index
	b.former = slices.Delete(b.former, best, best+1)
	return n
}

// freeNumber is the least number that no group has and none waits for.
func (b *Book) freeNumber(taken map[int]bool) int {
	for n := 0; ; n++ {
		waits := slices.ContainsFunc(b.former, func(f former) bool { return f.Group.Index == n })
		if !taken[n] && !waits {
			return n
		}
	}
}
