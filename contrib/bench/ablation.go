// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"rifling/agent"
	"rifling/policy"
	"rifling/sim/run"
)

// changed is the learner with one thing changed.
type changed struct {
	name   string
	params func(*agent.Params)
	learn  func(*policy.Rifling)
	config func(*run.Config)
	cold   bool
	plain  string // a policy's name instead
	none   bool   // no prior
}

var ablations = []changed{
	{name: "rule, no learning", plain: "rule"},
	{name: "rifling as shipped"},
	{name: "cold start", cold: true},
	{name: "no waiting", learn: func(r *policy.Rifling) { r.NoWait = true }},
	{name: "no prior", none: true},
	{name: "each family by itself", learn: func(r *policy.Rifling) { r.Ungrouped = true }},
	{name: "no groups in the state", learn: func(r *policy.Rifling) { r.Omit = []int{0} }},
	{name: "k = 1", config: inGroups(1)},
	{name: "k = 2", config: inGroups(2)},
	{name: "k = 3", config: inGroups(3)},
	{name: "k = 4", config: inGroups(4)},
	{name: "k = 5", config: inGroups(5)},
	{name: "state without nodes needed", learn: func(r *policy.Rifling) { r.Omit = []int{1} }},
	{name: "state without best shape", learn: func(r *policy.Rifling) { r.Omit = []int{3} }},
	{name: "state without NICs", learn: func(r *policy.Rifling) { r.Omit = []int{4} }},
	{name: "state without pressure", learn: func(r *policy.Rifling) { r.Omit = []int{5} }},
	{name: "alpha 0.02", params: func(p *agent.Params) { p.Alpha = 0.02 }},
	{name: "alpha 0.2", params: func(p *agent.Params) { p.Alpha = 0.2 }},
	{name: "tau 2 h", params: func(p *agent.Params) { p.Tau = 2 * time.Hour }, config: func(c *run.Config) { c.Tau = 2 * time.Hour }},
	{name: "margin 0", params: func(p *agent.Params) { p.Margin = 0 }},
	{name: "margin 1", params: func(p *agent.Params) { p.Margin = 1 }},
	{name: "explores all", params: func(p *agent.Params) { p.Reach = 1 }},
	{name: "explores nothing", params: func(p *agent.Params) { p.Epsilon, p.EpsilonMin = 0, 0 }},
}

func inGroups(k int) func(*run.Config) { return func(c *run.Config) { c.Profile.Groups = k } }

func (v changed) policy() policy.Policy {
	if v.plain != "" {
		return named(v.plain)()
	}
	p := agent.DefaultParams()
	if v.params != nil {
		v.params(&p)
	}
	made, err := policy.New("rifling", policy.Options{Agent: p, NoPrior: v.none})
	if err != nil {
		panic(err) // a name of this program's own
	}
	if v.learn != nil {
		v.learn(made.(*policy.Rifling))
	}
	return made
}

// ablation changes one thing of the learner at a time. ABLATION=word runs only
// the variants whose name has the word.
func ablation(ctx context.Context, out io.Writer) error {
	at := []setting{{8, 4, 50, "muri", true, 0.9, false}, {8, 4, 50, "muri", false, 1.2, false}, {4, 4, 50, "philly", true, 0, false}}
	chosen := ablations[:1:1]
	for _, v := range ablations[1:] {
		if strings.Contains(v.name, os.Getenv("ABLATION")) {
			chosen = append(chosen, v)
		}
	}
	var trials []trial
	for _, s := range at {
		for _, v := range chosen {
			t := trial{setting: s, policy: v.policy, change: v.config}
			if v.plain == "" && !v.cold {
				t.train = seedsFrom(firstTrain, 2)
			}
			trials = append(trials, t)
		}
	}
	got, err := runAllOf(ctx, trials, seedsFrom(firstTest, testSeeds))
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%% against the rule, mean over %d settings +- standard error over %d lists; two lists to learn from\n", len(at), testSeeds)
	fmt.Fprintf(out, "%-28s %14s %14s %14s %12s\n", "variant", "mean JCT", "makespan", "ANPR", "updates/job")
	for i, v := range chosen {
		fmt.Fprintf(out, "%-28s", v.name)
		for _, f := range []func(ran) float64{
			func(r ran) float64 { return r.jct }, func(r ran) float64 { return r.makespan }, func(r ran) float64 { return r.anpr },
		} {
			by := make([]float64, testSeeds)
			for s := range at {
				for k := range by {
					by[k] += 100 * (f(got[s*len(chosen)+i][k])/f(got[s*len(chosen)][k]) - 1) / float64(len(at))
				}
			}
			m, se := meanSE(by)
			fmt.Fprintf(out, "  %6.1f+-%-4.1f", m, se)
		}
		writes, jobs := 0, 0
		for s := range at {
			for _, r := range got[s*len(chosen)+i] {
				writes, jobs = writes+r.writes, jobs+r.jobs
			}
		}
		fmt.Fprintf(out, " %12.2f\n", float64(writes)/float64(max(1, jobs)))
	}
	return nil
}
