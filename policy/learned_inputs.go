// SPDX-License-Identifier: Apache-2.0

package policy

import "math"

// OrderInputs are what the order scorer may look at, of a job. Logs are
// natural, times in seconds.
var OrderInputs = []string{
	"log_run",       // log of the predicted run time (median); of a part of the limit when there is none
	"log_run_low",   // log of its 0.1-quantile
	"log_run_high",  // log of its 0.9-quantile
	"log_run_mean",  // log of its mean
	"unknown",       // 1 where nothing but the limit is known of the run time
	"log_limit",     // log of the time limit; of a week when there is none
	"log_gpus",      // log of its GPUs
	"log_nodes",     // log of the nodes that it needs at best
	"log_age",       // log of a minute and the time since it became eligible
	"age_run",       // log of 1 + that time over its mean run time
	"log_use",       // log of 1 + its user's GPU seconds of late, over the mean of users
	"comm_bound",    // 1 of a communication-bound job, else 0
	"compute_bound", // 1 of a compute-bound job, else 0
	"fits",          // 1 when it could start now
	"log_ready",     // log of a minute and the time until it is expected to be able to start
	"pressure_gpus", // log_gpus times log of 1 + GPUs that the queue asks for over all there are
	"broken_gpus",   // log_gpus times the part of the free GPUs that is not in whole free nodes
	"backlog_run",   // log_run_mean times log of 1 + hours of work that wait for each GPU
}

// OrderFacts is what the inputs of the order scorer are worked out from.
// Times are seconds.
type OrderFacts struct {
	Run, RunLow, RunHigh, RunMean float64 // median, 0.1- and 0.9-quantile, mean; 0: not known
	Limit                         float64 // 0: none
	GPUs, Nodes                   int
	Age, Ready                    float64 // since it could be served; until it is expected to be able to start
	Use                           float64 // of the user, over the mean of users
	CommBound, ComputeBound, Fits bool
	Queue                         QueueFacts
}

// QueueFacts is what all jobs of a queue share.
type QueueFacts struct {
	Pressure float64 // GPUs that pending jobs ask for, over all there are
	Broken   float64 // part of the free GPUs that is not in whole free nodes, 0..1
	Backlog  float64 // GPU seconds that pending jobs are predicted to take, over all GPUs
}

const (
	shortestRun = 1      // below which run times are not told apart, s
	longestRun  = 604800 // taken where there is neither a prediction nor a limit, s
)

// Inputs are the values of OrderInputs, all finite.
func (f OrderFacts) Inputs() []float64 {
	unknown := !(f.Run > 0)
	limit := f.Limit
	if !(limit > 0) {
		limit = longestRun
	}
	run, low, high, mean := f.Run, f.RunLow, f.RunHigh, f.RunMean
	if unknown {
		run = partOfLimit * limit
		low, high, mean = run/10, limit, run
	}
	run, low, high, mean = atLeast(run), atLeast(min(low, run)), atLeast(max(high, run)), atLeast(mean)
	gpus := math.Log(max(1, float64(f.GPUs)))
	return []float64{
		math.Log(run), math.Log(low), math.Log(high), math.Log(mean), flag(unknown), math.Log(atLeast(limit)),
		gpus, math.Log(max(1, float64(f.Nodes))),
		math.Log(60 + some(f.Age)), math.Log1p(some(f.Age) / mean), math.Log1p(some(f.Use)),
		flag(f.CommBound), flag(f.ComputeBound), flag(f.Fits), math.Log(60 + some(f.Ready)),
		gpus * math.Log1p(some(f.Queue.Pressure)), gpus * min(1, some(f.Queue.Broken)),
		math.Log(mean) * math.Log1p(some(f.Queue.Backlog)/3600),
	}
}

// atLeast keeps a time in seconds within what logarithms can take.
func atLeast(seconds float64) float64 {
	if !(seconds > shortestRun) {
		return shortestRun
	}
	return min(seconds, 1e9)
}

// some is a number that may be nonsense, from 0 to 1e12.
func some(v float64) float64 {
	if !(v > 0) {
		return 0
	}
	return min(v, 1e12)
}

func flag(b bool) float64 {
	if b {
		return 1
	}
	return 0
}

// pickInputs returns the values of the inputs that a net wants, in its order.
func pickInputs(all []string, values []float64, want []string) []float64 {
	out := make([]float64, len(want))
	for i, name := range want {
		for k, have := range all {
			if have == name {
				out[i] = values[k]
				break
			}
		}
	}
	return out
}

// OrderScore is the model's score of a job; the highest goes first.
func (m *Model) OrderScore(f OrderFacts) float64 {
	return m.Order.Score(m.OrderInputs(f))
}

// OrderInputs are the values of the inputs that the model's order scorer wants.
func (m *Model) OrderInputs(f OrderFacts) []float64 {
	return pickInputs(OrderInputs, f.Inputs(), m.Order.Inputs)
}
