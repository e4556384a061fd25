// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"
	"time"

	"rifling/agent"
	"rifling/slurm"
)

// Learner is a policy that learns from what became of its decisions.
type Learner interface {
	Policy
	Learn(s Step) (delta float64)
	Entries() []QEntry
	Restore(entries []QEntry)
}

// Step is one transition of one job: what was decided in a state, how long
// that lasted, what it cost, and where it led.
type Step struct {
	JobID   slurm.JobID
	State   string
	Action  Action
	Prior   float64 // what the prior expected of the action, see PriorOf
	Reward  float64 // negative or 0: see RunReward and WaitReward
	Elapsed time.Duration
	// Next is the state that followed; empty when the job started and its run
	// is in Reward.
	Next    string
	Choices []Option // that the next state offers
	At      time.Time
}

// Learn updates the table by Bellman's equation, with the next value
// discounted by the time that passed (semi-Markov Q-learning).
func (r *Rifling) Learn(s Step) float64 {
	next := make([]agent.Choice, len(s.Choices))
	for i, o := range s.Choices {
		next[i] = agent.Choice{Action: string(o.Action), Prior: o.Prior}
		if r.Prior != nil {
			next[i].PriorWeight = r.PriorWeight
		}
	}
	return r.Table.Learn(agent.Transition{
		State: s.State, Action: string(s.Action), Prior: s.Prior, Reward: s.Reward, Elapsed: s.Elapsed,
		Next: s.Next, NextChoices: next, Terminal: s.Next == "", At: s.At,
	})
}

// Entries returns the table's cells.
func (r *Rifling) Entries() []QEntry { return r.Table.Entries() }

// Restore fills the table with cells that were kept.
func (r *Rifling) Restore(e []QEntry) { r.Table.Restore(e) }

// RunReward is the reward of a run, ours: the part of the GPU time that its
// placement lost, the normalized processing rates of all jobs that it touches
// against all of them running at their best, per GPU of the job:
//
//	(g·(NPR-1) + sum over neighbours of g_i·dNPR_i) / g
//
// in -1..0 for a job without neighbours. It is a part and not a sum of time, so
// that long and short jobs in one state teach the same, and on the scale of the
// rule's values. Dividing by the job's own GPUs rather than the cluster's keeps
// jobs of different sizes comparable.
func RunReward(e Episode) float64 {
	g := float64(max(1, e.GPUs))
	return clamp((g*(e.NPR-1)+e.NeighbourDelta)/g, -1)
}

// WaitReward is the same for waiting: the GPU time that lay idle because the
// job waited though a shape was free, against that of its run. -1 at worst.
func WaitReward(idleGPUSeconds float64, gpus int, run time.Duration) float64 {
	if idleGPUSeconds <= 0 {
		return 0
	}
	if run <= 0 {
		return -1
	}
	return -clamp(idleGPUSeconds/(run.Seconds()*float64(max(1, gpus))), 0)
}

// PriorOf is what was expected of an action when the decision was made; false
// when it was not considered.
func PriorOf(d Decision, a Action) (float64, bool) {
	for _, o := range d.Considered {
		if o.Action == a {
			return o.Prior, true
		}
	}
	return 0, false
}

// clamp brings x into lo..1.
func clamp(x, lo float64) float64 { return min(max(x, lo), 1) }

// ActionOf tells which action a placement that Slurm made amounts to, so that a
// start in observe mode, or one that rifling did not foresee, teaches as well.
// need is the nodes that the job needed at best while it was pending: of a job
// that has started Slurm tells only how many it got.
func ActionOf(j *slurm.Job, need int, d Decision) Action {
	if d.Action != Leave && d.Action != Wait && Within(j.Nodes, d.Candidates) {
		return d.Action
	}
	for _, o := range d.Considered {
		if o.Action != Leave && o.Action != Wait && len(o.Nodes) > 0 && Within(j.Nodes, o.Nodes) {
			return o.Action
		}
	}
	if len(j.Nodes) <= need {
		return Pack
	}
	return Leave
}

// Within reports whether nodes is a non-empty part of set.
func Within(nodes, set []string) bool {
	if len(nodes) == 0 {
		return false
	}
	in := map[string]bool{}
	for _, n := range set {
		in[n] = true
	}
	for _, n := range nodes {
		if !in[n] {
			return false
		}
	}
	return true
}

// IdleNow returns how many of the job's GPUs could have been busy now had it not
// been told to wait: its GPUs when the decision considered a start that was
// possible at once, else 0.
func IdleNow(d Decision, gpus int) int {
	if d.Action != Wait {
		return 0
	}
	for _, o := range d.Considered {
		if o.Action == Leave && o.Shape != cannotStart {
			return gpus
		}
	}
	return 0
}

// Share reports whether the two lists have a node in common.
func Share(a, b []string) bool {
	return slices.ContainsFunc(a, func(n string) bool { return slices.Contains(b, n) })
}

// Later discounts a reward to a moment that lies by after earlier.
func Later(reward float64, after, tau time.Duration) float64 {
	return reward * math.Exp(-after.Seconds()/tau.Seconds())
}
