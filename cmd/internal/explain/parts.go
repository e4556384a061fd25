// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"math"
	"strings"

	"rifling/cmd/internal/config"
	"rifling/cmd/internal/wording"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// job says what the job is and what is known of it.
func (t *teller) job() {
	j := &t.st.Job
	t.section("The job")
	asks := "asks for " + wording.Count(j.GPUs, "GPU", "GPUs")
	if w := wording.Request(j.Request); w != "" {
		asks += " (" + w + ")"
	}
	if n := nodeWords(j); n != "" {
		asks += ", " + n
	}
	limit := "no time limit"
	if !j.Unlimited {
		limit = "time limit " + slurm.FormatDuration(j.TimeLimit)
	}
	t.line("%s, %s", asks, limit)
	t.line("user %s, account %s, partition %s, QOS %s", j.User, j.Account, j.Partition, j.QOS)
	t.line("submitted %s, priority %d", t.clock(j.Submit), j.Priority)
	if j.Pending() && !j.Estimate.IsZero() && !t.gone() {
		t.line("Slurm expects to start it at %s", t.clock(j.Estimate))
	}
	if !j.Known() {
		t.line("nothing is known of how it computes and communicates: no counters of it or of similar jobs yet")
	} else {
		t.line("%s", t.ratio())
	}
	if g := t.group(); g != "" {
		t.line("%s", g)
	}
	if j.Profile.RunTime > 0 {
		t.line("expected to run %s (%s)", wording.About(j.Profile.RunTime), wording.Level(j.Profile.RunTimeLevel))
	}
}

func nodeWords(j *store.Job) string {
	exclusive := ""
	if j.Exclusive {
		exclusive = ", whole nodes"
	}
	switch {
	case !j.Pending():
		return strings.TrimPrefix(exclusive, ", ")
	case j.MaxNodes > 0 && j.MaxNodes == j.MinNodes:
		return wording.Count(j.MinNodes, "node", "nodes") + exclusive
	case j.MaxNodes > 0:
		return fmt.Sprintf("%d to %d nodes", j.MinNodes, j.MaxNodes) + exclusive
	}
	return fmt.Sprintf("%s or more", wording.Count(max(1, j.MinNodes), "node", "nodes")) + exclusive
}

// ratio says what kind of job it is and how that is known.
func (t *teller) ratio() string {
	pr := &t.st.Job.Profile
	kind := "neither clearly compute- nor communication-bound"
	switch {
	case pr.CommBound:
		kind = "communication-bound"
	case pr.ComputeBound:
		kind = "compute-bound"
	}
	if pr.Group == profile.GroupUnknown {
		kind = "of no group yet"
	} else {
		kind += fmt.Sprintf(", group %d when last seen", pr.Group)
	}
	return fmt.Sprintf("%s: computes %.2f s for each second of communication (%s %s)",
		kind, math.Exp(pr.LogCC), wording.Count(pr.Count, "sample", "samples"), wording.Level(pr.Level))
}

// group says what the job's group is like now; "" when it has none that is known.
func (t *teller) group() string {
	for _, g := range t.st.Groups {
		if g.Index == t.st.Job.Profile.Group {
			return fmt.Sprintf("group %d of %d computes %.2f s for each second of communication on average (%s)",
				g.Index, len(t.st.Groups), math.Exp(g.Center), wording.Count(g.Members, "member", "members"))
		}
	}
	return ""
}

// decision says what was decided last.
func (t *teller) decision() {
	d := t.last()
	if d == nil {
		return
	}
	t.section("The last decision")
	t.line("made %s, stood until %s (%s, policy %s, mode %s)", t.clock(d.FirstAt), t.clock(d.LastAt),
		cycles(d), d.Policy, d.Mode)
	if d.Skipped != "" {
		t.line("hands off: %s", d.Skipped)
		return
	}
	tag := ""
	if d.Explored {
		tag = " (at random, to learn)"
	}
	t.line("%s%s: %s", d.Action, tag, d.Reason)
	switch {
	case d.Candidates == nil:
		t.line("on any node of its partitions")
	case d.Target != nil && d.Action == policy.Wait:
		t.line("on %s; it waits for %s", hosts(d.Candidates), hosts(d.Target))
	case d.Target != nil:
		t.line("on %s, of which %s was free for it", hosts(d.Candidates), hosts(d.Target))
	default:
		t.line("on %s, of which not enough was free for it", hosts(d.Candidates))
	}
	if d.Offset != 0 {
		t.line("priority: %+d points", d.Offset)
	}
	if !d.Deadline.IsZero() {
		t.line("waits until %s at the latest", t.clock(d.Deadline))
	}
	if d.State != "" {
		t.line("state: %s (%s)", wording.State(d.State), d.State)
	}
}

