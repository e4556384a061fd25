// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestStepTable(t *testing.T) {
	s := &StepTable{}
	for placement, step := range map[string]float64{"1": 1, "2": 2, "4": 3, "12": 5, "22": 7} {
		s.Add(placement, 0, 0, 10, step, step/10)
		s.Add(placement, 0, 0, 20, 2*step, step/10)
	}
	s.Add("", 6, 12, 10, 11, 1)
	s.Add("", 6, 12, 20, 22, 1)
	for name, tc := range map[string]struct {
		gpus  []int
		batch float64
		want  float64
	}{
		"measured":                      {[]int{2, 2}, 10, 7},
		"another rotation":              {[]int{2, 1}, 10, 5},
		"between two batches":           {[]int{2}, 15, 3},
		"below all batches":             {[]int{2}, 5, 2},
		"above all batches":             {[]int{2}, 50, 4},
		"between two numbers of GPUs":   {[]int{3}, 10, 2.5},
		"beyond all numbers of GPUs":    {[]int{4, 4}, 10, 7},
		"by nodes and GPUs alone":       {[]int{2, 2, 2, 2, 2, 2}, 10, 11},
		"between two numbers of nodes":  {[]int{1, 1, 1, 1}, 10, 9},
		"beyond all numbers of nodes":   {[]int{1, 1, 1, 1, 1, 1, 1}, 10, 11},
		"between batches and GPUs both": {[]int{3}, 15, 3.75},
	} {
		if got, _ := s.At(tc.gpus, tc.batch); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%s: %v s, want %v", name, got, tc.want)
		}
	}
	if _, sync := s.At([]int{2}, 10); sync != 0.2 {
		t.Errorf("communicating %v s, want 0.2", sync)
	}
}

// Rounds that were worked out by hand: 2 nodes with 2 GPUs, a decision each
// 60 s, 30 s lost on new GPUs.
func TestRunRounds(t *testing.T) {
	s := &StepTable{}
	s.Add("1", 0, 0, 1, 1, 0.25)
	s.Add("2", 0, 0, 1, 1, 0)
	s.Add("22", 0, 0, 1, 2, 0)
	s.Add("11", 0, 0, 1, 3, 0)
	training := func(gpus int, submit, iterations float64) Training {
		return Training{ID: "t", GPUs: gpus, Submit: submit, Batch: gpus, Iterations: iterations, Most: 1, Steps: s}
	}
	for name, tc := range map[string]struct {
		jobs  []Training
		limit float64
		want  []Done
	}{
		"it starts at the next round":      {[]Training{training(2, 61, 100)}, 1e9, []Done{{Start: 120, End: 250}}},
		"larger than a node":               {[]Training{training(4, 0, 100)}, 1e9, []Done{{Start: 0, End: 230}}},
		"what does not fit is passed over": {[]Training{training(2, 0, 100), training(4, 0, 10), training(2, 0, 10)}, 1e9, []Done{{0, 130, 0, 0}, {180, 230, 0, 0}, {0, 40, 0, 0}}},
		"the second queue gives way": {[]Training{training(4, 0, 60), training(4, 60, 10)}, 240,
			// 15 of 60 are done at 60, when 240 GPU seconds are: the other runs
			// until 110, and the first goes on from 120 + 30 with 45 of 2 s.
			[]Done{{0, 240, 0, 1}, {60, 110, 0, 0}}},
		"one GPU takes two turns": {[]Training{{ID: "t", GPUs: 1, Batch: 1, Iterations: 10, Most: 1, Steps: s}}, 1e9,
			[]Done{{Start: 0, End: 48}}}, // 30 + 10 * (1 + .75), rounded
	} {
		t.Run(name, func(t *testing.T) {
			got, err := RunRounds(Machine{Nodes: 2, GPUs: 2}, tc.jobs, Rounds{Every: 60, Restart: 30, Limit: tc.limit})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
	if _, err := RunRounds(Machine{Nodes: 2, GPUs: 2}, []Training{training(5, 0, 1)}, PolluxTiresias); err == nil {
		t.Error("a job larger than the machine: no error")
	}
}
