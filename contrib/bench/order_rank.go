// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"strconv"

	"rifling/agent"
	"rifling/policy"
	"rifling/sim/peer"
)

// ranker is the order scorer of policy learned in the replays: the same net on
// the same inputs. What is predicted of a run comes from runs that have ended,
// from what still runs, and, where they are told, from estimates with errors.
type ranker struct {
	model  *policy.Model
	past   *agent.Sequences
	runs   map[int]*agent.SequenceRun
	errors *errorBands // nil: there are no estimates
}

func newRanker(m *policy.Model, estimates bool) *ranker {
	r := &ranker{model: m, past: agent.NewSequences(agent.DefaultSequenceParams()), runs: map[int]*agent.SequenceRun{}}
	if estimates {
		r.errors = newErrorBands()
	}
	return r
}

// Rank scores what waits.
func (r *ranker) Rank(s *peer.Scene) {
	for _, j := range s.Started {
		r.runs[j.Seq].Start(j.Start)
	}
	for _, j := range s.Ended {
		took := j.End - j.Start
		r.past.End(r.runs[j.Seq], took)
		if r.errors != nil {
			r.errors.see(j.Estimate/float64(j.GPUs), took)
		}
	}
	for _, j := range s.Arrived {
		var told func(float64) float64
		if r.errors != nil {
			told = r.errors.likelihood(j.Estimate / float64(j.GPUs))
		}
		r.runs[j.Seq] = r.past.Add(strconv.Itoa(j.GPUs), j.Submit, told)
	}
	if len(s.Queue) == 0 || !slices.ContainsFunc(s.Free, func(n int) bool { return n > 0 }) {
		return // nothing can start
	}
	r.past.Update(s.Now)
	for _, j := range s.Running {
		j.Left = r.runs[j.Seq].Belief.Left(s.Now - j.Start)
	}
	queue := r.queue(s)
	for _, j := range s.Queue {
		f := r.facts(s, j, queue)
		j.Run = f.RunMean
		j.Score = r.model.OrderScore(f)
	}
}

func (r *ranker) facts(s *peer.Scene, j *peer.Seen, queue policy.QueueFacts) policy.OrderFacts {
	b := r.runs[j.Seq].Belief
	return policy.OrderFacts{
		Run: math.Exp(b.MeanLog()), RunLow: b.Quantile(0.1), RunHigh: b.Quantile(0.9), RunMean: b.Mean(),
		GPUs: j.GPUs, Nodes: (j.GPUs + s.Machine.GPUs - 1) / s.Machine.GPUs, Age: s.Now - j.Submit, Queue: queue,
	}
}

func (r *ranker) queue(s *peer.Scene) policy.QueueFacts {
	all, free, whole, want, work := float64(s.Machine.Nodes*s.Machine.GPUs), 0, 0, 0, 0.0
	for _, n := range s.Free {
		free += n
		if n == s.Machine.GPUs {
			whole += n
		}
	}
	for _, j := range s.Queue {
		want += j.GPUs
		work += float64(j.GPUs) * r.runs[j.Seq].Belief.Mean()
	}
	f := policy.QueueFacts{Pressure: float64(want) / all, Backlog: work / all}
	if free > 0 {
		f.Broken = float64(free-whole) / float64(free)
	}
	return f
}

// errorBands learns how wrong estimates are: what part of the runs that ended
// lay how far from their estimate. The bands are those in which the errors of
// Helios's predictor were published; each begins with a count of one.
type errorBands struct{ count [2 * bands]float64 }

const bands = 5

var bandEnds = [bands + 1]float64{0, 0.1, 0.5, 1, 10, 100}

func newErrorBands() *errorBands {
	e := &errorBands{}
	for i := range e.count {
		e.count[i] = 1
	}
	return e
}

// bandOf is the band of a relative error, the negative ones last; -1 for none.
func bandOf(wrong float64) int {
	for b := range bands {
		if math.Abs(wrong) <= bandEnds[b+1]*1.05 {
			if wrong < 0 {
				return b + bands
			}
			return b
		}
	}
	return -1
}

func (e *errorBands) see(estimate, run float64) {
	if b := bandOf(estimate/run - 1); b >= 0 {
		e.count[b]++
	}
}

// likelihood of an estimate, by the run time.
func (e *errorBands) likelihood(estimate float64) func(run float64) float64 {
	all := 0.0
	for _, n := range e.count {
		all += n
	}
	return func(run float64) float64 {
		b := bandOf(estimate/run - 1)
		if b < 0 {
			return 1e-12
		}
		return e.count[b] / all / (bandEnds[b%bands+1] - bandEnds[b%bands]) / run
	}
}

// estimated gives the jobs estimates with the errors of Helios's predictor:
// 10 % of them within 10 %, 40 % within 50 %, 20 % within 100 %, 20 % within
// 10 times and 10 % within 100 times, too low as often as too high.
func estimated(jobs []peer.Work, seed uint64) []peer.Work {
	rng := rand.New(rand.NewPCG(seed, 0xe57))
	share := [bands]float64{0.1, 0.4, 0.2, 0.2, 0.1}
	out := make([]peer.Work, len(jobs))
	for i, j := range jobs {
		u, b := rng.Float64(), 0
		for b < bands-1 && u >= share[b] {
			u -= share[b]
			b++
		}
		wrong := bandEnds[b] + rng.Float64()*(bandEnds[b+1]-bandEnds[b])
		if rng.IntN(2) == 0 {
			wrong = -wrong
		}
		out[i] = j
		out[i].Estimate = j.Run * (1 + wrong) * float64(j.GPUs)
	}
	return out
}
