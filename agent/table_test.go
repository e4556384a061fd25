// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func newTable(t testing.TB, change func(*Params)) *Table {
	t.Helper()
	p := DefaultParams()
	if change != nil {
		change(&p)
	}
	if err := p.Validate(); err != nil {
		t.Fatal(err)
	}
	return NewTable(p)
}

func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v within %v", what, got, want, tolerance)
	}
}

func actions(names ...string) []Choice {
	var out []Choice
	for _, n := range names {
		out = append(out, Choice{Action: n})
	}
	return out
}

// queue is a semi-Markov problem of two states, whose values can be computed:
// with a job at hand, "now" earns 0.4 at once and takes one hour to the next
// job; "wait" earns 0.1 over half an hour and leads to a good place, where
// "now" earns 1 and takes two hours. Rewards may be noisy.
type queue struct {
	state string
	noise float64
}

func (q *queue) step(action string, rng *rand.Rand) Transition {
	tr := Transition{State: q.state, Action: action, At: t0}
	switch {
	case q.state == "good":
		tr.Reward, tr.Elapsed, tr.Next = 1, 2*time.Hour, "poor"
	case action == "wait":
		tr.Reward, tr.Elapsed, tr.Next = 0.1, 30*time.Minute, "good"
	default:
		tr.Reward, tr.Elapsed, tr.Next = 0.4, time.Hour, "poor"
	}
	tr.Reward += q.noise * rng.NormFloat64()
	tr.NextChoices = q.choices(tr.Next)
	q.state = tr.Next
	return tr
}

func (q *queue) choices(state string) []Choice {
	if state == "good" {
		return actions("now")
	}
	return actions("now", "wait")
}

// fixedPoint solves Bellman's equation of the queue by value iteration.
func fixedPoint(tau time.Duration) map[string]float64 {
	d := func(t time.Duration) float64 { return math.Exp(-t.Hours() / tau.Hours()) }
	var now, wait, good float64
	for range 10000 {
		poor := max(now, wait)
		now, wait, good = 0.4+d(time.Hour)*poor, 0.1+d(30*time.Minute)*good, 1+d(2*time.Hour)*poor
	}
	return map[string]float64{"poor/now": now, "poor/wait": wait, "good/now": good}
}

func TestLearnConvergesToTheFixedPoint(t *testing.T) {
	tests := map[string]struct {
		noise, tolerance float64
		behave           func(rng *rand.Rand, tab *Table, q *queue) string
	}{
		"following its own epsilon-greedy choices": {
			tolerance: 1e-6,
			behave: func(rng *rand.Rand, tab *Table, q *queue) string {
				return tab.Choose(q.state, q.choices(q.state), rng).Action
			},
		},
		"off policy, from random actions": {
			tolerance: 1e-6,
			behave: func(rng *rand.Rand, _ *Table, q *queue) string {
				c := q.choices(q.state)
				return c[rng.IntN(len(c))].Action
			},
		},
		"off policy, with noisy rewards": {
			// Alpha 0.01 leaves a standard deviation of about 0.02.
			noise: 0.3, tolerance: 0.1,
			behave: func(rng *rand.Rand, _ *Table, q *queue) string {
				c := q.choices(q.state)
				return c[rng.IntN(len(c))].Action
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tab := newTable(t, func(p *Params) {
				p.Alpha, p.Epsilon, p.EpsilonMin, p.Margin, p.Tau = 0.01, 0.3, 0.3, 0, 2*time.Hour
			})
			rng := rand.New(rand.NewPCG(1, 2))
			q := &queue{state: "poor", noise: tt.noise}
			for range 60000 {
				tab.Learn(q.step(tt.behave(rng, tab, q), rng))
			}
			want := fixedPoint(tab.params.Tau)
			for _, e := range tab.Entries() {
				near(t, e.State+"/"+e.Action, e.Value, want[e.State+"/"+e.Action], tt.tolerance)
			}
			if got := tab.Choose("poor", q.choices("poor"), nil).Action; got != "wait" {
				t.Errorf("the learnt policy chooses %q, want wait (values %v)", got, want)
			}
		})
	}
}

