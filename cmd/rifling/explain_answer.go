// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"

	"rifling/cmd/internal/config"
	"rifling/policy"
	"rifling/slurm"
	"rifling/store"
)

// shortAnswer is the answer in a few sentences, one a line.
func (a *app) shortAnswer(st *store.Story, cfg *config.Config) []string {
	j := &st.Job
	var out []string
	switch {
	case gone(st):
		out = append(out, fmt.Sprintf("It was last seen %s at %s and is no longer in Slurm's list; its end was not seen (sacct -j %d tells).",
			j.State, a.clock(j.LastSeen), j.ID))
		if !j.Start.IsZero() {
			out = append(out, a.ranAnswer(st, "It ran from"))
		}
	case j.Pending():
		out = append(out, a.waitAnswer(st, cfg)...)
	case j.Running():
		out = append(out, a.ranAnswer(st, "It has been running since"))
	case j.Start.IsZero():
		out = append(out, fmt.Sprintf("It ended as %s at %s without having started, after waiting %s.",
			j.State, a.clock(j.End), about(j.End.Sub(j.Submit))))
	case j.End.IsZero():
		out = append(out, a.ranAnswer(st, "It ran from"))
	default:
		out = append(out, fmt.Sprintf("It ended as %s at %s after running %s.", j.State, a.clock(j.End), about(j.Elapsed())),
			a.ranAnswer(st, "It ran from"))
	}
	if st.Newest == nil {
		return out
	}
	age := a.env.Now().Sub(lastBeat(st.Newest))
	switch {
	case st.Newest.Stopped():
		out = append(out, fmt.Sprintf("Mind that riflingd was stopped %s ago and took back what it had set: what follows is as old as that.", about(age)))
	case age > staleAfter(cfg):
		out = append(out, fmt.Sprintf("Mind that riflingd's last cycle was %s ago: what follows is as old as that.", about(age)))
	}
	return out
}

// waitAnswer says why a pending job waits and what rifling has to do with it.
func (a *app) waitAnswer(st *store.Story, cfg *config.Config) []string {
	j, d := &st.Job, last(st)
	first := fmt.Sprintf("It has waited %s. %s.", about(j.Wait()), reasonWords(j.Reason))
	switch {
	case d == nil:
		return []string{first, fmt.Sprintf("rifling has decided nothing on it: it decides on the first %d of the queue, and this job was not yet among them.", cfg.Limits.Depth)}
	case d.Skipped != "":
		return []string{first, "rifling keeps its hands off: " + d.Skipped + "."}
	case st.Last != nil && d.LastCycle < st.Last.ID:
		return []string{first, fmt.Sprintf("rifling's last decision on it, at %s, no longer stands: it is not among the first %d of the queue now.", a.clock(d.LastAt), cfg.Limits.Depth)}
	}
	return []string{first, a.standing(st, d)}
}

// standing says what the decision in force means for the job.
func (a *app) standing(st *store.Story, d *store.Decision) string {
	is := written(st, d)
	may := "it may start on"
	if is != "" {
		may = "it could start on"
	}
	what := "rifling chose " + actionWords(d.Action)
	switch {
	case d.Action == policy.Leave:
		what = "rifling leaves its place to Slurm"
	case d.Action == policy.Wait && !d.Deadline.IsZero():
		what = fmt.Sprintf("rifling has it wait for a better place, until %s at the latest; then Slurm may start it anywhere", a.clock(d.Deadline))
	case d.Action == policy.Wait:
		what = "rifling has it wait for a better place"
	case d.Candidates == nil:
		what += "; no node needs to be excluded for that"
	}
	if d.Candidates != nil && d.Action != policy.Wait {
		what += fmt.Sprintf(": %s %s only", may, slurm.CompressHosts(d.Candidates))
	}
	if d.Offset != 0 {
		what += fmt.Sprintf(", with %+d points of priority", d.Offset)
	}
	if is != "" {
		what += ". " + is
	}
	return what + ". " + sentence(d.Reason) + "."
}

// written says why the decision is not on the job in Slurm; "" when it is, or
// when nothing needs to be.
func written(st *store.Story, d *store.Decision) string {
	if d.Candidates == nil && d.Offset == 0 {
		return ""
	}
	if d.Mode != config.ModeSteer {
		return "But riflingd only observes: nothing of this was written to Slurm"
	}
	var c *store.Change
	if n := len(st.Changes); n > 0 {
		c = &st.Changes[n-1]
	}
	o := st.Owner
	switch {
	case c != nil && c.Outcome == "":
		return "But whether that reached Slurm is not known: riflingd has not recorded the answer"
	case o != nil && owns(o, d):
		return ""
	case c != nil && c.Outcome == policy.Failed:
		return "But that is not in force: the change failed (" + c.Detail + ")"
	case c != nil && c.Outcome == policy.Skipped:
		return "But that is not in force: the change was skipped (" + c.Detail + ")"
	}
	return "But nothing of this is in force: the change was put off to a later cycle, or the configuration does not let rifling steer this job"
}

// owns reports whether what the decision needs is set on the job: nodes, or,
// where it narrows none, the priority offset.
func owns(o *policy.Owner, d *store.Decision) bool {
	if d.Candidates != nil {
		return o.SetExclude != nil || o.SetRequired != nil
	}
	return o.SetSiteFactor != nil || o.SetNice != nil
}

// ranAnswer says where a job runs or ran and whether rifling had a hand in it.
func (a *app) ranAnswer(st *store.Story, verb string) string {
	j := &st.Job
	where := fmt.Sprintf("%s %s on %s (%s), after waiting %s", verb, a.clock(j.Start),
		slurm.CompressHosts(j.Nodes), count(len(j.Nodes), "node", "nodes"), about(j.Wait()))
	d := last(st)
	switch {
	case d == nil && !j.FirstSeen.Before(j.Start):
		return where + ". It was running already when riflingd first saw it, so Slurm alone chose the place."
	case d == nil:
		return where + ". rifling decided nothing on it: it started before its turn came, so Slurm alone chose the place."
	case d.Skipped != "":
		return where + ". rifling kept its hands off (" + d.Skipped + "), so Slurm alone chose the place."
	case d.Mode != config.ModeSteer:
		return where + ". rifling only observed, so Slurm alone chose the place; it would have been for " + actionWords(d.Action) + "."
	case !applied(st):
		return where + ". rifling was for " + actionWords(d.Action) + ", but no change of its was applied, so Slurm alone chose the place."
	case d.Candidates == nil || policy.Within(j.Nodes, d.Candidates):
		return where + ". rifling was for " + actionWords(d.Action) + ", and that is where it may run."
	}
	return where + ". rifling was for " + actionWords(d.Action) + " on " + slurm.CompressHosts(d.Candidates) +
		", but it started elsewhere, before the change came through or after it was taken back."
}

// applied reports whether any change was written to the job.
func applied(st *store.Story) bool {
	for _, c := range st.Changes {
		if c.Kind == policy.KindSet && c.Outcome == policy.Applied {
			return true
		}
	}
	return false
}
