// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"math"
	"testing"

	"pgregory.net/rapid"
)

// A model is found again from times that it made itself, under any law.
func TestFitFindsTheModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := Model{
			ComputeSeconds: rapid.Float64Range(0.01, 5).Draw(t, "compute"),
			IntraSeconds:   rapid.Float64Range(0, 0.5).Draw(t, "intra"),
			Bytes:          rapid.Float64Range(1e6, 1e10).Draw(t, "bytes"),
			Law: Law{
				Exponent: rapid.Float64Range(0.1, 1).Draw(t, "exponent"),
				TwoNodes: rapid.Float64Range(1, 3).Draw(t, "two nodes"),
			},
		}
		var rows []Measured
		for _, gpus := range [][]int{{1}, {2}, {4}, {1, 1}, {2, 2}, {1, 1, 1, 1}, {4, 4}} {
			byNode := map[string]int{}
			for i, g := range gpus {
				byNode[string(rune('a'+i))] = g
			}
			nic := func(string) (float64, int) { return 1e9, 1 }
			comm := CommSeconds(want, byNode, nic)
			if len(gpus) > 1 && comm <= want.IntraSeconds {
				return // the links inside are the brake: nothing to see of the NIC
			}
			rows = append(rows, Measured{gpus, 1 / Rate(want, byNode, nic), comm})
		}
		got, err := Fit("x", rows, want.Law, 1e9)
		if err != nil {
			t.Fatal(err)
		}
		for _, v := range [][2]float64{{got.ComputeSeconds, want.ComputeSeconds}, {got.IntraSeconds, want.IntraSeconds}, {got.Bytes, want.Bytes}} {
			if math.Abs(v[0]-v[1]) > 1e-6*math.Max(1, want.Bytes) && math.Abs(v[0]/v[1]-1) > 1e-6 {
				t.Fatalf("got %+v, want %+v", got, want)
			}
		}
	})
}

func TestFitNeedsMeasurements(t *testing.T) {
	for name, rows := range map[string][]Measured{
		"none":           nil,
		"one GPU only":   {{[]int{1}, 1, 0}, {[]int{1}, 1, 0}, {[]int{1}, 1, 0}},
		"no sound times": {{[]int{1}, 0, 0}, {[]int{1, 1}, -1, 0}},
	} {
		if m, err := Fit("x", rows, Law{}, 1e9); !errors.Is(err, ErrFit) {
			t.Errorf("%s: %+v, %v; want ErrFit", name, m, err)
		}
	}
}

// The zero law is linear; others grow less and charge for two nodes.
func TestLaw(t *testing.T) {
	for _, tc := range []struct {
		law         Law
		gpus, nodes int
		want        float64
	}{
		{Law{}, 4, 2, 4},
		{Law{Exponent: 0.5}, 4, 3, 2},
		{Law{TwoNodes: 1.5}, 2, 2, 3},
		{Law{TwoNodes: 1.5}, 2, 3, 2},
	} {
		if got := tc.law.Load(tc.gpus, tc.nodes); math.Abs(got-tc.want) > 1e-12 {
			t.Errorf("%+v with %d GPUs on %d nodes: %v, want %v", tc.law, tc.gpus, tc.nodes, got, tc.want)
		}
	}
}
