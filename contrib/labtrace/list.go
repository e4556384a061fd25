// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"rifling/contrib/workload"
)

// job is one job of a list: it sleeps.
type job struct {
	user      workload.User
	partition string
	gpus      int // in all
	nice      int
	open      bool // leaves the number of nodes open: --gpus
	duration  time.Duration
	limit     time.Duration
	submit    time.Duration
}

// listOptions shape a list.
type listOptions struct {
	jobs, nodes, gpus int // gpus per node
	load              float64
	mean              time.Duration // of the run times
	partitions        bool          // a part of the jobs goes to the partition "short"
	open              float64       // part of the jobs that leave the number of nodes open
}

// sizes are numbers of GPUs and how often they are asked for: most jobs are
// small, a few fill several nodes.
var sizes = []struct {
	gpus int
	part float64
}{{1, 0.38}, {2, 0.18}, {4, 0.17}, {8, 0.16}, {16, 0.07}, {32, 0.04}}

// makeList makes the list of a seed, in the order of submission. Run times are
// log-normal, limits loose: once to ten times the run time, as users choose
// them, rounded up to what people type.
func makeList(seed uint64, o listOptions) []job {
	rng := rand.New(rand.NewPCG(seed, 77))
	users := workload.Users()
	jobs := make([]job, o.jobs)
	gpuTime := 0.0
	for i := range jobs {
		j := &jobs[i]
		j.user = users[int(float64(len(users))*math.Pow(rng.Float64(), 1.7))] // some are busier
		j.partition, j.gpus = "gpu", pickSize(rng, o)
		const sigma = 1.2
		seconds := o.mean.Seconds() * math.Exp(sigma*rng.NormFloat64()-sigma*sigma/2)
		j.duration = time.Duration(min(max(seconds, 20), 6*o.mean.Seconds())) * time.Second
		j.limit = typed(time.Duration(float64(j.duration+2*time.Minute) * math.Pow(10, rng.Float64())))
		if o.partitions && rng.Float64() < 0.3 && j.duration < 50*time.Minute {
			j.partition = "short"
			j.limit = min(j.limit, time.Hour)
		}
		if rng.Float64() < 0.1 {
			j.nice = 200 * (1 + rng.IntN(5))
		}
		if o.open > 0 {
			j.open = rng.Float64() < o.open
		}
		gpuTime += j.duration.Seconds() * float64(j.gpus)
	}
	// Arrivals are a Poisson process at the load that is asked for.
	gap := gpuTime / float64(o.jobs) / float64(o.nodes*o.gpus) / o.load
	at := 10.0
	for i := range jobs {
		jobs[i].submit = time.Duration(at) * time.Second
		at += gap * rng.ExpFloat64()
	}
	return jobs
}

func pickSize(rng *rand.Rand, o listOptions) int {
	x := rng.Float64()
	for _, s := range sizes {
		if x -= s.part; x < 0 {
			return min(s.gpus, o.nodes*o.gpus/2)
		}
	}
	return 1
}

// typed rounds a limit up as people do.
func typed(d time.Duration) time.Duration {
	minutes := int(math.Ceil(d.Minutes()))
	step := 240
	for _, s := range []int{5, 15, 60} {
		if minutes <= 12*s {
			step = s
			break
		}
	}
	return time.Duration((minutes+step-1)/step*step) * time.Minute
}

// request gives sbatch's options.
func (j job) request(gpusPerNode int) []string {
	args := []string{
		"--partition=" + j.partition,
		fmt.Sprintf("--time=%d", int(j.limit.Minutes())),
		"--account=" + j.user.Account,
	}
	if j.nice != 0 {
		args = append(args, fmt.Sprintf("--nice=%d", j.nice))
	}
	if j.open {
		return append(args, fmt.Sprintf("--gpus=%d", j.gpus))
	}
	if nodes := (j.gpus + gpusPerNode - 1) / gpusPerNode; nodes > 1 {
		return append(args, fmt.Sprintf("--nodes=%d", nodes), fmt.Sprintf("--gres=gpu:%d", gpusPerNode))
	}
	return append(args, "--nodes=1", fmt.Sprintf("--gres=gpu:%d", j.gpus))
}
