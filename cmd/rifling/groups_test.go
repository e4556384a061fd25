// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"math"
	"testing"

	"rifling/cmd/internal/config"
	"rifling/profile"
	"rifling/store"
)

// aSite has been grouped more than once: a group came between two others.
func aSite() *grouping {
	g := &grouping{
		groups: []profile.Group{
			{Index: 0, Center: math.Log(0.4), Spread: 0.4, Members: 14},
			{Index: 3, Center: math.Log(1.7), Spread: 0.3, Members: 80},
			{Index: 1, Center: math.Log(12), Spread: 0.6, Members: 9},
		},
		at: t0, options: config.Default().Profile,
		drifts: map[int]store.Drift{0: {Last: -0.01, HasLast: true, Week: 0.2, HasWeek: true}, 1: {Last: 0.05, HasLast: true}},
	}
	add := func(n, group int, level profile.Level, cc, sd float64) {
		for i := range n {
			x := sd * (2*float64(i)/float64(max(1, n-1)) - 1)
			g.members = append(g.members, store.Member{Group: group, Family: fmt.Sprint("f", len(g.members)), Jobs: 2, Level: level, LogCC: math.Log(cc) + x, Count: 40})
		}
	}
	add(14, 0, profile.LevelFamily, 0.4, 0.5)
	add(80, 3, profile.LevelFamily, 1.7, 0.2)
	add(9, 1, profile.LevelJob, 12, 0.9)
	add(3, profile.GroupUnknown, profile.LevelCluster, 3, 0.1)
	add(5, profile.GroupUnknown, profile.LevelNone, 1, 0)
	add(2, 7, profile.LevelFamily, 0.9, 0) // of a group that is gone
	return g
}

func TestGroupsPage(t *testing.T) {
	var out bytes.Buffer
	a := &app{out: &out}
	if err := a.groupsPage(tableFlags{}, aSite()); err != nil {
		t.Fatal(err)
	}
	golden(t, "groups-page", out.String())
}

func TestEveryFamilyIsInOneBarAndOneRow(t *testing.T) {
	g := aSite()
	bars, rows, jobs := 0, 0, 0
	for _, b := range g.bins() {
		bars += b.Families
		jobs += b.Jobs
	}
	for _, r := range g.rows() {
		rows += r.families
	}
	if n := len(g.members); bars != n || rows != n || jobs != 2*n {
		t.Errorf("%d families in bars, %d in rows, %d jobs; want %d, %d and %d", bars, rows, jobs, n, n, 2*n)
	}
}
