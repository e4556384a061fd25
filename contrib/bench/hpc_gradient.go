// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"math/rand/v2"

	"rifling/policy"
	"rifling/sim/peer"
)

const (
	gradientRate  = 0.1 // weights a step, for a cost one standard deviation from the mean
	gradientTwins = 8   // runs of each list, whose mean is what a run is compared with
)

// gradient trains the same net from the same start by policy gradient
// (REINFORCE) with as many simulated lists as the search has: each choice is
// drawn with chances by the scores, and what was chosen in runs that came out
// better than their twins on the same list becomes likelier. It is what the
// search is compared with.
func (b batchTraining) gradient(seed uint64) (*policy.Model, error) {
	model := batchStart()
	w := model.Order.Layers[0].W
	rng := rand.New(rand.NewPCG(seed, 0x96ad))
	for step := range hpcGenerations * hpcPopulation * len(b.windows) / gradientTwins {
		jobs := b.windows[step%len(b.windows)]
		var grads [gradientTwins][]float64
		var costs []float64
		for i := range grads {
			d := &drawing{score: batchInputs(model), model: model, rng: rng, grad: make([]float64, len(w))}
			starts, err := peer.SequenceScored(b.machine, jobs, d.draw, true)
			if err != nil {
				return nil, err
			}
			d.close()
			grads[i] = d.grad
			costs = append(costs, math.Log(peer.MeanBoundedSlowdown(jobs, starts)))
		}
		mean, sd := average(costs), deviation(costs)
		if sd == 0 {
			continue
		}
		norm := 0.0
		sum := make([]float64, len(w))
		for i, g := range grads {
			for k := range sum {
				sum[k] -= (costs[i] - mean) / sd * g[k]
			}
		}
		for _, v := range sum {
			norm += v * v
		}
		for k := range w {
			w[k] += gradientRate * sum[k] / max(1e-9, math.Sqrt(norm))
		}
	}
	return model, nil
}

// drawing draws choices with chances by the scores and keeps the gradient of
// the logarithm of their chance.
type drawing struct {
	score func(s *peer.BatchScene, j int) []float64
	model *policy.Model
	rng   *rand.Rand
	scene *peer.BatchScene
	seen  [][]float64 // inputs of the jobs of the scene
	value []float64   // their scores
	best  int         // the one that was drawn
	most  float64
	grad  []float64
}

// draw adds Gumbel noise to a score: the highest of them is then drawn with
// chances by the softmax of the scores.
func (d *drawing) draw(s *peer.BatchScene, j int) float64 {
	if s != d.scene {
		d.close()
		d.scene, d.seen, d.value, d.most = s, nil, nil, math.Inf(-1)
	}
	x := d.score(s, j)
	v := d.model.Order.Score(x)
	noisy := v - math.Log(-math.Log(d.rng.Float64()+1e-300))
	if noisy > d.most {
		d.best, d.most = len(d.seen), noisy
	}
	d.seen, d.value = append(d.seen, x), append(d.value, v)
	return noisy
}

// close adds the gradient of the scene's choice: the inputs of what was chosen
// less those that were to be expected.
func (d *drawing) close() {
	if len(d.seen) < 2 {
		return
	}
	top, all := d.value[0], 0.0
	for _, v := range d.value {
		top = max(top, v)
	}
	for _, v := range d.value {
		all += math.Exp(v - top)
	}
	for k := range d.grad {
		d.grad[k] += d.seen[d.best][k]
		for i, x := range d.seen {
			d.grad[k] -= math.Exp(d.value[i]-top) / all * x[k]
		}
	}
	d.seen = nil
}
