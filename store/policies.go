// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/slurm"
)

// ErrUnknownPolicy says that no policy of that version is kept.
var ErrUnknownPolicy = errors.New("policy is not kept here")

// KeptPolicy is a policy file with when and by whom it was brought.
type KeptPolicy struct {
	Version string
	Added   time.Time
	By      string
	File    []byte // see policy.DecodeFile
}

// AddPolicy keeps a policy file and makes it a candidate. One that is kept
// already stays as it is.
func (s *Store) AddPolicy(ctx context.Context, version string, file []byte, by, why string) error {
	return s.inTx(ctx, "keep policy "+version+" in", func(tx *sqlx.Tx) error {
		const q = `INSERT INTO policies (version, file, added, by) VALUES (?, ?, ?, ?) ON CONFLICT DO NOTHING`
		res, err := tx.ExecContext(ctx, q, version, file, epoch(s.now()), by)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n == 0 {
			return err
		}
		return s.insertStage(ctx, tx, policy.StageChange{Version: version, Stage: policy.StageCandidate, By: by, Why: why})
	})
}

func (s *Store) insertStage(ctx context.Context, tx *sqlx.Tx, c policy.StageChange) error {
	const q = `INSERT INTO policy_stages (at, version, stage, share, by, why, forced) VALUES (?, ?, ?, ?, ?, ?, ?)`
	_, err := tx.ExecContext(ctx, q, epoch(s.now()), c.Version, c.Stage, c.Share, c.By, c.Why, c.Forced)
	return err
}

// Policies lists the kept policies, the newest last, without their files.
func (s *Store) Policies(ctx context.Context) ([]KeptPolicy, error) {
	var rows []struct {
		Version, By string
		Added       int64
	}
	if err := s.db.SelectContext(ctx, &rows, `SELECT version, by, added FROM policies ORDER BY added, version`); err != nil {
		return nil, explain(s.path, "list the policies of", err)
	}
	out := make([]KeptPolicy, len(rows))
	for i, r := range rows {
		out[i] = KeptPolicy{Version: r.Version, Added: instant(r.Added), By: r.By}
	}
	return out, nil
}

// Policy returns one policy by its version, or by the digits that it begins
// with when no other has the same. The error wraps ErrUnknownPolicy.
func (s *Store) Policy(ctx context.Context, version string) (KeptPolicy, error) {
	var rows []struct {
		Version, By string
		Added       int64
		File        []byte
	}
	const q = `SELECT version, by, added, file FROM policies WHERE substr(version, 1, length(?1)) = ?1 LIMIT 2`
	if err := s.db.SelectContext(ctx, &rows, q, version); err != nil {
		return KeptPolicy{}, explain(s.path, "read a policy of", err)
	}
	switch {
	case len(rows) == 0 || version == "":
		return KeptPolicy{}, slurm.WithHint(fmt.Errorf("policy %q: %w", version, ErrUnknownPolicy), "`rifling policy list` shows those that are")
	case len(rows) > 1:
		return KeptPolicy{}, slurm.WithHint(fmt.Errorf("policy %q: %s and %s begin so", version, rows[0].Version, rows[1].Version), "give more digits")
	}
	r := rows[0]
	return KeptPolicy{Version: r.Version, Added: instant(r.Added), By: r.By, File: r.File}, nil
}

// StageChanges returns the whole life of all policies, the oldest first.
func (s *Store) StageChanges(ctx context.Context) ([]policy.StageChange, error) {
	return stageChanges(ctx, s.db, s.path)
}

func stageChanges(ctx context.Context, q sqlx.QueryerContext, path string) ([]policy.StageChange, error) {
	var rows []struct {
		ID, At             int64
		Version, Stage, By string
		Why                string
		Share              float64
		Forced             bool
	}
	err := sqlx.SelectContext(ctx, q, &rows, `SELECT id, at, version, stage, share, by, why, forced FROM policy_stages ORDER BY id`)
	if err != nil {
		return nil, explain(path, "read the life of policies of", err)
	}
	out := make([]policy.StageChange, len(rows))
	for i, r := range rows {
		out[i] = policy.StageChange{
			ID: r.ID, At: instant(r.At), Version: r.Version, Stage: policy.Stage(r.Stage), Share: r.Share, By: r.By, Why: r.Why, Forced: r.Forced,
		}
	}
	return out, nil
}

// LastStageChange returns the number of the newest change, 0 for none: what a
// daemon asks in each cycle.
func (s *Store) LastStageChange(ctx context.Context) (int64, error) {
	var n int64
	err := s.db.GetContext(ctx, &n, `SELECT coalesce(max(id), 0) FROM policy_stages`)
	return n, explain(s.path, "read the life of policies of", err)
}

// ErrPolicyMoved says that another change came first.
var ErrPolicyMoved = errors.New("the policies' stages changed meanwhile")

