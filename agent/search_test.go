// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rifling/agent"
)

// bowl is a badly conditioned quadratic with its minimum at 1, 2, 3, ...
func bowl(_ context.Context, _ int, w []float64) (float64, error) {
	sum := 0.0
	for i, x := range w {
		d := x - float64(i+1)
		sum += d * d * math.Pow(30, float64(i)/float64(len(w)-1))
	}
	return sum, nil
}

func search(dim int) *agent.Search {
	s := &agent.Search{Seed: 7, Start: make([]float64, dim), Steps: make([]float64, dim), Population: 12}
	for i := range s.Steps {
		s.Steps[i] = 1
	}
	return s
}

func TestSearchFindsTheMinimum(t *testing.T) {
	got, err := search(5).Run(t.Context(), 200, 2, bowl, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range got.Weights {
		if math.Abs(w-float64(i+1)) > 0.05 {
			t.Errorf("weight %d is %.3f, want %d: %v", i, w, i+1, got.Weights)
		}
	}
}

func TestSearchGoesOnWhereItWasBroken(t *testing.T) {
	whole := search(3)
	want, err := whole.Run(t.Context(), 30, 1, bowl, nil)
	if err != nil {
		t.Fatal(err)
	}
	broken := search(3)
	halt := errors.New("power cut")
	var kept []byte
	_, err = broken.Run(t.Context(), 30, 3, bowl, func(p agent.Progress) error {
		if p.Generation == 10 {
			kept, _ = json.Marshal(broken)
			return halt
		}
		return nil
	})
	if !errors.Is(err, halt) {
		t.Fatalf("the search ended with %v", err)
	}
	again := &agent.Search{}
	if err := json.Unmarshal(kept, again); err != nil {
		t.Fatal(err)
	}
	var resumed []bool
	got, err := again.Run(t.Context(), 30, 2, bowl, func(p agent.Progress) error {
		resumed = append(resumed, p.Resumed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("resumed search (-whole +resumed):\n%s", diff)
	}
	if slices.Index(resumed, false) != 11 {
		t.Errorf("measured anew from generation %d on, want 11", slices.Index(resumed, false))
	}
}

func TestCandidatesOfAGenerationShareItsNumber(t *testing.T) {
	s := search(2)
	seen := make([]int, 4)
	count := make(chan int, 4*s.Population)
	_, err := s.Run(t.Context(), 4, 4, func(ctx context.Context, g int, w []float64) (float64, error) {
		count <- g
		return bowl(ctx, g, w)
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	close(count)
	for g := range count {
		seen[g]++
	}
	if diff := cmp.Diff([]int{12, 12, 12, 12}, seen); diff != "" {
		t.Errorf("measurements by generation (-want +got):\n%s", diff)
	}
}

func TestSearchSaysWhyItFails(t *testing.T) {
	bad := errors.New("no such trace")
	tests := map[string]struct {
		search agent.Search
		cost   agent.Cost
		want   string
	}{
		"no weights":      {agent.Search{Population: 8}, bowl, "0 weights with 0 steps"},
		"too few":         {agent.Search{Start: []float64{1}, Steps: []float64{1}, Population: 2}, bowl, "at least 4"},
		"step of nothing": {agent.Search{Start: []float64{1}, Steps: []float64{0}, Population: 8}, bowl, "not positive"},
		"costs of another population": {
			agent.Search{Start: []float64{1}, Steps: []float64{1}, Population: 8, Costs: [][]float64{{1, 2}}}, bowl, "generation 0 has 2 costs",
		},
		"the cost fails": {
			agent.Search{Start: []float64{1}, Steps: []float64{1}, Population: 8},
			func(context.Context, int, []float64) (float64, error) { return 0, bad }, "generation 0: no such trace",
		},
		"a cost that is no number": {
			agent.Search{Start: []float64{1}, Steps: []float64{1}, Population: 8},
			func(context.Context, int, []float64) (float64, error) { return math.NaN(), nil }, "candidate 0 is not a number",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := tc.search.Run(t.Context(), 2, 2, tc.cost, nil)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestSearchEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	_, err := search(2).Run(ctx, 100, 2, func(ctx context.Context, g int, w []float64) (float64, error) {
		if g == 3 {
			cancel()
		}
		return bowl(ctx, g, w)
	}, nil)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
}
