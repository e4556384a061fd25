// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"time"

	"rifling/policy"
	"rifling/sim"
	"rifling/sim/run"
)

// robustTarget is by how many percent the mean JCT may be above Slurm's.
const robustTarget = 5

func cores() int { return runtime.GOMAXPROCS(0) }

// robust runs the policies where what they know or were made for is wrong, with
// the limits that a site starts with.
func robust(ctx context.Context, out io.Writer) error {
	usual := setting{8, 4, 50, "muri", true, 0.9, false}
	double, other := usual, usual
	double.load, other.mix = 1.8, "philly"
	cases := []struct {
		name   string
		at     setting
		change func(*run.Config)
		factor float64
	}{
		{"as usual", usual, nil, 1},
		{"run times wrong by a factor of 3", usual, nil, 3},
		{"counters wrong by a factor of 3", usual, func(c *run.Config) { c.Noise = 1.1 }, 1},
		{"a tenth of the nodes failing", usual, failing, 1},
		{"load doubled", double, nil, 1},
		{"an unseen mix", other, nil, 1},
	}
	seeds := seedsFrom(firstTest, testSeeds)
	fmt.Fprintf(out, "%d lists each; rifling trained and learned saw %s only. %% of mean JCT against Slurm +- standard error; longest wait against Slurm's, hours\n", testSeeds, usual)
	fmt.Fprintf(out, "%-34s", "")
	names := []string{"strict", "rule", "rifling cold", "rifling trained", "learned"}
	for _, n := range names {
		fmt.Fprintf(out, " %22s", n)
	}
	fmt.Fprintln(out)
	worst, starved := -100.0, 0
	for _, c := range cases {
		trials := []trial{{setting: c.at, policy: named("slurm"), change: c.change, bounded: true}}
		for _, n := range names {
			trials = append(trials, robustTrial(n, usual, c.at, c.change, c.factor))
		}
		got, err := runAllOf(ctx, trials, seeds)
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-34s", c.name)
		for i, n := range names {
			m, se := against(got[i+1], got[0], func(r ran) float64 { return r.jct })
			longer := longest(got[i+1]) - longest(got[0])
			fmt.Fprintf(out, "   %6.1f+-%-4.1f %+6.1f h", m, se, longer)
			if n != "strict" {
				worst = max(worst, m)
				if longer > starvationBound.Hours() {
					starved++
				}
			}
		}
		fmt.Fprintln(out)
	}
	fmt.Fprintf(out, "bar: robust value=%.1f%% target=%+d%% %s\n", worst, robustTarget, verdict(worst <= robustTarget))
	fmt.Fprintf(out, "bar: robust/starved value=%d target=0 %s\n", starved, verdict(starved == 0))
	return nil
}

// starvationBound is by how much the longest wait may exceed Slurm's: two days,
// the default of limits.starvation.
const starvationBound = 48 * time.Hour

func longest(r []ran) float64 {
	most := 0.0
	for _, x := range r {
		most = max(most, x.longest/3600)
	}
	return most
}

// robustTrial is the policy of that name; what rifling trained learned, it
// learned as usual.
func robustTrial(name string, usual, at setting, change func(*run.Config), factor float64) trial {
	t := trial{setting: at, change: change, bounded: true, blind: name == "strict"}
	known := map[string]string{"rifling cold": "rifling", "rifling trained": "rifling"}
	kind := name
	if k, ok := known[name]; ok {
		kind = k
	}
	t.policy = func() policy.Policy {
		p := named(kind)()
		if name == "rifling trained" {
			at := trial{setting: usual, bounded: true, policy: func() policy.Policy { return p }}
			for _, seed := range seedsFrom(firstTrain, trainSeeds) {
				if _, err := at.once(context.Background(), p, seed); err != nil {
					panic(err)
				}
			}
		}
		if factor != 1 {
			return wrong(p, factor)
		}
		return p
	}
	return t
}

// failing takes a tenth of the nodes, one at least, away for six hours of every
// twelve, another each time.
func failing(c *run.Config) {
	rng := rand.New(rand.NewPCG(c.Seed, 0xfa11))
	n := len(c.Spec.Nodes)
	for at := 3 * time.Hour; at < 240*time.Hour; at += 12 * time.Hour {
		for _, k := range rng.Perm(n)[:max(1, n/10)] {
			c.Spec.Outages = append(c.Spec.Outages, sim.Outage{Node: c.Spec.Nodes[k].Name, Down: at, Up: at + 6*time.Hour})
		}
	}
}
