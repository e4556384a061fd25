// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// Trial lets a policy decide beside the one that is in charge. Observing, the
// incumbent's plan stands as if there were no trial, and the candidate's is
// kept beside it. With a share, the candidate decides for the jobs that InShare
// draws, until the test finds that they do worse; then the incumbent decides
// for all again.
//
// A job is scored when it ends: by its completion time over the run time that
// was predicted when it was first decided on. Jobs that are cancelled or vanish
// are not.
type Trial struct {
	Version              string
	Incumbent, Candidate Policy
	// Share is the candidate's part of the jobs; 0 observes.
	Share float64
	// Since is when the stage began: a state of an earlier time is not resumed.
	Since time.Time

	broken    string
	test      ShareTest
	jobs      map[slurm.JobID]trialJob
	incumbent map[slurm.JobID]Decision // what each decided last, for its next decision
	candidate map[slurm.JobID]Decision
	pairs     []PlanPair
}

// trialJob is one job that will be scored.
type trialJob struct {
	Mine bool          `json:"mine"`
	Kind string        `json:"kind"`
	Run  time.Duration `json:"run"` // as predicted when it was first decided on
	// Scored jobs stay until Slurm forgets them, lest they are counted twice.
	Scored bool `json:"scored,omitempty"`
}

// PlanPair is what both policies decided for one job in one cycle.
type PlanPair struct {
	Mine                 bool // the candidate's decision stands
	Incumbent, Candidate Decision
}

// Differ reports whether the two would do different things with the job.
func (p *PlanPair) Differ() bool {
	a, b := &p.Incumbent, &p.Candidate
	return a.Action != b.Action || !SameNodes(a.Candidates, b.Candidates) || a.Offset != b.Offset
}

// NewTrial returns a trial. When the incumbent learns, so does what is
// returned: the loop finds it as it would find the incumbent itself.
func NewTrial(version string, incumbent, candidate Policy, share float64) (*Trial, Policy) {
	t := &Trial{
		Version: version, Incumbent: incumbent, Candidate: candidate, Share: share,
		test: ShareTest{Share: share}, jobs: map[slurm.JobID]trialJob{},
		incumbent: map[slurm.JobID]Decision{}, candidate: map[slurm.JobID]Decision{},
	}
	if l, ok := incumbent.(Learner); ok {
		return t, &learningTrial{t, l}
	}
	return t, t
}

// learningTrial hands what was learned to the incumbent. What the candidate's
// placements came to teaches it as well: an action with an outcome.
type learningTrial struct {
	*Trial
	learner Learner
}

// Learn teaches the incumbent.
func (t *learningTrial) Learn(s Step) float64 { return t.learner.Learn(s) }

// Entries returns what the incumbent has learned.
func (t *learningTrial) Entries() []QEntry { return t.learner.Entries() }

// Restore gives the incumbent back what it had learned.
func (t *learningTrial) Restore(entries []QEntry) { t.learner.Restore(entries) }

// Decide asks both and takes the candidate's decisions for the share.
func (t *Trial) Decide(in Input) Plan {
	t.score(in)
	own := in
	own.Previous = t.previous(in, t.incumbent)
	plan := t.Incumbent.Decide(own)
	other := t.ask(in)
	byJob := map[slurm.JobID]Decision{}
	for _, d := range other.Decisions {
		byJob[d.JobID] = d
	}
	t.pairs = t.pairs[:0]
	t.incumbent, t.candidate = kept(plan), kept(other)
	plan.Decisions = slices.Clone(plan.Decisions)
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		j := in.Snapshot.Job(d.JobID)
		c, both := byJob[d.JobID]
		if j == nil || !both || d.Skipped != "" || c.Skipped != "" {
			continue
		}
		pair := PlanPair{Mine: t.steers(j), Incumbent: *d, Candidate: c}
		t.follow(j, in.Profiles[j.ID], pair.Mine)
		t.pairs = append(t.pairs, pair)
		if pair.Mine {
			c.Reason += fmt.Sprintf(" (policy %s, on trial)", t.Version)
			*d = c
		}
	}
	return plan
}

// ask gets the candidate's plan. It draws numbers of its own, so that the
// incumbent draws what it would have drawn; and what it breaks is its own.
func (t *Trial) ask(in Input) (p Plan) {
	if t.broken != "" {
		return Plan{}
	}
	defer func() {
		if r := recover(); r != nil {
			t.broken, p = fmt.Sprint(r), Plan{}
		}
	}()
	in.Previous = t.previous(in, t.candidate)
	in.Rand = rand.New(rand.NewPCG(hash64(t.Version), uint64(in.Snapshot.TakenAt.UnixNano())))
	return t.Candidate.Decide(in)
}

