// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"cmp"
	"maps"
	"math"
	"math/rand/v2"
	"slices"
	"time"
)

// Table is a table of action values, Q(state, action), learnt from transitions
// of any policy. It is not safe for concurrent use.
type Table struct {
	params  Params
	cells   map[cell]*Entry
	visits  map[string]int // by state
	refused int
}

type cell struct{ state, action string }

// NewTable returns an empty table. Params must be valid: see Params.Validate.
func NewTable(p Params) *Table {
	return &Table{params: p, cells: map[cell]*Entry{}, visits: map[string]int{}}
}

// Choice is an action that is possible now, with what is believed of it before
// any visit.
type Choice struct {
	Action      string
	Prior       float64 // value before any visit
	PriorWeight float64 // visits that the prior is worth, >= 0
}

// Pick is an action chosen.
type Pick struct {
	Action   string
	Value    float64
	Visits   int  // of the action in the state
	Explored bool // drawn at random to learn
}

// Choose picks one of the choices: with chance Epsilon(state) any of them,
// else the one of greatest value, subject to Params.Margin. Equal values go to
// the earlier choice. Without rng it never explores; without choices it
// returns the zero Pick. Each call with rng and two choices or more draws one
// number from rng, or two when it explores.
func (t *Table) Choose(state string, choices []Choice, rng *rand.Rand) Pick {
	if len(choices) == 0 {
		return Pick{}
	}
	if rng != nil && len(choices) > 1 && rng.Float64() < t.Epsilon(state) {
		return t.pick(state, choices[rng.IntN(len(choices))], true)
	}
	return t.pick(state, t.greedy(state, choices), false)
}

func (t *Table) pick(state string, c Choice, explored bool) Pick {
	v, n := t.Value(state, c)
	return Pick{Action: c.Action, Value: v, Visits: n, Explored: explored}
}

// greedy returns the choice of greatest value, or the one of greatest prior
// where the difference is within Margin standard errors.
func (t *Table) greedy(state string, choices []Choice) Choice {
	best, base := choices[0], choices[0]
	bestValue, _ := t.Value(state, best)
	for _, c := range choices[1:] {
		if v, _ := t.Value(state, c); v > bestValue {
			best, bestValue = c, v
		}
		if prior(c) > prior(base) {
			base = c
		}
	}
	baseValue, _ := t.Value(state, base)
	if t.params.Margin == 0 || best.Action == base.Action {
		return best
	}
	if bestValue-baseValue < t.params.Margin*t.stdErr(state, best, base) {
		return base
	}
	return best
}

// stdErr is the standard error of the difference of two choices' values. One
// visit has no variance yet, so there the error has no bound; a value that is
// the prior alone has none.
func (t *Table) stdErr(state string, a, b Choice) float64 {
	sum := 0.0
	for _, c := range []Choice{a, b} {
		switch e := t.cells[cell{state, c.Action}]; {
		case e == nil:
		case e.Visits == 1:
			return math.Inf(1)
		default:
			sum += e.Var / float64(e.Visits)
		}
	}
	return math.Sqrt(sum)
}

// Value returns the choice's value in the state, its prior counted as
// PriorWeight visits, and the visits that it rests on.
func (t *Table) Value(state string, c Choice) (value float64, visits int) {
	e := t.cells[cell{state, c.Action}]
	if e == nil {
		return prior(c), 0
	}
	w := c.PriorWeight
	if !(w > 0) || math.IsInf(w, 1) {
		w = 0
	}
	n := float64(e.Visits)
	return (w*prior(c) + n*e.Value) / (w + n), e.Visits
}

// prior is the choice's prior; one that is no finite number counts as 0.
func prior(c Choice) float64 {
	if !finite(c.Prior) {
		return 0
	}
	return c.Prior
}

// Transition is one decision and what came of it.
type Transition struct {
	State, Action string
	Reward        float64       // collected until the next decision, discounted to this one's time
	Elapsed       time.Duration // until the next decision
	Next          string        // the state then
	NextChoices   []Choice      // what was possible then
	Terminal      bool          // there was no next decision: Next is not looked at
	At            time.Time     // of the update, by the caller's clock
}

// Learn moves the value of the transition's action towards
//
//	Reward + exp(-Elapsed/Tau) * max over a of Q(Next, a)
//
// (Bellman's equation for a semi-Markov process) and returns the difference
// that it saw. The actions that lead to the transitions may come from any
// policy. A reward that is no finite number teaches nothing and is counted:
// see Refused.
func (t *Table) Learn(tr Transition) (delta float64) {
	if !finite(tr.Reward) {
		t.refused++
		return 0
	}
	target := tr.Reward
	if !tr.Terminal && len(tr.NextChoices) > 0 {
		target += t.discount(tr.Elapsed) * t.bestValue(tr.Next, tr.NextChoices)
	}
	key := cell{tr.State, tr.Action}
	e := t.cells[key]
	if e == nil {
		e = &Entry{State: tr.State, Action: tr.Action}
		t.cells[key] = e
	}
	alpha := max(t.params.Alpha, 1/(1+float64(e.Visits)))
	delta = target - e.Value
	e.Value += alpha * delta
	e.Var = (1 - alpha) * (e.Var + alpha*delta*delta)
	e.Visits++
	e.Changed = tr.At
	t.visits[tr.State]++
	return delta
}

func (t *Table) bestValue(state string, choices []Choice) float64 {
	best := math.Inf(-1)
	for _, c := range choices {
		v, _ := t.Value(state, c)
		best = max(best, v)
	}
	return best
}

func (t *Table) discount(elapsed time.Duration) float64 {
	return math.Exp(-float64(max(0, elapsed)) / float64(t.params.Tau))
}

// Discounted returns the discounted sum of a reward that flows at a constant
// rate for a time, normalised by tau: rate * (1 - exp(-elapsed/tau)). It lies
// between 0 and rate, so values made of it stay within the rate's own range.
func Discounted(rate float64, elapsed, tau time.Duration) float64 {
	switch {
	case elapsed <= 0:
		return 0
	case tau <= 0:
		return rate
	}
	return rate * -math.Expm1(-float64(elapsed)/float64(tau))
}

// Epsilon returns the chance of a random action in the state:
// EpsilonMin + (Epsilon - EpsilonMin) / (1 + visits of the state / EpsilonDecay).
func (t *Table) Epsilon(state string) float64 {
	p := t.params
	return p.EpsilonMin + (p.Epsilon-p.EpsilonMin)/(1+float64(t.visits[state])/p.EpsilonDecay)
}

// Entries returns a copy of all cells, by state, then action.
func (t *Table) Entries() []Entry {
	out := make([]Entry, 0, len(t.cells))
	for _, e := range t.cells {
		out = append(out, *e)
	}
	slices.SortFunc(out, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.State, b.State), cmp.Compare(a.Action, b.Action))
	})
	return out
}

// Restore replaces the table by the entries. Of two for the same cell the
// later counts; entries that no Learn could have made (values or variances
// that are no finite number, a negative variance, no visits) are left out.
func (t *Table) Restore(entries []Entry) {
	clear(t.cells)
	for _, e := range entries {
		if finite(e.Value) && finite(e.Var) && e.Var >= 0 && e.Visits > 0 {
			t.cells[cell{e.State, e.Action}] = &e
		}
	}
	clear(t.visits)
	for e := range maps.Values(t.cells) {
		t.visits[e.State] += e.Visits
	}
}

// Refused returns how many transitions Learn refused for their reward.
func (t *Table) Refused() int { return t.refused }

func finite(x float64) bool { return !math.IsNaN(x) && !math.IsInf(x, 0) }
