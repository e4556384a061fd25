// SPDX-License-Identifier: Apache-2.0

package report

import (
	"encoding/json"
	"math"
	"strconv"
	"time"

	"rifling/slurm"
)

// Value is one cell: what people and scripts read, and what JSON holds.
type Value struct {
	text string
	json any
}

// None is a cell without a value: empty as text, null in JSON.
var None = Value{}

// Text is a word or sentence; empty stays empty.
func Text(s string) Value { return Value{text: s, json: s} }

// Int is a whole number.
func Int[T ~int | ~int64 | ~uint32](n T) Value {
	return Value{text: strconv.FormatInt(int64(n), 10), json: int64(n)}
}

// Float is a number with the given digits after the point in text and all of
// them in JSON. A number that is not finite is None.
func Float(x float64, digits int) Value {
	if math.IsNaN(x) || math.IsInf(x, 0) {
		return None
	}
	text := strconv.FormatFloat(x, 'f', digits, 64)
	if f, _ := strconv.ParseFloat(text, 64); f == 0 { // no "-0.00"
		text = strconv.FormatFloat(0, 'f', digits, 64)
	}
	return Value{text: text, json: x}
}

// Duration is written as Slurm does ("1-02:03:04") and as seconds in JSON.
func Duration(d time.Duration) Value {
	return Value{text: slurm.FormatDuration(d), json: d.Seconds()}
}

// Time is written as Slurm does ("2026-12-01T05:00:00"), in the location that
// t carries, and with its zone in JSON. The zero time is "Unknown" and null.
func Time(t time.Time) Value {
	if t.IsZero() {
		return Value{text: "Unknown"}
	}
	return Value{text: t.Format("2006-01-02T15:04:05"), json: t.Format(time.RFC3339)}
}

// Bool is yes or no, true or false in JSON.
func Bool(b bool) Value {
	if b {
		return Value{text: "yes", json: true}
	}
	return Value{text: "no", json: false}
}

// Nodes is a host list, a list of names in JSON.
func Nodes(nodes []string) Value {
	if nodes == nil {
		return None
	}
	return Value{text: slurm.CompressHosts(nodes), json: nodes}
}

// String returns the cell's text, made harmless.
func (v Value) String() string { return Clean(v.text) }

// MarshalJSON writes the cell.
func (v Value) MarshalJSON() ([]byte, error) { return json.Marshal(v.json) }
