// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"encoding/json"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/agent"
)

// two is a net of two inputs with one hidden layer of two, worked out by hand
// below.
func two(act agent.Activation) agent.Net {
	n := agent.Dense([]string{"a", "b"}, act, 2)
	n.Mean, n.Scale = []float64{1, 0}, []float64{2, 1}
	_ = n.SetParams([]float64{1, 2, -1, 0.5 /* hidden */, 0.25, -0.5 /* biases */, 3, -2 /* out */, 0.1})
	return n
}

func TestScore(t *testing.T) {
	x := []float64{3, 0.5} // scaled: 1, 0.5; hidden sums: 2.25, -1.25
	for act, want := range map[agent.Activation]float64{
		agent.Identity: 3*2.25 + 2*1.25 + 0.1,
		agent.ReLU:     3*2.25 + 0.1,
		agent.Tanh:     3*math.Tanh(2.25) - 2*math.Tanh(-1.25) + 0.1,
	} {
		n := two(act)
		if got := n.Score(x); math.Abs(got-want) > 1e-12 {
			t.Errorf("%q: score %v, want %v", act, got, want)
		}
	}
}

func TestTermsOfALinearNetMakeItsScore(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := agent.Linear([]string{"a", "b", "c"})
		small := rapid.Float64Range(-100, 100)
		for i := range 3 {
			n.Mean[i], n.Scale[i] = small.Draw(t, "mean"), rapid.Float64Range(0.1, 10).Draw(t, "scale")
		}
		if err := n.SetParams(rapid.SliceOfN(small, 4, 4).Draw(t, "weights")); err != nil {
			t.Fatal(err)
		}
		x := rapid.SliceOfN(small, 3, 3).Draw(t, "x")
		sum := n.Layers[0].B[0]
		for _, term := range n.Terms(x) {
			sum += term.Part
		}
		if got := n.Score(x); math.Abs(got-sum) > 1e-6*(1+math.Abs(got)) {
			t.Errorf("score %v, terms add up to %v", got, sum)
		}
	})
}

// The terms of a network are slopes times scaled inputs.
func TestTermsAreSlopes(t *testing.T) {
	for _, act := range []agent.Activation{agent.Tanh, agent.ReLU} {
		n := two(act)
		x := []float64{2.2, 0.7}
		for i, term := range n.Terms(x) {
			const d = 1e-6
			up, down := []float64{x[0], x[1]}, []float64{x[0], x[1]}
			up[i] += d
			down[i] -= d
			want := (n.Score(up) - n.Score(down)) / (2 * d) * (x[i] - n.Mean[i])
			if math.Abs(term.Part-want) > 1e-4 {
				t.Errorf("%s: input %s adds %v, want %v", act, term.Input, term.Part, want)
			}
		}
	}
}

func TestNetSurvivesJSONAndClones(t *testing.T) {
	n := two(agent.Tanh)
	text, err := json.Marshal(n)
	if err != nil {
		t.Fatal(err)
	}
	var back agent.Net
	if err := json.Unmarshal(text, &back); err != nil {
		t.Fatal(err)
	}
	c := n.Clone()
	if diff := cmp.Diff(n, back) + cmp.Diff(n, c); diff != "" {
		t.Errorf("read back and cloned:\n%s", diff)
	}
	c.Layers[0].W[0]++
	if n.Layers[0].W[0] == c.Layers[0].W[0] {
		t.Error("a clone shares its weights")
	}
}

func TestNetThatCannotScoreIsInvalid(t *testing.T) {
	for name, tc := range map[string]struct {
		spoil func(n *agent.Net)
		want  string
	}{
		"no layer":          {func(n *agent.Net) { n.Layers = nil }, "needs a layer"},
		"two outputs":       {func(n *agent.Net) { n.Layers = n.Layers[:1] }, "gives 2 values"},
		"layers do not fit": {func(n *agent.Net) { n.Layers[1].In = 3 }, "takes 3 values, and there are 2"},
		"a weight too few":  {func(n *agent.Net) { n.Layers[0].W = n.Layers[0].W[:3] }, "has 3 weights"},
		"no number":         {func(n *agent.Net) { n.Layers[0].B[0] = math.NaN() }, "layer 0 is not a number"},
		"scale 0":           {func(n *agent.Net) { n.Scale[1] = 0 }, "scale 1 is 0"},
		"an input twice":    {func(n *agent.Net) { n.Inputs[1] = "a" }, `"a" is empty or there twice`},
		"unknown function":  {func(n *agent.Net) { n.Layers[0].Activation = "gelu" }, `no activation "gelu"`},
	} {
		t.Run(name, func(t *testing.T) {
			n := two(agent.ReLU)
			if err := n.Validate(); err != nil {
				t.Fatal(err)
			}
			tc.spoil(&n)
			if err := n.Validate(); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}
