// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/slurm"
)

// PastMark is a place in the list of past jobs; the zero mark is its begin.
type PastMark struct {
	Seen int64       // seconds since the epoch
	Job  slurm.JobID // among those that were last seen then
}

// PastPage returns jobs that are over, those last seen first: jobs that ended
// and jobs that left Slurm's list before their end was seen. It returns at most
// n from the mark on, each with its last decision, and the mark of the rest;
// the zero mark when there is no rest. What it costs does not grow with the
// history unless the filter lets little of it through.
func (s *Store) PastPage(ctx context.Context, f Filter, from PastMark, n int) ([]Job, PastMark, error) {
	out, next, err := s.pastJobs(ctx, f, from, n)
	return out, next, explain(s.path, "read past jobs of", err)
}

func (s *Store) pastJobs(ctx context.Context, f Filter, from PastMark, n int) ([]Job, PastMark, error) {
	where, args, err := f.where()
	if err != nil {
		return nil, PastMark{}, err
	}
	where += ` AND (j.ended > 0 OR j.last_seen < (SELECT coalesce(max(at), 0) FROM cycles WHERE id = (SELECT max(id) FROM cycles)))`
	if from != (PastMark{}) {
		where += ` AND (j.last_seen, j.job_id) < (?, ?)`
		args = append(args, from.Seen, from.Job)
	}
	var rows []jobRow
	q := `SELECT * FROM jobs j WHERE ` + where + ` ORDER BY j.last_seen DESC, j.job_id DESC LIMIT ?`
	if err := s.db.SelectContext(ctx, &rows, q, append(args, n+1)...); err != nil {
		return nil, PastMark{}, err
	}
	var next PastMark
	if len(rows) > n {
		rows = rows[:n]
		next = PastMark{Seen: rows[n-1].LastSeen, Job: rows[n-1].JobID}
	}
	out, err := s.withDecisions(ctx, rows)
	return out, next, err
}

func (s *Store) withDecisions(ctx context.Context, rows []jobRow) ([]Job, error) {
	if len(rows) == 0 {
		return nil, nil
	}
	ids := make([]slurm.JobID, len(rows))
	out := make([]Job, len(rows))
	for i := range rows {
		j, err := rows[i].job()
		if err != nil {
			return nil, err
		}
		ids[i], out[i] = j.ID, j
	}
	where, args, err := sqlx.In("j.job_id IN (?)", ids)
	if err != nil {
		return nil, err
	}
	last, err := s.lastDecisions(ctx, where, args)
	if err != nil {
		return nil, err
	}
	for i := range out {
		out[i].Decision = last[out[i].ID]
	}
	return out, nil
}

// NumberedChange is a change with its number, which ascends with time.
type NumberedChange struct {
	Number int64
	User   string // of the job; empty when the history has lost it
	Change
}

// ChangesPage returns at most n changes written to Slurm, newest first: those
// before the given number (0: from the newest on), of the given outcome (empty:
// all), and whether there are older ones.
func (s *Store) ChangesPage(ctx context.Context, outcome policy.Outcome, before int64, n int) (list []NumberedChange, more bool, err error) {
	conds, args := []string{"1"}, []any{}
	if before > 0 {
		conds, args = append(conds, "c.id < ?"), append(args, before)
	}
	if outcome != "" {
		conds, args = append(conds, "c.outcome = ?"), append(args, outcome)
	}
	var rows []struct {
		changeRow
		ID   int64  `db:"id"`
		User string `db:"user"`
	}
	q := `SELECT c.id, c.job_id, coalesce(c.cycle, 0) AS cycle, c.at, c.kind, c.change, c.why, c.outcome, c.detail,
			coalesce(j.user, '') AS user
		FROM changes c LEFT JOIN jobs j ON j.job_id = c.job_id
		WHERE ` + strings.Join(conds, " AND ") + ` ORDER BY c.id DESC LIMIT ?`
	if err := s.db.SelectContext(ctx, &rows, q, append(args, n+1)...); err != nil {
		return nil, false, explain(s.path, "read the changes in", err)
	}
	if more = len(rows) > n; more {
		rows = rows[:n]
	}
	for _, r := range rows {
		u, err := unpackUpdate(r.JobID, r.Change)
		if err != nil {
			return nil, false, explain(s.path, "read the changes in", err)
		}
		list = append(list, NumberedChange{Number: r.ID, User: r.User, Change: Change{
			JobID: r.JobID, Cycle: r.Cycle, At: instant(r.At), Kind: policy.Kind(r.Kind), Update: u,
			Why: r.Why, Outcome: policy.Outcome(r.Outcome), Detail: r.Detail,
		}})
	}
	return list, more, nil
}

// CurvePoint is what was seen and learnt in one interval of time. Means are
// over the cycles that began in it.
type CurvePoint struct {
	At      time.Time // begin of the interval
	Cycles  int
	ANPR    float64 // weighted by GPUs; meaningless when ANPRGPUs is 0
	GPUs    float64 // usable
	Used    float64
	Pending float64 // jobs
	Reward  float64 // mean of the episodes decided in it; meaningless when Rewards is 0
	Rewards int
	// ANPRGPUs are the GPUs behind ANPR, summed over cycles.
	ANPRGPUs int
}

// Curve sums up the time from since on in intervals of the given length,
// oldest first; intervals without a cycle are left out.
func (s *Store) Curve(ctx context.Context, since time.Time, every time.Duration) ([]CurvePoint, error) {
	step := max(1, int64(every.Seconds()))
	var cycles []struct {
		T        int64
		N        int
		ANPR     float64 `db:"anpr"`
		ANPRGPUs int     `db:"anpr_gpus"`
		GPUs     float64 `db:"gpus"`
		Used     float64
		Pending  float64
	}
	const q = `SELECT at / ? * ? AS t, count(*) AS n, coalesce(sum(anpr * anpr_gpus) / nullif(sum(anpr_gpus), 0), 0) AS anpr,
			sum(anpr_gpus) AS anpr_gpus, avg(gpus) AS gpus, avg(gpus_used) AS used, avg(pending) AS pending
		FROM cycles WHERE at >= ? AND policy <> ? GROUP BY 1 ORDER BY 1`
	if err := s.db.SelectContext(ctx, &cycles, q, step, step, epoch(since), policy.PlanStop); err != nil {
		return nil, explain(s.path, "read the cycles of", err)
	}
	var rewards []struct {
		T      int64
		N      int
		Reward float64
	}
	const r = `SELECT decided / ? * ? AS t, count(*) AS n, avg(reward) AS reward
		FROM episodes WHERE decided >= ? AND learned GROUP BY 1`
	if err := s.db.SelectContext(ctx, &rewards, r, step, step, epoch(since)); err != nil {
		return nil, explain(s.path, "read the episodes of", err)
	}
	at := map[int64]int{}
	for i, r := range rewards {
		at[r.T] = i + 1
	}
	out := make([]CurvePoint, 0, len(cycles))
	for _, c := range cycles {
		p := CurvePoint{At: instant(c.T), Cycles: c.N, ANPR: c.ANPR, ANPRGPUs: c.ANPRGPUs, GPUs: c.GPUs, Used: c.Used, Pending: c.Pending}
		if i := at[c.T]; i > 0 {
			p.Reward, p.Rewards = rewards[i-1].Reward, rewards[i-1].N
		}
		out = append(out, p)
	}
	return out, nil
}