// ChangeStage adds one step to the life of a policy, if the last one is still
// the one with that number; else the error wraps ErrPolicyMoved.
func (s *Store) ChangeStage(ctx context.Context, after int64, c policy.StageChange) error {
	return s.inTx(ctx, "change the stage of a policy in", func(tx *sqlx.Tx) error {
		var last int64
		if err := tx.GetContext(ctx, &last, `SELECT coalesce(max(id), 0) FROM policy_stages`); err != nil {
			return err
		}
		if last != after {
			return slurm.WithHint(ErrPolicyMoved, "look at `rifling policy list` and try again")
		}
		return s.insertStage(ctx, tx, c)
	})
}

// SaveEvaluation keeps an evaluation; its ID is not read.
func (s *Store) SaveEvaluation(ctx context.Context, e policy.Evaluation) error {
	return s.inTx(ctx, "record an evaluation in", func(tx *sqlx.Tx) error {
		const q = `INSERT INTO policy_evaluations (at, version, against, report) VALUES (?, ?, ?, ?)`
		e.At = e.At.UTC()
		_, err := tx.ExecContext(ctx, q, epoch(e.At), e.Version, e.Against, toJSON(e))
		return err
	})
}

// Evaluations returns those of a version, the oldest first.
func (s *Store) Evaluations(ctx context.Context, version string) ([]policy.Evaluation, error) {
	var rows []struct {
		ID     int64
		Report string
	}
	const q = `SELECT id, report FROM policy_evaluations WHERE version = ? ORDER BY id`
	if err := s.db.SelectContext(ctx, &rows, q, version); err != nil {
		return nil, explain(s.path, "read the evaluations of", err)
	}
	out := make([]policy.Evaluation, len(rows))
	for i, r := range rows {
		if err := json.Unmarshal([]byte(r.Report), &out[i]); err != nil {
			return nil, explain(s.path, "read the evaluations of", err)
		}
		out[i].ID = r.ID
	}
	return out, nil
}

// pairDecision is how a decision of a pair is kept.
type pairDecision struct {
	Action policy.Action `json:"action"`
	Nodes  *string       `json:"nodes,omitempty"` // host list; none: all nodes
	Offset int64         `json:"offset,omitempty"`
	Reason string        `json:"reason,omitempty"`
}

func packPairDecision(d policy.Decision) string {
	p := pairDecision{Action: d.Action, Offset: d.Offset, Reason: d.Reason}
	if d.Candidates != nil {
		nodes := slurm.CompressHosts(d.Candidates)
		p.Nodes = &nodes
	}
	return toJSON(p)
}

// SavePairs keeps what both policies of a trial decided in the cycle at the
// given instant.
func (s *Store) SavePairs(ctx context.Context, version string, at time.Time, pairs []policy.PlanPair) error {
	if len(pairs) == 0 {
		return nil
	}
	const q = `INSERT INTO policy_pairs (version, job_id, first_at, last_at, mine, cycles, differed, incumbent, candidate)
		VALUES (?, ?, ?, ?, ?, 1, ?, ?, ?)
		ON CONFLICT DO UPDATE SET last_at = excluded.last_at, mine = excluded.mine, cycles = cycles + 1,
			differed = differed + excluded.differed, incumbent = excluded.incumbent, candidate = excluded.candidate`
	return s.inTx(ctx, "record the plans of a trial in", func(tx *sqlx.Tx) error {
		return each(ctx, tx, q, pairs, func(p policy.PlanPair) []any {
			return []any{version, p.Incumbent.JobID, epoch(at), epoch(at), p.Mine, p.Differ(),
				packPairDecision(p.Incumbent), packPairDecision(p.Candidate)}
		})
	})
}

// PairCounts says on how many jobs a trial's policies both decided.
type PairCounts struct {
	Jobs     int   `db:"jobs"`
	Differed int   `db:"differed"` // of these, jobs for which they would once have done different things
	Mine     int   `db:"mine"`     // of these, jobs for which the version's decision stood
	Cycles   int64 `db:"cycles"`
}

// PairsSince counts the jobs that the version was first tried on since then.
func (s *Store) PairsSince(ctx context.Context, version string, since time.Time) (PairCounts, error) {
	var c PairCounts
	const q = `SELECT count(*) AS jobs, coalesce(sum(differed > 0), 0) AS differed, coalesce(sum(mine), 0) AS mine,
		coalesce(sum(cycles), 0) AS cycles FROM policy_pairs WHERE version = ? AND last_at >= ?`
	err := s.db.GetContext(ctx, &c, q, version, epoch(since))
	if errors.Is(err, sql.ErrNoRows) {
		return c, nil
	}
	return c, explain(s.path, "count the plans of a trial in", err)
}

// PrunePairs forgets what was decided beside the incumbent before then.
func (s *Store) PrunePairs(ctx context.Context, before time.Time) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM policy_pairs WHERE last_at < ?`, epoch(before))
	return explain(s.path, "remove old plans of trials from", err)
}
