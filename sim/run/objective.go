// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"errors"
	"fmt"
	"math"

	"rifling/policy"
	"rifling/sim"
)

// Setting is work to train a policy on, with the cluster that it is for.
type Setting struct {
	Name   string
	Config Config // its Policy is not read
	Jobs   []sim.Job
	// Slurm is what Slurm alone made of it: see Measure.
	Slurm sim.Summary
}

// Measure lets Slurm alone run the setting's jobs, for Cost to compare with.
func (s *Setting) Measure(ctx context.Context) error {
	c := Contestant{Name: "slurm", Policy: func() (policy.Policy, error) { return policy.Slurm{}, nil }}
	var err error
	s.Slurm, _, err = c.Play(ctx, s.Config, s.Jobs, nil)
	return err
}

// Cost is what a run is worth to a site, against Slurm's on the same jobs: the
// weighted mean of the logarithms of mean and tail completion time, makespan
// and unevenness over Slurm's, and of ANPR under Slurm over the run's. 0 is as
// good as Slurm, -0.1 about 10 % better.
func Cost(o policy.Objective, got, slurm sim.Summary) float64 {
	sum, weights := 0.0, 0.0
	add := func(weight, a, b float64) {
		weights += weight
		if weight > 0 && a > 0 && b > 0 {
			sum += weight * math.Log(a/b)
		}
	}
	add(o.MeanJCT, got.MeanJCT, slurm.MeanJCT)
	add(o.P95JCT, got.P95JCT, slurm.P95JCT)
	add(o.Makespan, got.Makespan, slurm.Makespan)
	add(o.ANPR, slurm.ANPR, got.ANPR)
	add(o.Fairness, slurm.Fairness, got.Fairness)
	return sum / weights
}

// ModelCost is the mean cost of a model over settings that were measured. A
// model under which jobs wait for ever costs more than any other.
func ModelCost(ctx context.Context, m policy.Model, settings []Setting) (float64, error) {
	if err := m.Validate(); err != nil {
		return 0, err
	}
	if len(settings) == 0 {
		return 0, errors.New("there is nothing to measure the model on")
	}
	sum := 0.0
	for i := range settings {
		s := &settings[i]
		c := Contestant{Name: "learned", Policy: func() (policy.Policy, error) { return &policy.Learned{Model: m}, nil }}
		got, _, err := c.Play(ctx, s.Config, s.Jobs, nil)
		switch {
		case errors.Is(err, ErrStarved):
			return starvedCost, nil
		case err != nil:
			return 0, fmt.Errorf("%s: %w", s.Name, err)
		}
		sum += Cost(m.Objective, got, s.Slurm)
	}
	return sum / float64(len(settings)), nil
}

const starvedCost = 10
