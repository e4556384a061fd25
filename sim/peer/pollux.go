// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"math"
	"slices"

	"rifling/sim/trace"
)

// Training is one job of Pollux's workloads.
type Training struct {
	ID          string
	Submit      float64 // seconds
	GPUs, Batch int
	Iterations  float64 // in all, at this batch
	Most        int     // largest batch on a GPU at once; more is done in turns
	Steps       *StepTable
}

// program is what Pollux's simulator knows of an application.
type program struct {
	most int // largest batch on a GPU
	// iterations by batch, to the last epoch.
	iterations map[int]float64
}

// polluxPrograms is from github.com/petuum/adaptdl, branch osdi21-artifact,
// folder simulator: the epochs of applications.py, and the iterations that
// they come to with the noise of traces/*/validation-*.csv. How they were come
// by where that file could not be had (cifar10 at 4096, imagenet, ncf) is in
// docs/design/peers.md; none is fitted to the figures that they are judged by.
var polluxPrograms = map[string]program{
	"bert":        {12, map[int]float64{384: 476}},
	"cifar10":     {1024, map[int]float64{2048: 3333, 4096: 2176}},
	"deepspeech2": {80, map[int]float64{320: 2264, 640: 1423}},
	"imagenet":    {200, map[int]float64{3200: 43000, 6400: 25090}},
	"ncf":         {32768, map[int]float64{32768: 1588}},
	"yolov3":      {8, map[int]float64{64: 15988}},
}

// FromPollux turns one of Pollux's workloads into trainings, with the measured
// step times by application.
func FromPollux(jobs []trace.Job, steps map[string]*StepTable) ([]Training, error) {
	out := make([]Training, len(jobs))
	for i, j := range jobs {
		p := polluxPrograms[j.Model]
		n, ok := p.iterations[j.Batch]
		if !ok || steps[j.Model] == nil {
			return nil, fmt.Errorf("job %s: how long %s runs at batch %d is not known", j.ID, j.Model, j.Batch)
		}
		out[i] = Training{ID: j.ID, Submit: j.Submit.Seconds(), GPUs: j.GPUs, Batch: j.Batch, Iterations: n, Most: p.most, Steps: steps[j.Model]}
	}
	return out, nil
}

// seconds is the time of one iteration on the given GPUs: the batch in turns
// when it is too large for them, of which the last communicates. One GPU alone
// takes at least two turns of a batch that was enlarged, as all here were.
func (t *Training) seconds(gpusByNode []int) float64 {
	local := math.Ceil(float64(t.Batch) / float64(t.GPUs))
	turns := math.Ceil(local / float64(t.Most))
	if t.GPUs == 1 {
		turns = max(2, turns)
	}
	step, sync := t.Steps.At(gpusByNode, math.Ceil(local/turns))
	return step + (step-sync)*(turns-1)
}

// Rounds are the semantics of Pollux's simulator under Tiresias' policy.
type Rounds struct {
	Every   float64 // seconds between decisions
	Restart float64 // seconds without progress on new GPUs
	Limit   float64 // GPU seconds with GPUs at which a job is moved to the second queue
}

// PolluxTiresias is what Pollux's simulator runs Tiresias with.
var PolluxTiresias = Rounds{Every: 60, Restart: 30, Limit: 16 * 3600}

// trainee is a training in the simulation.
type trainee struct {
	*Training
	seq      int
	left     float64 // iterations
	where    []int   // node of each GPU; nil: none
	per      float64 // seconds an iteration
	restart  float64 // still to wait
	attained float64 // seconds with GPUs
	second   bool    // queue
	started  bool
}

// RunRounds runs the trainings, ordered by Submit, by rounds and returns what
// became of each. In each round the jobs of the first queue, then those of the
// second, get GPUs in the order in which they came to it, as long as the number
// lasts; one that does not fit is passed over and loses what it has. Those that
// run keep their GPUs, the others take the emptiest nodes' first.
func RunRounds(m Machine, jobs []Training, o Rounds) ([]Done, error) {
	done := make([]Done, len(jobs))
	var queues [2][]*trainee
	next, ended := 0, 0
	for now := 0.0; ended < len(jobs); now += o.Every {
		for q := range queues {
			queues[q] = slices.DeleteFunc(queues[q], func(t *trainee) bool {
				end, over := t.run(now, o.Every)
				if over {
					done[t.seq].End = end
					ended++
				}
				return over
			})
		}
		for ; next < len(jobs) && jobs[next].Submit <= now; next++ {
			if jobs[next].GPUs > m.Nodes*m.GPUs {
				return nil, fmt.Errorf("job %s never fits", jobs[next].ID)
			}
			queues[0] = append(queues[0], &trainee{Training: &jobs[next], seq: next, left: jobs[next].Iterations})
		}
		queues[0] = slices.DeleteFunc(queues[0], func(t *trainee) bool {
			t.second = t.attained*float64(t.GPUs) >= o.Limit
			if t.second {
				queues[1] = append(queues[1], t)
			}
			return t.second
		})
		allot(m, slices.Concat(queues[0], queues[1]), o, now, done)
	}
	return done, nil
}

// run moves a training on through the round that ends now.
func (t *trainee) run(now, round float64) (end float64, over bool) {
	if t.where == nil {
		return 0, false
	}
	t.attained += round
	wait := min(t.restart, round)
	t.restart -= wait
	if need := t.left * t.per; need <= round-wait {
		return math.Round(now - round + wait + need), true
	}
	t.left -= (round - wait) / t.per
	return 0, false
}

// allot says who has which GPUs in the coming round.
func allot(m Machine, jobs []*trainee, o Rounds, now float64, done []Done) {
	count := m.Nodes * m.GPUs
	free := make([]int, m.Nodes)
	for i := range free {
		free[i] = m.GPUs
	}
	var runs []*trainee
	for _, t := range jobs {
		if t.GPUs > count {
			if t.where != nil {
				done[t.seq].Preempted++
			}
			t.where = nil
			continue
		}
		count -= t.GPUs
		runs = append(runs, t)
		for _, n := range t.where {
			free[n]--
		}
	}
	for _, t := range runs {
		if t.where == nil {
			t.take(free)
			t.restart = o.Restart
			if !t.started {
				t.started = true
				done[t.seq].Start = now
			}
		}
	}
}

// take takes GPUs of the emptiest nodes.
func (t *trainee) take(free []int) {
	var parts []int
	for len(t.where) < t.GPUs {
		best := 0
		for i, f := range free {
			if f > free[best] {
				best = i
			}
		}
		n := min(free[best], t.GPUs-len(t.where))
		free[best] -= n
		parts = append(parts, n)
		for range n {
			t.where = append(t.where, best)
		}
	}
	t.per = t.seconds(parts)
}
