// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"math"
	"slices"
)

// once is the loop of the orders that never take GPUs back.
type once struct {
	*replay
	waiting, running []*task
}

func (r *replay) runOnce(jobs []Work) {
	r.clear()
	o := once{replay: r}
	next := 0
	for next < len(jobs) || len(o.running) > 0 {
		now := math.Inf(1)
		if next < len(jobs) {
			now = min(now, jobs[next].Submit)
		}
		for _, t := range o.running {
			now = min(now, t.end)
		}
		o.end(now)
		before := next
		for ; next < len(jobs) && jobs[next].Submit == now; next++ {
			o.waiting = append(o.waiting, &task{Work: &jobs[next], seq: next})
		}
		o.sort(next - before)
		o.start(now)
	}
}

func (o *once) end(now float64) {
	o.running = slices.DeleteFunc(o.running, func(t *task) bool {
		if t.end > now {
			return false
		}
		o.release(t.GPUs, t.nodes)
		o.done[t.seq].End = now
		return true
	})
}

// sort orders the queue, of which the last fresh jobs have just come.
func (o *once) sort(fresh int) {
	by := func(key func(*task) float64) {
		slices.SortStableFunc(o.waiting, func(a, b *task) int { return cmp.Compare(key(a), key(b)) })
	}
	switch {
	case o.o.Order == SJF:
		by(func(t *task) float64 { return t.Run })
	case o.o.Order == QSSF && !o.o.EstimateLate:
		by(func(t *task) float64 { return t.Estimate })
	case o.o.Order == QSSF:
		by(func(t *task) float64 { return float64(t.GPUs) })
		if len(o.waiting) > fresh {
			by(func(t *task) float64 { return t.Estimate })
		}
	}
}

func (o *once) start(now float64) {
	blocked := false
	o.waiting = slices.DeleteFunc(o.waiting, func(t *task) bool {
		if blocked || !o.place(t.GPUs, &t.nodes) {
			blocked = blocked || o.o.Order != FitFirst
			return false
		}
		t.end = now + t.Run
		o.done[t.seq].Start, o.done[t.seq].Wait = now, now-t.Submit
		o.running = append(o.running, t)
		return true
	})
}
