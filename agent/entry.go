// SPDX-License-Identifier: Apache-2.0

package agent

import "time"

// Entry is one cell of a table, as it is kept and printed.
type Entry struct {
	State   string
	Action  string
	Value   float64   // expected discounted reward
	Visits  int       // updates that made it
	Var     float64   // exponentially weighted variance of the targets, same units as Value squared
	Changed time.Time // last update, by the caller's clock
}
