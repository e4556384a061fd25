// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"encoding/binary"
	"errors"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/agent"
)

// draw makes a net with weights of every size.
func draw(r *rand.Rand, act agent.Activation, inputs int, hidden ...int) agent.Net {
	names := make([]string, inputs)
	for i := range names {
		names[i] = "input " + string(rune('a'+i))
	}
	net := agent.Dense(names, act, hidden...)
	p := net.Params()
	for i := range p {
		p[i] = r.NormFloat64()
	}
	if err := net.SetParams(p); err != nil {
		panic(err)
	}
	for i := range inputs {
		net.Mean[i], net.Scale[i] = r.NormFloat64(), math.Exp(r.NormFloat64())
	}
	return net
}

func TestNetsComeBackToTheLastBit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		r := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		act := rapid.SampledFrom([]agent.Activation{agent.Identity, agent.Tanh, agent.ReLU}).Draw(t, "activation")
		net := draw(r, act, rapid.IntRange(1, 9).Draw(t, "inputs"), rapid.SliceOfN(rapid.IntRange(1, 6), 0, 3).Draw(t, "hidden")...)
		b, err := Write(&net, map[string]string{"rifling.scorer": "place"})
		if err != nil {
			t.Fatal(err)
		}
		m, err := Read(b)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(net, m.Net); diff != "" {
			t.Fatal(diff)
		}
		if m.Metadata["rifling.scorer"] != "place" || m.Columns != len(net.Inputs) {
			t.Fatalf("metadata %v, %d columns", m.Metadata, m.Columns)
		}
	})
}

// Builders of models as other programs write them.

type builder struct {
	nodes, held []message
	outside     bool
}

func (b *builder) tensor(name string, kind int, dims []int, values ...float64) *builder {
	var m message
	for _, d := range dims {
		m.number(tensorDims, d)
	}
	m.number(tensorType, kind)
	m.text(tensorName, name)
	var packed []byte
	for _, v := range values {
		if kind == typeFloat {
			packed = binary.LittleEndian.AppendUint32(packed, math.Float32bits(float32(v)))
		} else {
			packed = binary.LittleEndian.AppendUint64(packed, math.Float64bits(v))
		}
	}
	if kind == typeFloat {
		m.bytes(tensorFloats, packed) // float_data, packed; the writer's own tests use raw_data
	} else {
		m.bytes(tensorRaw, packed)
	}
	if b.outside {
		m.number(tensorLocation, 1)
	}
	b.held = append(b.held, m)
	return b
}

func (b *builder) node(op, out string, inputs ...string) *builder {
	var attributes []message
	if name, ok := strings.CutSuffix(op, "/transB"); ok {
		op = name
		attributes = append(attributes, intAttribute("transB", 1), floatAttribute("alpha", 1), floatAttribute("beta", 1))
	}
	if name, ok := strings.CutSuffix(op, "/half"); ok {
		op = name
		attributes = append(attributes, floatAttribute("alpha", 0.5))
	}
	b.nodes = append(b.nodes, nodeOf(op, out, inputs, attributes))
	return b
}

func floatAttribute(name string, v float32) message {
	var m message
	m.text(attrName, name)
	m = append(m, byte(attrFloat<<3|5))
	m = binary.LittleEndian.AppendUint32(m, math.Float32bits(v))
	m.number(attrType, attrTypeFloat)
	return m
}

func (b *builder) model(out string) []byte {
	var g, m message
	for _, n := range b.nodes {
		g.bytes(graphNode, n)
	}
	for _, h := range b.held {
		g.bytes(graphInitializer, h)
	}
	g.bytes(graphInput, valueOf("x", 2))
	g.bytes(graphOutput, valueOf(out, 1))
	m.number(modelIR, 8)
	m.text(modelProducer, "pytorch")
	m.bytes(modelGraph, g)
	return m
}

func score(t *testing.T, b []byte, x ...float64) float64 {
	t.Helper()
	m, err := Read(b)
	if err != nil {
		t.Fatal(err)
	}
	m.Net.Inputs = []string{"a", "b"}
	if err := m.Net.Validate(); err != nil {
		t.Fatal(err)
	}
	return m.Net.Score(x)
}

