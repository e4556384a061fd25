// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"math"
)

// Net is a small feed-forward scorer with one output. An input x becomes
// (x - Mean) / Scale and passes through the layers; a net of one layer without
// an activation is linear. It says which inputs it wants by name, so that a
// file tells what it was trained on.
type Net struct {
	Inputs []string  `json:"inputs"`
	Mean   []float64 `json:"mean"`  // of each input, in its unit
	Scale  []float64 `json:"scale"` // of each input, in its unit, > 0
	Layers []Layer   `json:"layers"`
}

// Layer is y = activation(W x + B).
type Layer struct {
	In  int `json:"in"`
	Out int `json:"out"`
	// W is row by row: the weights of the first output, Out x In numbers.
	W          []float64  `json:"w"`
	B          []float64  `json:"b"` // Out numbers
	Activation Activation `json:"activation,omitempty"`
}

// Activation is what a layer does to its sums.
type Activation string

// The activations.
const (
	Identity Activation = ""
	Tanh     Activation = "tanh"
	ReLU     Activation = "relu"
)

// Term is what one input adds to a score.
type Term struct {
	Input string  `json:"input"`
	Value float64 `json:"value"` // of the input, in its unit
	Part  float64 `json:"part"`  // of the score
}

// Linear returns a linear net over the inputs whose score is always 0.
func Linear(inputs []string) Net {
	return Dense(inputs, Identity)
}

// Dense returns a net over the inputs, with hidden layers of the given widths
// and the activation, and a last layer without one. All its weights are 0.
func Dense(inputs []string, act Activation, hidden ...int) Net {
	n := Net{Inputs: inputs, Mean: make([]float64, len(inputs)), Scale: make([]float64, len(inputs))}
	for i := range n.Scale {
		n.Scale[i] = 1
	}
	in := len(inputs)
	for _, width := range hidden {
		n.Layers = append(n.Layers, layer(in, width, act))
		in = width
	}
	n.Layers = append(n.Layers, layer(in, 1, Identity))
	return n
}

func layer(in, out int, act Activation) Layer {
	return Layer{In: in, Out: out, W: make([]float64, in*out), B: make([]float64, out), Activation: act}
}

// Validate reports everything that would keep the net from giving a score.
func (n *Net) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	check(len(n.Inputs) > 0, "a net needs an input")
	seen := map[string]bool{}
	for _, name := range n.Inputs {
		check(name != "" && !seen[name], "input %q is empty or there twice", name)
		seen[name] = true
	}
	check(len(n.Mean) == len(n.Inputs) && len(n.Scale) == len(n.Inputs),
		"%d inputs with %d means and %d scales", len(n.Inputs), len(n.Mean), len(n.Scale))
	check(allFinite(n.Mean), "a mean is not a number")
	check(allFinite(n.Scale), "a scale is not a number")
	for i, s := range n.Scale {
		check(s > 0, "scale %d is %v, not positive", i, s)
	}
	check(len(n.Layers) > 0, "a net needs a layer")
	in := len(n.Inputs)
	for i, l := range n.Layers {
		check(l.In == in, "layer %d takes %d values, and there are %d", i, l.In, in)
		check(l.Out > 0 && len(l.W) == l.In*l.Out && len(l.B) == l.Out,
			"layer %d of %d x %d has %d weights and %d biases", i, l.Out, l.In, len(l.W), len(l.B))
		check(allFinite(l.W) && allFinite(l.B), "a weight of layer %d is not a number", i)
		check(l.Activation == Identity || l.Activation == Tanh || l.Activation == ReLU,
			"layer %d: there is no activation %q; there are tanh, relu and none", i, l.Activation)
		in = l.Out
	}
	check(in == 1, "the last layer gives %d values, not one score", in)
	return errors.Join(errs...)
}

func allFinite(v []float64) bool {
	for _, x := range v {
		if math.IsNaN(x) || math.IsInf(x, 0) {
			return false
		}
	}
	return true
}

// Score is the net's output for one value for each of its inputs. The net
// must be valid.
func (n *Net) Score(x []float64) float64 {
	at := n.scaled(x)
	for i := range n.Layers {
		at = n.Layers[i].apply(at)
	}
	return at[0]
}

func (n *Net) scaled(x []float64) []float64 {
	out := make([]float64, len(n.Inputs))
	for i := range out {
		out[i] = (x[i] - n.Mean[i]) / n.Scale[i]
	}
	return out
}

func (l *Layer) apply(x []float64) []float64 {
	out := make([]float64, l.Out)
	for o := range out {
		sum := l.B[o]
		for i, w := range l.W[o*l.In : (o+1)*l.In] {
			sum += w * x[i]
		}
		switch l.Activation {
		case Tanh:
			sum = math.Tanh(sum)
		case ReLU:
			sum = max(0, sum)
		}
		out[o] = sum
	}
	return out
}

// Params lists all weights: of each layer W, then B.
func (n *Net) Params() []float64 {
	var out []float64
	for _, l := range n.Layers {
		out = append(append(out, l.W...), l.B...)
	}
	return out
}

// SetParams is the inverse of Params. It changes the net's own slices.
func (n *Net) SetParams(p []float64) error {
	want := 0
	for _, l := range n.Layers {
		want += len(l.W) + len(l.B)
	}
	if len(p) != want {
		return fmt.Errorf("%d weights for a net that has %d", len(p), want)
	}
	for i := range n.Layers {
		l := &n.Layers[i]
		p = p[copy(l.W, p):]
		p = p[copy(l.B, p):]
	}
	return nil
}

// Clone returns a net that shares nothing with this one.
func (n *Net) Clone() Net {
	out := Net{Inputs: append([]string(nil), n.Inputs...), Mean: append([]float64(nil), n.Mean...), Scale: append([]float64(nil), n.Scale...)}
	for _, l := range n.Layers {
		l.W, l.B = append([]float64(nil), l.W...), append([]float64(nil), l.B...)
		out.Layers = append(out.Layers, l)
	}
	return out
}

// Terms says what each input adds to the score, in the order of Inputs: of a
// linear net the terms of its sum, which with the bias make the score; of
// others the slope of the score at x times the scaled input, which is the
// first-order part of it.
func (n *Net) Terms(x []float64) []Term {
	z := n.scaled(x)
	g := n.gradient(z)
	out := make([]Term, len(z))
	for i := range z {
		out[i] = Term{Input: n.Inputs[i], Value: x[i], Part: g[i] * z[i]}
	}
	return out
}

// gradient is the slope of the score in each scaled input.
func (n *Net) gradient(z []float64) []float64 {
	outs := make([][]float64, len(n.Layers))
	at := z
	for i := range n.Layers {
		at = n.Layers[i].apply(at)
		outs[i] = at
	}
	g := []float64{1}
	for i := len(n.Layers) - 1; i >= 0; i-- {
		l := &n.Layers[i]
		back := make([]float64, l.In)
		for o, y := range outs[i] {
			d := g[o] * l.slope(y)
			for k := range back {
				back[k] += d * l.W[o*l.In+k]
			}
		}
		g = back
	}
	return g
}

// slope is that of the activation where its value is y.
func (l *Layer) slope(y float64) float64 {
	switch l.Activation {
	case Tanh:
		return 1 - y*y
	case ReLU:
		if y <= 0 {
			return 0
		}
	}
	return 1
}
