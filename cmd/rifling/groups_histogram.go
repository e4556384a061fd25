// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"

	"rifling/profile"
	"rifling/report"
	"rifling/store"
)

const binsFormat = "from,to,families,jobs,centre"

// binWidth is the width of a bar of the histogram in log cc: two bars for each
// doubling of the ratio.
var binWidth = math.Log(2) / 2

// bin is one bar: families whose ratio lies from From up to To.
type bin struct {
	From, To       float64 // ratios; of unknown families both 0
	Families, Jobs int
	Centres        []string // numbers of the groups whose centre lies here
}

// bins counts the families by their own ratio, from the least to the greatest
// that there is, those of which no ratio is known last. What is known from
// other users' jobs is no ratio of the family's own.
func (g *grouping) bins() []bin {
	if g == nil {
		return nil
	}
	lowest, highest := math.MaxInt, math.MinInt
	numbers := map[int]*bin{}
	at := func(logCC float64) *bin {
		n := int(math.Floor(logCC/binWidth + 1e-9))
		lowest, highest = min(lowest, n), max(highest, n)
		if numbers[n] == nil {
			numbers[n] = &bin{}
		}
		return numbers[n]
	}
	unknown := bin{}
	for i := range g.members {
		m, b := &g.members[i], &unknown
		if ownRatio(m) {
			b = at(m.LogCC)
		}
		b.Families++
		b.Jobs += m.Jobs
	}
	for _, x := range g.groups {
		b := at(x.Center)
		b.Centres = append(b.Centres, store.GroupName(x.Index))
	}
	var out []bin
	for n := lowest; n <= highest; n++ {
		b := bin{}
		if numbers[n] != nil {
			b = *numbers[n]
		}
		b.From, b.To = math.Exp(float64(n)*binWidth), math.Exp(float64(n+1)*binWidth)
		out = append(out, b)
	}
	if unknown.Families > 0 {
		out = append(out, unknown)
	}
	return out
}

// ownRatio reports whether the family's ratio was seen on its own jobs.
func ownRatio(m *store.Member) bool {
	return m.Level == profile.LevelJob || m.Level == profile.LevelFamily
}

func (b *bin) unknown() bool { return b.To == 0 }

// chart draws the bins, a column a family as long as they fit.
func chart(bins []bin) string {
	const columns = 50
	most := columns
	for i := range bins {
		most = max(most, bins[i].Families)
	}
	var out strings.Builder
	for i := range bins {
		b := &bins[i]
		bar := strings.Repeat("#", (b.Families*columns+most-1)/most)
		name := "unknown"
		if !b.unknown() {
			name = fmt.Sprintf("%6.2f to %6.2f", b.From, b.To)
		}
		mark := ""
		if len(b.Centres) > 0 {
			mark = "  * group " + strings.Join(b.Centres, ", ")
		}
		fmt.Fprintln(&out, strings.TrimRight(fmt.Sprintf("%16s %5d %s%s", name, b.Families, bar, mark), " "))
	}
	return out.String()
}

func binFields() []report.Field[bin] {
	return []report.Field[bin]{
		{Name: "From", Doc: "least ratio of the bar; empty for families of unknown ratio", Width: 8, Of: func(b *bin) report.Value { return edge(b, b.From) }},
		{Name: "To", Doc: "ratio that the bar ends below", Width: 8, Of: func(b *bin) report.Value { return edge(b, b.To) }},
		{Name: "Families", Doc: "families whose ratio, seen on their own jobs, lies there", Width: 8, Of: func(b *bin) report.Value { return report.Int(b.Families) }},
		{Name: "Jobs", Doc: "their jobs", Width: 7, Of: func(b *bin) report.Value { return report.Int(b.Jobs) }},
		{Name: "Centre", Doc: "groups whose centre lies there", Width: 8, Of: func(b *bin) report.Value { return report.Text(strings.Join(b.Centres, "+")) }},
	}
}

func edge(b *bin, ratio float64) report.Value {
	if b.unknown() {
		return report.None
	}
	return report.Float(ratio, 2)
}
