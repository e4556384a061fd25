// SPDX-License-Identifier: Apache-2.0

package sim

// endHeap holds the jobs that leave the cluster or give GPUs back at a known
// time, the earliest first and among equals the one that arrived first. It has
// four children a node, and each job knows its place, so that a changed end is
// put right without a search.
type endHeap []*JobState

func before(a, b *JobState) bool {
	return a.endAt < b.endAt || a.endAt == b.endAt && a.Seq < b.Seq
}

func (h *endHeap) push(j *JobState) {
	*h = append(*h, j)
	j.pos = len(*h) - 1
	h.up(j.pos)
}

func (h *endHeap) remove(j *JobState) {
	s := *h
	last := len(s) - 1
	i := j.pos
	moved := s[last]
	s[last] = nil
	*h = s[:last]
	j.pos = -1
	if i == last {
		return
	}
	s[i] = moved
	moved.pos = i
	h.fix(i)
}

// fix restores the order around place i after its key changed.
func (h *endHeap) fix(i int) {
	if !h.up(i) {
		h.down(i)
	}
}

func (h *endHeap) up(i int) bool {
	s, moved := *h, false
	j := s[i]
	for i > 0 {
		parent := (i - 1) / 4
		if !before(j, s[parent]) {
			break
		}
		s[i] = s[parent]
		s[i].pos = i
		i, moved = parent, true
	}
	s[i], j.pos = j, i
	return moved
}

func (h *endHeap) down(i int) {
	s := *h
	j := s[i]
	for {
		first := 4*i + 1
		if first >= len(s) {
			break
		}
		least := first
		for k := first + 1; k < min(first+4, len(s)); k++ {
			if before(s[k], s[least]) {
				least = k
			}
		}
		if !before(s[least], j) {
			break
		}
		s[i] = s[least]
		s[i].pos = i
		i = least
	}
	s[i], j.pos = j, i
}

// jobList keeps jobs in the order in which they came. Removing leaves a hole,
// which squeeze fills between two events, so that a scheduler may start jobs
// while it goes through the list.
type jobList struct {
	jobs []*JobState
	live int
}

func (l *jobList) add(j *JobState) {
	j.slot = len(l.jobs)
	l.jobs = append(l.jobs, j)
	l.live++
}

func (l *jobList) remove(j *JobState) {
	l.jobs[j.slot] = nil
	l.live--
}

func (l *jobList) squeeze() {
	if len(l.jobs) < 2*l.live+32 {
		return
	}
	k := 0
	for _, j := range l.jobs {
		if j != nil {
			j.slot = k
			l.jobs[k] = j
			k++
		}
	}
	clear(l.jobs[k:])
	l.jobs = l.jobs[:k]
}

func (l *jobList) all(yield func(*JobState) bool) {
	for i := range len(l.jobs) { // those that join meanwhile are not seen
		if j := l.jobs[i]; j != nil && !yield(j) {
			return
		}
	}
}
