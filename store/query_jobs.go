// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// Job is the last that is known of a GPU job.
type Job struct {
	ID          slurm.JobID
	ArrayJobID  slurm.JobID
	ArrayTaskID int64
	ArrayTasks  string // of an array's pending tasks: "1-6%2"
	Name        string
	User        string
	Account     string
	Partition   string
	QOS         string
	State       slurm.State
	Reason      string

	Submit   time.Time
	Eligible time.Time
	Start    time.Time // zero while pending
	Estimate time.Time // Slurm's estimate of a pending job's start; zero when there is none
	End      time.Time // zero until the job is done

	TimeLimit time.Duration
	Unlimited bool
	Priority  int64
	Nice      int64
	GPUs      int
	Request   slurm.GPURequest
	MinNodes  int
	MaxNodes  int
	Exclusive bool
	Restarts  int
	Nodes     []string

	FirstSeen, LastSeen time.Time
	Profile             profile.Profile // Level "" or LevelNone: nothing is known
	Decision            *Decision       // the last one; nil when there is none
	Owned               bool            // rifling has set something and not yet taken it back
}

// Pending reports whether the job was waiting when it was last seen.
func (j *Job) Pending() bool { return j.State.Base == "PENDING" }

// Running reports whether the job was running when it was last seen.
func (j *Job) Running() bool { return j.State.Base == "RUNNING" }

// Known reports whether the job's ratio of computing to communicating is known.
func (j *Job) Known() bool {
	return j.Profile.Level != "" && j.Profile.Level != profile.LevelNone
}

// Wait is the queueing delay: from being eligible to the start, or, of a job
// that waits, to when it was last seen.
func (j *Job) Wait() time.Duration {
	from := j.Eligible
	if from.IsZero() {
		from = j.Submit
	}
	to := j.Start
	if to.IsZero() {
		to = j.LastSeen
	}
	return max(0, to.Sub(from))
}

// Elapsed is the run time so far, 0 of a job that has not started.
func (j *Job) Elapsed() time.Duration {
	if j.Start.IsZero() {
		return 0
	}
	to := j.End
	if to.IsZero() {
		to = j.LastSeen
	}
	return max(0, to.Sub(j.Start))
}

// DisplayID is the id as users know it: "21_3" of an array's task, "21_[1-6%2]"
// of an array's pending tasks.
func (j *Job) DisplayID() string {
	switch {
	case j.ArrayJobID == 0:
		return fmt.Sprint(j.ID)
	case j.ArrayTaskID >= 0 && j.ArrayTasks == "":
		return fmt.Sprintf("%d_%d", j.ArrayJobID, j.ArrayTaskID)
	}
	return fmt.Sprintf("%d_[%s]", j.ArrayJobID, j.ArrayTasks)
}

// Jobs returns the jobs that pass the filter by ascending id, each with its
// last decision.
func (s *Store) Jobs(ctx context.Context, f Filter) ([]Job, error) {
	out, err := s.jobs(ctx, f)
	return out, explain(s.path, "read the jobs of", err)
}

func (s *Store) jobs(ctx context.Context, f Filter) ([]Job, error) {
	where, args, err := f.where()
	if err != nil {
		return nil, err
	}
	var rows []jobRow
	if err := s.db.SelectContext(ctx, &rows, `SELECT * FROM jobs j WHERE `+where+` ORDER BY j.job_id`, args...); err != nil {
		return nil, err
	}
	last, err := s.lastDecisions(ctx, where, args)
	if err != nil {
		return nil, err
	}
	var owned []slurm.JobID
	if err := s.db.SelectContext(ctx, &owned, `SELECT job_id FROM owners`); err != nil {
		return nil, err
	}
	isOwned := make(map[slurm.JobID]bool, len(owned))
	for _, id := range owned {
		isOwned[id] = true
	}
	out := make([]Job, 0, len(rows))
	for i := range rows {
		j, err := rows[i].job()
		if err != nil {
			return nil, err
		}
		j.Decision, j.Owned = last[j.ID], isOwned[j.ID]
		out = append(out, j)
	}
	return out, nil
}

func (s *Store) lastDecisions(ctx context.Context, where string, args []any) (map[slurm.JobID]*Decision, error) {
	var rows []decisionRow
	q := `SELECT ` + decisionColumns + ` FROM decisions WHERE id IN (
		SELECT (SELECT max(id) FROM decisions d WHERE d.job_id = j.job_id) FROM jobs j WHERE ` + where + `)`
	if err := s.db.SelectContext(ctx, &rows, q, args...); err != nil {
		return nil, err
	}
	list, err := decisionsOf(rows)
	if err != nil {
		return nil, err
	}
	out := make(map[slurm.JobID]*Decision, len(list))
	for i := range list {
		out[list[i].JobID] = &list[i]
	}
	return out, nil
}

const decisionColumns = `job_id, first_cycle, last_cycle, first_at, last_at, mode, policy, action, state,
	candidates, target, offset, skipped, explored, reason, value, deadline, considered`

func (row *jobRow) job() (Job, error) {
	var req requestJSON
	if err := json.Unmarshal([]byte(row.Request), &req); err != nil {
		return Job{}, fmt.Errorf("job %d: request: %w", row.JobID, err)
	}
	nodes, err := slurm.ExpandHosts(row.Nodes)
	if err != nil {
		return Job{}, fmt.Errorf("job %d: nodes: %w", row.JobID, err)
	}
	words := strings.Split(row.State, "+")
	j := Job{
		ID: row.JobID, ArrayJobID: row.ArrayJobID, ArrayTaskID: row.ArrayTaskID, ArrayTasks: row.ArrayTasks,
		Name: row.Name, User: row.User, Account: row.Account, Partition: row.Partition, QOS: row.QOS,
		State: slurm.State{Base: words[0], Flags: words[1:]}, Reason: row.Reason,
		Submit: instant(row.Submit), Eligible: instant(row.Eligible), Start: instant(row.Start),
		Estimate: instant(row.Estimate), End: instant(row.Ended),
		TimeLimit: time.Duration(row.TimeLimit) * time.Second,
		Priority:  row.Priority, Nice: row.Nice, GPUs: row.GPUs, Request: slurm.GPURequest(req),
		MinNodes: row.MinNodes, MaxNodes: row.MaxNodes, Exclusive: row.Exclusive, Restarts: row.Restarts,
		Nodes: nodes, FirstSeen: instant(row.FirstSeen), LastSeen: instant(row.LastSeen),
		Profile: profile.Profile{
			JobID: row.JobID, Family: row.Family, GPUs: row.GPUs,
			LogCC: row.LogCC, Count: row.CCCount, Var: row.CCVar, Level: row.CCLevel,
			Group: row.Group, CommBound: row.CommBound, ComputeBound: row.ComputeBound,
			NPR: row.NPR, NPRCount: row.NPRCount,
			RunTime: time.Duration(row.RunTime) * time.Second, RunTimeLevel: row.RunTimeLevel,
		},
	}
	if row.TimeLimit == unlimited {
		j.Unlimited, j.TimeLimit = true, 0
	}
	return j, nil
}