func TestModelsOfOtherPrograms(t *testing.T) {
	// As torch.onnx writes nn.Sequential(Linear(2, 2), Tanh(), Linear(2, 1)).
	torch := func() *builder {
		return (&builder{}).
			tensor("0.weight", typeFloat, []int{2, 2}, 1, 2, 3, 4).tensor("0.bias", typeFloat, []int{2}, 0.5, -0.5).
			tensor("2.weight", typeFloat, []int{1, 2}, 2, 0.25).tensor("2.bias", typeFloat, []int{1}, 1).
			node("Gemm/transB", "h", "x", "0.weight", "0.bias").node("Tanh", "t", "h").node("Gemm/transB", "y", "t", "2.weight", "2.bias")
	}
	want := 2*math.Tanh(1*0.1+2*0.2+0.5) + 0.25*math.Tanh(3*0.1+4*0.2-0.5) + 1
	if got := score(t, torch().model("y"), 0.1, 0.2); math.Abs(got-want) > 1e-12 {
		t.Errorf("Gemm: %v, want %v", got, want)
	}
	// As MatMul and Add, with the inputs centred, and weights in x out.
	matmul := (&builder{}).
		tensor("m", typeDouble, []int{1, 2}, 1, 2).tensor("s", typeDouble, []int{1}, 2).
		tensor("w", typeDouble, []int{2, 1}, 3, 5).tensor("b", typeDouble, []int{1}, 7).
		node("Sub", "c", "x", "m").node("Mul", "z", "s", "c").node("MatMul", "p", "z", "w").node("Add", "y", "b", "p")
	if got, want := score(t, matmul.model("y"), 4, 8), 3*2*(4-1)+5*2*(8-2)+7.0; math.Abs(got-want) > 1e-12 {
		t.Errorf("MatMul: %v, want %v", got, want)
	}
}

func TestModelsThatAreRefused(t *testing.T) {
	linear := func() *builder {
		return (&builder{}).tensor("w", typeFloat, []int{1, 2}, 1, 2).tensor("b", typeFloat, []int{1}, 1).tensor("big", typeFloat, []int{3}, 1, 1, 1)
	}
	tests := map[string]struct {
		model []byte
		is    error
		says  string
	}{
		"text":                          {[]byte("hello, this is no protobuf"), ErrNotONNX, ""},
		"nothing":                       {nil, ErrNotONNX, "no graph"},
		"an operator that is not known": {linear().node("Gemm/transB", "h", "x", "w", "b").node("Softmax", "y", "h").model("y"), ErrUnsupported, "Softmax"},
		"a sigmoid":                     {linear().node("Gemm/transB", "h", "x", "w", "b").node("Sigmoid", "y", "h").model("y"), ErrUnsupported, "Sigmoid"},
		"half of a product":             {linear().node("Gemm/half", "y", "x", "w").model("y"), ErrUnsupported, "alpha 0.5"},
		"a side branch":                 {linear().node("Gemm/transB", "h", "x", "w", "b").node("Tanh", "y", "x").model("y"), ErrUnsupported, "Tanh is not in one line"},
		"no layer":                      {linear().node("Tanh", "y", "x").model("y"), ErrUnsupported, "Tanh without a layer"},
		"no nodes":                      {linear().model("y"), ErrUnsupported, "no layer"},
		"two biases":                    {linear().node("Gemm/transB", "h", "x", "w", "b").node("Add", "y", "h", "b").model("y"), ErrUnsupported, "bias already"},
		"a bias of another shape":       {linear().node("Gemm/transB", "y", "x", "w", "big").model("y"), ErrUnsupported, "3 biases for 1"},
		"weights that are not held":     {linear().node("Gemm/transB", "y", "x", "v", "b").model("y"), ErrUnsupported, `"v"`},
		"weights in another file":       {(&builder{outside: true}).tensor("w", typeFloat, []int{1, 2}).node("Gemm/transB", "y", "x", "w").model("y"), ErrUnsupported, "external_data=False"},
		"too few numbers":               {(&builder{}).tensor("w", typeFloat, []int{1, 2}, 1).node("Gemm/transB", "y", "x", "w").model("y"), ErrNotONNX, "1 numbers for a shape of [1 2]"},
		"whole numbers as weights":      {(&builder{}).tensor("w", 7, []int{1, 2}).node("Gemm/transB", "y", "x", "w").model("y"), ErrUnsupported, "no constant of type float or double"},
		"scaled after the layer":        {linear().node("Gemm/transB", "h", "x", "w", "b").node("Mul", "y", "h", "b").model("y"), ErrUnsupported, "Mul"},
		"divided before it is centred":  {linear().tensor("s", typeFloat, []int{2}, 2, 2).node("Div", "z", "x", "s").node("Sub", "c", "z", "s").node("Gemm/transB", "y", "c", "w").model("y"), ErrUnsupported, "Sub is more"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			_, err := Read(tc.model)
			if !errors.Is(err, tc.is) || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("error %v; want %v, saying %q", err, tc.is, tc.says)
			}
		})
	}
}

func FuzzRead(f *testing.F) {
	net := draw(rand.New(rand.NewPCG(1, 1)), agent.Tanh, 2, 2)
	b, err := Write(&net, nil)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add((&builder{}).tensor("w", typeFloat, []int{1, 2}, 1, 2).node("Gemm/transB", "y", "x", "w").model("y"))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := Read(b)
		if err != nil {
			return
		}
		if m.Net.Inputs == nil {
			for i := range m.Columns {
				m.Net.Inputs = append(m.Net.Inputs, string(rune('a'+i)))
			}
		}
		if m.Net.Validate() != nil {
			return // a scale of 0, or a weight that is no number
		}
		m.Net.Score(make([]float64, m.Columns))
		if _, err := Write(&m.Net, nil); err != nil {
			t.Fatal(err)
		}
	})
}
