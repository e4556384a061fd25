// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"strings"
	"unicode"
	"unicode/utf8"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// sentence gives text a capital letter.
func sentence(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// tellJob says what the job is and what is known of it.
func (a *app) tellJob(p *page, st *store.Story) {
	j := &st.Job
	p.section("The job")
	asks := "  asks for " + count(j.GPUs, "GPU", "GPUs")
	if w := requestWords(j.Request); w != "" {
		asks += " (" + w + ")"
	}
	if n := nodeWords(j); n != "" {
		asks += ", " + n
	}
	limit := "no time limit"
	if !j.Unlimited {
		limit = "time limit " + slurm.FormatDuration(j.TimeLimit)
	}
	p.line("%s, %s", asks, limit)
	p.line("  user %s, account %s, partition %s, QOS %s", j.User, j.Account, j.Partition, j.QOS)
	p.line("  submitted %s, priority %d", a.clock(j.Submit), j.Priority)
	if j.Pending() && !j.Estimate.IsZero() && !gone(st) {
		p.line("  Slurm expects to start it at %s", a.clock(j.Estimate))
	}
	if !j.Known() {
		p.line("  nothing is known of how it computes and communicates: no counters of it or of similar jobs yet")
	} else {
		p.line("  %s", a.ratio(st))
	}
	if j.Profile.RunTime > 0 {
		p.line("  expected to run %s (%s)", about(j.Profile.RunTime), levelWords(j.Profile.RunTimeLevel))
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
		return count(j.MinNodes, "node", "nodes") + exclusive
	case j.MaxNodes > 0:
		return fmt.Sprintf("%d to %d nodes", j.MinNodes, j.MaxNodes) + exclusive
	}
	return fmt.Sprintf("%s or more", count(max(1, j.MinNodes), "node", "nodes")) + exclusive
}

// ratio says what kind of job it is and how that is known.
func (a *app) ratio(st *store.Story) string {
	pr := &st.Job.Profile
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
		kind, math.Exp(pr.LogCC), count(pr.Count, "sample", "samples"), levelWords(pr.Level))
}

func levelWords(l profile.Level) string {
	switch l {
	case profile.LevelJob:
		return "from this job itself"
	case profile.LevelFamily:
		return "from jobs of its family"
	case profile.LevelName:
		return "from the user's jobs of that name"
	case profile.LevelUser:
		return "from the user's jobs"
	case profile.LevelClass:
		return "from all jobs with about as many GPUs"
	case profile.LevelCluster:
		return "from all jobs"
	}
	return "evidence: " + string(l)
}

// tellDecision says what was decided last and what else was possible.
func (a *app) tellDecision(p *page, st *store.Story) {
	d := last(st)
	if d == nil {
		return
	}
	p.section("The last decision")
	p.line("  made %s, stood until %s (%s, policy %s, mode %s)", a.clock(d.FirstAt), a.clock(d.LastAt),
		cyclesWords(d), d.Policy, d.Mode)
	if d.Skipped != "" {
		p.line("  hands off: %s", d.Skipped)
		return
	}
	tag := ""
	if d.Explored {
		tag = " (at random, to learn)"
	}
	p.line("  %s%s: %s", d.Action, tag, d.Reason)
	switch {
	case d.Candidates == nil:
		p.line("  on any node of its partitions")
	case d.Target != nil && d.Action == policy.Wait:
		p.line("  on %s; it waits for %s", slurm.CompressHosts(d.Candidates), slurm.CompressHosts(d.Target))
	case d.Target != nil:
		p.line("  on %s, of which %s was free for it", slurm.CompressHosts(d.Candidates), slurm.CompressHosts(d.Target))
	default:
		p.line("  on %s, of which not enough was free for it", slurm.CompressHosts(d.Candidates))
	}
	if d.Offset != 0 {
		p.line("  priority: %+d points", d.Offset)
	}
	if !d.Deadline.IsZero() {
		p.line("  waits until %s at the latest", a.clock(d.Deadline))
	}
	if d.State != "" {
		p.line("  state: %s (%s)", stateWords(d.State), d.State)
	}
	a.tellOptions(p, d)
}

func cyclesWords(d *store.Decision) string {
	if d.FirstCycle == d.LastCycle {
		return fmt.Sprintf("cycle %d", d.FirstCycle)
	}
	return fmt.Sprintf("cycles %d to %d", d.FirstCycle, d.LastCycle)
}