func cycles(d *store.Decision) string {
	if d.FirstCycle == d.LastCycle {
		return fmt.Sprintf("cycle %d", d.FirstCycle)
	}
	return fmt.Sprintf("cycles %d to %d", d.FirstCycle, d.LastCycle)
}

// options lists what was considered, as columns.
func (t *teller) options() {
	d := t.last()
	if d == nil || len(d.Considered) == 0 {
		return
	}
	t.section("What was considered (value: expected reward, nearer to 0 is better)")
	action, shape := 0, 0
	for _, o := range d.Considered {
		action, shape = max(action, len(o.Action)), max(shape, len(shapeWords(o)))
	}
	for _, o := range d.Considered {
		mark := " "
		if o.Action == d.Action {
			mark = "*"
		}
		t.line("%s %-*s  %-*s  value %6.2f  %s%s", mark, action, o.Action, shape, shapeWords(o), o.Value, tries(o.Visits), note(o))
	}
}

func shapeWords(o policy.Option) string {
	if o.Shape == "" {
		return "cannot start now"
	}
	return o.Shape
}

func tries(n int) string {
	if n == 0 {
		return "untried"
	}
	return wording.Count(n, "try", "tries")
}

func note(o policy.Option) string {
	out := ""
	if len(o.Nodes) > 0 {
		out = " on " + hosts(o.Nodes)
	}
	if o.Note != "" {
		out += "; " + o.Note
	}
	return out
}

// rails lists the guard rails that spoke on the job, a clause each.
func (t *teller) rails() []string {
	out := []string{}
	if d := t.last(); d != nil {
		if d.Skipped != "" {
			out = append(out, "hands off: "+d.Skipped)
		}
		if d.Action == policy.Wait && !d.Deadline.IsZero() {
			out = append(out, "waiting is bounded: it ends at "+t.clock(d.Deadline)+" (limits.max-wait)")
		}
	}
	if o := t.st.Owner; o != nil {
		if o.Shunned != "" {
			out = append(out, "it will not be touched again: "+o.Shunned)
		}
		if len(o.UserExclude) > 0 {
			out = append(out, "the user's own exclude list is kept: "+hosts(o.UserExclude))
		}
	}
	if n := len(t.st.Changes); n > 0 && t.st.Changes[n-1].Outcome == policy.Skipped {
		out = append(out, "the last change was not sent: "+t.st.Changes[n-1].Detail)
	}
	return out
}

func (t *teller) guardRails() {
	t.section("Guard rails that spoke")
	list := t.rails()
	if len(list) == 0 {
		t.line("none")
	}
	for _, r := range list {
		t.line("%s", r)
	}
}

// maxEarlier bounds how many earlier decisions and changes are told.
const maxEarlier = 10

func (t *teller) earlier() {
	if len(t.st.Decisions) < 2 {
		return
	}
	list := t.st.Decisions[:len(t.st.Decisions)-1]
	t.section("Earlier decisions")
	if skip := len(list) - maxEarlier; skip > 0 {
		t.line("(%d older ones are left out)", skip)
		list = list[skip:]
	}
	for i := range list {
		d := &list[i]
		why := d.Reason
		if d.Skipped != "" {
			why = "hands off: " + d.Skipped
		}
		t.line("%s to %s  %s: %s", t.clock(d.FirstAt), d.LastAt.In(t.o.Now.Location()).Format("15:04:05"), store.ActionName(d), why)
	}
}

func (t *teller) changes() {
	t.section("What was written to Slurm")
	list := t.st.Changes
	if len(list) == 0 {
		t.line("nothing")
	}
	if skip := len(list) - maxEarlier; skip > 0 {
		t.line("(%d older changes are left out)", skip)
		list = list[skip:]
	}
	for _, c := range list {
		by := ""
		if c.Cycle == 0 {
			by = " (by rifling release)"
		}
		t.line("%s  %s%s", t.clock(c.At), wording.Outcome(c), by)
	}
	if o := t.set(); o != nil {
		user := "none"
		if len(o.UserExclude) > 0 {
			user = hosts(o.UserExclude)
		}
		t.line("what is set lives until %s unless renewed; the user's own exclude list is %s", t.clock(o.ExpiresAt), user)
	}
}

