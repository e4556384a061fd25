// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"time"

	"rifling/policy"
	"rifling/slurm"
)

// longRun is after which time a learner learns from a run that has not ended
// yet, by its predicted length: jobs may run for days. Where rewards fade
// sooner, a tenth of their time is enough.
const longRun = 5 * time.Minute

// typicalRun stands for the run time of a job of which nothing is known.
const typicalRun = time.Hour

// episode is one job from its first decision to its end.
type episode struct {
	policy.Episode
	Decision policy.Decision // the last one
	Since    time.Time       // when the job came into the decision's state
	Need     int             // nodes that the job needs at best
	Steered  bool            // it started with something of rifling's set
	// Before is the NPR of the jobs on the placement's nodes when it started.
	Before map[slurm.JobID]float64
}

// follow looks at what became of the jobs decided on before: it lets the
// learner learn from runs that gave enough evidence, and returns the episodes
// that have news: started, learned from, ended.
func (l *Loop) follow(in policy.Input) (done []policy.Episode, rewards []float64) {
	blame := l.blame(in.Snapshot)
	for _, id := range sortedKeys(l.episodes) {
		e, j := l.episodes[id], in.Snapshot.Job(id)
		news := true
		switch {
		case j == nil || j.Done():
			l.ended(e, j, in)
			delete(l.episodes, id)
		case j.Running() && e.Started.IsZero():
			l.started(e, j, in)
		case j.Running():
			news = false
		case j.Pending() && !e.Started.IsZero():
			delete(l.episodes, id) // requeued: its next decision opens a new one
			continue
		case j.Pending():
			e.IdleGPUSeconds += blame * float64(policy.IdleNow(e.Decision, e.GPUs)) * l.sinceLast(in).Seconds()
			continue
		}
		if !e.Learned && l.learnRun(e, in) {
			rewards = append(rewards, e.Reward)
			news = true
		}
		if news {
			done = append(done, e.Episode)
		}
	}
	return done, rewards
}

// blame is the part of the GPUs of waiting jobs that lie idle because they wait:
// several that could each have had the same free GPUs share them.
func (l *Loop) blame(s *slurm.Snapshot) float64 {
	free, could := 0, 0
	for i := range s.Nodes {
		free += s.Nodes[i].FreeGPUs()
	}
	for id, e := range l.episodes {
		if j := s.Job(id); j != nil && j.Pending() && e.Started.IsZero() {
			could += policy.IdleNow(e.Decision, e.GPUs)
		}
	}
	return min(1, float64(free)/float64(max(1, could)))
}

func (l *Loop) sinceLast(in policy.Input) time.Duration {
	if l.lastAt.IsZero() {
		return 0
	}
	return max(0, in.Snapshot.TakenAt.Sub(l.lastAt))
}

func (l *Loop) started(e *episode, j *slurm.Job, in policy.Input) {
	e.Started, e.Nodes, e.GPUs = j.StartTime, j.Nodes, j.Total()
	e.Actual = policy.ActionOf(j, e.Need, e.Decision)
	if e.Action == policy.Wait && policy.Within(j.Nodes, e.Decision.Candidates) {
		e.Actual = policy.Wait // it got what it waited for
	}
	o := l.owned[e.JobID]
	e.Steered = o.SetExclude != nil && !policy.SameNodes(o.SetExclude, o.UserExclude) || o.SetRequired != nil ||
		o.SetSiteFactor != nil || o.SetNice != nil
	e.Before = map[slurm.JobID]float64{}
	for _, id := range neighbours(j, in.Snapshot) {
		if npr, _, ok := l.Book.Rate(id); ok {
			e.Before[id] = npr
		}
	}
}

func (l *Loop) ended(e *episode, j *slurm.Job, in policy.Input) {
	e.Ended = in.Snapshot.TakenAt
	if j == nil {
		return
	}
	if e.Started.IsZero() && len(j.Nodes) > 0 {
		l.started(e, j, in)
	}
	if !j.EndTime.IsZero() {
		e.Ended = j.EndTime
	}
}

