// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"

	"gonum.org/v1/gonum/optimize"
)

// Search is a policy search by CMA-ES: it looks for the weights of least cost.
// It is all that is needed to go on with it: written as JSON after a
// generation and read again, it finds what it would have found without the
// break, since what was drawn follows from the seed and what was measured is
// in Costs.
type Search struct {
	Seed       uint64    `json:"seed"`
	Start      []float64 `json:"start"`      // weights to begin with
	Steps      []float64 `json:"steps"`      // by how much each may first be changed, > 0
	Population int       `json:"population"` // candidates in a generation, at least 4
	// Costs has what each candidate cost, by generation. It grows.
	Costs [][]float64 `json:"costs"`
}

// Cost measures weights, the less the better. It must be safe for concurrent
// use. All candidates of a generation must be measured on the same work, with
// the same random numbers, drawn from its number; different generations may
// have different ones.
type Cost func(ctx context.Context, generation int, weights []float64) (float64, error)

// Progress is what a generation came to.
type Progress struct {
	Generation  int // from 0
	Best, Mean  float64
	BestWeights []float64 // the best candidate of this generation
	// Weights is the centre of the candidates of the next generation: the mean
	// of this one's better half, the best weighing most. It is what a search
	// over noisy costs has found.
	Weights []float64
	// Resumed says that the costs were known from before.
	Resumed bool
}

// Validate reports what keeps the search from running.
func (s *Search) Validate() error {
	var errs []error
	if len(s.Start) == 0 || len(s.Start) != len(s.Steps) {
		errs = append(errs, fmt.Errorf("%d weights with %d steps", len(s.Start), len(s.Steps)))
	}
	if !allFinite(s.Start) || !allFinite(s.Steps) {
		errs = append(errs, errors.New("a weight or a step is not a number"))
	}
	if len(s.Steps) > 0 && !(slices.Min(s.Steps) > 0) {
		errs = append(errs, errors.New("a step is not positive"))
	}
	if s.Population < 4 {
		errs = append(errs, fmt.Errorf("a population of %d; a search needs at least 4", s.Population))
	}
	for i, c := range s.Costs {
		if len(c) != s.Population {
			errs = append(errs, fmt.Errorf("generation %d has %d costs for a population of %d", i, len(c), s.Population))
		}
	}
	return errors.Join(errs...)
}

// Run searches until there are so many generations in all, with as many
// candidates measured at once as there are workers. After each generation it
// calls progress, when not nil, which may write the search down; an error of
// progress ends it. The result is the last progress.
func (s *Search) Run(ctx context.Context, generations, workers int, cost Cost, progress func(Progress) error) (Progress, error) {
	if err := s.Validate(); err != nil {
		return Progress{}, fmt.Errorf("search: %w", err)
	}
	c := newCMA(s)
	defer c.stop()
	last := Progress{Generation: -1, Weights: slices.Clone(s.Start)}
	for g := range generations {
		candidates, err := c.ask()
		if err != nil {
			return last, fmt.Errorf("search, generation %d: %w", g, err)
		}
		resumed := g < len(s.Costs)
		if !resumed {
			costs, err := measure(ctx, g, workers, candidates, cost)
			if err != nil {
				return last, fmt.Errorf("search, generation %d: %w", g, err)
			}
			s.Costs = append(s.Costs, costs)
		}
		c.tell(s.Costs[g])
		last = summarize(g, candidates, s.Costs[g])
		last.Resumed = resumed
		if progress != nil {
			if err := progress(last); err != nil {
				return last, err
			}
		}
	}
	return last, nil
}

