// SPDX-License-Identifier: Apache-2.0

// Package onnx writes and reads scorers as ONNX models, so that a site can
// train one elsewhere and load it. It knows the few parts of the format that a
// feed-forward net needs, by their numbers in onnx.proto3 of ONNX 1.16
// (https://github.com/onnx/onnx/blob/v1.16.0/onnx/onnx.proto3), and refuses
// the rest by name. See docs/design/policy-life.md.
package onnx

import (
	"fmt"
	"math"

	"google.golang.org/protobuf/encoding/protowire"
)

// Numbers of fields, by message.
const (
	modelIR, modelProducer, modelGraph, modelOpset, modelMetadata = 1, 2, 7, 8, 14

	opsetDomain, opsetVersion = 1, 2
	entryKey, entryValue      = 1, 2

	graphNode, graphName, graphInitializer, graphInput, graphOutput = 1, 2, 5, 11, 12

	nodeInput, nodeOutput, nodeName, nodeOp, nodeAttribute, nodeDomain = 1, 2, 3, 4, 5, 7

	attrName, attrFloat, attrInt, attrTensor, attrType = 1, 2, 3, 5, 20
	attrTypeFloat, attrTypeInt                         = 1, 2

	tensorDims, tensorType, tensorFloats, tensorName, tensorRaw, tensorDoubles, tensorLocation = 1, 2, 4, 8, 9, 10, 14

	valueName, valueType         = 1, 2
	typeTensor                   = 1
	tensorElem, tensorShape      = 1, 2
	shapeDim, dimValue, dimParam = 1, 1, 2
)

// Element types.
const (
	typeFloat  = 1
	typeDouble = 11
)

// message is a protobuf message under construction.
type message []byte

func (m *message) bytes(n protowire.Number, b []byte) {
	*m = protowire.AppendBytes(protowire.AppendTag(*m, n, protowire.BytesType), b)
}

func (m *message) text(n protowire.Number, s string) { m.bytes(n, []byte(s)) }

func (m *message) number(n protowire.Number, v int) {
	*m = protowire.AppendVarint(protowire.AppendTag(*m, n, protowire.VarintType), uint64(v))
}

// field is one field of a message: bytes or a number, by its kind.
type field struct {
	number protowire.Number
	kind   protowire.Type
	bytes  []byte // of BytesType
	value  uint64 // of the others
}

// fields calls f for each field of the message.
func fields(b []byte, f func(field) error) error {
	for len(b) > 0 {
		number, kind, n := protowire.ConsumeTag(b)
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrNotONNX, protowire.ParseError(n))
		}
		b = b[n:]
		out := field{number: number, kind: kind}
		switch kind {
		case protowire.VarintType:
			out.value, n = protowire.ConsumeVarint(b)
		case protowire.Fixed32Type:
			var v uint32
			v, n = protowire.ConsumeFixed32(b)
			out.value = uint64(v)
		case protowire.Fixed64Type:
			out.value, n = protowire.ConsumeFixed64(b)
		case protowire.BytesType:
			out.bytes, n = protowire.ConsumeBytes(b)
		default:
			n = protowire.ConsumeFieldValue(number, kind, b)
		}
		if n < 0 {
			return fmt.Errorf("%w: %w", ErrNotONNX, protowire.ParseError(n))
		}
		b = b[n:]
		if err := f(out); err != nil {
			return err
		}
	}
	return nil
}

// numbers reads a repeated number, packed or one by one.
func (f *field) numbers(into []int64) ([]int64, error) {
	if f.kind == protowire.VarintType {
		return append(into, int64(f.value)), nil
	}
	for b := f.bytes; len(b) > 0; {
		v, n := protowire.ConsumeVarint(b)
		if n < 0 {
			return nil, fmt.Errorf("%w: %w", ErrNotONNX, protowire.ParseError(n))
		}
		into, b = append(into, int64(v)), b[n:]
	}
	return into, nil
}

// reals reads numbers of so many bytes, packed or one by one.
func (f *field) reals(into []float64, size int) ([]float64, error) {
	switch f.kind {
	case protowire.Fixed32Type:
		return append(into, float64(math.Float32frombits(uint32(f.value)))), nil
	case protowire.Fixed64Type:
		return append(into, math.Float64frombits(f.value)), nil
	case protowire.BytesType:
		return realsOf(f.bytes, into, size)
	}
	return nil, fmt.Errorf("%w: numbers of an unknown kind", ErrNotONNX)
}

// realsOf reads little-endian numbers of 4 or 8 bytes.
func realsOf(b []byte, into []float64, size int) ([]float64, error) {
	if len(b)%size != 0 {
		return nil, fmt.Errorf("%w: %d bytes are no whole numbers of %d bytes", ErrNotONNX, len(b), size)
	}
	for ; len(b) > 0; b = b[size:] {
		if size == 4 {
			v, _ := protowire.ConsumeFixed32(b)
			into = append(into, float64(math.Float32frombits(v)))
			continue
		}
		v, _ := protowire.ConsumeFixed64(b)
		into = append(into, math.Float64frombits(v))
	}
	return into, nil
}
