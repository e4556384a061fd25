// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"rifling/agent"
)

// Model is what the policy learned decides by: the rule, and two scorers. With
// scorers that say 0 it is the rule in Slurm's order. Neither takes a name of
// a user, a node or a site, so that a model carries from one site to another.
type Model struct {
	Rule Rule `json:"rule"`
	// Place is added to the rule's value of an action. Its inputs are some of
	// PlaceInputs.
	Place agent.Net `json:"place"`
	// Order ranks the queue, the highest score first. Its inputs are some of
	// OrderInputs.
	Order agent.Net `json:"order"`
	// Margin is the veto of the order, 0 or more: a job passes one that Slurm
	// ranks higher only if its score leads by more than Margin standard
	// deviations of what is known of the two run times.
	Margin float64 `json:"margin"`
	// Veto is that of the place, 0..1, on the rule's scale: an action must be
	// worth so much more than leaving the job to Slurm.
	Veto float64 `json:"veto"`
	// Objective is what the model was trained for.
	Objective Objective `json:"objective"`
}

// Objective weighs what a site wants, each part relative to Slurm's on the same
// jobs; all weights are 0 or more, and not all 0.
type Objective struct {
	MeanJCT  float64 `json:"mean_jct"`
	P95JCT   float64 `json:"p95_jct"`
	Makespan float64 `json:"makespan"`
	ANPR     float64 `json:"anpr"`
	// Fairness weighs Jain's index of the users' slowdowns.
	Fairness float64 `json:"fairness"`
}

// DefaultObjective is mean completion time first, its tail and the processing
// rate next, and a floor under fairness.
func DefaultObjective() Objective {
	return Objective{MeanJCT: 1, P95JCT: 0.25, Makespan: 0.25, ANPR: 0.5, Fairness: 0.1}
}

// Validate reports a weight that is out of its range.
func (o Objective) Validate() error {
	sum := 0.0
	for name, w := range map[string]float64{
		"mean_jct": o.MeanJCT, "p95_jct": o.P95JCT, "makespan": o.Makespan, "anpr": o.ANPR, "fairness": o.Fairness,
	} {
		if !(w >= 0) || math.IsInf(w, 0) {
			return fmt.Errorf("objective: the weight of %s is %v; it must be 0 or more", name, w)
		}
		sum += w
	}
	if sum == 0 {
		return errors.New("objective: all weights are 0")
	}
	return nil
}

// PlainModel is the rule in Slurm's order.
func PlainModel() Model {
	return Model{
		Rule: DefaultRule(), Place: agent.Linear(PlaceInputs), Order: agent.Linear(OrderInputs), Objective: DefaultObjective(),
	}
}

// DefaultModel returns the model that rifling ships with: the rule's place, and
// least expected GPU time first, aged a little. Its weights follow from theory
// and are what `rifling train` begins with: docs/design/learned.md.
func DefaultModel() Model {
	m := ordering(map[string]float64{"log_run": -0.5, "log_run_mean": -0.5, "log_gpus": -1, "log_age": 0.15})
	m.Margin = 0.15
	return m
}

// ModelFor returns the model to begin with for an objective: DefaultModel, or,
// where makespan weighs more than mean completion time, the most GPU time first:
// what is long and wide must not be left for the end (Graham, Bounds on
// multiprocessing timing anomalies, 1969).
func ModelFor(o Objective) Model {
	m := DefaultModel()
	if o.Makespan > o.MeanJCT {
		m = ordering(map[string]float64{"log_run_mean": 1, "log_gpus": 1, "log_age": 0.15})
	}
	m.Objective = o
	return m
}

// ordering is the rule's place with a linear order of these weights.
func ordering(weights map[string]float64) Model {
	m := PlainModel()
	for name, w := range weights {
		m.Order.Layers[0].W[slices.Index(OrderInputs, name)] = w
	}
	return m
}

// Validate reports everything for which the model must not decide.
func (m *Model) Validate() error {
	errs := []error{m.Objective.Validate()}
	for _, part := range []struct {
		name  string
		net   *agent.Net
		known []string
	}{{"place", &m.Place, PlaceInputs}, {"order", &m.Order, OrderInputs}} {
		if err := part.net.Validate(); err != nil {
			errs = append(errs, fmt.Errorf("%s: %w", part.name, err))
		}
		for _, in := range part.net.Inputs {
			if !slices.Contains(part.known, in) {
				errs = append(errs, fmt.Errorf("%s: there is no input %q in this release", part.name, in))
			}
		}
	}
	if !(m.Margin >= 0) {
		errs = append(errs, fmt.Errorf("margin %v is not 0 or more", m.Margin))
	}
	if !(m.Veto >= 0 && m.Veto <= 1) {
		errs = append(errs, fmt.Errorf("veto %v is not in 0..1", m.Veto))
	}
	return errors.Join(errs...)
}

// PlaceInputs are what the place scorer may look at, of a job and an action.
var PlaceInputs = []string{
	"comm_bound",    // 1 of a communication-bound job, else 0
	"compute_bound", // 1 of a compute-bound job, else 0
	"wait",          // 1 of the action wait
	"leave",         // 1 of leaving the job to Slurm
	"thin",          // 1 of equal thin parts
	"extra_nodes",   // log of nodes over those needed at best; 0 of what cannot start
	"extra_leaves",  // leaf switches beyond the first
	"busy_nic",      // 1 where a communication-bound job uses a NIC of its nodes
	"contention",    // GPUs of communication-bound jobs beside it, over its own
	"broken",        // GPUs of whole slots that it breaks, over its own
	"left_over",     // GPUs that it leaves free on its nodes, over its own
	"release",       // log of 1 + the time until its neighbours' last end over its run time
	"wait_run",      // log of 1 + the expected wait over the run time (its own or the queue's mean)
	"wait_pressure", // the same, times pressure
	"log_gpus",      // log2 of its GPUs
	"pressure",      // log of 1 + GPUs that the queue asks for over all there are
	"unsure",        // log of the 0.9- over the 0.1-quantile of its run time
}
