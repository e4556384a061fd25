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

// Choose picks one of the choices: with chance Epsilon(state) any of those
// whose prior is within Params.Reach of the best, else the one of greatest value, subject to Params.Margin. Equal values go to
// the earlier choice. Without rng it never explores; without choices it
// returns the zero Pick. Each call with rng and two choices or more draws one
// number from rng, or two when it explores.
func (t *Table) Choose(state string, choices []Choice, rng *rand.Rand) Pick {
	if len(choices) == 0 {
		return Pick{}
	}
	if rng != nil && len(choices) > 1 && rng.Float64() < t.Epsilon(state) {
		if near := t.near(choices); len(near) > 1 {
			return t.pick(state, near[rng.IntN(len(near))], true)
		}
	}
	return t.pick(state, t.greedy(state, choices), false)
}

func (t *Table) pick(state string, c Choice, explored bool) Pick {
	v, n := t.Value(state, c)
	return Pick{Action: c.Action, Value: v, Visits: n, Explored: explored}
}

// near are the choices whose prior is within Reach of the best.
func (t *Table) near(choices []Choice) []Choice {
	best := math.Inf(-1)
	for _, c := range choices {
		best = max(best, prior(c))
	}
	out := make([]Choice, 0, len(choices))
	for _, c := range choices {
		if prior(c) >= best-t.params.Reach {
			out = append(out, c)
		}
	}
	return out
}

// greedy returns the choice of greatest prior, or another of greater value
// that is surely better: by Margin standard errors, each of the two tried
// Least times. Of several such it takes the one of greatest value.
func (t *Table) greedy(state string, choices []Choice) Choice {
	base := choices[0]
	for _, c := range choices[1:] {
		if prior(c) > prior(base) {
			base = c
		}
	}
	best := base
	baseValue, _ := t.Value(state, base)
	if t.params.Margin == 0 {
		best, baseValue = choices[0], math.Inf(-1)
	}
	bestValue := baseValue
	for _, c := range choices {
		v, _ := t.Value(state, c)
		if v > bestValue && (t.params.Margin == 0 || v-baseValue >= t.params.Margin*t.stdErr(state, c, base)) {
			best, bestValue = c, v
		}
	}
	return best
}

// stdErr is the standard error of the difference of two choices' values; it has
// no bound before both were tried Least times.
func (t *Table) stdErr(state string, a, b Choice) float64 {
	sum := 0.0
	for _, c := range []Choice{a, b} {
		e := t.cells[cell{state, c.Action}]
		if e == nil || e.Visits < t.params.Least {
			return math.Inf(1)
		}
		se := e.StdErr(t.params.Alpha)
		sum += se * se
	}
	return math.Sqrt(sum)
}

// Value returns the choice's value in the state and the visits that it rests
// on: its prior, and what was learned beyond the priors of its visits, taken
// with the weight of the visits against PriorWeight. Learning the difference
// rather than the value lets decisions that the prior tells apart, though the
// state does not, teach one cell.
func (t *Table) Value(state string, c Choice) (value float64, visits int) {
	e := t.cells[cell{state, c.Action}]
	if e == nil {
		return prior(c), 0
	}
	n := float64(e.Visits)
	return prior(c) + n*e.Gain()/(weight(c)+n), e.Visits
}

// weight is the visits that the prior counts for; 0 for what is no number of them.
func weight(c Choice) float64 {
	if !(c.PriorWeight > 0) || math.IsInf(c.PriorWeight, 1) {
		return 0
	}
	return c.PriorWeight
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
	Prior         float64       // of the action, when it was chosen
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
	if !finite(tr.Reward) || !finite(tr.Prior) {
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
	surprise := target - tr.Prior - e.Gain()
	e.Value += alpha * delta
	e.Prior += alpha * (tr.Prior - e.Prior)
	e.Var = (1 - alpha) * (e.Var + alpha*surprise*surprise)
	e.Visits++
	e.Changed = tr.At
	t.visits[tr.State]++
	return delta
}

func (t *Table) bestValue(state string, choices []Choice) float64 {
	best := math.Inf(-1)
	for _, c := range choices {
		best = max(best, t.level(state, c))
	}
	return best
}

// level is Value without regard to what the priors of the visits were: a mean
// of the prior and of what was seen, so that it stays within the rewards' range
// however often it is fed back.
func (t *Table) level(state string, c Choice) float64 {
	e := t.cells[cell{state, c.Action}]
	if e == nil {
		return prior(c)
	}
	w, n := weight(c), float64(e.Visits)
	return (w*prior(c) + n*e.Value) / (w + n)
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
		if finite(e.Value) && finite(e.Prior) && finite(e.Var) && e.Var >= 0 && e.Visits > 0 {
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