// tellOptions lists what was considered, as columns.
func (a *app) tellOptions(p *page, d *store.Decision) {
	if len(d.Considered) == 0 {
		return
	}
	p.section("What was considered (value: expected reward, nearer to 0 is better)")
	action, shape := 0, 0
	for _, o := range d.Considered {
		action, shape = max(action, len(o.Action)), max(shape, len(shapeWords(o)))
	}
	for _, o := range d.Considered {
		mark := " "
		if o.Action == d.Action {
			mark = "*"
		}
		p.line("  %s %-*s  %-*s  value %6.2f  %s%s", mark, action, o.Action, shape, shapeWords(o), o.Value, tries(o.Visits), note(o))
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
	return count(n, "try", "tries")
}

func note(o policy.Option) string {
	out := ""
	if len(o.Nodes) > 0 {
		out = " on " + slurm.CompressHosts(o.Nodes)
	}
	if o.Note != "" {
		out += "; " + o.Note
	}
	return out
}

// maxEarlier bounds how many earlier decisions and changes are told.
const maxEarlier = 10

func (a *app) tellEarlier(p *page, st *store.Story) {
	if len(st.Decisions) < 2 {
		return
	}
	earlier := st.Decisions[:len(st.Decisions)-1]
	p.section("Earlier decisions")
	if skip := len(earlier) - maxEarlier; skip > 0 {
		p.line("  (%d older ones are left out)", skip)
		earlier = earlier[skip:]
	}
	for i := range earlier {
		d := &earlier[i]
		why := d.Reason
		if d.Skipped != "" {
			why = "hands off: " + d.Skipped
		}
		p.line("  %s to %s  %s: %s", a.clock(d.FirstAt), a.local(d.LastAt).Format("15:04:05"), store.ActionName(d), why)
	}
}

func (a *app) tellChanges(p *page, st *store.Story) {
	p.section("What was written to Slurm")
	changes := st.Changes
	if len(changes) == 0 {
		p.line("  nothing")
	}
	if skip := len(changes) - maxEarlier; skip > 0 {
		p.line("  (%d older changes are left out)", skip)
		changes = changes[skip:]
	}
	for _, c := range changes {
		by := ""
		if c.Cycle == 0 {
			by = " (by rifling release)"
		}
		p.line("  %s  %s%s", a.clock(c.At), outcomeWords(c), by)
	}
	if st.Owner != nil && (st.Job.Pending() || st.Job.Running()) && !gone(st) {
		a.tellOwner(p, st.Owner)
	}
}

func (a *app) tellOwner(p *page, o *policy.Owner) {
	if o.Shunned != "" {
		p.line("  it will not be touched again: %s", o.Shunned)
	}
	if o.SetExclude == nil && o.SetRequired == nil && o.SetNice == nil && o.SetSiteFactor == nil {
		return
	}
	user := "none"
	if len(o.UserExclude) > 0 {
		user = slurm.CompressHosts(o.UserExclude)
	}
	p.line("  what is set lives until %s unless renewed; the user's own exclude list is %s", a.clock(o.ExpiresAt), user)
}

// tellOutcome says what came of it: place, rate, reward.
func (a *app) tellOutcome(p *page, st *store.Story) {
	j := &st.Job
	if j.Start.IsZero() {
		return
	}
	p.section("What came of it")
	p.line("  waited %s, started %s on %s", about(j.Wait()), a.clock(j.Start), slurm.CompressHosts(j.Nodes))
	if j.Profile.NPRCount > 0 {
		p.line("  processing rate %.2f of the best that its family was seen to reach (%s)", j.Profile.NPR,
			count(j.Profile.NPRCount, "observation", "observations"))
	} else {
		p.line("  no processing rate: no counters of it")
	}
	if !j.End.IsZero() {
		p.line("  ran %s, ended %s", about(j.Elapsed()), j.State)
		if j.Profile.RunTime > 0 {
			p.line("  expected were %s", about(j.Profile.RunTime))
		}
	}
	for _, e := range st.Episodes {
		a.tellEpisode(p, e)
	}
}

func (a *app) tellEpisode(p *page, e policy.Episode) {
	place := fmt.Sprintf("decision of %s (%s)", a.clock(e.Decided), e.Action)
	if e.Actual != "" && e.Actual != e.Action {
		place += fmt.Sprintf(", which came to %s", e.Actual)
	}
	if !e.Learned {
		p.line("  %s: too little evidence to learn from yet", place)
		return
	}
	p.line("  %s: reward %.3f (rate %.2f, neighbours %+.2f, %.0f idle GPU seconds)", place,
		e.Reward, e.NPR, e.NeighbourDelta, e.IdleGPUSeconds)
}
