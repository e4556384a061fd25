// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math"
	"math/rand/v2"
	"testing"
)

// at is a host with what is free on it.
func at(cpu int, left ...int) *host {
	h := &host{Host: &Host{CPU: 64000, MiB: 1000, GPUs: len(left), Type: "T4"}, cpu: cpu, mib: 1000, left: left}
	for _, l := range left {
		h.total += l
	}
	return h
}

func TestServes(t *testing.T) {
	for name, tc := range map[string]struct {
		pod  Pod
		want bool
	}{
		"a share of a GPU in use":        {Pod{CPU: 1, GPUs: 1, Milli: 400}, true},
		"a larger share":                 {Pod{CPU: 1, GPUs: 1, Milli: 600}, true},
		"the whole GPU":                  {Pod{CPU: 1, GPUs: 1, Milli: 1000}, true},
		"two, where one is free":         {Pod{CPU: 1, GPUs: 2, Milli: 1000}, false},
		"no GPU":                         {Pod{CPU: 9000}, true},
		"more CPUs than are free":        {Pod{CPU: 9001}, false},
		"more memory than there is":      {Pod{CPU: 1, MiB: 1001}, false},
		"its type among others":          {Pod{CPU: 1, GPUs: 1, Milli: 10, Types: "P100|T4"}, true},
		"another type":                   {Pod{CPU: 1, GPUs: 1, Milli: 10, Types: "P100"}, false},
		"without a GPU, whatever a type": {Pod{CPU: 1, Types: "P100"}, true},
	} {
		if got := at(9000, 500, 1000).serves(tc.pod); got != tc.want {
			t.Errorf("%s: serves = %v", name, got)
		}
	}
}

// Scores that were worked out by hand.
func TestScores(t *testing.T) {
	f := &filling{typed: []kind{
		{Pod{CPU: 1000, GPUs: 1, Milli: 600}, 0.5}, {Pod{CPU: 1000}, 0.25}, {Pod{CPU: 1000, GPUs: 2, Milli: 1000}, 0.25},
	}}
	policies := map[string]*PodPolicy{}
	for _, p := range FGD() {
		policies[p.Name] = p
	}
	half, one := Pod{CPU: 3200, GPUs: 1, Milli: 500}, Pod{CPU: 3200, GPUs: 1, Milli: 1000}
	used := at(64000, 500, 1000)
	used.classes[class(half)]++
	for name, tc := range map[string]struct {
		policy      string
		h           *host
		pod         Pod
		points, gpu int
	}{
		// 1 - (.5*.025 + .1875*.0625)/2
		"dot product":                {"dot product", used, half, 98, -1},
		"clustering with its own":    {"clustering", used, half, 75 + 25*6500/8000, -1},
		"clustering with others":     {"clustering", used, one, 25 * 6500 / 8000, -1},
		"clustering when empty":      {"clustering", at(64000, 1000, 1000), one, 25 + 25*6000/8000, -1},
		"clustering without GPUs":    {"clustering", used, Pod{CPU: 1}, 0, -1},
		"packing onto a used GPU":    {"packing", used, half, 95, -1},
		"packing onto a used host":   {"packing", used, one, 49, -1},
		"packing onto an empty host": {"packing", at(64000, 1000, 1000), one, 31, -1},
		// 1 - .5*(60800/128000 + 1000/8000)
		"best fit": {"best-fit", used, half, 70, -1},
		// Before, of 1500: .5*500 + .25*1500 + .25*1500 = 1000 are fragments.
		// On the first GPU: 1000 left, .5*0 + .25*1000 + .25*1000 = 500, so
		// 100/(1+exp(-.5)). On the second: 500 and 500, all 1000 are.
		"FGD":          {"FGD", used, half, 62, 0},
		"FGD, a whole": {"FGD", used, one, 62, -1},
	} {
		points, gpu := policies[tc.policy].score(f, tc.h, tc.pod)
		if points != tc.points || gpu != tc.gpu {
			t.Errorf("%s: %d points and GPU %d, want %d and %d", name, points, gpu, tc.points, tc.gpu)
		}
	}
}

func TestInflation(t *testing.T) {
	in := Inflation{Hosts: []Host{{CPU: 8000, GPUs: 2}, {CPU: 8000, GPUs: 2}}, Load: 2}
	for range 5 {
		in.Pods = append(in.Pods, Pod{CPU: 1000, GPUs: 1, Milli: 600})
	}
	for _, p := range FGD() {
		// Of 2.0 times 4 GPUs 13 pods of 0.6 come, and 4 fit.
		got, err := in.Run(p, rand.New(rand.NewPCG(1, 1)))
		if err == nil {
			t.Fatalf("%s: no error though 13 pods of .6 come to 195 %%, not 200: %v", p.Name, got)
		}
	}
	in.Load = 1.95
	for _, p := range FGD() {
		got, err := in.Run(p, rand.New(rand.NewPCG(1, 1)))
		if err != nil {
			t.Fatal(err)
		}
		if math.Abs(got-60) > 1e-9 {
			t.Errorf("%s: %v %% given away, want 60", p.Name, got)
		}
	}
	// More is asked for than is wanted: some pods are left out.
	in.Load = 0.6
	if got, err := in.Run(FGD()[5], rand.New(rand.NewPCG(1, 1))); err != nil || math.Abs(got-60) > 1e-9 {
		t.Errorf("%v %%, %v; want 60", got, err)
	}
}