func TestLearnOneStep(t *testing.T) {
	tab := newTable(t, func(p *Params) { p.Tau = time.Hour })
	tab.Restore([]Entry{{State: "b", Action: "x", Value: 0.2, Visits: 9}, {State: "b", Action: "y", Value: 0.8, Visits: 9}})
	tests := map[string]struct {
		tr   Transition
		want float64
	}{
		"an ended episode is worth its reward": {
			Transition{Reward: 0.3, Terminal: true, Next: "b", NextChoices: actions("x", "y")}, 0.3},
		"the best action that is possible next counts": {
			Transition{Reward: 0.3, Elapsed: time.Hour, Next: "b", NextChoices: actions("x", "y")}, 0.3 + 0.8/math.E},
		"one that is not possible does not": {
			Transition{Reward: 0.3, Elapsed: time.Hour, Next: "b", NextChoices: actions("x")}, 0.3 + 0.2/math.E},
		"the prior stands for a next state never seen": {
			Transition{Elapsed: time.Hour, Next: "new", NextChoices: []Choice{{Action: "x", Prior: 0.5, PriorWeight: 3}}}, 0.5 / math.E},
		"a clock that went back is no time": {
			Transition{Elapsed: -time.Hour, Next: "b", NextChoices: actions("y")}, 0.8},
		"nothing possible next is an end": {
			Transition{Reward: 0.1, Next: "b"}, 0.1},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tt.tr.State, tt.tr.Action = name, "a"
			near(t, "delta", tab.Learn(tt.tr), tt.want, 1e-12)
			v, n := tab.Value(name, Choice{Action: "a"})
			near(t, "value", v, tt.want, 1e-12)
			if n != 1 {
				t.Errorf("visits = %d, want 1", n)
			}
		})
	}
}

func TestLearnAveragesThenFollows(t *testing.T) {
	tab := newTable(t, func(p *Params) { p.Alpha = 0.1 })
	learn := func(r float64) { tab.Learn(Transition{State: "s", Action: "a", Reward: r, Terminal: true, At: t0}) }
	for _, r := range []float64{1, 0, 1, 0} {
		learn(r)
	}
	e := tab.Entries()[0]
	near(t, "mean of four", e.Value, 0.5, 1e-12)
	near(t, "variance of four", e.Var, 0.25, 1e-12)
	if e.Visits != 4 || !e.Changed.Equal(t0) {
		t.Errorf("visits %d, changed %v; want 4, %v", e.Visits, e.Changed, t0)
	}
	for range 200 {
		learn(-1)
	}
	e = tab.Entries()[0]
	near(t, "value after the cluster changed", e.Value, -1, 1e-6)
	near(t, "variance after it settled", e.Var, 0, 1e-6)
}

func TestLearnRefusesWhatIsNoNumber(t *testing.T) {
	tab := newTable(t, nil)
	for _, r := range []float64{math.NaN(), math.Inf(1), math.Inf(-1)} {
		if d := tab.Learn(Transition{State: "s", Action: "a", Reward: r}); d != 0 {
			t.Errorf("Learn(%v) = %v, want 0", r, d)
		}
	}
	if len(tab.Entries()) != 0 || tab.Refused() != 3 {
		t.Errorf("%d entries and %d refused, want 0 and 3", len(tab.Entries()), tab.Refused())
	}
}

func TestPriorGivesWayToVisits(t *testing.T) {
	tab := newTable(t, nil)
	c := Choice{Action: "pack", Prior: 1, PriorWeight: 10}
	for i, want := range map[int]float64{0: 1, 10: 0.5, 90: 0.1} {
		tab.Restore([]Entry{{State: "s", Action: "pack", Value: 0, Prior: 1, Visits: i}})
		v, n := tab.Value("s", c)
		near(t, "value", v, want, 1e-12)
		if n != i {
			t.Errorf("visits = %d, want %d", n, i)
		}
	}
}

