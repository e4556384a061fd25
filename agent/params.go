// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"errors"
	"fmt"
	"time"
)

// Params are all hyper-parameters of tabular Q-learning. The paper publishes
// none of them: the defaults are ours (docs/design/agent.md).
type Params struct {
	// Alpha is the floor of the learning rate, 0 < Alpha <= 1. A cell's rate is
	// 1/(1+visits) until it falls to Alpha, so that the first visits are
	// averaged and later ones follow a cluster that changes.
	Alpha float64
	// Tau is the time in which a reward loses all but 1/e of its weight, > 0:
	// the discount of a step that took d is exp(-d/Tau).
	Tau time.Duration
	// Epsilon is the chance of a random action in a state never seen, 0..1.
	// 0 never explores.
	Epsilon float64
	// EpsilonMin is what that chance falls to, 0..Epsilon.
	EpsilonMin float64
	// EpsilonDecay is the number of visits of a state after which half of
	// Epsilon - EpsilonMin is gone, > 0.
	EpsilonDecay float64
	// Reach is how far below the best prior an action's prior may lie to be
	// tried at random, >= 0: what is expected to do harm is not tried.
	Reach float64
	// Margin is how many standard errors an action must be better than the one
	// that its prior calls best before the greedy choice leaves that one, >= 0.
	// 0 takes the greatest value as it is.
	Margin float64
	// Least is the visits that both must have had before, >= 0. It does not
	// count where Margin is 0.
	Least int
}

// DefaultParams returns the parameters that rifling ships with.
func DefaultParams() Params {
	return Params{
		Alpha:        0.05,
		Tau:          24 * time.Hour,
		Epsilon:      0.10,
		EpsilonMin:   0.01,
		EpsilonDecay: 50,
		Reach:        0.05,
		Margin:       2,
		Least:        8,
	}
}

// Validate reports every parameter that is out of its range.
func (p Params) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	// Written so that NaN fails each of them.
	check(p.Alpha > 0 && p.Alpha <= 1, "alpha %v is not in (0, 1]", p.Alpha)
	check(p.Tau > 0, "tau %v is not positive", p.Tau)
	check(p.Epsilon >= 0 && p.Epsilon <= 1, "epsilon %v is not in [0, 1]", p.Epsilon)
	check(p.EpsilonMin >= 0 && p.EpsilonMin <= p.Epsilon,
		"epsilon_min %v is not in [0, epsilon %v]", p.EpsilonMin, p.Epsilon)
	check(p.EpsilonDecay > 0, "epsilon_decay %v is not positive", p.EpsilonDecay)
	check(p.Reach >= 0, "reach %v is negative", p.Reach)
	check(p.Margin >= 0, "margin %v is negative", p.Margin)
	check(p.Least >= 0, "least %d visits are negative", p.Least)
	return errors.Join(errs...)
}
