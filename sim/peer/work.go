// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"fmt"
	"math"

	"rifling/sim/trace"
)

// FromTrace turns a trace's jobs into work that runs as long as the trace
// says, in whole seconds where the trace has whole seconds.
func FromTrace(jobs []trace.Job) []Work {
	out := make([]Work, len(jobs))
	for i, j := range jobs {
		out[i] = Work{
			ID: j.ID, GPUs: j.GPUs, Submit: j.Submit.Seconds(), Estimate: j.Estimate,
			Iterations: j.Duration.Seconds(), IterSeconds: 1, Run: j.Duration.Seconds(),
		}
	}
	return out
}

// muriSlowdown is what Muri's simulator lengthens every iteration by.
const muriSlowdown = 1.015

// muriRestart has the seconds that a start takes in Muri's simulator, as its
// authors profiled them, for 1, 2, 4, 8, 16 and 32 GPUs
// (github.com/Rivendile/Muri, simulator/run_sim.py).
var muriRestart = map[string][6]float64{
	"vgg16":              {7, 7, 8, 9, 9, 10},
	"vgg19":              {7, 7, 8, 9, 10, 10},
	"resnet18":           {4, 5, 5, 7, 7, 7},
	"shufflenet_v2_x1_0": {4, 4, 5, 5, 7, 8},
	"bert":               {10, 10, 10, 10, 10, 10},
	"gpt2":               {10, 10, 10, 10, 10, 10},
	"a2c":                {38, 39, 39, 46, 46, 46},
	"dqn":                {5, 5, 6, 6, 8, 8},
}

// muriOther is the start of models that are not on the list.
const muriOther = 10

// FromMuri turns one of Muri's traces into work: iterations, lengthened, and
// the restart times. An iteration takes whole milliseconds, the same for all
// jobs of a model and a number of GPUs; the longest of them tells it best.
func FromMuri(jobs []trace.Job) ([]Work, error) {
	type kind struct {
		model string
		gpus  int
	}
	longest := map[kind]trace.Job{}
	for _, j := range jobs {
		if j.Iterations <= 0 {
			return nil, fmt.Errorf("job %s names no iterations", j.ID)
		}
		k := kind{j.Model, j.GPUs}
		if j.Iterations > longest[k].Iterations {
			longest[k] = j
		}
	}
	out := FromTrace(jobs)
	for i, j := range jobs {
		l := longest[kind{j.Model, j.GPUs}]
		ms := math.Round(float64(l.Duration.Milliseconds()) / l.Iterations)
		out[i].Iterations, out[i].IterSeconds = j.Iterations, ms*muriSlowdown/1000
		out[i].Restart = muriOther
		if of, ok := muriRestart[j.Model]; ok {
			out[i].Restart = of[min(5, int(math.Ceil(math.Log2(float64(max(1, j.GPUs))))))]
		}
	}
	return out, nil
}

// FromBatch turns a trace of a batch system into whole seconds. A job that
// does not say how long it may run asks for what it runs, as RLScheduler's
// program takes it.
func FromBatch(jobs []trace.Job) []Batch {
	out := make([]Batch, len(jobs))
	for i, j := range jobs {
		out[i] = Batch{
			Submit: int(j.Submit.Seconds()), Run: int(j.Duration.Seconds()), Asked: int(j.Limit.Seconds()), Procs: j.GPUs,
		}
		if out[i].Asked == 0 {
			out[i].Asked = out[i].Run
		}
	}
	return out
}