func TestChoose(t *testing.T) {
	entries := []Entry{
		{State: "s", Action: "pack", Value: 0.5, Prior: 0, Visits: 100, Var: 0.04},
		{State: "t", Action: "pack", Value: 0.5, Prior: 1, Visits: 100, Var: 0.04},
		{State: "t", Action: "even", Value: 0.51, Visits: 100, Var: 0.04},
		{State: "t", Action: "wait", Value: 0.9, Visits: 100, Var: 0.04},
		{State: "t", Action: "leaf", Value: 5, Visits: 7, Var: 0.04},
		{State: "s", Action: "even", Value: 0.51, Visits: 100, Var: 0.04},
		{State: "s", Action: "wait", Value: 0.9, Visits: 100, Var: 0.04},
		{State: "s", Action: "leaf", Value: 5, Visits: 1},
	}
	preferPack := func(names ...string) []Choice {
		c := actions(names...)
		for i := range c {
			if c[i].Action == "pack" {
				c[i].Prior = 1
			}
		}
		return c
	}
	tests := map[string]struct {
		state   string
		choices []Choice
		want    Pick
	}{
		"nothing offered, nothing chosen": {"s", nil, Pick{}},
		"the greatest value":              {"s", actions("pack", "even", "wait"), Pick{"wait", 0.9, 100, false}},
		"only what is offered":            {"s", actions("pack", "even"), Pick{"pack", 0.5, 100, false}}, // within the margin of the first
		"a difference within the error leaves the prior's choice": {
			"t", preferPack("even", "pack"), Pick{"pack", 0.5, 100, false}},
		"a clear difference overrules it":  {"t", preferPack("pack", "wait"), Pick{"wait", 0.9, 100, false}},
		"a few lucky visits prove nothing": {"t", preferPack("pack", "leaf"), Pick{"pack", 0.5, 100, false}},
		"of equals the first":              {"s", actions("new", "newer"), Pick{"new", 0, 0, false}},
		"priors alone decide where nothing was seen": {
			"s", []Choice{{"a", 0.1, 1}, {"b", 0.2, 1}}, Pick{"b", 0.2, 0, false}},
		"a prior that is no number counts as none": {
			"s", []Choice{{"a", math.NaN(), 1}, {"b", 0.2, math.NaN()}, {"c", math.Inf(1), math.Inf(1)}}, Pick{"b", 0.2, 0, false}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			tab := newTable(t, nil)
			tab.Restore(entries)
			if diff := cmp.Diff(tt.want, tab.Choose(tt.state, tt.choices, nil)); diff != "" {
				t.Errorf("Choose (-want +got):\n%s", diff)
			}
		})
	}
}

func TestEpsilonFallsWithVisits(t *testing.T) {
	tab := newTable(t, func(p *Params) { p.Epsilon, p.EpsilonMin, p.EpsilonDecay = 0.5, 0.1, 20 })
	near(t, "epsilon of a new state", tab.Epsilon("s"), 0.5, 1e-12)
	for range 20 {
		tab.Learn(Transition{State: "s", Action: "a", Terminal: true})
	}
	near(t, "epsilon half way", tab.Epsilon("s"), 0.3, 1e-12)
	near(t, "epsilon of another state", tab.Epsilon("other"), 0.5, 1e-12)
	tab.Restore([]Entry{{State: "s", Action: "a", Visits: 1e9}})
	near(t, "epsilon in the end", tab.Epsilon("s"), 0.1, 1e-6)
}

