// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"math"
	"slices"
)

// Seen is a job as a scheduler may see it: nothing of it tells how long it will
// run before it has ended.
type Seen struct {
	Seq, GPUs        int
	Submit, Estimate float64
	Started, Over    bool
	Start, End       float64 // once they have come
	// Set by the scorer. The job of highest Score goes first; Run is its
	// expected run time and Left the expected rest of one that runs, seconds.
	Score, Run, Left float64

	run   float64
	nodes []taken
}

// Scene is the cluster at an event.
type Scene struct {
	Now            float64
	Free           []int
	Machine        Machine
	Arrived, Ended []*Seen // since the last event
	Started        []*Seen // at the last event
	Queue, Running []*Seen
}

// Scorer orders a queue. It is asked at each event and sets the Score and Run
// of all that wait and the Left of all that run.
type Scorer interface{ Rank(*Scene) }

// Reserve says when a job may take a node that a better one waits for. A job
// that takes the node for a time r delays the other by r - s, s being the time
// until that one could start; it gains s and the other's run time. So it may
// when r is no more than Slack s + Run times the other's run time. Slack 1 and
// Run 0 is backfill. The zero value keeps no node.
type Reserve struct{ Slack, Run float64 }

// Scored replays the jobs, ordered by Submit, under a scorer: none is
// preempted, all are placed by BestWhole, and jobs pass the first that does not
// fit as far as the reserve for that one lets them.
func Scored(m Machine, jobs []Work, by Scorer, keep Reserve) []Done {
	s := &scored{replay: &replay{m: m, o: Options{Placement: BestWhole}, free: make([]int, m.Nodes), done: make([]Done, len(jobs))}, keep: keep}
	s.clear()
	scene := &Scene{Machine: m}
	next := 0
	for next < len(jobs) || len(scene.Running) > 0 {
		now := math.Inf(1)
		if next < len(jobs) {
			now = jobs[next].Submit
		}
		for _, j := range scene.Running {
			now = min(now, j.Start+j.run)
		}
		scene.Now, scene.Arrived, scene.Ended = now, nil, nil
		s.end(scene)
		for ; next < len(jobs) && jobs[next].Submit == now; next++ {
			w := &jobs[next]
			scene.Arrived = append(scene.Arrived, &Seen{Seq: next, GPUs: w.GPUs, Submit: w.Submit, Estimate: w.Estimate, run: w.Run})
		}
		scene.Queue = append(scene.Queue, scene.Arrived...)
		scene.Free = append(scene.Free[:0], s.free...)
		by.Rank(scene)
		s.pass(scene)
	}
	return s.done
}

type scored struct {
	*replay
	keep Reserve
}

func (s *scored) end(scene *Scene) {
	scene.Running = slices.DeleteFunc(scene.Running, func(j *Seen) bool {
		if j.Start+j.run > scene.Now {
			return false
		}
		s.release(j.GPUs, j.nodes)
		j.Over, j.End = true, scene.Now
		s.done[j.Seq].End = scene.Now
		scene.Ended = append(scene.Ended, j)
		return true
	})
}

// pass starts what may start.
func (s *scored) pass(scene *Scene) {
	slices.SortStableFunc(scene.Queue, func(a, b *Seen) int {
		return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.Seq, b.Seq))
	})
	scene.Started = nil
	var held *hold
	scene.Queue = slices.DeleteFunc(scene.Queue, func(j *Seen) bool {
		shut := held.close(s, j)
		fits := s.place(j.GPUs, &j.nodes)
		held.open(s, shut)
		if !fits {
			j.nodes = nil
			if held == nil && s.keep != (Reserve{}) {
				held = s.holdFor(scene, j)
			}
			return false
		}
		j.Started, j.Start = true, scene.Now
		j.Left = j.Run
		d := &s.done[j.Seq]
		d.Start, d.Wait = scene.Now, scene.Now-j.Submit
		scene.Running = append(scene.Running, j)
		scene.Started = append(scene.Started, j)
		return true
	})
}

// hold is the nodes that are kept for a job, and when it could have them.
type hold struct {
	run   float64
	ready float64 // from now
	nodes []int
}

// holdFor finds the nodes where the job could start soonest.
func (s *scored) holdFor(scene *Scene, j *Seen) *hold {
	type candidate struct {
		node  int
		ready float64
	}
	part, need := min(j.GPUs, s.m.GPUs), (j.GPUs+s.m.GPUs-1)/s.m.GPUs
	var all []candidate
	for n := range s.free {
		all = append(all, candidate{n, s.readyAt(scene, n, part)})
	}
	slices.SortStableFunc(all, func(a, b candidate) int { return cmp.Compare(a.ready, b.ready) })
	h := &hold{run: j.Run, ready: all[need-1].ready}
	for _, c := range all[:need] {
		h.nodes = append(h.nodes, c.node)
	}
	return h
}

// readyAt is in how many seconds the node is expected to have so many GPUs free.
func (s *scored) readyAt(scene *Scene, node, gpus int) float64 {
	type event struct {
		left float64
		gpus int
	}
	var ends []event
	for _, r := range scene.Running {
		for _, t := range r.nodes {
			if t.node == node {
				ends = append(ends, event{r.Left, t.gpus})
			}
		}
	}
	slices.SortStableFunc(ends, func(a, b event) int { return cmp.Compare(a.left, b.left) })
	have, at := s.free[node], 0.0
	for _, e := range ends {
		if have >= gpus {
			break
		}
		have, at = have+e.gpus, e.left
	}
	return at
}

// close takes the held nodes' GPUs away from a job that may not have them.
func (h *hold) close(s *scored, j *Seen) []taken {
	if h == nil || j.Run <= s.keep.Slack*h.ready+s.keep.Run*h.run {
		return nil
	}
	var shut []taken
	for _, n := range h.nodes {
		shut = append(shut, taken{n, s.free[n]})
		s.count -= s.free[n]
		s.free[n] = 0
	}
	return shut
}

func (h *hold) open(s *scored, shut []taken) {
	for _, t := range shut {
		s.free[t.node] += t.gpus
		s.count += t.gpus
	}
}
