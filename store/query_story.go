// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// Story is all that is known of one job.
type Story struct {
	Job       Job
	Decisions []Decision       // oldest first
	Changes   []Change         // oldest first
	Episodes  []policy.Episode // oldest first
	Owner     *policy.Owner    // nil when rifling has nothing set on it
	Groups    []profile.Group  // of the last grouping
	Last      *Cycle           // the newest that decided on jobs
	Newest    *Cycle           // the newest record of the daemon, that of a clean stop included
}

// Story returns all that is known of one job. The error wraps ErrUnknownJob
// when the history has never seen it.
func (s *Store) Story(ctx context.Context, id slurm.JobID) (*Story, error) {
	jobs, err := s.Jobs(ctx, Filter{Jobs: []slurm.JobID{id}})
	if err != nil {
		return nil, err
	}
	st := &Story{}
	for _, j := range jobs {
		if j.ID == id {
			st.Job = j
		}
	}
	if st.Job.ID == 0 {
		return nil, slurm.WithHint(fmt.Errorf("job %d: %w", id, ErrUnknownJob),
			"rifling keeps GPU jobs of managed partitions from its first cycle that saw them; jobs that start at submit, CPU jobs and other partitions are not among them (`rifling jobs` lists what is)")
	}
	for _, part := range []func(context.Context, *Story) error{
		s.storyDecisions, s.storyChanges, s.storyEpisodes, s.storyOwner,
	} {
		if err := part(ctx, st); err != nil {
			return nil, explain(s.path, fmt.Sprintf("read the history of job %d in", id), err)
		}
	}
	if st.Groups, _, err = s.Groups(ctx); err != nil {
		return nil, err
	}
	if st.Last, err = s.lastPlan(ctx); err != nil {
		return nil, err
	}
	st.Newest, err = s.LastCycle(ctx)
	return st, err
}

func (s *Store) storyDecisions(ctx context.Context, st *Story) (err error) {
	var rows []decisionRow
	q := `SELECT ` + decisionColumns + ` FROM decisions WHERE job_id = ? ORDER BY id`
	if err := s.db.SelectContext(ctx, &rows, q, st.Job.ID); err != nil {
		return err
	}
	st.Decisions, err = decisionsOf(rows)
	return err
}

func (s *Store) storyChanges(ctx context.Context, st *Story) (err error) {
	st.Changes, err = s.changes(ctx, `WHERE job_id = ? ORDER BY id`, st.Job.ID)
	return err
}

func (s *Store) storyEpisodes(ctx context.Context, st *Story) (err error) {
	st.Episodes, err = s.episodes(ctx, `WHERE job_id = ? ORDER BY decided`, st.Job.ID)
	return err
}

func (s *Store) storyOwner(ctx context.Context, st *Story) error {
	owners, err := s.Owners(ctx)
	for i := range owners {
		if owners[i].JobID == st.Job.ID {
			st.Owner = &owners[i]
		}
	}
	return err
}

// episodeRow is a row of the table episodes.
type episodeRow struct {
	JobID          slurm.JobID   `db:"job_id"`
	Decided        int64         `db:"decided"`
	State          string        `db:"state"`
	Action         policy.Action `db:"action"`
	Actual         policy.Action `db:"actual"`
	GPUs           int           `db:"gpus"`
	Submitted      int64         `db:"submitted"`
	Started        int64         `db:"started"`
	Ended          int64         `db:"ended"`
	Nodes          string        `db:"nodes"`
	NPR            float64       `db:"npr"`
	NPRCount       int           `db:"npr_count"`
	NeighbourDelta float64       `db:"neighbour_delta"`
	IdleGPUSeconds float64       `db:"idle_gpu_seconds"`
	Reward         float64       `db:"reward"`
	Learned        bool          `db:"learned"`
}

func (s *Store) episodes(ctx context.Context, rest string, args ...any) ([]policy.Episode, error) {
	var rows []episodeRow
	if err := s.db.SelectContext(ctx, &rows, `SELECT * FROM episodes `+rest, args...); err != nil {
		return nil, err
	}
	out := make([]policy.Episode, 0, len(rows))
	for _, r := range rows {
		nodes, err := slurm.ExpandHosts(r.Nodes)
		if err != nil {
			return nil, fmt.Errorf("episode of job %d: %w", r.JobID, err)
		}
		out = append(out, policy.Episode{
			JobID: r.JobID, State: r.State, Action: r.Action, Actual: r.Actual, GPUs: r.GPUs,
			Submitted: instant(r.Submitted), Decided: instant(r.Decided),
			Started: instant(r.Started), Ended: instant(r.Ended), Nodes: nodes,
			NPR: r.NPR, NPRCount: r.NPRCount, NeighbourDelta: r.NeighbourDelta,
			IdleGPUSeconds: r.IdleGPUSeconds, Reward: r.Reward, Learned: r.Learned,
		})
	}
	return out, nil
}
