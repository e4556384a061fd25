// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"slices"
	"time"
)

// space is backfill's map of the time ahead: which nodes are not spoken for by
// jobs that wait. Like slurmctld's, it knows whole nodes only: a job that is
// planned on one GPU of a node keeps all of it.
type space struct {
	slots []slot
	spare []NodeSet
	size  int // words of a set
	made  int // slots made since the start of the pass
}

type slot struct {
	begin, end time.Duration
	avail      NodeSet
}

func (s *space) init(nodes int) { s.size = len(NewNodeSet(nodes)) }

// reset makes the map one slot from begin to end with the given nodes.
func (s *space) reset(begin, end time.Duration, avail NodeSet) {
	for i := range s.slots {
		s.spare = append(s.spare, s.slots[i].avail)
	}
	s.slots = append(s.slots[:0], slot{begin, end, s.copyOf(avail)})
	s.made = 1
}

func (s *space) copyOf(o NodeSet) NodeSet {
	var set NodeSet
	if k := len(s.spare); k > 0 {
		set, s.spare = s.spare[k-1], s.spare[:k-1]
	} else {
		set = make(NodeSet, s.size)
	}
	set.copyFrom(o)
	return set
}

// cut makes a border between two slots at the given time, which lies inside
// slot i.
func (s *space) cut(i int, at time.Duration) {
	next := slot{at, s.slots[i].end, s.copyOf(s.slots[i].avail)}
	s.slots[i].end = at
	s.slots = slices.Insert(s.slots, i+1, next)
	s.made++
}

// reserve takes nodes out of the map for a while.
func (s *space) reserve(from, to time.Duration, on []Alloc, resolution time.Duration) {
	from = max(from, s.slots[0].begin)
	to = max(to, from+resolution)
	i := 0
	for i < len(s.slots) && s.slots[i].end <= from {
		i++
	}
	if i == len(s.slots) {
		return // beyond the map
	}
	if s.slots[i].begin < from {
		s.cut(i, from)
		i++
	}
	first := i
	for ; i < len(s.slots) && s.slots[i].begin < to; i++ {
		if s.slots[i].end > to {
			s.cut(i, to)
		}
		for _, a := range on {
			s.slots[i].avail.Remove(int(a.Node))
		}
	}
	s.merge(max(0, first-1), i)
}

// merge joins neighbours with the same nodes.
func (s *space) merge(from, to int) {
	for i := min(to, len(s.slots)-2); i >= from; i-- {
		if a, b := &s.slots[i], &s.slots[i+1]; a.avail.equal(b.avail) {
			a.end = b.end
			s.spare = append(s.spare, b.avail)
			s.slots = slices.Delete(s.slots, i+1, i+2)
		}
	}
}

// clashes reports whether a job that waits is planned on one of the nodes in
// that time.
func (s *space) clashes(from, to time.Duration, on []Alloc) bool {
	for i := range s.slots {
		if s.slots[i].begin >= to {
			break
		}
		if s.slots[i].end <= from {
			continue
		}
		for _, a := range on {
			if !s.slots[i].avail.Has(int(a.Node)) {
				return true
			}
		}
	}
	return false
}

// narrow keeps those nodes of base in avail that nobody is planned on between
// from and to, and returns when it is worth to look again: the end of the first
// slot after which other nodes are there; 0 for never. trial is scratch.
func (s *space) narrow(avail, base, trial NodeSet, from, to time.Duration) (later time.Duration) {
	avail.copyFrom(base)
	for i := range s.slots {
		a := &s.slots[i]
		if a.end <= from {
			continue
		}
		if a.begin > to {
			if later == 0 && i+1 < len(s.slots) {
				later = a.end
			}
			break
		}
		if later == 0 && i+1 < len(s.slots) {
			trial.copyFrom(base)
			trial.and(s.slots[i+1].avail)
			if !withinBoth(trial, avail, a.avail) {
				later = a.end
			}
		}
		avail.and(a.avail)
	}
	return later
}

// withinBoth reports whether s is part of a and of b.
func withinBoth(s, a, b NodeSet) bool {
	for i := range s {
		if s[i]&^(a[i]&b[i]) != 0 {
			return false
		}
	}
	return true
}
