// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
)

// deepShareRows reads {"0": {"model": …, "gpu_demand": …,
// "total_samples_to_train": …}, …}. Line counts the jobs.
type deepShareRows struct {
	dec          *json.Decoder
	open, closed bool
	line         int
}

func (d *deepShareRows) next() (Job, error) {
	if !d.open {
		d.open = true
		if t, err := d.dec.Token(); err != nil || t != json.Delim('{') {
			return Job{}, fmt.Errorf("%w: no JSON object of jobs", ErrFormat)
		}
	}
	if !d.dec.More() {
		if d.closed {
			return Job{}, io.EOF
		}
		d.closed = true
		if _, err := d.dec.Token(); err != nil {
			return Job{}, cut(err)
		}
		return Job{}, io.EOF
	}
	key, err := d.dec.Token()
	if err != nil {
		return Job{}, cut(err)
	}
	var v struct {
		Model   string  `json:"model"`
		GPUs    int     `json:"gpu_demand"`
		Samples float64 `json:"total_samples_to_train"`
	}
	d.line++
	if err := d.dec.Decode(&v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return Job{}, RowError{d.line, "field " + kind.Field + " has an odd type"}
		}
		return Job{}, cut(err)
	}
	id, _ := key.(string)
	return Job{Line: d.line, ID: id, GPUs: v.GPUs, Milli: 1000, Model: v.Model, Iterations: v.Samples,
		Wait: -1, Estimate: math.NaN(), Completed: true}, nil
}

// cut turns the end of the stream inside a value into what it is.
func cut(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}
