// SPDX-License-Identifier: Apache-2.0

package onnx

import (
	"encoding/json"
	"fmt"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"rifling/agent"
)

// What an exported model is: opset 13 is the first with these operators in
// their present form, and IR version 7 the one that came with it.
const (
	opset     = 13
	irVersion = 7
	producer  = "rifling"
)

// Keys of the metadata that Write leaves and Read looks for.
const (
	MetaInputs = "rifling.inputs" // JSON: the names of the inputs, in their order
	MetaSchema = "rifling.schema" // "1"
	schema     = "1"
)

// Names of the model's input and output.
const (
	InputName  = "features" // double, batch x inputs
	OutputName = "score"    // double, batch x 1
)

// Write returns the net as an ONNX model: Sub and Div by its means and scales,
// then for each layer Gemm and Tanh or Relu, all in double precision. Metadata
// beside its own keys is written too.
func Write(net *agent.Net, metadata map[string]string) ([]byte, error) {
	if err := net.Validate(); err != nil {
		return nil, fmt.Errorf("write ONNX: %w", err)
	}
	names, err := json.Marshal(net.Inputs)
	if err != nil {
		return nil, fmt.Errorf("write ONNX: %w", err)
	}
	var m, set message
	m.number(modelIR, irVersion)
	m.text(modelProducer, producer)
	m.bytes(modelGraph, graphOf(net))
	set.text(opsetDomain, "")
	set.number(opsetVersion, opset)
	m.bytes(modelOpset, set)
	entry := func(key, value string) {
		var e message
		e.text(entryKey, key)
		e.text(entryValue, value)
		m.bytes(modelMetadata, e)
	}
	entry(MetaSchema, schema)
	entry(MetaInputs, string(names))
	for _, k := range sortedKeys(metadata) {
		entry(k, metadata[k])
	}
	return m, nil
}

func graphOf(net *agent.Net) message {
	var g message
	n := len(net.Inputs)
	at := InputName
	step := func(op, out string, inputs []string, attributes ...message) {
		g.bytes(graphNode, nodeOf(op, out, append([]string{at}, inputs...), attributes))
		at = out
	}
	hold := func(name string, values []float64, dims ...int) string {
		g.bytes(graphInitializer, tensorOf(name, values, dims))
		return name
	}
	g.text(graphName, producer)
	step("Sub", "centred", []string{hold("mean", net.Mean, n)})
	step("Div", "scaled", []string{hold("scale", net.Scale, n)})
	for i, l := range net.Layers {
		id := strconv.Itoa(i)
		sum := "sum" + id
		if i == len(net.Layers)-1 && l.Activation == agent.Identity {
			sum = OutputName
		}
		step("Gemm", sum, []string{hold("w"+id, l.W, l.Out, l.In), hold("b"+id, l.B, l.Out)}, intAttribute("transB", 1))
		out := "value" + id
		if i == len(net.Layers)-1 {
			out = OutputName
		}
		switch l.Activation {
		case agent.Tanh:
			step("Tanh", out, nil)
		case agent.ReLU:
			step("Relu", out, nil)
		}
	}
	g.bytes(graphInput, valueOf(InputName, n))
	g.bytes(graphOutput, valueOf(OutputName, 1))
	return g
}

func nodeOf(op, out string, inputs []string, attributes []message) message {
	var m message
	for _, in := range inputs {
		m.text(nodeInput, in)
	}
	m.text(nodeOutput, out)
	m.text(nodeName, out)
	m.text(nodeOp, op)
	for _, a := range attributes {
		m.bytes(nodeAttribute, a)
	}
	return m
}

func intAttribute(name string, v int) message {
	var m message
	m.text(attrName, name)
	m.number(attrInt, v)
	m.number(attrType, attrTypeInt)
	return m
}

func tensorOf(name string, values []float64, dims []int) message {
	var m message
	for _, d := range dims {
		m.number(tensorDims, d)
	}
	m.number(tensorType, typeDouble)
	m.text(tensorName, name)
	raw := make([]byte, 0, 8*len(values))
	for _, v := range values {
		raw = protowire.AppendFixed64(raw, bitsOf(v))
	}
	m.bytes(tensorRaw, raw)
	return m
}

// valueOf describes a matrix of doubles with so many columns and any number of
// rows.
func valueOf(name string, columns int) message {
	var m, kind, tensor, shape, batch, width message
	batch.text(dimParam, "batch")
	width.number(dimValue, columns)
	shape.bytes(shapeDim, batch)
	shape.bytes(shapeDim, width)
	tensor.number(tensorElem, typeDouble)
	tensor.bytes(tensorShape, shape)
	kind.bytes(typeTensor, tensor)
	m.text(valueName, name)
	m.bytes(valueType, kind)
	return m
}
