// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"rifling/agent"
)

// Options are what a policy may be made from; each takes what it knows.
type Options struct {
	Rule  Rule         // of rule, and the prior of rifling; the zero value means DefaultRule
	Agent agent.Params // of rifling; the zero value means agent.DefaultParams
	// NoPrior lets rifling learn from nothing.
	NoPrior bool
	// PriorWeight is how many visits rifling's prior counts for; 0 means 3.
	PriorWeight float64
	FCFS        bool          // rifling orders the queue by submission
	Model       *Model        // of learned; nil means DefaultModel
	Patience    time.Duration // of delay; 0 means DefaultPatience
}

// DefaultPatience is how long the policy delay waits: about a sixth of the
// hour that a job of the lists in contrib/workload runs.
const DefaultPatience = 10 * time.Minute

// kinds lists the policies in the order in which tables show them.
var kinds = []struct {
	name, about string
	make        func(o Options) Policy
}{
	{"slurm", "changes nothing", func(Options) Policy { return Slurm{} }},
	{"random", "anywhere, drawn", func(Options) Policy { return Random() }},
	{"spread", "the emptiest nodes, as many as can be", func(Options) Policy { return Spread() }},
	{"balance", "the nodes with the lowest mean of six utilizations", func(Options) Policy { return Balance() }},
	{"best-fit", "the nodes that are left with the fewest free GPUs; never waits", func(Options) Policy { return BestFit() }},
	{"pack", "the fewest nodes that are free now, best fit; never waits", func(Options) Policy { return Packed{} }},
	{"delay", "waits a fixed time for the fewest nodes", func(o Options) Policy {
		return Delay(cmp.Or(o.Patience, DefaultPatience))
	}},
	{"strict", "always waits for the fewest nodes", func(Options) Policy { return Strict() }},
	{"rule", "the fixed rule: waits by what a scattered start would cost", func(o Options) Policy { return o.rule() }},
	{"rifling", "groups and Q-learning, started from the rule", func(o Options) Policy { return o.rifling() }},
	{"learned", "one trained scorer that places and orders", func(o Options) Policy { return o.learned() }},
}

func (o Options) rule() Rule { return cmp.Or(o.Rule, DefaultRule()) }

func (o Options) rifling() *Rifling {
	r := &Rifling{
		Table: agent.NewTable(cmp.Or(o.Agent, agent.DefaultParams())), FCFS: o.FCFS, PriorWeight: cmp.Or(o.PriorWeight, 3),
	}
	if o.NoPrior {
		// Nothing is known better, so all is tried and the best taken as it comes.
		p := cmp.Or(o.Agent, agent.DefaultParams())
		p.Margin = 0
		r.Table = agent.NewTable(p)
		return r
	}
	r.Prior = o.rule().Value
	return r
}

func (o Options) learned() *Learned {
	m := DefaultModel()
	if o.Model != nil {
		m = *o.Model
	}
	return &Learned{Model: m}
}

// Names lists the policies there are.
func Names() []string {
	out := make([]string, len(kinds))
	for i, k := range kinds {
		out[i] = k.name
	}
	return out
}

// About says in a line what the policy does; "" for one that is not there.
func About(name string) string {
	for _, k := range kinds {
		if k.name == name {
			return k.about
		}
	}
	return ""
}

// New makes the policy of that name.
func New(name string, o Options) (Policy, error) {
	for _, k := range kinds {
		if k.name == name {
			return k.make(o), nil
		}
	}
	return nil, fmt.Errorf("there is no policy %q; there are: %s", name, strings.Join(Names(), ", "))
}