// set is what rifling has set on a job that is still there; nil for nothing.
func (t *teller) set() *policy.Owner {
	o, j := t.st.Owner, &t.st.Job
	if o == nil || t.gone() || !j.Pending() && !j.Running() {
		return nil
	}
	if o.SetExclude == nil && o.SetRequired == nil && o.SetNice == nil && o.SetSiteFactor == nil {
		return nil
	}
	return o
}

// outcome says what came of it: place, rate, reward.
func (t *teller) outcome() {
	j := &t.st.Job
	if j.Start.IsZero() {
		return
	}
	t.section("What came of it")
	t.line("waited %s, started %s on %s", wording.About(j.Wait()), t.clock(j.Start), hosts(j.Nodes))
	if j.Profile.NPRCount > 0 {
		t.line("processing rate %.2f of the best that its family was seen to reach (%s)", j.Profile.NPR,
			wording.Count(j.Profile.NPRCount, "observation", "observations"))
	} else {
		t.line("no processing rate: no counters of it")
	}
	if !j.End.IsZero() {
		t.line("ran %s, ended %s", wording.About(j.Elapsed()), j.State)
		if j.Profile.RunTime > 0 {
			t.line("expected were %s", wording.About(j.Profile.RunTime))
		}
	}
	for _, e := range t.st.Episodes {
		t.episode(e)
	}
}

func (t *teller) episode(e policy.Episode) {
	place := fmt.Sprintf("decision of %s (%s)", t.clock(e.Decided), e.Action)
	if e.Actual != "" && e.Actual != e.Action {
		place += fmt.Sprintf(", which came to %s", e.Actual)
	}
	if !e.Learned {
		t.line("%s: too little evidence to learn from yet", place)
		return
	}
	t.line("%s: reward %.3f (rate %.2f, neighbours %+.2f, %.0f idle GPU seconds)", place,
		e.Reward, e.NPR, e.NeighbourDelta, e.IdleGPUSeconds)
}

// next says what happens to the job from here on.
func (t *teller) next() {
	t.section("What comes next")
	for _, s := range t.steps() {
		t.line("%s", s)
	}
}

func (t *teller) steps() []string {
	j, d := &t.st.Job, t.last()
	var out []string
	switch {
	case t.gone():
		return []string{"nothing: the job is gone from Slurm"}
	case !j.Pending() && !j.Running():
		for _, e := range t.st.Episodes {
			if !e.Learned {
				return []string{"the job is over; its decision waits for more evidence before anything is learned of it"}
			}
		}
		return []string{"nothing: the job is over"}
	case Away(t.st.Newest, t.o) != "":
		out = append(out, "rifling decides nothing until riflingd runs again; Slurm schedules on")
	case j.Running():
		out = append(out, "when it ends, how it ran tells the learner what its place was worth")
	case d == nil || !t.stands(d):
		out = append(out, fmt.Sprintf("rifling decides on it once it is among the first %d of the queue; Slurm may start it at any time", t.o.Depth))
	case d.Skipped != "":
		out = append(out, "Slurm alone decides; rifling looks again each cycle whether that reason still holds")
	case d.Action == policy.Wait:
		out = append(out, "it starts when the place that it waits for comes free; if that looks no better any more, or its time is up, it is let go")
	default:
		out = append(out, "Slurm starts it when its turn comes; until then the decision is renewed or changed each cycle, every "+t.o.Interval.String())
	}
	return append(out, t.undo()...)
}

// undo says when what is set is taken back.
func (t *teller) undo() []string {
	o, d := t.set(), t.last()
	switch {
	case o == nil && d != nil && d.Mode != config.ModeSteer:
		return []string{"nothing needs to be taken back: riflingd only observes"}
	case o == nil:
		return []string{"nothing needs to be taken back: nothing is set on it"}
	case t.st.Job.Running():
		return []string{"Slurm cannot clear the exclusions of a running job, on which they do nothing; they are cleared if it is requeued"}
	}
	return []string{fmt.Sprintf("what is set is taken back at %s unless a cycle renews it, at once if Slurm calls the job impossible, when riflingd stops, or by rifling release %d",
		t.clock(o.ExpiresAt), t.st.Job.ID)}
}
