// SPDX-License-Identifier: Apache-2.0

package run

import (
	"math"
	"testing"
	"time"

	"rifling/policy"
	"rifling/sim"
)

func TestCost(t *testing.T) {
	slurm := sim.Summary{MeanJCT: 100, P95JCT: 500, Makespan: 1000, ANPR: 0.8, Fairness: 0.5}
	half := slurm
	half.MeanJCT = 50
	uneven := slurm
	uneven.Fairness = 0.25
	faster := slurm
	faster.ANPR = 0.88
	for name, tc := range map[string]struct {
		o    policy.Objective
		got  sim.Summary
		want float64
	}{
		"the same is nothing":             {policy.DefaultObjective(), slurm, 0},
		"half the completion time":        {policy.Objective{MeanJCT: 1}, half, -math.Ln2},
		"weights are parts of a whole":    {policy.Objective{MeanJCT: 1, Makespan: 3}, half, -math.Ln2 / 4},
		"a higher rate is better":         {policy.Objective{ANPR: 2}, faster, -math.Log(1.1)},
		"unevenness costs":                {policy.Objective{Fairness: 1}, uneven, math.Ln2},
		"what is not weighed is not seen": {policy.Objective{MeanJCT: 1}, uneven, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Cost(tc.o, tc.got, slurm); math.Abs(got-tc.want) > 1e-9 {
				t.Errorf("cost %.4f, want %.4f", got, tc.want)
			}
		})
	}
}

// Four short jobs behind a long one that holds the cluster: with the shortest
// first they end sooner, whatever Slurm's own order is.
func TestModelThatOrdersBeatsSlurm(t *testing.T) {
	nodes, err := Nodes("1x4", 0, 100)
	if err != nil {
		t.Fatal(err)
	}
	s := Setting{Name: "one node", Config: Default(sim.Spec{Nodes: nodes})}
	s.Config.Limits.MaxOffset = 1 << 30
	for i, minutes := range []int{60, 300, 300, 10, 10, 10, 10} {
		work := time.Duration(minutes) * time.Minute
		s.Jobs = append(s.Jobs, sim.Job{
			Name: "j", User: "u", Submit: time.Duration(i) * time.Second, Work: work, Limit: work + time.Minute,
			Request: sim.Request{GPUs: 4}, Model: &sim.Models[0],
		})
	}
	if err := s.Measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	m := policy.PlainModel()
	m.Objective = policy.Objective{MeanJCT: 1}
	plain, err := ModelCost(t.Context(), m, []Setting{s})
	if err != nil {
		t.Fatal(err)
	}
	for i, name := range m.Order.Inputs {
		if name == "log_run" {
			m.Order.Layers[0].W[i] = -1
		}
	}
	shortest, err := ModelCost(t.Context(), m, []Setting{s})
	if err != nil {
		t.Fatal(err)
	}
	if math.Abs(plain) > 0.02 || shortest > -0.5 {
		t.Errorf("without a word on order %.3f, shortest first %.3f; want 0 and less than -0.5", plain, shortest)
	}
}
