// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"time"

	"rifling/policy"
	"rifling/sim/run"
)

// Bars of convergence: the mean JCT of a learner against its prior, in percent,
// and that of the first day from a cold start against Slurm.
const (
	learnTarget  = 0.0
	regretTarget = 2.0
)

// lessons is how many lists a learner of the convergence benchmark sees.
const lessons = 6

// convergence asks three things: how many decisions a table needs until it
// chooses as in the end, with and without groups; whether what is learned beats
// the rule on lists, mixes and loads never seen; and what the first day costs.
func convergence(ctx context.Context, out io.Writer) error {
	if err := speedOfLearning(ctx, out); err != nil {
		return err
	}
	if err := worthOfLearning(ctx, out); err != nil {
		return err
	}
	return firstDay(ctx, out)
}

// speedOfLearning lets tables learn from nothing, so that all that they know is
// learned, and compares their choices after each list with those after the last.
func speedOfLearning(ctx context.Context, out io.Writer) error {
	at := setting{8, 4, 50, "muri", true, 0.9, false}
	fmt.Fprintf(out, "choices of a table that begins with nothing, %s: %% as in the end, by the visits of states, after the updates so far; 5 series of %d lists\n", at, lessons)
	for _, grouped := range []bool{true, false} {
		agree, updates := make([]float64, lessons), make([]float64, lessons)
		states := 0.0
		for k := range uint64(testSeeds) {
			kept, err := tablesAfter(ctx, at, grouped, firstTrain+100*k)
			if err != nil {
				return err
			}
			for i, t := range kept {
				agree[i] += 100 * agreement(t, kept[lessons-1]) / testSeeds
				updates[i] += float64(visits(t)) / testSeeds
			}
			states += float64(len(best(kept[lessons-1]))) / testSeeds
		}
		name := "grouped by cc"
		if !grouped {
			name = "each family by itself"
		}
		fmt.Fprintf(out, "%-22s %4.0f states:", name, states)
		until := updates[lessons-1]
		for i := lessons - 1; i >= 0 && agree[i] >= 95; i-- {
			until = updates[i]
		}
		for i := range lessons {
			fmt.Fprintf(out, "  %5.0f: %3.0f %%", updates[i], agree[i])
		}
		fmt.Fprintf(out, "   within 5 %% from %.0f updates on\n", until)
	}
	return nil
}

func tablesAfter(ctx context.Context, at setting, grouped bool, seed uint64) ([][]policy.QEntry, error) {
	made, err := policy.New("rifling", policy.Options{NoPrior: true})
	if err != nil {
		return nil, err
	}
	learner := made.(*policy.Rifling)
	learner.Ungrouped = !grouped
	t := trial{setting: at}
	var out [][]policy.QEntry
	for i := range uint64(lessons) {
		if _, err := t.once(ctx, learner, seed+i); err != nil {
			return nil, err
		}
		out = append(out, learner.Entries())
	}
	return out, nil
}

// best is each state's best action.
func best(table []policy.QEntry) map[string]policy.QEntry {
	out := map[string]policy.QEntry{}
	for _, e := range table {
		if b, ok := out[e.State]; !ok || e.Value > b.Value {
			out[e.State] = e
		}
	}
	return out
}

func visits(table []policy.QEntry) int {
	n := 0
	for _, e := range table {
		n += e.Visits
	}
	return n
}

// agreement is the part of the visits of the final table whose states have
// their final choice already.
func agreement(now, final []policy.QEntry) float64 {
	had, want := best(now), best(final)
	same, all := 0, 0
	for _, e := range final {
		all += e.Visits
		if had[e.State].Action == want[e.State].Action {
			same += e.Visits
		}
	}
	return float64(same) / float64(max(1, all))
}

// worthOfLearning trains on one kind of work and tests on others.
func worthOfLearning(ctx context.Context, out io.Writer) error {
	school := setting{8, 4, 50, "muri", true, 0.9, false}
	tests := []setting{school, {8, 4, 50, "muri", true, 1.2, false}, {8, 4, 50, "muri", true, 0, false}, {8, 4, 50, "philly", true, 0.9, false}, {8, 4, 25, "muri", false, 0.9, false}}
	fmt.Fprintf(out, "\n%% of mean JCT against the rule, %d unseen lists; rifling trained learned from %d lists of %s\n", testSeeds, trainSeeds, school)
	fmt.Fprintf(out, "%-31s %16s %16s %16s\n", "setting", "rifling cold", "rifling trained", "learned")
	mean, worse := make([]float64, 3), make([]int, 3)
	for _, at := range tests {
		trials := []trial{
			{setting: at, policy: named("rule")}, {setting: at, policy: named("rifling")},
			{setting: at, policy: taught(school)}, {setting: at, policy: named("learned")},
		}
		got, err := runAllOf(ctx, trials, seedsFrom(firstTest, testSeeds))
		if err != nil {
			return err
		}
		fmt.Fprintf(out, "%-31s", at)
		for i := range mean {
			m, se := against(got[i+1], got[0], func(r ran) float64 { return r.jct })
			mean[i] += m / float64(len(tests))
			if m > 2*se {
				worse[i]++
			}
			fmt.Fprintf(out, "     %6.1f+-%-4.1f", m, se)
		}
		fmt.Fprintln(out)
	}
	for i, n := range []string{"cold", "trained", "learned"} {
		fmt.Fprintf(out, "bar: convergence/%s-against-rule value=%.1f%% target=%+.0f%% %s\n", n, mean[i], learnTarget, verdict(mean[i] <= learnTarget))
		fmt.Fprintf(out, "bar: convergence/%s-worse value=%d target=0 %s\n", n, worse[i], verdict(worse[i] == 0))
	}
	return nil
}

// taught makes a learner that has seen the training lists of a setting.
func taught(school setting) func() policy.Policy {
	return func() policy.Policy {
		p := named("rifling")()
		for _, seed := range seedsFrom(firstTrain, trainSeeds) {
			t := trial{setting: school}
			if _, err := t.once(context.Background(), p, seed); err != nil {
				panic(err)
			}
		}
		return p
	}
}

// firstDay compares the jobs of the first 24 hours with Slurm's, from an empty
// table and with the limits that a site starts with.
func firstDay(ctx context.Context, out io.Writer) error {
	at := setting{8, 4, 50, "muri", true, 0.9, false}
	got, err := runAllOf(ctx, []trial{
		{setting: at, policy: named("slurm"), bounded: true},
		{setting: at, policy: named("rifling"), bounded: true},
		{setting: at, bounded: true, policy: named("rifling"), change: func(c *run.Config) { c.Interval = time.Minute }},
	}, seedsFrom(firstTest, testSeeds))
	if err != nil {
		return err
	}
	day := func(r ran) float64 { return r.firstDay }
	m, se := against(got[1], got[0], day)
	slow, slowSE := against(got[2], got[0], day)
	fmt.Fprintf(out, "\nfirst day from an empty table, %s: %.1f+-%.1f %% of mean JCT against Slurm; %.1f+-%.1f %% with a cycle a minute\n", at, m, se, slow, slowSE)
	fmt.Fprintf(out, "bar: convergence/first-day value=%.1f%% target=%+.0f%% %s\n", m, regretTarget, verdict(m <= regretTarget))
	return nil
}