// Broken says what went wrong in the candidate, "" for nothing. It is asked no
// more then.
func (t *Trial) Broken() string { return t.broken }

func (t *Trial) steers(j *slurm.Job) bool {
	return t.Share > 0 && !t.test.Alarm && InShare(t.Version, j, t.Share)
}

// previous is what a policy decided last of the jobs that are still decided
// on; after a restart, what stood.
func (t *Trial) previous(in Input, own map[slurm.JobID]Decision) map[slurm.JobID]Decision {
	if len(own) == 0 {
		return in.Previous
	}
	return own
}

func kept(p Plan) map[slurm.JobID]Decision {
	out := make(map[slurm.JobID]Decision, len(p.Decisions))
	for _, d := range p.Decisions {
		if d.Skipped == "" {
			out[d.JobID] = d
		}
	}
	return out
}

func hash64(s string) uint64 {
	h := uint64(14695981039346656037)
	for i := range len(s) {
		h = (h ^ uint64(s[i])) * 1099511628211
	}
	return h
}

// follow begins to follow a job that is decided on for the first time.
func (t *Trial) follow(j *slurm.Job, p profile.Profile, mine bool) {
	if _, known := t.jobs[j.ID]; known || t.Share <= 0 || t.test.Alarm {
		return
	}
	t.jobs[j.ID] = trialJob{Mine: mine, Kind: kindOf(j, p), Run: max(time.Minute, runOf(j, p))}
}

// kindOf puts a job among its like: by its GPUs in powers of 2 and by how it
// communicates.
func kindOf(j *slurm.Job, p profile.Profile) string {
	kind := "unknown"
	switch {
	case p.CommBound:
		kind = "communication"
	case p.ComputeBound:
		kind = "compute"
	case p.Group != profile.GroupUnknown:
		kind = "between"
	}
	return fmt.Sprintf("%d %s", 1<<bits.Len(uint(max(1, j.Total())-1)), kind)
}

// score counts the jobs that have ended, and those that wait or run longer than
// all of their kind did.
func (t *Trial) score(in Input) {
	if t.Share <= 0 || t.test.Alarm {
		return
	}
	seen := map[slurm.JobID]bool{}
	for i := range in.Snapshot.Jobs {
		j := &in.Snapshot.Jobs[i]
		job, ok := t.jobs[j.ID]
		if !ok {
			continue
		}
		seen[j.ID] = true
		if job.Scored {
			continue
		}
		end := in.Snapshot.TakenAt
		if j.Done() && !j.EndTime.IsZero() {
			end = j.EndTime
		}
		y := math.Log(max(1, end.Sub(eligibleSince(j)).Seconds()) / job.Run.Seconds())
		switch {
		case j.Done() && strings.HasPrefix(j.State.Base, "CANCELLED"):
			delete(t.jobs, j.ID)
		case j.Done() || t.test.Last(job.Kind, y):
			t.test.Add(job.Kind, job.Mine, y)
			job.Scored = true
			t.jobs[j.ID] = job
		}
	}
	maps.DeleteFunc(t.jobs, func(id slurm.JobID, _ trialJob) bool { return !seen[id] })
}

// Pairs are the decisions of the last cycle, side by side. They are valid until
// the next.
func (t *Trial) Pairs() []PlanPair { return t.pairs }

// Figures are what the test has seen so far.
func (t *Trial) Figures() ShareFigures { return t.test.Figures() }

// TrialStateName is the name under which a daemon keeps a trial's state.
const TrialStateName = "trial"

// trialState is what a restart carries on.
type trialState struct {
	Version string                   `json:"version"`
	Since   time.Time                `json:"since"`
	Test    ShareTest                `json:"test"`
	Jobs    map[slurm.JobID]trialJob `json:"jobs"`
}

// State returns what a restart must know.
func (t *Trial) State() ([]byte, error) {
	return json.Marshal(trialState{t.Version, t.Since, t.test, t.jobs})
}

// Resume goes on from a state that State gave; with that of another version,
// another share or another time the trial begins anew.
func (t *Trial) Resume(state []byte) error {
	if len(state) == 0 {
		return nil
	}
	var s trialState
	if err := json.Unmarshal(state, &s); err != nil {
		return fmt.Errorf("resume the trial of %s: %w", t.Version, err)
	}
	if s.Version != t.Version || s.Test.Share != t.Share || !s.Since.Equal(t.Since) {
		return nil
	}
	t.test, t.jobs = s.Test, s.Jobs
	if t.jobs == nil {
		t.jobs = map[slurm.JobID]trialJob{}
	}
	return nil
}
