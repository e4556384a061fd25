// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"testing"

	"pgregory.net/rapid"
)

// alone is a NIC of 1 GB/s that no other job uses.
func alone(string) (float64, int) { return 1e9, 1 }

func TestRate(t *testing.T) {
	m := Model{Name: "m", ComputeSeconds: 0.5, Bytes: 1e9, IntraSeconds: 0.1}
	shared := func(busy string, sharers int) func(string) (float64, int) {
		return func(node string) (float64, int) {
			if node == busy {
				return 1e9, sharers
			}
			return 1e9, 1
		}
	}
	for name, tc := range map[string]struct {
		gpus    map[string]int
		nic     func(string) (float64, int)
		seconds float64 // of one iteration
	}{
		"one GPU only computes":                  {map[string]int{"a": 1}, alone, 0.5},
		"packed pays the links inside":           {map[string]int{"a": 4}, alone, 0.6},
		"two nodes with two GPUs each":           {map[string]int{"a": 2, "b": 2}, alone, 0.5 + 1.5*2},
		"four nodes with one GPU each":           {map[string]int{"a": 1, "b": 1, "c": 1, "d": 1}, alone, 0.5 + 1.5},
		"the busiest node holds up the rest":     {map[string]int{"a": 3, "b": 1}, alone, 0.5 + 1.5*3},
		"another job on a NIC halves it":         {map[string]int{"a": 2, "b": 2}, shared("b", 2), 0.5 + 1.5*2*2},
		"sharing where there is slack is free":   {map[string]int{"a": 3, "b": 1}, shared("b", 3), 0.5 + 1.5*3},
		"a packed job does not ask for the NIC":  {map[string]int{"a": 4}, nil, 0.6},
		"a node listed without GPUs is not used": {map[string]int{"a": 4, "b": 0}, alone, 0.6},
	} {
		t.Run(name, func(t *testing.T) {
			if got := 1 / Rate(m, tc.gpus, tc.nic); math.Abs(got-tc.seconds) > 1e-9 {
				t.Errorf("iteration takes %.4f s, want %.4f", got, tc.seconds)
			}
		})
	}
	if got := Rate(m, nil, alone); got != 0 {
		t.Errorf("rate without GPUs = %v, want 0", got)
	}
}

func TestFastNICIsNoFasterThanTheLinksInside(t *testing.T) {
	m := Model{ComputeSeconds: 0.5, Bytes: 1e6, IntraSeconds: 0.1}
	if got, want := Rate(m, map[string]int{"a": 2, "b": 2}, alone), PackedRate(m, 4); got > want {
		t.Errorf("spread rate %v above packed rate %v", got, want)
	}
}

func TestContends(t *testing.T) {
	nic := float64(DefaultNICBytesPerSecond)
	for name, tc := range map[string]struct {
		model string
		gpus  map[string]int
		want  bool
	}{
		"communication-bound and spread":  {"bert", map[string]int{"a": 4, "b": 4}, true},
		"communication-bound but packed":  {"bert", map[string]int{"a": 8}, false},
		"compute-bound and spread":        {"resnet50-large", map[string]int{"a": 2, "b": 2}, false},
		"a node without GPUs is no other": {"bert", map[string]int{"a": 8, "b": 0}, false},
	} {
		t.Run(name, func(t *testing.T) {
			m, ok := FindModel(tc.model)
			if !ok {
				t.Fatal("no such model")
			}
			if got := Contends(m, tc.gpus, nic); got != tc.want {
				t.Errorf("Contends = %v, want %v", got, tc.want)
			}
		})
	}
}

// The three classes lie clearly apart: log cc, seen across two nodes.
func TestModelsFormThreeClasses(t *testing.T) {
	if len(Models) < 6 {
		t.Fatalf("%d models", len(Models))
	}
	spread := map[string]int{"a": 2, "b": 2}
	for class, bounds := range [][2]float64{{0, 0.6}, {1, 3}, {6, 40}} {
		for _, m := range Models[class*3 : class*3+3] {
			comm := CommSeconds(m, spread, func(string) (float64, int) { return DefaultNICBytesPerSecond, 1 })
			cc := m.ComputeSeconds / comm
			if cc < bounds[0] || cc > bounds[1] {
				t.Errorf("%s: compute over communication = %.2f, want in %v", m.Name, cc, bounds)
			}
		}
	}
}

func TestShape(t *testing.T) {
	p := Placement{{"b", 1}, {"a", 4}, {"c", 2}}
	if got, want := p.Shape(), "4+2+1"; got != want {
		t.Errorf("shape %q, want %q", got, want)
	}
}

// More sharers never speed a job up, and no placement beats the packed one by
// more than the links inside the node cost it.
func TestRateProperties(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := rapid.SampledFrom(Models).Draw(t, "model")
		gpus := rapid.MapOfN(rapid.StringMatching("n[0-9]"), rapid.IntRange(1, 8), 1, 8).Draw(t, "gpus")
		sharers := rapid.IntRange(1, 5).Draw(t, "sharers")
		nic := func(n int) func(string) (float64, int) {
			return func(string) (float64, int) { return DefaultNICBytesPerSecond, n }
		}
		one, some, more := Rate(m, gpus, nic(1)), Rate(m, gpus, nic(sharers)), Rate(m, gpus, nic(sharers+1))
		if one < some || some < more {
			t.Fatalf("rates grow with sharers: %v, %v, %v", one, some, more)
		}
		if one <= 0 || one > 1/m.ComputeSeconds {
			t.Fatalf("rate %v beyond computing alone %v", one, 1/m.ComputeSeconds)
		}
	})
}
