// SPDX-License-Identifier: Apache-2.0

package explain

import (
	"fmt"
	"strings"

	"rifling/cmd/internal/config"
	"rifling/cmd/internal/wording"
	"rifling/policy"
	"rifling/store"
)

// sentence is the answer in one plain sentence.
func (t *teller) sentence() string {
	j := &t.st.Job
	who := fmt.Sprintf("Job %s %q of %s", j.DisplayID(), j.Name, j.User)
	on := " on " + hosts(j.Nodes)
	switch {
	case t.gone():
		return fmt.Sprintf("%s is no longer in Slurm's list; it was last seen %s at %s.", who, j.State, t.clock(j.LastSeen))
	case j.Pending():
		return fmt.Sprintf("%s waits (%s), and %s.", who, why(j.Reason), t.hand())
	case j.Running():
		return fmt.Sprintf("%s has been running for %s%s, %s.", who, wording.About(j.Elapsed()), on, t.place())
	case j.Start.IsZero():
		return fmt.Sprintf("%s ended as %s without having started, after waiting %s.", who, j.State, wording.About(j.End.Sub(j.Submit)))
	}
	return fmt.Sprintf("%s ended as %s after running %s%s, %s.", who, j.State, wording.About(j.Elapsed()), on, t.place())
}

// why is Slurm's reason in a few words.
func why(reason string) string {
	text := wording.Reason(reason)
	if _, plain, ok := strings.Cut(text, ": "); ok {
		return plain
	}
	return text
}

// hand says in a clause what rifling does about a job that waits.
func (t *teller) hand() string {
	d := t.last()
	switch {
	case d == nil:
		return "rifling has decided nothing on it"
	case d.Skipped != "":
		return "rifling leaves it alone: " + d.Skipped
	case !t.stands(d):
		return "rifling's last decision on it no longer stands"
	case d.Action == policy.Leave && d.Candidates == nil:
		return "rifling leaves its place to Slurm"
	}
	what := wording.Action(d.Action)
	if d.Action != policy.Wait && d.Candidates != nil {
		what += " (" + hosts(d.Candidates) + ")"
	}
	switch {
	case d.Candidates != nil && d.Mode != config.ModeSteer:
		return "rifling, which only observes, would be for " + what
	case t.written(d) != "":
		return "rifling is for " + what + ", which is not in force"
	}
	return "rifling is for " + what
}

// place says in a clause who chose where a job runs or ran.
func (t *teller) place() string {
	switch d := t.last(); {
	case d == nil || d.Skipped != "" || d.Mode != config.ModeSteer || !t.applied():
		return "where Slurm alone put it"
	case d.Candidates == nil || policy.Within(t.st.Job.Nodes, d.Candidates):
		return "among the nodes that rifling chose"
	}
	return "which are not the nodes that rifling chose"
}

// more is what else must be known to read the sentence right, a line each.
func (t *teller) more() []string {
	j := &t.st.Job
	var out []string
	switch {
	case t.gone():
		out = append(out, fmt.Sprintf("Its end was not seen: sacct -j %d tells it.", j.ID))
		if !j.Start.IsZero() {
			out = append(out, t.ran("It ran from"))
		}
	case j.Pending():
		out = append(out, t.waits()...)
	case j.Running():
		out = append(out, t.ran("It has been running since"))
	case j.Start.IsZero():
		out = append(out, fmt.Sprintf("It ended as %s at %s.", j.State, t.clock(j.End)))
	default:
		out = append(out, t.ran("It ran from"))
	}
	if away := Away(t.st.Newest, t.o); away != "" {
		out = append(out, "Mind that "+away+": what follows is as old as that.")
	}
	return out
}

