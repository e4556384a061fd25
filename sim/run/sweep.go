// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"rifling/policy"
	"rifling/sim"
)

// Contestant is one policy of a comparison, made anew for each run: either one
// that steers Slurm's model through the daemon's loop, or a scheduler on the
// same engine.
type Contestant struct {
	Name string
	// Clairvoyant ones read true run times, Preemptive ones take GPUs from
	// running jobs.
	Clairvoyant, Preemptive bool
	Policy                  func() (policy.Policy, error)
	Scheduler               func(seed uint64) sim.Scheduler
}

// Mark is what tables put behind the name: "*" for true run times, "^" for
// preemption.
func (c *Contestant) Mark() string {
	out := ""
	if c.Clairvoyant {
		out += "*"
	}
	if c.Preemptive {
		out += "^"
	}
	return out
}

// Play runs the jobs under the contestant and hands each result to sink, which
// may be nil. cfg.Policy is not read.
func (c *Contestant) Play(ctx context.Context, cfg Config, jobs []sim.Job, sink sim.Sink) (sim.Summary, Report, error) {
	var all sim.Collector
	take := func(r *sim.Result) {
		all.Add(r)
		if sink != nil {
			sink(r)
		}
	}
	gpus := TotalGPUs(cfg.Spec)
	if c.Scheduler != nil {
		return c.schedule(ctx, cfg, jobs, take, &all, gpus)
	}
	p, err := c.Policy()
	if err != nil {
		return sim.Summary{}, Report{}, err
	}
	if _, plain := p.(policy.Slurm); plain {
		p = nil // it never writes: spare the cycles
	}
	cfg.Policy = p
	rep, err := Run(ctx, cfg, List(jobs), take)
	if err != nil {
		return sim.Summary{}, rep, fmt.Errorf("%s: %w", c.Name, err)
	}
	return all.Summary(gpus, rep.Stats), rep, nil
}

// someSteps is how many events pass between two looks at the context.
const someSteps = 4096

func (c *Contestant) schedule(ctx context.Context, cfg Config, jobs []sim.Job, take sim.Sink, all *sim.Collector, gpus int) (sim.Summary, Report, error) {
	e, err := sim.NewEngine(cfg.Spec, c.Scheduler(cfg.Seed), List(jobs), take)
	if err != nil {
		return sim.Summary{}, Report{}, err
	}
	for n, more := 1, true; more; n++ {
		if more, err = e.Step(); err != nil {
			return sim.Summary{}, Report{}, fmt.Errorf("%s: %w", c.Name, err)
		}
		if n%someSteps == 0 && ctx.Err() != nil {
			return sim.Summary{}, Report{}, ctx.Err()
		}
	}
	rep := Report{Stats: e.Stats()}
	return all.Summary(gpus, rep.Stats), rep, nil
}

// TotalGPUs is the size of a cluster.
func TotalGPUs(s sim.Spec) int {
	n := 0
	for i := range s.Nodes {
		n += s.Nodes[i].GPUs
	}
	return n
}

// Each calls do(0) to do(n-1) on the given number of workers and tells done
// after each call, one at a time. It stops at the first error, and returns
// that of the lowest number, whatever came first in time.
func Each(ctx context.Context, n, workers int, do func(ctx context.Context, i int) error, done func(finished int)) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make([]error, n)
	var mu sync.Mutex
	var wg sync.WaitGroup
	next, finished := 0, 0
	for range min(max(1, workers), n) {
		wg.Go(func() {
			for {
				mu.Lock()
				i := next
				next++
				mu.Unlock()
				if i >= n || ctx.Err() != nil {
					return
				}
				if errs[i] = do(ctx, i); errs[i] != nil {
					cancel()
					return
				}
				mu.Lock()
				finished++
				if done != nil {
					done(finished)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	// Runs that were only stopped say nothing of why.
	own := slices.DeleteFunc(slices.Clone(errs), func(err error) bool { return err == nil || errors.Is(err, context.Canceled) })
	if len(own) > 0 {
		return own[0]
	}
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return ctx.Err()
}

// Until is how long the rest takes when so much took so long.
func Until(took time.Duration, done, all int) time.Duration {
	if done == 0 {
		return 0
	}
	return time.Duration(float64(took) / float64(done) * float64(all-done))
}
