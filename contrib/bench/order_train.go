// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"math"

	"rifling/agent"
	"rifling/policy"
	"rifling/sim/peer"
)

// cluster is a list of jobs and the machine that it is for.
type cluster struct {
	name    string
	machine peer.Machine
	jobs    []peer.Work
}

// orderPolicy is a model with the reserve that stands for Slurm's backfill in a
// replay, which knows no time limits.
type orderPolicy struct {
	policy.Model
	reserve peer.Reserve
}

// orderStart is what a search for an order begins with: least expected GPU
// time first, and the reserve that follows from an exchange of two jobs.
func orderStart() *orderPolicy {
	m := orderPolicy{Model: policy.PlainModel(), reserve: peer.Reserve{Slack: 2, Run: 1}}
	m.Order = agent.Linear([]string{"log_run", "log_run_mean", "log_run_high", "log_gpus", "log_age", "age_run", "pressure_gpus"})
	copy(m.Order.Layers[0].W, []float64{-0.5, -0.5, 0, -1, 0, 0, 0})
	return &m
}

// orderWeights are what the search changes: the weights of the scorer, and the
// logarithms of the reserve's two numbers.
func orderWeights(m *orderPolicy) []float64 {
	return append(append([]float64(nil), m.Order.Layers[0].W...), math.Log(m.reserve.Slack), math.Log(m.reserve.Run))
}

func orderModel(w []float64) *orderPolicy {
	m := orderStart()
	n := copy(m.Order.Layers[0].W, w)
	m.reserve = peer.Reserve{Slack: math.Exp(w[n]), Run: math.Exp(w[n+1])}
	return m
}

// orderRun is the mean completion time of the jobs under a model.
func orderRun(c cluster, m *orderPolicy, estimates bool) float64 {
	done := peer.Scored(c.machine, c.jobs, newRanker(&m.Model, estimates), m.reserve)
	mean, _ := peer.Means(c.jobs, done)
	return mean
}

const (
	orderPopulation  = 8
	orderGenerations = 4
	orderWindows     = 1   // that are cut from each list to learn from
	orderWindow      = 250 // jobs in each
	// What a weight costs that is one step from its start: a few lists are not
	// evidence enough to leave it for less.
	orderCloseness = 0.002
)

// windows cuts lists to learn from out of a cluster's: what came one after
// another, from places that are spread over it.
func windows(c cluster) []cluster {
	var out []cluster
	n := min(orderWindow, len(c.jobs))
	for i := range orderWindows {
		from := (len(c.jobs) - n) * (2*i + 1) / (2 * orderWindows)
		out = append(out, cluster{c.name, c.machine, c.jobs[from : from+n]})
	}
	return out
}

// trainOrder searches for an order on the lists, with estimates that are drawn
// anew and without any, for the mean of log completion times against those
// that the start comes to.
func trainOrder(ctx context.Context, lists []cluster, seed uint64) (*orderPolicy, agent.Progress, error) {
	type setting struct {
		cluster
		estimates bool
		base      float64
	}
	var settings []setting
	for _, list := range lists {
		for i, c := range windows(list) {
			settings = append(settings, setting{cluster: c})
			c.jobs = estimated(c.jobs, 100*seed+uint64(i))
			settings = append(settings, setting{cluster: c, estimates: true})
		}
	}
	start := orderStart()
	for i := range settings {
		settings[i].base = orderRun(settings[i].cluster, start, settings[i].estimates)
	}
	w := orderWeights(start)
	search := &agent.Search{Seed: seed, Start: w, Steps: make([]float64, len(w)), Population: orderPopulation}
	for i := range search.Steps {
		search.Steps[i] = 0.2
	}
	p, err := search.Run(ctx, orderGenerations, benchWorkers, func(ctx context.Context, _ int, w []float64) (float64, error) {
		m, sum := orderModel(w), 0.0
		for _, s := range settings {
			if err := ctx.Err(); err != nil {
				return 0, err
			}
			mean := orderRun(s.cluster, m, s.estimates)
			sum += math.Log(mean / s.base)
		}
		for i, d := range search.Steps {
			step := (w[i] - search.Start[i]) / d
			sum += orderCloseness * step * step * float64(len(settings))
		}
		return sum / float64(len(settings)), nil
	}, nil)
	if err != nil {
		return nil, p, fmt.Errorf("train an order: %w", err)
	}
	return orderModel(p.Weights), p, nil
}
