// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"rifling/slurm"
)

// Untouchable returns why rifling keeps its hands off the job, or "" when it
// may act. The order is that of the answer's use to an admin: the first reason
// that holds is given.
func Untouchable(j *slurm.Job, in Input) string {
	for _, rule := range []func(*slurm.Job, Input) string{ofState, ofRequest, ofSite, ofHistory} {
		if why := rule(j, in); why != "" {
			return why
		}
	}
	return ""
}

func ofState(j *slurm.Job, in Input) string {
	switch {
	case !j.Pending():
		return "it is not pending (" + j.State.Base + ")"
	case j.Held:
		return "it is held"
	case j.Reason == "BadConstraints":
		return "Slurm calls its request impossible (BadConstraints)"
	case j.EligibleTime.After(in.Snapshot.TakenAt.Add(in.Limits.Grace)):
		return "it may not begin before " + j.EligibleTime.UTC().Format(time.DateTime) + " UTC"
	case j.Priority == 0:
		return "its priority is 0"
	}
	return ""
}

func ofRequest(j *slurm.Job, in Input) string {
	switch {
	case !j.WantsGPU():
		return "it asks for no GPU"
	case j.Dependency != "":
		return "it depends on another job"
	case j.Reservation != "":
		return "it runs in reservation " + j.Reservation
	case j.Het:
		return "it is a heterogeneous job"
	case j.Cron:
		return "it belongs to scrontab"
	case len(j.RequiredNodes) > 0 && !requiredIsOurs(j, in):
		return "its user named the nodes"
	case j.Switches > 0 && (j.Exclusive || j.Request.PerJob > 0):
		// With exclusions slurmctld 26.05 may call such a job impossible and set
		// its priority to 0: docs/design/steering.md.
		return "it asks for --switches with --exclusive or --gpus, which exclusions may make impossible"
	case j.Contiguous:
		return "it asks for --contiguous, which exclusions may make impossible"
	case j.IsArray() && !in.Snapshot.Release.HasSiteFactor() && arrayRuns(j, in.Snapshot):
		return "tasks of its array run already, and this REST version would touch them too"
	}
	return ""
}

func requiredIsOurs(j *slurm.Job, in Input) bool {
	o, ok := in.Owned[j.ID]
	return ok && listIsOurs(j.RequiredNodes, o.SetRequired, o.PrevRequired)
}

func arrayRuns(j *slurm.Job, s *slurm.Snapshot) bool {
	return slices.ContainsFunc(s.Jobs, func(o slurm.Job) bool {
		return o.ArrayJobID == j.ArrayJobID && o.Running()
	})
}

func ofSite(j *slurm.Job, in Input) string {
	l := in.Limits
	switch {
	case !managedPartition(j, in):
		return "partition " + j.Partition + " is not managed"
	case l.OptOut != "" && strings.Contains(j.Comment, l.OptOut):
		return "its comment says " + l.OptOut
	case slices.Contains(l.SkipUsers, j.User):
		return "user " + j.User + " is left out by the configuration"
	case slices.Contains(l.SkipAccounts, j.Account):
		return "account " + j.Account + " is left out by the configuration"
	case slices.Contains(l.SkipQOS, j.QOS):
		return "QOS " + j.QOS + " is left out by the configuration"
	}
	if p := named(j.Partition, l.SkipPartitions); p != "" {
		return "partition " + p + " is left out by the configuration"
	}
	if f := named(j.Features, l.SkipConstraints); f != "" {
		return "its constraint names " + f + ", which the configuration leaves out"
	}
	return ""
}

// named returns the first of the words that the text names: a list of
// partitions, or a constraint with whatever joins, groups and counts features.
func named(text string, words []string) string {
	for _, w := range strings.FieldsFunc(text, func(r rune) bool { return strings.ContainsRune("&|,()[]*! ", r) }) {
		if slices.Contains(words, w) {
			return w
		}
	}
	return ""
}

// managedPartition demands that every partition that the job names is managed
// and up: a job that may also run elsewhere is not ours to narrow.
func managedPartition(j *slurm.Job, in Input) bool {
	for name := range strings.SplitSeq(j.Partition, ",") {
		p := in.Snapshot.Partition(name)
		if p == nil || !p.Up {
			return false
		}
		if len(in.Limits.Partitions) > 0 && !slices.Contains(in.Limits.Partitions, name) {
			return false
		}
	}
	return j.Partition != ""
}