func TestExploresAsOftenAsEpsilonSays(t *testing.T) {
	tab := newTable(t, func(p *Params) { p.Epsilon, p.EpsilonMin = 0.2, 0.2 })
	rng := rand.New(rand.NewPCG(7, 7))
	const n = 20000
	explored := 0
	for range n {
		if tab.Choose("s", actions("a", "b", "c"), rng).Explored {
			explored++
		}
	}
	near(t, "share explored", float64(explored)/n, 0.2, 0.015) // 5 standard errors
}

// drawTransitions makes transitions among a few states and actions.
func drawTransitions(t *rapid.T) []Transition {
	state := rapid.SampledFrom([]string{"s0", "s1", "s2"})
	action := rapid.SampledFrom([]string{"a", "b", "c"})
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Transition {
		return Transition{
			State: state.Draw(t, "state"), Action: action.Draw(t, "action"), Next: state.Draw(t, "next"),
			Reward: rapid.Float64Range(-1, 1).Draw(t, "rate"), Terminal: rapid.Bool().Draw(t, "terminal"),
			Elapsed:     time.Duration(rapid.Int64Range(0, int64(24*time.Hour)).Draw(t, "elapsed")),
			NextChoices: drawChoices(t), At: t0,
		}
	}), 0, 60).Draw(t, "transitions")
}

func drawChoices(t *rapid.T) []Choice {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Choice {
		return Choice{
			Action:      rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(t, "action"),
			Prior:       rapid.Float64Range(-1, 1).Draw(t, "prior"),
			PriorWeight: rapid.Float64Range(0, 50).Draw(t, "weight"),
		}
	}), 0, 5).Draw(t, "choices")
}

func TestChooseReturnsOnlyWhatWasOffered(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		tab := NewTable(DefaultParams())
		for _, tr := range drawTransitions(t) {
			tab.Learn(tr)
		}
		choices := drawChoices(t)
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		got := tab.Choose("s1", choices, rng)
		if len(choices) == 0 {
			if got != (Pick{}) {
				t.Fatalf("chose %+v of nothing", got)
			}
			return
		}
		if !slices.ContainsFunc(choices, func(c Choice) bool { return c.Action == got.Action }) {
			t.Fatalf("chose %q, which was not offered: %v", got.Action, choices)
		}
	})
}

// What its prior calls harmful is never tried, and exploring finds all that it
// does not.
func TestExploringStaysWithinReach(t *testing.T) {
	tab := newTable(t, func(p *Params) { p.Epsilon, p.EpsilonMin, p.Reach = 1, 1, 0.05 })
	choices := []Choice{{"best", -0.1, 3}, {"near", -0.14, 3}, {"harmful", -0.16, 3}}
	rng := rand.New(rand.NewPCG(1, 1))
	seen := map[string]int{}
	for range 400 {
		seen[tab.Choose("s", choices, rng).Action]++
	}
	if seen["harmful"] > 0 || seen["best"] < 100 || seen["near"] < 100 {
		t.Errorf("tried %v", seen)
	}
}

// Two kinds of job share a state, and the prior tells them apart: the action is
// taken by those that come with a low prior. Nothing else is to be learned.
func TestWhatThePriorKnowsIsNotLearnedAgain(t *testing.T) {
	tab := newTable(t, nil)
	for range 50 {
		tab.Learn(Transition{State: "s", Action: "pack", Prior: -0.1, Reward: -0.1, Terminal: true})
		tab.Learn(Transition{State: "s", Action: "wait", Prior: -0.6, Reward: -0.6, Terminal: true})
	}
	got := tab.Choose("s", []Choice{{"pack", -0.4, 3}, {"wait", -0.3, 3}}, nil)
	if got.Action != "wait" || math.Abs(got.Value+0.3) > 1e-9 {
		t.Errorf("chose %+v, want wait at -0.3", got)
	}
}