// waits says why a pending job waits and what rifling has to do with it.
func (t *teller) waits() []string {
	j, d := &t.st.Job, t.last()
	first := fmt.Sprintf("It has waited %s. %s.", wording.About(j.Wait()), wording.Reason(j.Reason))
	switch {
	case d == nil:
		return []string{first, fmt.Sprintf("rifling has decided nothing on it: it decides on the first %d of the queue, and this job was not yet among them.", t.o.Depth)}
	case d.Skipped != "":
		return []string{first, "rifling keeps its hands off: " + d.Skipped + "."}
	case !t.stands(d):
		return []string{first, fmt.Sprintf("rifling's last decision on it, at %s, no longer stands: it is not among the first %d of the queue now.", t.clock(d.LastAt), t.o.Depth)}
	}
	return []string{first, t.standing(d)}
}

// standing says what the decision in force means for the job.
func (t *teller) standing(d *store.Decision) string {
	is := t.written(d)
	may := "it may start on"
	if is != "" {
		may = "it could start on"
	}
	what := "rifling chose " + wording.Action(d.Action)
	switch {
	case d.Action == policy.Leave:
		what = "rifling leaves its place to Slurm"
	case d.Action == policy.Wait && !d.Deadline.IsZero():
		what = fmt.Sprintf("rifling has it wait for a better place, until %s at the latest; then Slurm may start it anywhere", t.clock(d.Deadline))
	case d.Action == policy.Wait:
		what = "rifling has it wait for a better place"
	case d.Candidates == nil:
		what += "; no node needs to be excluded for that"
	}
	if d.Candidates != nil && d.Action != policy.Wait {
		what += fmt.Sprintf(": %s %s only", may, hosts(d.Candidates))
	}
	if d.Offset != 0 {
		what += fmt.Sprintf(", with %+d points of priority", d.Offset)
	}
	if is != "" {
		what += ". " + is
	}
	return what + ". " + wording.Sentence(d.Reason) + "."
}

// written says why the decision is not on the job in Slurm; "" when it is, or
// when nothing needs to be.
func (t *teller) written(d *store.Decision) string {
	if d.Candidates == nil && d.Offset == 0 {
		return ""
	}
	if d.Mode != config.ModeSteer {
		return "But riflingd only observes: nothing of this was written to Slurm"
	}
	var c *store.Change
	if n := len(t.st.Changes); n > 0 {
		c = &t.st.Changes[n-1]
	}
	o := t.st.Owner
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

// ran says where a job runs or ran and whether rifling had a hand in it.
func (t *teller) ran(verb string) string {
	j := &t.st.Job
	where := fmt.Sprintf("%s %s on %s (%s), after waiting %s", verb, t.clock(j.Start),
		hosts(j.Nodes), wording.Count(len(j.Nodes), "node", "nodes"), wording.About(j.Wait()))
	d := t.last()
	switch {
	case d == nil && !j.FirstSeen.Before(j.Start):
		return where + ". It was running already when riflingd first saw it, so Slurm alone chose the place."
	case d == nil:
		return where + ". rifling decided nothing on it: it started before its turn came, so Slurm alone chose the place."
	case d.Skipped != "":
		return where + ". rifling kept its hands off (" + d.Skipped + "), so Slurm alone chose the place."
	case d.Mode != config.ModeSteer:
		return where + ". rifling only observed, so Slurm alone chose the place; it would have been for " + wording.Action(d.Action) + "."
	case !t.applied():
		return where + ". rifling was for " + wording.Action(d.Action) + ", but no change of its was applied, so Slurm alone chose the place."
	case d.Candidates == nil || policy.Within(j.Nodes, d.Candidates):
		return where + ". rifling was for " + wording.Action(d.Action) + ", and that is where it may run."
	}
	return where + ". rifling was for " + wording.Action(d.Action) + " on " + hosts(d.Candidates) +
		", but it started elsewhere, before the change came through or after it was taken back."
}

// applied reports whether any change was written to the job.
func (t *teller) applied() bool {
	for _, c := range t.st.Changes {
		if c.Kind == policy.KindSet && c.Outcome == policy.Applied {
			return true
		}
	}
	return false
}
