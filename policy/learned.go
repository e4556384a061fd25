// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"rifling/agent"
	"rifling/profile"
	"rifling/slurm"
)

// Learned is the policy that both places and orders by a trained model. Its
// place is the rule's value of an action and a trained correction; its order
// is a trained score, written as bounded priority offsets. Slurm's own backfill
// holds a place for whoever stands first, so that a large job is not starved by
// what fits. See docs/design/learned.md.
type Learned struct {
	Model Model
}

// Decide plans by the model.
func (l *Learned) Decide(in Input) Plan {
	b := newBoard(in)
	in = b.in
	jobs := queue(in, false)
	r := l.rank(b, jobs)
	p := b.decide("learned", r.order, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, taken := b.choosable(j, d)
		if f == nil {
			return taken
		}
		return l.place(f, in.Profiles[j.ID], d)
	})
	if r.ordered {
		arrange(&p, in, r.rest, func(a, b *slurm.Job) int { return cmp.Compare(r.at[a.ID], r.at[b.ID]) })
		l.explainOrder(&p, r)
	}
	return p
}

// place chooses among what can be done for one job.
func (l *Learned) place(f *fit, p profile.Profile, d *Decision) map[string]int {
	offers := f.offers(!waitedOut(f.j, f.b.in))
	d.Considered = considered(f, offers, nil)
	best := 0
	for i, o := range offers {
		features := f.features(p, offers[0], o)
		prior := l.Model.Rule.Value(features, o.action)
		d.Considered[i].Prior = prior
		d.Considered[i].Value = prior + l.Model.Place.Score(pickInputs(PlaceInputs, f.placeInputs(p, features, o), l.Model.Place.Inputs))
		gain := 0.0
		if best == 0 {
			gain = l.Model.Veto // to leave the job to Slurm is the choice that needs no reason
		}
		if i > 0 && d.Considered[i].Value > d.Considered[best].Value+gain {
			best = i
		}
	}
	d.Value = d.Considered[best].Value
	o := f.keep(offers[best], f.b.in.Previous[f.j.ID])
	shape := f.settle(d, o, offers[0], p)
	if terms := l.placeTerms(f, p, offers, best); terms != "" {
		d.Reason += "; " + terms
	}
	return shape
}

// placeTerms says what the trained correction thinks of the action; "" when it
// says nothing.
func (l *Learned) placeTerms(f *fit, p profile.Profile, offers []offer, best int) string {
	o := offers[best]
	x := pickInputs(PlaceInputs, f.placeInputs(p, f.features(p, offers[0], o), o), l.Model.Place.Inputs)
	return termsText("correction", l.Model.Place.Terms(x))
}

// ranking is the order that the model wants.
type ranking struct {
	ordered bool
	order   []*slurm.Job        // in which jobs are decided on; those of at come first
	at      map[slurm.JobID]int // place of the jobs that are ordered
	rest    []*slurm.Job        // pending jobs that are not ordered
	facts   map[slurm.JobID]OrderFacts
}

// scored is a job with its score and the standard deviation of what is known
// of the logarithm of its run time.
type scored struct {
	j           *slurm.Job
	score, sure float64
	priority    int64 // with what rifling has added to it
	facts       OrderFacts
}

// firstOfAll is the score that a job gets which has waited half as long as
// Limits.Starvation: whatever the model says, it stands before all others.
const firstOfAll = 1e6

// rank orders the best of the queue by score: as many as are decided on, and
// the rest behind them as Slurm has it. A net that never says anything leaves
// all as it is.
func (l *Learned) rank(b *board, jobs []*slurm.Job) ranking {
	if silent(&l.Model.Order) {
		return ranking{order: jobs}
	}
	in := b.in
	r := ranking{ordered: true, at: map[slurm.JobID]int{}, facts: map[slurm.JobID]OrderFacts{}}
	queue := b.queueFacts(jobs)
	var all []scored
	var left []*slurm.Job
	for _, j := range jobs {
		if Untouchable(j, in) != "" {
			left = append(left, j)
			continue
		}
		all = append(all, l.score(b, j, queue))
	}
	slices.SortStableFunc(all, func(x, y scored) int { return cmp.Compare(y.score, x.score) })
	top := all[:min(len(all), max(0, in.Limits.Depth))]
	for _, s := range all[len(top):] {
		r.rest = append(r.rest, s.j)
	}
	for i, s := range l.settleOrder(top) {
		r.at[s.j.ID] = i
		r.order = append(r.order, s.j)
		r.facts[s.j.ID] = s.facts
	}
	r.order = append(r.order, left...)
	r.rest = append(r.rest, left...)
	return r
}

func silent(n *agent.Net) bool {
	return !slices.ContainsFunc(n.Params(), func(w float64) bool { return w != 0 })
}

func (l *Learned) score(b *board, j *slurm.Job, queue QueueFacts) scored {
	f := b.orderFacts(j, queue, l.Model.Order.Inputs)
	s := scored{j: j, score: l.Model.OrderScore(f), priority: j.Priority, facts: f}
	const tails = 2.563 // standard deviations between the 0.1- and the 0.9-quantile
	s.sure = 1
	if f.RunLow > 0 && f.RunHigh > f.RunLow {
		s.sure = math.Log(f.RunHigh/f.RunLow) / tails
	}
	if limit := b.in.Limits.Starvation; limit > 0 && f.Age > limit.Seconds()/2 {
		s.score = firstOfAll + f.Age
	}
	return s
}

// settleOrder brings jobs into the order of their scores from the one that they
// stand in now, and leaves two as they are where the lead of the one behind is
// within what is not known: so neither small changes of a score nor a doubtful
// gain cause writes.
func (l *Learned) settleOrder(jobs []scored) []scored {
	slices.SortStableFunc(jobs, func(x, y scored) int {
		return cmp.Or(cmp.Compare(y.priority, x.priority), cmp.Compare(x.j.ID, y.j.ID))
	})
	for i := range jobs {
		for k := i; k > 0 && l.leads(jobs[k], jobs[k-1]); k-- {
			jobs[k], jobs[k-1] = jobs[k-1], jobs[k]
		}
	}
	return jobs
}

// leadAtLeast is the least lead of a score by which a job passes another.
const leadAtLeast = 0.05

func (l *Learned) leads(behind, before scored) bool {
	return behind.score-before.score > max(leadAtLeast, l.Model.Margin*math.Hypot(behind.sure, before.sure))
}

// explainOrder says of each job that is raised why.
func (l *Learned) explainOrder(p *Plan, r ranking) {
	for i := range p.Decisions {
		d := &p.Decisions[i]
		f, ok := r.facts[d.JobID]
		if !ok || d.Offset == 0 {
			continue
		}
		x := pickInputs(OrderInputs, f.Inputs(), l.Model.Order.Inputs)
		d.Reason += fmt.Sprintf("; raised to place %d of %d: %s", r.at[d.JobID]+1, len(r.at), termsText("score", l.Model.Order.Terms(x)))
	}
}

// termsText names the three terms that count most; "" when none does.
func termsText(what string, terms []agent.Term) string {
	terms = slices.DeleteFunc(slices.Clone(terms), func(t agent.Term) bool { return math.Abs(t.Part) < 0.005 })
	if len(terms) == 0 {
		return ""
	}
	slices.SortStableFunc(terms, func(a, b agent.Term) int { return cmp.Compare(math.Abs(b.Part), math.Abs(a.Part)) })
	var parts []string
	for _, t := range terms[:min(3, len(terms))] {
		parts = append(parts, fmt.Sprintf("%s %+.2f", t.Input, t.Part))
	}
	return what + " by " + strings.Join(parts, ", ")
}
