// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"

	"rifling/agent"
)

// What can be wrong with a model, told apart.
var (
	ErrNotONNX = errors.New("not an ONNX model")
	// ErrUnsupported says that the model does what a scorer cannot.
	ErrUnsupported = errors.New("this ONNX model is no scorer")
)

// Bounds of what is read: a scorer has some hundreds of weights.
const (
	mostBytes  = 16 << 20
	mostValues = 1 << 20
)

// Model is what was read.
type Model struct {
	// Net lacks the names of its inputs when the metadata did not tell them;
	// then Inputs is nil, and it is not valid yet.
	Net      agent.Net
	Columns  int // inputs
	Metadata map[string]string
}

// Read reads a model that Write wrote, or what PyTorch's exporters write for a
// stack of Linear, Tanh and ReLU: Gemm with alpha and beta 1, or MatMul and
// Add, weights as float or double, in the file itself. Sub, Div, Add and Mul
// with constants before the first layer become means and scales. Anything else
// is refused with its name.
func Read(b []byte) (*Model, error) {
	if len(b) > mostBytes {
		return nil, fmt.Errorf("%w: %d bytes are more than the %d of the largest that is read", ErrUnsupported, len(b), mostBytes)
	}
	var graph []byte
	meta := map[string]string{}
	err := fields(b, func(f field) error {
		switch f.number {
		case modelGraph:
			graph = f.bytes
		case modelMetadata:
			k, v, err := entryOf(f.bytes)
			meta[k] = v
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	if graph == nil {
		return nil, fmt.Errorf("%w: it has no graph", ErrNotONNX)
	}
	g, err := readGraph(graph)
	if err != nil {
		return nil, err
	}
	net, err := g.net()
	if err != nil {
		return nil, err
	}
	m := &Model{Net: net, Columns: net.Layers[0].In, Metadata: meta}
	if s, ok := meta[MetaSchema]; ok && s != schema {
		return nil, fmt.Errorf("%w: its inputs are of the schema %q, this release knows %s", ErrUnsupported, s, schema)
	}
	if names, ok := meta[MetaInputs]; ok {
		if err := json.Unmarshal([]byte(names), &m.Net.Inputs); err != nil {
			return nil, fmt.Errorf("%w: metadata %s: %w", ErrNotONNX, MetaInputs, err)
		}
		if err := m.Net.Validate(); err != nil {
			return nil, fmt.Errorf("%w: %w", ErrUnsupported, err)
		}
	}
	return m, nil
}

func entryOf(b []byte) (key, value string, err error) {
	err = fields(b, func(f field) error {
		switch f.number {
		case entryKey:
			key = string(f.bytes)
		case entryValue:
			value = string(f.bytes)
		}
		return nil
	})
	return key, value, err
}

// graph is what is needed of a GraphProto.
type graph struct {
	nodes   []node
	held    map[string]tensor
	inputs  []string
	outputs []string
}

type node struct {
	op, domain      string
	inputs, outputs []string
	ints            map[string]int64
	floats          map[string]float64
	value           *tensor // of Constant
}

type tensor struct {
	dims   []int64
	values []float64
}

func readGraph(b []byte) (*graph, error) {
	g := &graph{held: map[string]tensor{}}
	err := fields(b, func(f field) error {
		switch f.number {
		case graphNode:
			n, err := readNode(f.bytes)
			g.nodes = append(g.nodes, n)
			return err
		case graphInitializer:
			name, t, err := readTensor(f.bytes)
			g.held[name] = t
			return err
		case graphInput, graphOutput:
			name, _, err := entryOf(f.bytes) // the name is a value's first field too
			if f.number == graphInput {
				g.inputs = append(g.inputs, name)
			} else {
				g.outputs = append(g.outputs, name)
			}
			return err
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	// Older exporters list the weights among the inputs.
	g.inputs = slices.DeleteFunc(g.inputs, func(n string) bool { _, held := g.held[n]; return held })
	if len(g.inputs) != 1 || len(g.outputs) != 1 {
		return nil, fmt.Errorf("%w: it has %d inputs and %d outputs, a scorer one of each", ErrUnsupported, len(g.inputs), len(g.outputs))
	}
	return g, nil
}

func readNode(b []byte) (node, error) {
	n := node{ints: map[string]int64{}, floats: map[string]float64{}}
	err := fields(b, func(f field) error {
		switch f.number {
		case nodeInput:
			n.inputs = append(n.inputs, string(f.bytes))
		case nodeOutput:
			n.outputs = append(n.outputs, string(f.bytes))
		case nodeOp:
			n.op = string(f.bytes)
		case nodeDomain:
			n.domain = string(f.bytes)
		case nodeAttribute:
			return n.attribute(f.bytes)
		}
		return nil
	})
	return n, err
}

func (n *node) attribute(b []byte) error {
	name := ""
	var i *int64
	var x *float64
	err := fields(b, func(f field) error {
		switch f.number {
		case attrName:
			name = string(f.bytes)
		case attrInt:
			v := int64(f.value)
			i = &v
		case attrFloat:
			v := float64(math.Float32frombits(uint32(f.value)))
			x = &v
		case attrTensor:
			_, t, err := readTensor(f.bytes)
			n.value = &t
			return err
		}
		return nil
	})
	if i != nil {
		n.ints[name] = *i
	}
	if x != nil {
		n.floats[name] = *x
	}
	return err
}

func readTensor(b []byte) (string, tensor, error) {
	var t tensor
	name, kind, outside := "", uint64(0), false
	var raw []byte
	err := fields(b, func(f field) (err error) {
		switch f.number {
		case tensorDims:
			t.dims, err = f.numbers(t.dims)
		case tensorType:
			kind = f.value
		case tensorName:
			name = string(f.bytes)
		case tensorRaw:
			raw = f.bytes
		case tensorFloats:
			t.values, err = f.reals(t.values, 4)
		case tensorDoubles:
			t.values, err = f.reals(t.values, 8)
		case tensorLocation:
			outside = f.value != 0
		}
		return err
	})
	size := map[uint64]int{typeFloat: 4, typeDouble: 8}[kind]
	switch {
	case err != nil:
		return name, t, err
	case outside:
		return name, t, fmt.Errorf("%w: the weights of %q lie in another file; export with external_data=False", ErrUnsupported, name)
	case size == 0:
		return name, t, nil // of another type: an error where it is used
	case raw != nil:
		if t.values, err = realsOf(raw, nil, size); err != nil {
			return name, t, err
		}
	}
	want := int64(1)
	for _, d := range t.dims {
		if d < 0 || d > mostValues || want*d > mostValues {
			return name, t, fmt.Errorf("%w: %q is larger than a scorer's weights", ErrUnsupported, name)
		}
		want *= d
	}
	if int64(len(t.values)) != want {
		return name, t, fmt.Errorf("%w: %q has %d numbers for a shape of %v", ErrNotONNX, name, len(t.values), t.dims)
	}
	return name, t, nil
}

// chain follows one value through the graph and makes a net of what is done to
// it.
type chain struct {
	net          agent.Net
	held         map[string]tensor
	mean, scale  []float64 // of the inputs; nil until told
	activated    bool      // the last layer has its activation
	biased, open bool      // it has a bias; the next Add is one
}

func (g *graph) net() (agent.Net, error) {
	c := chain{held: maps.Clone(g.held)}
	at := g.inputs[0]
	for i := range g.nodes {
		n := &g.nodes[i]
		if n.domain != "" && n.domain != "ai.onnx" {
			return agent.Net{}, unsupported(n.domain + "." + n.op)
		}
		if n.op == "Constant" && n.value != nil && len(n.outputs) == 1 {
			c.held[n.outputs[0]] = *n.value
			continue
		}
		if len(n.outputs) != 1 || !slices.Contains(n.inputs, at) {
			return agent.Net{}, fmt.Errorf("%w: the operator %s is not in one line from the input to the output", ErrUnsupported, n.op)
		}
		if err := c.take(n, at); err != nil {
			return agent.Net{}, err
		}
		at = n.outputs[0]
	}
	if at != g.outputs[0] || len(c.net.Layers) == 0 {
		return agent.Net{}, fmt.Errorf("%w: no layer leads from the input to the output", ErrUnsupported)
	}
	in := c.net.Layers[0].In
	c.net.Mean, c.net.Scale = spread(c.mean, in, 0), spread(c.scale, in, 1)
	if c.net.Mean == nil || c.net.Scale == nil {
		return agent.Net{}, fmt.Errorf("%w: what is subtracted from or multiplied with the inputs has another shape", ErrUnsupported)
	}
	return c.net, nil
}

// spread makes one number for each input of one for all or of none; nil when
// that cannot be.
func spread(v []float64, n int, none float64) []float64 {
	switch {
	case len(v) == n:
		return v
	case v == nil:
		return slices.Repeat([]float64{none}, n)
	case len(v) == 1:
		return slices.Repeat(v, n)
	}
	return nil
}

func unsupported(op string) error {
	return fmt.Errorf("%w: the operator %s is not possible; there are Gemm, MatMul, Add, Tanh, Relu, and Sub, Mul and Div before the first layer", ErrUnsupported, op)
}

func (c *chain) take(n *node, at string) error {
	switch n.op {
	case "Identity":
		return nil
	case "Tanh", "Relu":
		return c.activate(n)
	case "Gemm":
		return c.gemm(n, at)
	case "MatMul":
		return c.matmul(n, at)
	case "Add":
		if len(c.net.Layers) > 0 {
			return c.bias(n, at)
		}
		return c.before(n, at)
	case "Sub", "Mul", "Div":
		if len(c.net.Layers) == 0 {
			return c.before(n, at)
		}
	}
	return unsupported(n.op)
}

func (c *chain) activate(n *node) error {
	if len(c.net.Layers) == 0 || c.activated {
		return fmt.Errorf("%w: %s without a layer before it", ErrUnsupported, n.op)
	}
	l := &c.net.Layers[len(c.net.Layers)-1]
	l.Activation = map[string]agent.Activation{"Tanh": agent.Tanh, "Relu": agent.ReLU}[n.op]
	c.activated, c.open = true, false
	return nil
}

// constant returns the input of the node with that number.
func (c *chain) constant(n *node, i int) (tensor, error) {
	if i >= len(n.inputs) {
		return tensor{}, fmt.Errorf("%w: %s lacks an input", ErrUnsupported, n.op)
	}
	t, ok := c.held[n.inputs[i]]
	if !ok || len(t.values) == 0 {
		return tensor{}, fmt.Errorf("%w: %s takes %q, which is no constant of type float or double", ErrUnsupported, n.op, n.inputs[i])
	}
	return t, nil
}

// other is the constant of an operator with two inputs, whichever it is.
func (c *chain) other(n *node, at string) (tensor, bool, error) {
	if len(n.inputs) != 2 {
		return tensor{}, false, fmt.Errorf("%w: %s with %d inputs", ErrUnsupported, n.op, len(n.inputs))
	}
	first := n.inputs[0] == at
	i := 0
	if first {
		i = 1
	}
	t, err := c.constant(n, i)
	return t, first, err
}

// before takes an operator on the inputs themselves. Only x - mean, then
// divided by the scale, is what a net does first.
func (c *chain) before(n *node, at string) error {
	t, first, err := c.other(n, at)
	if err != nil {
		return err
	}
	values := slices.Clone(t.values)
	switch {
	case n.op == "Sub" && first && c.mean == nil && c.scale == nil:
		c.mean = values
	case n.op == "Add" && c.mean == nil && c.scale == nil:
		for i := range values {
			values[i] = -values[i]
		}
		c.mean = values
	case n.op == "Div" && first && c.scale == nil:
		c.scale = values
	case n.op == "Mul" && c.scale == nil:
		for i := range values {
			values[i] = 1 / values[i]
		}
		c.scale = values
	default:
		return fmt.Errorf("%w: before the first layer a scorer subtracts once and then divides once; %s is more", ErrUnsupported, n.op)
	}
	return nil
}

// layer adds one with these weights, which are out x in, or in x out when
// turned.
func (c *chain) layer(op string, w tensor, turned bool) (*agent.Layer, error) {
	if len(w.dims) != 2 {
		return nil, fmt.Errorf("%w: %s with weights of the shape %v", ErrUnsupported, op, w.dims)
	}
	l := agent.Layer{Out: int(w.dims[0]), In: int(w.dims[1]), W: slices.Clone(w.values)}
	if turned {
		l.Out, l.In = l.In, l.Out
		for i := range l.W {
			l.W[i] = w.values[i%l.In*l.Out+i/l.In]
		}
	}
	if k := len(c.net.Layers); k > 0 && c.net.Layers[k-1].Out != l.In {
		return nil, fmt.Errorf("%w: a layer of %d values after one that gives %d", ErrUnsupported, l.In, c.net.Layers[k-1].Out)
	}
	l.B = make([]float64, l.Out)
	c.net.Layers = append(c.net.Layers, l)
	c.activated, c.open, c.biased = false, true, false
	return &c.net.Layers[len(c.net.Layers)-1], nil
}

func (c *chain) gemm(n *node, at string) error {
	for name, v := range n.floats {
		if v != 1 {
			return fmt.Errorf("%w: Gemm with %s %v", ErrUnsupported, name, v)
		}
	}
	if n.ints["transA"] != 0 || n.inputs[0] != at {
		return fmt.Errorf("%w: Gemm with the features as its second matrix or turned", ErrUnsupported)
	}
	w, err := c.constant(n, 1)
	if err != nil {
		return err
	}
	l, err := c.layer(n.op, w, n.ints["transB"] == 0)
	if err != nil || len(n.inputs) < 3 || n.inputs[2] == "" {
		return err
	}
	b, err := c.constant(n, 2)
	if err != nil {
		return err
	}
	return c.setBias(l, n.op, b)
}

func (c *chain) matmul(n *node, at string) error {
	w, first, err := c.other(n, at)
	if err != nil {
		return err
	}
	if !first {
		return fmt.Errorf("%w: MatMul with the features as its second matrix", ErrUnsupported)
	}
	_, err = c.layer(n.op, w, true)
	return err
}

func (c *chain) bias(n *node, at string) error {
	t, _, err := c.other(n, at)
	if err != nil {
		return err
	}
	if !c.open || c.biased {
		return fmt.Errorf("%w: Add where a layer has its bias already", ErrUnsupported)
	}
	return c.setBias(&c.net.Layers[len(c.net.Layers)-1], n.op, t)
}

func (c *chain) setBias(l *agent.Layer, op string, b tensor) error {
	v := spread(b.values, l.Out, 0)
	if v == nil {
		return fmt.Errorf("%w: %s with %d biases for %d values", ErrUnsupported, op, len(b.values), l.Out)
	}
	l.B, c.biased = slices.Clone(v), true
	return nil
}

func bitsOf(x float64) uint64 { return math.Float64bits(x) }

func sortedKeys(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
