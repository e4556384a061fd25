// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"math"
	"slices"
)

// Batch is a job of a batch system, in whole seconds.
type Batch struct {
	Submit, Run int
	Asked       int // time that was asked for
	Procs       int
}

// BatchMachine has nodes that are given away whole.
type BatchMachine struct{ Nodes, Procs int }

func (m BatchMachine) nodes(procs int) int {
	return int(math.Ceil(float64(procs) / (float64(m.Procs) / float64(m.Nodes))))
}

// Score orders a queue of batch jobs: the least first, the second value
// decides between equal ones.
type Score struct {
	Name string
	Of   func(b Batch) (key, tie float64)
}

// waitUnset is what RLScheduler's program takes for the waiting time of a job
// that waits: its start, -1 for not started, less its submit time. So its WFP3
// and UNI do not age, and prefer what came first by this alone.
func waitUnset(b Batch) float64 { return float64(-1 - b.Submit) }

// tiny keeps UNI's logarithm from zero.
const tiny = 1e-15

// RLScheduler lists the five heuristics of RLScheduler's comparison
// (github.com/DIR-LAB/deep-batch-scheduler), as its program computes them.
func RLScheduler() []Score {
	positive := func(v int) float64 {
		if v > 0 {
			return float64(v)
		}
		return 0.1
	}
	return []Score{
		{"FCFS", func(b Batch) (float64, float64) { return float64(b.Submit), 0 }},
		{"WFP3", func(b Batch) (float64, float64) {
			return -math.Pow(waitUnset(b)/float64(b.Asked), 3) * float64(b.Procs), 0
		}},
		{"UNI", func(b Batch) (float64, float64) {
			// math.Log2 would round 1+tiny to one.
			log := math.Log(float64(b.Procs)+tiny) / math.Ln2
			return -(waitUnset(b) + tiny) / (log * float64(b.Asked)), 0
		}},
		{"SJF", func(b Batch) (float64, float64) { return float64(b.Asked), float64(b.Submit) }},
		{"F1", func(b Batch) (float64, float64) {
			return math.Log10(positive(b.Asked))*float64(b.Procs) + 870*math.Log10(positive(b.Submit)), 0
		}},
	}
}

// Draws returns where the sequences begin that RLScheduler's test draws from a
// trace of that many jobs.
func Draws(seed, jobs, length, sequences int) []int {
	t := gymTwister(seed)
	out := make([]int, sequences)
	for i := range out {
		out[i] = t.between(length, jobs-length-1)
	}
	return out
}

// sequence is a run of RLScheduler's environment.
type sequence struct {
	m        BatchMachine
	jobs     []Batch
	keys     [][2]float64
	starts   []int
	now      int
	free     int   // nodes
	queue    []int // in the order in which Python's list would stand
	running  []int
	next     int
	backfill bool
}

// Sequence runs the jobs, ordered by Submit, on an empty machine and returns
// their starts. The queue's first job is chosen when the one before it has
// started; it then waits for its nodes whatever comes. Meanwhile, with
// backfill, others start by their submit times if the time that they asked for
// ends before the chosen job could start by what the running ones asked for,
// as known when it was chosen.
func Sequence(m BatchMachine, jobs []Batch, score Score, backfill bool) ([]int, error) {
	s, err := newSequence(m, jobs, backfill)
	if err != nil {
		return nil, err
	}
	for i, b := range jobs {
		s.keys[i][0], s.keys[i][1] = score.Of(b)
	}
	for s.fill() {
		s.sort(func(i int) [2]float64 { return s.keys[i] })
		s.serve(s.queue[0])
	}
	return s.starts, nil
}

func newSequence(m BatchMachine, jobs []Batch, backfill bool) (*sequence, error) {
	for i, b := range jobs {
		if m.nodes(b.Procs) > m.Nodes {
			return nil, fmt.Errorf("job %d asks for %d processors of %d", i, b.Procs, m.Procs)
		}
	}
	s := &sequence{m: m, jobs: jobs, starts: make([]int, len(jobs)), keys: make([][2]float64, len(jobs)), free: m.Nodes, backfill: backfill}
	for i := range s.starts {
		s.starts[i] = -1
	}
	return s, nil
}

// serve starts the chosen job once it fits.
func (s *sequence) serve(j int) {
	if !s.fits(j) {
		s.await(j)
	}
	s.start(j)
}

// fill sees to it that the queue holds a job; false at the end.
func (s *sequence) fill() bool {
	for len(s.queue) == 0 {
		if s.next >= len(s.jobs) {
			return false
		}
		s.advance()
	}
	return true
}

// advance goes to the next arrival or end, arrivals first.
func (s *sequence) advance() {
	ends, at := -1, math.MaxInt
	for i, j := range s.running {
		if end := s.starts[j] + s.jobs[j].Run; end < at {
			ends, at = i, end
		}
	}
	if s.next < len(s.jobs) && s.jobs[s.next].Submit <= at {
		s.now = max(s.now, s.jobs[s.next].Submit)
		s.queue = append(s.queue, s.next)
		s.next++
		return
	}
	s.now = max(s.now, at)
	s.free += s.m.nodes(s.jobs[s.running[ends]].Procs)
	s.running = slices.Delete(s.running, ends, ends+1)
}

func (s *sequence) fits(j int) bool { return s.m.nodes(s.jobs[j].Procs) <= s.free }

func (s *sequence) start(j int) {
	s.starts[j] = s.now
	s.free -= s.m.nodes(s.jobs[j].Procs)
	s.running = append(s.running, j)
	i := slices.Index(s.queue, j)
	s.queue = slices.Delete(s.queue, i, i+1)
}

// await goes on until the job fits.
func (s *sequence) await(j int) {
	until := 0
	if s.backfill {
		until = s.earliest(j)
	}
	for !s.fits(j) {
		if s.backfill {
			s.sort(func(i int) [2]float64 { return [2]float64{float64(s.jobs[i].Submit)} })
			for _, other := range slices.Clone(s.queue) {
				if s.now+s.jobs[other].Asked < until && s.fits(other) {
					s.start(other)
				}
			}
		}
		s.advance()
	}
}

// earliest is when the job could start by the times that running jobs asked for.
func (s *sequence) earliest(j int) int {
	byEnd := func(a, b int) int {
		return s.starts[a] + s.jobs[a].Asked - s.starts[b] - s.jobs[b].Asked
	}
	slices.SortStableFunc(s.running, byEnd)
	perNode := float64(s.m.Procs) / float64(s.m.Nodes)
	procs, at := float64(s.free)*perNode, s.now
	for _, r := range s.running {
		procs += float64(s.m.nodes(s.jobs[r].Procs)) * perNode
		at = s.starts[r] + s.jobs[r].Asked
		if procs >= float64(s.jobs[j].Procs) {
			break
		}
	}
	return at
}

func (s *sequence) sort(key func(int) [2]float64) {
	slices.SortStableFunc(s.queue, func(a, b int) int {
		x, y := key(a), key(b)
		return slices.Compare(x[:], y[:])
	})
}

// MeanBoundedSlowdown is the mean of (wait + run) / max(run, 10 s), at least 1.
func MeanBoundedSlowdown(jobs []Batch, starts []int) float64 {
	sum := 0.0
	for i, b := range jobs {
		sum += max(1, float64(starts[i]-b.Submit+b.Run)/float64(max(b.Run, 10)))
	}
	return sum / float64(max(1, len(jobs)))
}