// measure runs the cost of all candidates.
func measure(ctx context.Context, g, workers int, candidates [][]float64, cost Cost) ([]float64, error) {
	inner, cancel := context.WithCancel(ctx)
	defer cancel()
	costs, errs := make([]float64, len(candidates)), make([]error, len(candidates))
	next := make(chan int)
	var wg sync.WaitGroup
	for range max(1, workers) {
		wg.Go(func() {
			for i := range next {
				if errs[i] = inner.Err(); errs[i] != nil {
					continue
				}
				if costs[i], errs[i] = cost(inner, g, candidates[i]); errs[i] != nil {
					cancel()
				}
			}
		})
	}
	for i := range candidates {
		next <- i
	}
	close(next)
	wg.Wait()
	for i, c := range costs {
		// The first error by number, not one that only followed from another.
		if err := errs[i]; err != nil && !errors.Is(err, context.Canceled) {
			return nil, err
		}
		if math.IsNaN(c) {
			return nil, fmt.Errorf("the cost of candidate %d is not a number", i)
		}
	}
	return costs, ctx.Err()
}

func summarize(g int, candidates [][]float64, costs []float64) Progress {
	order := make([]int, len(costs))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(costs[a], costs[b]) })
	p := Progress{Generation: g, Best: costs[order[0]], BestWeights: candidates[order[0]], Weights: make([]float64, len(candidates[0]))}
	for _, c := range costs {
		p.Mean += c / float64(len(costs))
	}
	half, all := len(order)/2, 0.0
	for rank, i := range order[:half] {
		w := math.Log(float64(half)+0.5) - math.Log(float64(rank)+1) // CMA-ES's own weights
		all += w
		for k, x := range candidates[i] {
			p.Weights[k] += w * x
		}
	}
	for k := range p.Weights {
		p.Weights[k] /= all
	}
	return p
}

// cma asks gonum's CMA-ES for candidates and tells it what they cost. gonum
// drives a method over channels, for optimizers that measure one point after
// another; here a whole generation is known before any of it is measured.
type cma struct {
	search       *Search
	method       *optimize.CmaEsChol
	ops, results chan optimize.Task
	tasks        []optimize.Task // of the generation that was asked for, by number
	told         *optimize.Task  // what the method said to the last costs
}

func newCMA(s *Search) *cma {
	c := &cma{
		search: s, ops: make(chan optimize.Task), results: make(chan optimize.Task),
		tasks: make([]optimize.Task, s.Population),
		// The steps are the caller's: see ask. A search over noisy costs has no
		// use for the best point ever seen, and is ended by its generations.
		method: &optimize.CmaEsChol{
			InitStepSize: 1, Population: s.Population, ForgetBest: true, StopLogDet: math.NaN(),
			Src: rand.NewPCG(s.Seed, 0xc3a),
		},
	}
	dim := len(s.Start)
	c.method.Init(dim, s.Population)
	tasks := make([]optimize.Task, s.Population)
	for i := range tasks {
		tasks[i].Location = &optimize.Location{X: make([]float64, dim)}
	}
	go c.method.Run(c.ops, c.results, tasks)
	return c
}

// ask returns the candidates of the next generation.
func (c *cma) ask() ([][]float64, error) {
	if c.told != nil {
		if c.told.Op != optimize.MajorIteration {
			_, err := c.method.Status()
			return nil, fmt.Errorf("CMA-ES ended: %w", cmp.Or(err, errors.New("it converged")))
		}
		c.results <- *c.told
	}
	out := make([][]float64, len(c.tasks))
	for range c.tasks {
		t := <-c.ops
		c.tasks[t.ID] = t
		x := slices.Clone(c.search.Start)
		for i := range x {
			x[i] += c.search.Steps[i] * t.X[i]
		}
		out[t.ID] = x
	}
	return out, nil
}

// tell says what the candidates cost.
func (c *cma) tell(costs []float64) {
	for i, t := range c.tasks {
		t.F = costs[i]
		c.results <- t
	}
	told := <-c.ops
	c.told = &told
}

// stop ends the method, whatever it waits for.
func (c *cma) stop() {
	over := make(chan struct{})
	go func() {
		for range c.ops {
		}
		close(over)
	}()
	c.results <- optimize.Task{Op: optimize.PostIteration}
	close(c.results)
	<-over
}