// neighbours are the running jobs that share a node with the job.
func neighbours(j *slurm.Job, s *slurm.Snapshot) []slurm.JobID {
	var out []slurm.JobID
	for i := range s.Jobs {
		o := &s.Jobs[i]
		if o.ID != j.ID && o.Running() && policy.Share(o.Nodes, j.Nodes) {
			out = append(out, o.ID)
		}
	}
	return out
}

// learnRun teaches the learner what the job's last decision came to: its wait
// and its run. It is false as long as there is too little evidence.
func (l *Loop) learnRun(e *episode, in policy.Input) bool {
	e.NPR, e.NPRCount = l.Book.MeanNPR(e.JobID)
	if e.Started.IsZero() || e.NPRCount == 0 {
		return false
	}
	run := e.Ended.Sub(e.Started)
	if e.Ended.IsZero() {
		so := in.Snapshot.TakenAt.Sub(e.Started)
		if so < min(longRun, l.Tau/10) {
			return false
		}
		run = max(so, in.Profiles[e.JobID].RunTime)
	}
	e.NeighbourDelta = l.neighbourDelta(e, in.Snapshot)
	waited := max(0, e.Started.Sub(e.Since))
	e.Reward = policy.WaitReward(e.IdleGPUSeconds, e.GPUs, run) +
		policy.Later(policy.RunReward(e.Episode), waited, l.Tau)
	e.Learned = true
	if f := l.Brakes.Fallback; f != nil {
		f.Outcome(in.Snapshot.TakenAt, e.State, e.Steered, e.Reward)
	}
	// What was not even considered then has no expectation to be compared with.
	prior, known := policy.PriorOf(e.Decision, e.Actual)
	if learner, ok := l.Policy.(policy.Learner); ok && known && e.State != "" {
		learner.Learn(policy.Step{
			JobID: e.JobID, State: e.State, Action: e.Actual, Prior: prior, Reward: e.Reward,
			Elapsed: waited + run, At: in.Snapshot.TakenAt,
		})
	}
	return true
}

func (l *Loop) neighbourDelta(e *episode, s *slurm.Snapshot) float64 {
	delta := 0.0
	for id, before := range e.Before {
		j := s.Job(id)
		if npr, _, ok := l.Book.Rate(id); ok && j != nil {
			delta += float64(j.Total()) * (npr - before)
		}
	}
	return delta
}

// decided opens and carries on episodes by the plan's decisions. When a waiting
// job's state or action changed, the time in the old state is learned from.
func (l *Loop) decided(in policy.Input, decisions map[slurm.JobID]policy.Decision) {
	now := in.Snapshot.TakenAt
	for _, id := range sortedKeys(decisions) {
		d, j := decisions[id], in.Snapshot.Job(id)
		e, ok := l.episodes[id]
		if ok && e.State == d.State && e.Action == d.Action {
			e.Decision = d
			continue
		}
		if ok {
			l.learnStep(e, d, in)
		}
		l.episodes[id] = &episode{
			Episode: policy.Episode{
				JobID: id, State: d.State, Action: d.Action, Actual: policy.Wait, GPUs: j.Total(),
				Submitted: j.SubmitTime, Decided: now,
			},
			Decision: d, Since: now, Need: policy.NodesNeeded(j, in.Snapshot),
		}
	}
	for id, e := range l.episodes {
		if _, ok := decisions[id]; !ok && e.Started.IsZero() && in.Snapshot.Job(id) != nil && in.Snapshot.Job(id).Pending() {
			delete(l.episodes, id) // no longer decided on
		}
	}
}

func (l *Loop) learnStep(e *episode, next policy.Decision, in policy.Input) {
	learner, ok := l.Policy.(policy.Learner)
	prior, known := policy.PriorOf(e.Decision, e.Action)
	if !ok || !known || e.State == "" || next.State == "" || e.State == next.State {
		return
	}
	now, run := in.Snapshot.TakenAt, in.Profiles[e.JobID].RunTime
	if run <= 0 {
		run = typicalRun
	}
	waited := now.Sub(e.Since)
	learner.Learn(policy.Step{
		JobID: e.JobID, State: e.State, Action: e.Action, Prior: prior,
		Reward:  policy.WaitReward(e.IdleGPUSeconds, e.GPUs, run),
		Elapsed: waited, Next: next.State, Choices: next.Considered, At: now,
	})
}
