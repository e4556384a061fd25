// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"time"

	"rifling/slurm"
)

// PastRange is a range of time of which all accounting was read.
type PastRange struct {
	Since, Until time.Time
	Read         time.Time // the newest reading in it, by the host's clock
}

// PastRanges returns the ranges that were read whole, oldest first.
func (s *Store) PastRanges(ctx context.Context) ([]PastRange, error) {
	var rows []struct {
		Since int64 `db:"since"`
		Until int64 `db:"until"`
		Read  int64 `db:"read"`
	}
	err := s.db.SelectContext(ctx, &rows, `SELECT since, until, read FROM past_ranges ORDER BY since`)
	if err != nil {
		return nil, explain(s.path, "read accounting in", err)
	}
	out := make([]PastRange, len(rows))
	for i, r := range rows {
		out[i] = PastRange{instant(r.Since), instant(r.Until), instant(r.Read)}
	}
	return out, nil
}

// PastStatus sums up the accounting that is stored.
type PastStatus struct {
	Runs, GPURuns, Open int // all, those with GPUs, those not over when they were read
	Usage               int // with a measured use of their GPUs
	Users, Accounts     int
	Oldest, Newest      time.Time // end of the first and of the last run
	OpenSince           time.Time // submit time of the oldest that is not over
	Words               int
	Ranges              []PastRange
}

// PastStatus counts what is stored of the past.
func (s *Store) PastStatus(ctx context.Context) (*PastStatus, error) {
	var r struct {
		Runs      int   `db:"runs"`
		GPURuns   int   `db:"gpu_runs"`
		Open      int   `db:"open"`
		Usage     int   `db:"usage"`
		Users     int   `db:"users"`
		Accounts  int   `db:"accounts"`
		Oldest    int64 `db:"oldest"`
		Newest    int64 `db:"newest"`
		OpenSince int64 `db:"open_since"`
		Words     int   `db:"words"`
	}
	err := s.db.GetContext(ctx, &r, `SELECT count(*) AS runs, count(*) FILTER (WHERE gpus > 0) AS gpu_runs,
		count(*) FILTER (WHERE ended = 0) AS open, count(gpu_util) AS usage,
		count(DISTINCT user) AS users, count(DISTINCT account) AS accounts,
		coalesce(min(ended) FILTER (WHERE ended > 0), 0) AS oldest, coalesce(max(ended), 0) AS newest,
		coalesce(min(submit) FILTER (WHERE ended = 0), 0) AS open_since,
		(SELECT count(*) FROM past_words) AS words
		FROM past_jobs`)
	if err != nil {
		return nil, explain(s.path, "count accounting in", err)
	}
	out := &PastStatus{
		Runs: r.Runs, GPURuns: r.GPURuns, Open: r.Open, Usage: r.Usage, Users: r.Users, Accounts: r.Accounts,
		Oldest: instant(r.Oldest), Newest: instant(r.Newest), OpenSince: instant(r.OpenSince), Words: r.Words,
	}
	out.Ranges, err = s.PastRanges(ctx)
	return out, err
}

// pastPage is how many runs EachPast reads at once.
const pastPage = 2000

const selectPast = `SELECT c.word, p.job_id, p.submit, p.ended, st.word, p.start, p.eligible, p.elapsed_s,
	coalesce(p.suspended_s, 0), coalesce(p.limit_s, 0), coalesce(p.exit_code, 0), coalesce(p.restarts, 0),
	coalesce(p.array_job, 0), coalesce(p.array_task, -1), coalesce(p.het_job, 0),
	u.word, a.word, pa.word, q.word, n.word, co.word, p.gpus, gt.word, no.word, p.node_count, p.cpus,
	coalesce(p.priority, 0), coalesce(p.gpu_util, -1), coalesce(p.gpu_memory, -1), p.cluster
FROM past_jobs p INDEXED BY past_jobs_ended
	LEFT JOIN past_words c ON c.id = p.cluster LEFT JOIN past_words st ON st.id = p.state
	LEFT JOIN past_words u ON u.id = p.user LEFT JOIN past_words a ON a.id = p.account
	LEFT JOIN past_words pa ON pa.id = p.part LEFT JOIN past_words q ON q.id = p.qos
	LEFT JOIN past_words n ON n.id = p.name LEFT JOIN past_words co ON co.id = p.command
	LEFT JOIN past_words gt ON gt.id = p.gpu_type LEFT JOIN past_words no ON no.id = p.nodes
WHERE (p.ended, p.cluster, p.job_id, p.submit) > (?, ?, ?, ?) AND p.ended < ?
ORDER BY p.ended, p.cluster, p.job_id, p.submit LIMIT ?`

