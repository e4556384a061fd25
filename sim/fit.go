// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"errors"
	"fmt"

	"gonum.org/v1/gonum/mat"
)

// Measured is one measured time of an iteration.
type Measured struct {
	GPUs []int   // by node
	Step float64 // seconds, an iteration
	Comm float64 // seconds of it that went to communicating; negative when not told
}

// ErrFit is the answer to measurements from which no model can be made.
var ErrFit = errors.New("too few measurements for a speed model")

// Fit finds the model whose ComputeSeconds, IntraSeconds and Bytes (on NICs of
// the given speed, bytes per second) are nearest to the measurements, by least
// squares over their errors relative to the step times, under the given law.
// None of the three comes out negative.
//
// Errors wrap ErrFit.
func Fit(name string, rows []Measured, law Law, nicSpeed float64) (Model, error) {
	var a, b []float64
	add := func(compute, intra, nic, value, step float64) {
		a = append(a, compute/step, intra/step, nic/step)
		b = append(b, value/step)
	}
	for _, r := range rows {
		if r.Step <= 0 {
			continue
		}
		intra, nic := commTerms(r.GPUs, law)
		add(1, intra, nic, r.Step, r.Step)
		if r.Comm >= 0 && intra+nic > 0 {
			add(0, intra, nic, r.Comm, r.Step)
		}
	}
	if len(b) < 3 {
		return Model{}, fmt.Errorf("%s: %w: %d", name, ErrFit, len(b))
	}
	var x mat.VecDense
	if err := x.SolveVec(mat.NewDense(len(b), 3, a), mat.NewVecDense(len(b), b)); err != nil {
		return Model{}, fmt.Errorf("%s: %w: placements of one kind only", name, ErrFit)
	}
	return Model{
		Name: name, Law: law, ComputeSeconds: max(0, x.AtVec(0)), IntraSeconds: max(0, x.AtVec(1)),
		Bytes: max(0, x.AtVec(2)) * nicSpeed,
	}, nil
}

// commTerms gives the factors of the seconds inside a node and of the seconds
// of one GPU's bytes on a NIC in a placement's communication.
func commTerms(gpusByNode []int, law Law) (intra, nic float64) {
	total, busiest, nodes := 0, 0, 0
	for _, g := range gpusByNode {
		total, busiest = total+g, max(busiest, g)
		if g > 0 {
			nodes++
		}
	}
	switch {
	case total < 2:
		return 0, 0
	case nodes == 1:
		return 1, 0
	}
	return 0, 2 * float64(total-1) / float64(total) * law.Load(busiest, nodes)
}
