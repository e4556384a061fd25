// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"testing"
)

// measured is one model and batch size on T4 nodes with a 50 Gb/s NIC (Pollux's
// published measurements), 4 GPUs on one node against 2 nodes with 2 each.
type measured struct {
	logCC     float64 // of the spread run
	packedCC  float64 // log, of the packed run
	retention float64 // spread over packed throughput
}

func readT4(t *testing.T) []measured {
	t.Helper()
	shared := os.Getenv("RIFLING_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "shared")
	}
	files, err := filepath.Glob(filepath.Join(shared, "placement", "pollux_t4_*.csv"))
	if err != nil {
		t.Fatal(err)
	}
	type times struct{ step, sync float64 }
	var out []measured
	for _, file := range files {
		runs := map[string]map[string]times{"4": {}, "22": {}}
		for _, row := range readCSV(t, file) {
			if row["placement"] == "" || runs[row["placement"]] == nil {
				continue // the tables of scalability have other columns
			}
			runs[row["placement"]][row["local_bsz"]] = times{number(t, row["step_time"]), number(t, row["sync_time"])}
		}
		for batch, p := range runs["4"] {
			if s, ok := runs["22"][batch]; ok {
				out = append(out, measured{
					logCC:     math.Log((s.step - s.sync) / s.sync),
					packedCC:  math.Log((p.step - p.sync) / p.sync),
					retention: p.step / s.step,
				})
			}
		}
	}
	if len(out) == 0 {
		t.Skipf("no published measurements under %s (set RIFLING_SHARED)", shared)
	}
	return out
}

func readCSV(t *testing.T, file string) []map[string]string {
	t.Helper()
	f, err := os.Open(file)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	rows, err := csv.NewReader(f).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]string
	for _, r := range rows[1:] {
		m := map[string]string{}
		for i, v := range r {
			m[rows[0][i]] = v
		}
		out = append(out, m)
	}
	return out
}

func number(t *testing.T, s string) float64 {
	t.Helper()
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// explained is the share of the variance of retention that lies between groups.
func explained(ms []measured, groups []Group, of func(measured) float64) float64 {
	b := &Book{book: book{groups: groups}}
	var all []weighted
	parts := make([][]weighted, len(groups))
	for _, m := range ms {
		p := weighted{m.retention, 1}
		all = append(all, p)
		g := b.groupOf(of(m))
		parts[g] = append(parts[g], p)
	}
	return 1 - cost(parts)/cost([][]weighted{all})
}

// Groups by log cc, seen across nodes, must tell the slowdown that placement
// causes. Measured: k = 2 explains 0.81, k = 3 0.89 of its variance; seen on
// one node, k = 3 explains much less, which is why the two are kept apart.
func TestGroupsExplainMeasuredSlowdown(t *testing.T) {
	ms := readT4(t)
	across := func(m measured) float64 { return m.logCC }
	inside := func(m measured) float64 { return m.packedCC }
	figure := func(k int, of func(measured) float64) float64 {
		var points []weighted
		for _, m := range ms {
			points = append(points, weighted{of(m), 1})
		}
		groups := group(points, k, DefaultOptions().MinGap)
		e := explained(ms, groups, of)
		for _, g := range groups {
			t.Logf("k=%d: group %d, centre cc %.2f, %d members", k, g.Index, math.Exp(g.Center), g.Members)
		}
		t.Logf("k=%d explains %.3f of the variance of retention over %d points", k, e, len(ms))
		return e
	}
	near(t, "explained by k=2 across nodes", figure(2, across), 0.81, 0.02)
	three := figure(3, across)
	near(t, "explained by k=3 across nodes", three, 0.89, 0.02)
	if packed := figure(3, inside); packed > three-0.1 {
		t.Errorf("seen on one node k=3 explains %.3f, no less than across nodes (%.3f)", packed, three)
	}
}

// The thresholds that ship must put the published groups where they belong:
// the one that keeps .44 of its throughput when spread is communication-bound,
// the one that keeps .97 compute-bound, the one between neither.
func TestDefaultThresholdsFitMeasuredGroups(t *testing.T) {
	ms := readT4(t)
	o := DefaultOptions()
	var points []weighted
	for _, m := range ms {
		points = append(points, weighted{m.logCC, 1})
	}
	groups := group(points, o.Groups, o.MinGap)
	if len(groups) != 3 {
		t.Fatalf("groups %+v, want 3", groups)
	}
	for i, g := range groups {
		cc := math.Exp(g.Center)
		if comm, comp := cc < o.CommBoundBelow, cc > o.ComputeBoundAbove; comm != (i == 0) || comp != (i == 2) {
			t.Errorf("group %d with cc %.2f: communication-bound %v, compute-bound %v", i, cc, comm, comp)
		}
	}
}
