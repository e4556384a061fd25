// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// A job's row is the last that was known of it; a job id that Slurm gives out
// anew takes over the row.
const upsertJob = `INSERT INTO jobs (job_id, array_job_id, array_task_id, array_tasks,
	name, user, account, partition, qos, state, reason,
	submit, eligible, start, estimate, ended, time_limit_s, priority, nice,
	gpus, request, min_nodes, max_nodes, exclusive, restarts, nodes, first_seen, last_seen)
VALUES (:job_id, :array_job_id, :array_task_id, :array_tasks,
	:name, :user, :account, :partition, :qos, :state, :reason,
	:submit, :eligible, :start, :estimate, :ended, :time_limit_s, :priority, :nice,
	:gpus, :request, :min_nodes, :max_nodes, :exclusive, :restarts, :nodes, :last_seen, :last_seen)
ON CONFLICT (job_id) DO UPDATE SET
	array_job_id = excluded.array_job_id, array_task_id = excluded.array_task_id, array_tasks = excluded.array_tasks,
	name = excluded.name, user = excluded.user, account = excluded.account,
	partition = excluded.partition, qos = excluded.qos, state = excluded.state, reason = excluded.reason,
	submit = excluded.submit, eligible = excluded.eligible, start = excluded.start,
	estimate = excluded.estimate, ended = excluded.ended, time_limit_s = excluded.time_limit_s,
	priority = excluded.priority, nice = excluded.nice, gpus = excluded.gpus, request = excluded.request,
	min_nodes = excluded.min_nodes, max_nodes = excluded.max_nodes, exclusive = excluded.exclusive,
	restarts = excluded.restarts, nodes = excluded.nodes, last_seen = excluded.last_seen`

// A job that has ended has no new profile; it keeps its last. A pending or
// ended job has no NPR of its own; it keeps the one of its run.
const updateProfile = `UPDATE jobs SET family = :family, grp = :grp, log_cc = :log_cc, cc_count = :cc_count,
	cc_var = :cc_var, cc_level = :cc_level, comm_bound = :comm_bound, compute_bound = :compute_bound,
	npr = CASE WHEN :npr_count > 0 THEN :npr ELSE npr END,
	npr_count = CASE WHEN :npr_count > 0 THEN :npr_count ELSE npr_count END,
	run_time_s = :run_time_s, run_time_level = :run_time_level
WHERE job_id = :job_id`

func upsertJobs(ctx context.Context, tx *sqlx.Tx, r policy.Record) error {
	job, err := tx.PrepareNamedContext(ctx, upsertJob)
	if err != nil {
		return err
	}
	defer job.Close()
	prof, err := tx.PrepareNamedContext(ctx, updateProfile)
	if err != nil {
		return err
	}
	defer prof.Close()
	for i := range r.Jobs {
		row := newJobRow(&r.Jobs[i])
		row.LastSeen = epoch(r.At)
		if _, err := job.ExecContext(ctx, row); err != nil {
			return err
		}
		p, ok := r.Profiles[r.Jobs[i].ID]
		if !ok {
			continue
		}
		row.setProfile(p)
		if _, err := prof.ExecContext(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

// jobRow is a row of the table jobs.
type jobRow struct {
	JobID        slurm.JobID   `db:"job_id"`
	ArrayJobID   slurm.JobID   `db:"array_job_id"`
	ArrayTaskID  int64         `db:"array_task_id"`
	ArrayTasks   string        `db:"array_tasks"`
	Name         string        `db:"name"`
	User         string        `db:"user"`
	Account      string        `db:"account"`
	Partition    string        `db:"partition"`
	QOS          string        `db:"qos"`
	State        string        `db:"state"`
	Reason       string        `db:"reason"`
	Submit       int64         `db:"submit"`
	Eligible     int64         `db:"eligible"`
	Start        int64         `db:"start"`
	Estimate     int64         `db:"estimate"`
	Ended        int64         `db:"ended"`
	TimeLimit    int64         `db:"time_limit_s"`
	Priority     int64         `db:"priority"`
	Nice         int64         `db:"nice"`
	GPUs         int           `db:"gpus"`
	Request      string        `db:"request"`
	MinNodes     int           `db:"min_nodes"`
	MaxNodes     int           `db:"max_nodes"`
	Exclusive    bool          `db:"exclusive"`
	Restarts     int           `db:"restarts"`
	Nodes        string        `db:"nodes"`
	FirstSeen    int64         `db:"first_seen"`
	LastSeen     int64         `db:"last_seen"`
	Family       string        `db:"family"`
	Group        int           `db:"grp"`
	LogCC        float64       `db:"log_cc"`
	CCCount      int           `db:"cc_count"`
	CCVar        float64       `db:"cc_var"`
	CCLevel      profile.Level `db:"cc_level"`
	CommBound    bool          `db:"comm_bound"`
	ComputeBound bool          `db:"compute_bound"`
	NPR          float64       `db:"npr"`
	NPRCount     int           `db:"npr_count"`
	RunTime      int64         `db:"run_time_s"`
	RunTimeLevel profile.Level `db:"run_time_level"`
}

// requestJSON is how a request for GPUs is kept.
type requestJSON struct {
	PerJob    int    `json:"per_job,omitempty"`
	PerNode   int    `json:"per_node,omitempty"`
	PerTask   int    `json:"per_task,omitempty"`
	PerSocket int    `json:"per_socket,omitempty"`
	Type      string `json:"type,omitempty"`
}

func newJobRow(j *slurm.Job) jobRow {
	row := jobRow{
		JobID: j.ID, ArrayJobID: j.ArrayJobID, ArrayTaskID: j.ArrayTaskID, ArrayTasks: j.ArrayTaskString,
		Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, QOS: j.QOS,
		State: j.State.String(), Reason: j.Reason,
		Submit: epoch(j.SubmitTime), Eligible: epoch(j.EligibleTime),
		TimeLimit: int64(j.TimeLimit.Seconds()), Priority: j.Priority, Nice: j.Nice,
		GPUs: j.Total(), Request: toJSON(requestJSON(j.Request)),
		MinNodes: j.MinNodes, MaxNodes: j.MaxNodes, Exclusive: j.Exclusive, Restarts: j.Restarts,
		Nodes: slurm.CompressHosts(j.Nodes),
	}
	if j.Unlimited {
		row.TimeLimit = unlimited
	}
	// Slurm gives a pending job's start as an estimate, and a running job's
	// end as the latest that its limit allows: neither has happened.
	// A job that was cancelled before its start carries the time of that.
	switch {
	case j.Pending():
		row.Estimate = epoch(j.StartTime)
	case !j.Done() || len(j.Nodes) > 0:
		row.Start = epoch(j.StartTime)
	}
	if j.Done() {
		row.Ended = epoch(j.EndTime)
	}
	return row
}

func (row *jobRow) setProfile(p profile.Profile) {
	row.Family, row.Group = p.Family, p.Group
	row.LogCC, row.CCCount, row.CCVar, row.CCLevel = p.LogCC, p.Count, p.Var, p.Level
	row.CommBound, row.ComputeBound = p.CommBound, p.ComputeBound
	row.NPR, row.NPRCount = p.NPR, p.NPRCount
	row.RunTime, row.RunTimeLevel = int64(p.RunTime.Seconds()), p.RunTimeLevel
}