func ofHistory(j *slurm.Job, in Input) string {
	if o, ok := in.Owned[j.ID]; ok && o.Shunned != "" {
		return "an earlier change did not do it good: " + o.Shunned
	}
	if s := in.Limits.Starvation; s > 0 {
		if since := eligibleSince(j); !since.IsZero() && in.Snapshot.TakenAt.Sub(since) > s {
			return fmt.Sprintf("it has waited longer than %s, so Slurm alone decides", s)
		}
	}
	return ""
}

func eligibleSince(j *slurm.Job) time.Time {
	if j.EligibleTime.IsZero() {
		return j.SubmitTime
	}
	return j.EligibleTime
}

// Restrict applies the guard rails to any policy's plan, so that no policy
// needs to be trusted. What it holds, whatever the plan says:
//
//   - a job that Untouchable names is left alone;
//   - candidates are usable nodes of the job's partitions that its user did not
//     exclude, at least as many as the job needs plus Limits.SlackNodes, else
//     the job keeps all nodes;
//   - the priority offset lies in 0..Limits.MaxOffset, and lifts no job by more
//     than Limits.MaxOvertake above one of another QOS or partition;
//   - waiting ends at Limits.MaxWait after the job came to its queue's head.
//
// The plan that comes back shares nothing with the one passed in.
func Restrict(p Plan, in Input) Plan {
	in = in.indexed()
	out := p
	out.Decisions = make([]Decision, 0, len(p.Decisions))
	rivals := rivalsOf(in)
	for _, d := range p.Decisions {
		j := in.Snapshot.Job(d.JobID)
		if j == nil {
			continue
		}
		d.Considered = slices.Clone(d.Considered)
		if why := Untouchable(j, in); why != "" {
			d = leaveAlone(d, why)
		}
		d = restrictOne(d, j, in)
		if d.Offset > rivals.room(j, in) {
			// Part of the way would change little and be written anew whenever
			// priorities age, so it is none.
			d.Offset = 0
		}
		out.Decisions = append(out.Decisions, d)
	}
	return out
}

func leaveAlone(d Decision, why string) Decision {
	return Decision{
		JobID: d.JobID, Action: Leave, State: d.State, Skipped: why,
		Reason: "left alone: " + why,
	}
}

func restrictOne(d Decision, j *slurm.Job, in Input) Decision {
	d.Offset = min(max(0, d.Offset), max(0, in.Limits.MaxOffset))
	if d.Action == Wait && waitedOut(j, in) {
		d.Action, d.Candidates = Leave, nil
		d.Reason = "waited as long as the limits allow; Slurm may now start it anywhere"
	}
	if d.Candidates == nil {
		return d
	}
	open := openNodes(j, in)
	wanted := in.marked(d.Candidates)
	d.Candidates = slices.DeleteFunc(slices.Clone(open), func(n string) bool { return !wanted[in.index.at[n]] })
	need := max(1, NodesNeeded(j, in.Snapshot)) + in.Limits.SlackNodes
	if len(d.Candidates) < need || len(d.Candidates) >= len(open) {
		if len(d.Candidates) < need {
			d.Reason += fmt.Sprintf(" (not narrowed: %d candidate nodes are fewer than the %d that the limits want)",
				len(d.Candidates), need)
		}
		d.Action, d.Candidates = Leave, nil
	}
	return d
}

func waitedOut(j *slurm.Job, in Input) bool {
	head, ok := in.Heads[j.ID]
	return ok && in.Snapshot.TakenAt.Sub(head) >= in.Limits.MaxWait || in.Limits.MaxWait <= 0
}

// UserExclude returns the exclude list that is the user's own word: the job's
// list when rifling does not own it or when someone changed it since, else what
// the owner record kept.
func UserExclude(j *slurm.Job, owned map[slurm.JobID]Owner) []string {
	o, ok := owned[j.ID]
	if ok && listIsOurs(j.ExcludedNodes, o.SetExclude, o.PrevExclude) {
		return o.UserExclude
	}
	return j.ExcludedNodes
}

// userNice is the same for the nice value.
func userNice(j *slurm.Job, owned map[slurm.JobID]Owner) int64 {
	if o, ok := owned[j.ID]; ok && isOurs(j.Nice, o.SetNice, o.PrevNice) {
		return o.UserNice
	}
	return j.Nice
}
