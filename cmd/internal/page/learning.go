// SPDX-License-Identifier: Apache-2.0

package page

import (
	"cmp"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/cmd/internal/wording"
	"rifling/policy"
	"rifling/store"
)

// learningPage is how rates, rewards and queue went over a span of time.
type learningPage struct {
	Spans  []choiceLink
	Charts []*chart
	Points []pointRow
	Cells  int // of the learner's table
	Every  time.Duration
}

// pointRow is an interval in numbers, for those who do not see the charts.
type pointRow struct {
	At      time.Time
	ANPR    string
	Reward  string
	Rewards int
	Used    string
	Pending string
}

// maxPoints bounds the intervals that are listed.
const maxPoints = 200

func (s *Server) learning(q *request) error {
	if q.view == nil {
		return q.render("learning", "Learning", nil)
	}
	sp := spans[1]
	for _, c := range spans {
		if c.Key == q.URL.Query().Get("span") {
			sp = c
		}
	}
	now := q.view.Snapshot.TakenAt
	points, err := s.curves.get(q.Context(), s.o.History, now, sp)
	if err != nil {
		return err
	}
	st, err := s.o.History.Status(q.Context())
	if err != nil {
		return err
	}
	p := &learningPage{Cells: st.QEntries, Every: sp.every}
	for _, c := range spans {
		p.Spans = append(p.Spans, choiceLink{c.Name, q.with("span", c.Key), c.Key == sp.Key})
	}
	for _, sr := range []series{
		{title: "Processing rate (ANPR)", value: func(c *store.CurvePoint) (float64, bool) { return c.ANPR, c.ANPRGPUs > 0 }, ceiling: 1, digits: 2},
		{title: "Reward", value: func(c *store.CurvePoint) (float64, bool) { return c.Reward, c.Rewards > 0 }, floor: -0.1, digits: 3},
		{title: "GPUs in use", unit: " %", ceiling: 100, value: func(c *store.CurvePoint) (float64, bool) { return 100 * c.Used / c.GPUs, c.GPUs > 0 }},
		{title: "Waiting jobs", value: func(c *store.CurvePoint) (float64, bool) { return c.Pending, c.Cycles > 0 }, ceiling: 1},
	} {
		p.Charts = append(p.Charts, newChart(points, sr, sp, now, s.o.Zone))
	}
	for _, c := range points[max(0, len(points)-maxPoints):] {
		r := pointRow{At: c.At, ANPR: "–", Reward: "–", Rewards: c.Rewards, Used: "–", Pending: strconv.FormatFloat(c.Pending, 'f', 0, 64)}
		if c.ANPRGPUs > 0 {
			r.ANPR = strconv.FormatFloat(c.ANPR, 'f', 2, 64)
		}
		if c.Rewards > 0 {
			r.Reward = strconv.FormatFloat(c.Reward, 'f', 3, 64)
		}
		if c.GPUs > 0 {
			r.Used = strconv.Itoa(int(math.Round(100*c.Used/c.GPUs))) + " %"
		}
		p.Points = append(p.Points, r)
	}
	slices.Reverse(p.Points)
	return q.render("learning", "Learning", p)
}

// qtablePage is what the learner expects, state by state.
type qtablePage struct {
	States        []qState
	Pager         pager
	Groups        []string
	Group, Words  string
	Tried         bool
	Cells, Visits int
	Filtered      bool
}

// qState is a state with its actions, the best first.
type qState struct {
	Code, Words string
	Actions     []qAction
}

type qAction struct {
	Action   string
	Sentence string
	Value    float64
	Prior    float64 // what the rule expected of the same decisions
	Visits   int
	Bar      int // of 100: how bad it is beside the worst of all
	Best     bool
}

// statesPerPage is how many states are shown at once.
const statesPerPage = 25

func (s *Server) qtable(q *request) error {
	if q.view == nil {
		return q.render("qtable", "Q-table", nil)
	}
	entries, err := s.o.History.LoadTable(q.Context())
	if err != nil {
		return err
	}
	get := q.URL.Query().Get
	p := &qtablePage{Group: get("group"), Words: strings.TrimSpace(get("words")), Tried: get("tried") == "1", Cells: len(entries)}
	p.Filtered = p.Group != "" || p.Words != "" || p.Tried
	worst := 0.0
	states := map[string][]policy.QEntry{}
	for _, e := range entries {
		worst = max(worst, -e.Value)
		p.Visits += e.Visits
		states[e.State] = append(states[e.State], e)
	}
	var codes []string
	groups := map[string]bool{}
	for code, list := range states {
		g, _, _ := strings.Cut(code, " ")
		groups[strings.TrimPrefix(g, "g")] = true
		tried := slices.ContainsFunc(list, func(e policy.QEntry) bool { return e.Visits > 0 })
		if (p.Group == "" || g == "g"+p.Group) && hasWords(code, p.Words) && (tried || !p.Tried) {
			codes = append(codes, code)
		}
	}
	slices.Sort(codes)
	for g := range groups {
		p.Groups = append(p.Groups, g)
	}
	slices.Sort(p.Groups)
	var from, to int
	p.Pager, from, to = q.pager("Pages of states", len(codes), statesPerPage)
	for _, code := range codes[from:to] {
		p.States = append(p.States, newQState(code, states[code], worst))
	}
	return q.render("qtable", "Q-table", p)
}

func newQState(code string, list []policy.QEntry, worst float64) qState {
	slices.SortFunc(list, func(a, b policy.QEntry) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), cmp.Compare(a.Action, b.Action))
	})
	st := qState{Code: code, Words: wording.Sentence(wording.State(code))}
	for i, e := range list {
		a := qAction{
			Action: e.Action, Sentence: wording.Sentence(wording.Entry(e)), Value: e.Value, Prior: e.Prior, Visits: e.Visits, Best: i == 0,
		}
		if worst > 0 {
			a.Bar = int(math.Round(100 * max(0, -e.Value) / worst))
		}
		st.Actions = append(st.Actions, a)
	}
	return st
}

// hasWords reports whether all words of list are words of the state's code or
// of what it means.
func hasWords(code, list string) bool {
	text := " " + code + " " + strings.ToLower(wording.State(code))
	for _, w := range strings.Fields(strings.ToLower(list)) {
		if !strings.Contains(text, w) {
			return false
		}
	}
	return true
}