// EachPast gives each run that ended from since on and before until, in the
// order of their ends; until zero means no bound. It reads page by page, so
// others may write meanwhile, and stops at the first error of each.
func (s *Store) EachPast(ctx context.Context, since, until time.Time, each func(*slurm.PastJob) error) error {
	// Ends of 0 are those of runs that are not over.
	last := pastMark{ended: max(0, epoch(since)-1), cluster: 1 << 62}
	end := int64(1) << 62
	if !until.IsZero() {
		end = until.Unix()
	}
	for {
		page, next, err := s.pastPage(ctx, last, end)
		if err != nil {
			return explain(s.path, "read accounting in", err)
		}
		for i := range page {
			if err := each(&page[i]); err != nil {
				return err
			}
		}
		if len(page) < pastPage {
			return nil
		}
		last = next
	}
}

// pastMark is the place of a run in the order of ends.
type pastMark struct{ ended, cluster, job, submit int64 }

func (s *Store) pastPage(ctx context.Context, after pastMark, until int64) ([]slurm.PastJob, pastMark, error) {
	rows, err := s.db.QueryContext(ctx, selectPast, after.ended, after.cluster, after.job, after.submit, until, pastPage)
	if err != nil {
		return nil, after, err
	}
	defer rows.Close()
	var out []slurm.PastJob
	for rows.Next() {
		j, mark, err := scanPast(rows)
		if err != nil {
			return nil, after, err
		}
		out, after = append(out, j), mark
	}
	return out, after, rows.Err()
}

func scanPast(rows *sql.Rows) (j slurm.PastJob, m pastMark, err error) {
	var state, cluster, user, account, part, qos, name, command, gpuType, nodes sql.NullString
	var start, eligible sql.NullInt64
	var elapsed, suspended, limit, util, memory int64
	err = rows.Scan(&cluster, &j.ID, &m.submit, &m.ended, &state, &start, &eligible, &elapsed,
		&suspended, &limit, &j.ExitCode, &j.Restarts, &j.ArrayJobID, &j.ArrayTaskID, &j.HetJobID,
		&user, &account, &part, &qos, &name, &command, &j.GPUs, &gpuType, &nodes, &j.NodeCount, &j.CPUs,
		&j.Priority, &util, &memory, &m.cluster)
	if err != nil {
		return j, m, err
	}
	m.job = int64(j.ID)
	j.Cluster, j.User, j.Account, j.Partition, j.QOS = cluster.String, user.String, account.String, part.String, qos.String
	j.Name, j.Command, j.GPUType = name.String, command.String, gpuType.String
	j.State = slurm.ParseState([]string{state.String})
	j.Submit, j.End = instant(m.submit), instant(m.ended)
	for at, after := range map[*time.Time]sql.NullInt64{&j.Start: start, &j.Eligible: eligible} {
		if after.Valid {
			*at = instant(m.submit + after.Int64)
		}
	}
	j.Elapsed, j.Suspended = time.Duration(elapsed)*time.Second, time.Duration(suspended)*time.Second
	if j.Unlimited = limit == unlimited; !j.Unlimited {
		j.TimeLimit = time.Duration(limit) * time.Second
	}
	j.GPUUtil, j.GPUMemory = float64(util)/1000, float64(memory)
	if util < 0 {
		j.GPUUtil = -1
	}
	j.Nodes, err = slurm.ExpandHosts(nodes.String)
	j.Tidy() // gives a state such as REQUEUED its meaning back
	return j, m, err
}

// PrunePast forgets the runs that ended before, those that were submitted so
// early and never ended, and what is then said of none.
func (s *Store) PrunePast(ctx context.Context, before time.Time) error {
	at := before.Unix()
	for _, q := range []string{
		`DELETE FROM past_jobs WHERE (cluster, job_id, submit) IN
			(SELECT cluster, job_id, submit FROM past_jobs WHERE ended > 0 AND ended < ?1 LIMIT ?2)`,
		`DELETE FROM past_jobs WHERE (cluster, job_id, submit) IN
			(SELECT cluster, job_id, submit FROM past_jobs WHERE ended = 0 AND submit < ?1 LIMIT ?2)`,
		`DELETE FROM past_words WHERE id IN (SELECT id FROM past_words WHERE used < ?1 - 2592000 LIMIT ?2)`,
	} {
		for {
			res, err := s.db.ExecContext(ctx, q, at, pruneBatch)
			if err != nil {
				return explain(s.path, "forget old accounting of", err)
			}
			n, err := res.RowsAffected()
			if err != nil {
				return explain(s.path, "forget old accounting of", err)
			}
			if n < pruneBatch {
				break
			}
		}
	}
	return explain(s.path, "forget old accounting of", s.cutRanges(ctx, at))
}

// cutRanges forgets that what is gone was once read.
func (s *Store) cutRanges(ctx context.Context, before int64) error {
	if _, err := s.db.ExecContext(ctx, `DELETE FROM past_ranges WHERE until <= ?`, before); err != nil {
		return err
	}
	_, err := s.db.ExecContext(ctx, `UPDATE past_ranges SET since = ?1 WHERE since < ?1`, before)
	return err
}
