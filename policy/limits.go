// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"
	"strings"

	"rifling/slurm"
)

// rivals are the pending jobs that an offset must not carry another over.
type rivals struct {
	classes map[class][]int64  // their priorities without rifling's offsets, ascending
	share   map[[2]string]bool // whether two lists of partitions have a node in common
}

// class is what the site ranks: QOS, and partitions as the job names them.
type class struct{ qos, partition string }

func rivalsOf(in Input) *rivals {
	r := &rivals{classes: map[class][]int64{}, share: map[[2]string]bool{}}
	for i := range in.Snapshot.Jobs {
		// Priority 0 is held: there is nothing to pass.
		if j := &in.Snapshot.Jobs[i]; j.Pending() && j.Priority > 0 {
			c := class{j.QOS, j.Partition}
			r.classes[c] = append(r.classes[c], basePriority(j, in))
		}
	}
	for _, list := range r.classes {
		slices.Sort(list)
	}
	return r
}

// room returns how many points the job may be lifted: until just below the
// next job of another class that may want the same nodes, and
// Limits.MaxOvertake more. A job of the same priority must not be passed either.
func (r *rivals) room(j *slurm.Job, in Input) int64 {
	base, own := basePriority(j, in), class{j.QOS, j.Partition}
	room := int64(math.MaxInt64)
	for c, list := range r.classes {
		if c == own || !r.meet(own.partition, c.partition, in.Snapshot) {
			continue
		}
		if i, _ := slices.BinarySearch(list, base); i < len(list) {
			room = min(room, list[i]-base-1)
		}
	}
	if room == math.MaxInt64 {
		return room
	}
	return max(0, room+max(0, in.Limits.MaxOvertake))
}

// meet reports whether two lists of partitions have a node in common.
func (r *rivals) meet(a, b string, s *slurm.Snapshot) bool {
	if a == b {
		return true
	}
	key := [2]string{min(a, b), max(a, b)}
	if yes, ok := r.share[key]; ok {
		return yes
	}
	nodes := map[string]bool{}
	each := func(list string, f func(node string) bool) bool {
		for name := range strings.SplitSeq(list, ",") {
			if p := s.Partition(name); p != nil && slices.ContainsFunc(p.Nodes, f) {
				return true
			}
		}
		return false
	}
	each(a, func(n string) bool { nodes[n] = true; return false })
	r.share[key] = each(b, func(n string) bool { return nodes[n] })
	return r.share[key]
}
