// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math"
	"time"
)

// Entry is one cell of a table, as it is kept and printed.
type Entry struct {
	State   string
	Action  string
	Value   float64   // expected discounted reward
	Prior   float64   // what the prior expected of the same decisions, averaged alike
	Visits  int       // updates that made it
	Var     float64   // exponentially weighted variance of target - prior, same units as Value squared
	Changed time.Time // last update, by the caller's clock
}

// Gain is by how much better the action did than its prior expected: what was
// learned.
func (e Entry) Gain() float64 { return e.Value - e.Prior }

// StdErr is the standard error of Gain. Weights fall with age, down to those of
// a rate alpha, so that the error of many visits does not fall for ever.
func (e Entry) StdErr(alpha float64) float64 {
	if e.Visits < 2 {
		return math.Inf(1)
	}
	n := min(float64(e.Visits), 2/alpha-1)
	return math.Sqrt(e.Var / n)
}
