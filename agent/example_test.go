// SPDX-License-Identifier: Apache-2.0

package agent_test

import (
	"fmt"
	"math/rand/v2"
	"time"

	"rifling/agent"
)

// A fixed rule prefers to pack; experience shows that waiting pays here.
func ExampleTable() {
	table := agent.NewTable(agent.DefaultParams())
	choices := []agent.Choice{
		{Action: "pack", Prior: 0.2, PriorWeight: 5},
		{Action: "wait", Prior: 0.1, PriorWeight: 5},
	}
	before := table.Choose("comm-bound, scattered", choices, nil)

	for range 20 {
		for action, reward := range map[string]float64{"pack": 0.1, "wait": 0.6} {
			table.Learn(agent.Transition{
				State: "comm-bound, scattered", Action: action, Reward: reward, Terminal: true,
				Prior: map[string]float64{"pack": 0.2, "wait": 0.1}[action],
			})
		}
	}
	after := table.Choose("comm-bound, scattered", choices, nil)

	fmt.Printf("before: %s %.2f after %d visits\n", before.Action, before.Value, before.Visits)
	fmt.Printf("after:  %s %.2f after %d visits\n", after.Action, after.Value, after.Visits)
	// Output:
	// before: pack 0.20 after 0 visits
	// after:  wait 0.50 after 20 visits
}

// Without a source of random numbers the table never explores.
func ExampleTable_Choose() {
	p := agent.DefaultParams()
	p.Epsilon, p.EpsilonMin = 1, 1
	table := agent.NewTable(p)
	choices := []agent.Choice{{Action: "leave", Prior: 1}, {Action: "pack", Prior: 0.98}, {Action: "wait"}}

	fmt.Println(table.Choose("s", choices, nil))
	fmt.Println(table.Choose("s", choices, rand.New(rand.NewPCG(0, 0))).Explored)
	// Output:
	// {leave 1 0 false}
	// true
}

// A job that kept its neighbours from a tenth of their rate for an hour.
func ExampleDiscounted() {
	fmt.Printf("%.4f\n", agent.Discounted(-0.1, time.Hour, 2*time.Hour))
	// Output:
	// -0.0393
}
