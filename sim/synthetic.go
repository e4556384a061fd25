// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// Synthetic is plain work for tests and for measuring the simulator's own
// speed: half of the jobs want one GPU, the others 2 to 32 on nodes of 8, run
// times are log-normal with a median of ten minutes, limits up to five times as
// long, and arrivals are Poisson. It stands for no site.
type Synthetic struct {
	Seed uint64
	Jobs int
	GPUs int     // of the cluster
	Load float64 // GPU time asked for over GPU time there is
	// Open lets half of the jobs of more than one GPU leave their nodes open.
	Open bool
}

var syntheticGPUs = []int{2, 2, 4, 4, 4, 8, 8, 8, 16, 32}

// Source returns the jobs, made one at a time.
func (s Synthetic) Source() Source {
	rng := rand.New(rand.NewPCG(s.Seed, 11))
	const median, sigma = 600.0, 1.5
	sum := 0
	for _, g := range syntheticGPUs {
		sum += g
	}
	meanGPUs := (1 + float64(sum)/float64(len(syntheticGPUs))) / 2
	gap := meanGPUs * median * math.Exp(sigma*sigma/2) / (s.Load * float64(s.GPUs))
	at, made := 0.0, 0
	users := make([]string, 20)
	for i := range users {
		users[i] = fmt.Sprint("user", i)
	}
	return func() (Job, bool) {
		if made == s.Jobs {
			return Job{}, false
		}
		made++
		at += rng.ExpFloat64() * gap
		g := 1
		if rng.IntN(2) == 0 {
			g = syntheticGPUs[rng.IntN(len(syntheticGPUs))]
		}
		run := median * math.Exp(sigma*rng.NormFloat64())
		j := Job{Submit: fromSeconds(at), Work: fromSeconds(run), User: users[rng.IntN(len(users))], Account: "a"}
		j.Limit = fromSeconds(run*(1.2+4*rng.Float64())).Round(time.Minute) + time.Minute
		j.Request = Request{GPUsPerNode: min(g, 8), MinNodes: max(1, g/8)}
		if s.Open && g > 1 && rng.IntN(2) == 0 {
			j.Request = Request{GPUs: g}
		}
		return j, true
	}
}

func fromSeconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }
