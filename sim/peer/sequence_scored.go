// SPDX-License-Identifier: Apache-2.0

package peer

// BatchScene is what a scorer of batch jobs may see when the next is to be
// chosen. Of Jobs it may read what was asked for, and how long those ran that
// have ended.
type BatchScene struct {
	Now          int
	Jobs         []Batch
	Starts       []int // of each job; -1: not yet
	Queue        []int // jobs that wait, by their places in Jobs
	Free         int   // nodes
	Nodes, Procs int   // of the machine
}

// BatchScorer says how urgent a waiting job is: the highest goes first, of
// equals the one that was submitted first.
type BatchScorer func(s *BatchScene, j int) float64

// SequenceScored is Sequence under a scorer that may look at more than the job
// itself: it is asked about all that wait whenever one is to be chosen.
func SequenceScored(m BatchMachine, jobs []Batch, score BatchScorer, backfill bool) ([]int, error) {
	s, err := newSequence(m, jobs, backfill)
	if err != nil {
		return nil, err
	}
	for s.fill() {
		scene := &BatchScene{Now: s.now, Jobs: jobs, Starts: s.starts, Queue: s.queue, Free: s.free, Nodes: m.Nodes, Procs: m.Procs}
		for _, j := range s.queue {
			s.keys[j] = [2]float64{-score(scene, j), float64(jobs[j].Submit)}
		}
		s.sort(func(i int) [2]float64 { return s.keys[i] })
		s.serve(s.queue[0])
	}
	return s.starts, nil
}