// With rewards of at most |1| a unit time, normalised by Discounted, no value
// may leave [-1, 1]: that keeps priors and values on one scale.
func TestValuesStayInTheRangeOfTheRate(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := DefaultParams()
		tab := NewTable(p)
		for _, tr := range drawTransitions(t) {
			tr.Reward = Discounted(tr.Reward, tr.Elapsed, p.Tau)
			tab.Learn(tr)
		}
		for _, e := range tab.Entries() {
			if math.Abs(e.Value) > 1+1e-12 || e.Var < 0 || e.Visits < 1 {
				t.Fatalf("entry %+v", e)
			}
		}
	})
}

func TestRestoreGivesTheSameTable(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := NewTable(DefaultParams()), NewTable(DefaultParams())
		b.Learn(Transition{State: "gone", Action: "a", Reward: 1, Terminal: true})
		trs := drawTransitions(t)
		for _, tr := range trs {
			a.Learn(tr)
		}
		b.Restore(a.Entries())
		for _, tr := range trs { // and goes on alike
			if da, db := a.Learn(tr), b.Learn(tr); da != db {
				t.Fatalf("delta %v after restore, want %v", db, da)
			}
		}
		if diff := cmp.Diff(a.Entries(), b.Entries()); diff != "" {
			t.Fatalf("entries (-original +restored):\n%s", diff)
		}
		for _, s := range []string{"s0", "s1", "s2", "gone"} {
			if a.Epsilon(s) != b.Epsilon(s) {
				t.Fatalf("epsilon of %s is %v, want %v", s, b.Epsilon(s), a.Epsilon(s))
			}
		}
	})
}

func TestRestoreLeavesGarbageOut(t *testing.T) {
	tab := newTable(t, nil)
	good := Entry{State: "s", Action: "a", Value: 1, Visits: 2, Var: 0.1, Changed: t0}
	tab.Restore([]Entry{
		{State: "s", Action: "a", Value: 7, Visits: 1},
		good,
		{State: "s", Action: "nan", Value: math.NaN(), Visits: 1},
		{State: "s", Action: "inf", Var: math.Inf(1), Visits: 1},
		{State: "s", Action: "negative", Var: -1, Visits: 1},
		{State: "s", Action: "never", Visits: 0},
	})
	if diff := cmp.Diff([]Entry{good}, tab.Entries()); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

func TestSameSeedSameChoices(t *testing.T) {
	run := func(seed uint64) []string {
		tab := newTable(t, func(p *Params) { p.Epsilon = 0.5 })
		rng := rand.New(rand.NewPCG(seed, 0))
		q := &queue{state: "poor", noise: 0.1}
		var out []string
		for range 200 {
			a := tab.Choose(q.state, q.choices(q.state), rng).Action
			tab.Learn(q.step(a, rng))
			out = append(out, a)
		}
		return out
	}
	if diff := cmp.Diff(run(3), run(3)); diff != "" {
		t.Errorf("two runs of one seed differ:\n%s", diff)
	}
	if cmp.Equal(run(3), run(4)) {
		t.Error("two seeds gave the same run: the seed is not used")
	}
}

func TestDiscounted(t *testing.T) {
	tests := map[string]struct {
		rate         float64
		elapsed, tau time.Duration
		want         float64
	}{
		"no time, no reward":            {1, 0, time.Hour, 0},
		"a clock that went back":        {1, -time.Hour, time.Hour, 0},
		"one tau":                       {1, time.Hour, time.Hour, 1 - 1/math.E},
		"a cost":                        {-0.5, time.Hour, time.Hour, -0.5 * (1 - 1/math.E)},
		"for ever":                      {0.7, 1000 * time.Hour, time.Hour, 0.7},
		"the future does not count":     {0.7, time.Hour, 0, 0.7},
		"a short time keeps its digits": {1, time.Microsecond, 1000 * time.Hour, 1e-6 / 3.6e6},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			near(t, "Discounted", Discounted(tt.rate, tt.elapsed, tt.tau), tt.want, 1e-9*math.Abs(tt.want))
		})
	}
}
