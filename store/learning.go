// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/profile"
)

// SaveEpisodes keeps episodes by job and time of decision; one that is saved
// again, for instance when its job has ended, replaces the earlier one.
func (s *Store) SaveEpisodes(ctx context.Context, eps []policy.Episode) error {
	if len(eps) == 0 {
		return nil
	}
	const q = `INSERT OR REPLACE INTO episodes (job_id, decided, state, action, actual, gpus, submitted,
		started, ended, nodes, npr, npr_count, neighbour_delta, idle_gpu_seconds, reward, learned)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	return s.inTx(ctx, "record episodes in", func(tx *sqlx.Tx) error {
		return each(ctx, tx, q, eps, func(e policy.Episode) []any {
			nodes := packNodes(e.Nodes)
			return []any{e.JobID, epoch(e.Decided), e.State, e.Action, e.Actual, e.GPUs, epoch(e.Submitted),
				epoch(e.Started), epoch(e.Ended), nodes.String, e.NPR, e.NPRCount,
				e.NeighbourDelta, e.IdleGPUSeconds, e.Reward, e.Learned}
		})
	})
}

// SaveGroups keeps the groups of one regrouping.
func (s *Store) SaveGroups(ctx context.Context, at time.Time, groups []profile.Group) error {
	return s.inTx(ctx, "record groups in", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM groups WHERE at = ?`, epoch(at)); err != nil {
			return err
		}
		const q = `INSERT INTO groups (at, idx, center, spread, members) VALUES (?, ?, ?, ?, ?)`
		return each(ctx, tx, q, groups, func(g profile.Group) []any {
			return []any{epoch(at), g.Index, g.Center, g.Spread, g.Members}
		})
	})
}

// SaveTable replaces the learner's table by the given one.
func (s *Store) SaveTable(ctx context.Context, at time.Time, entries []policy.QEntry) error {
	return s.inTx(ctx, "record the learner's table in", func(tx *sqlx.Tx) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM qvalues`); err != nil {
			return err
		}
		const q = `INSERT INTO qvalues (state, action, value, prior, visits, var, changed, saved) VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
		return each(ctx, tx, q, entries, func(e policy.QEntry) []any {
			return []any{e.State, e.Action, e.Value, e.Prior, e.Visits, e.Var, epoch(e.Changed), epoch(at)}
		})
	})
}

// LoadTable returns the learner's table by state and action; nil when there is
// none.
func (s *Store) LoadTable(ctx context.Context) ([]policy.QEntry, error) {
	var rows []struct {
		State, Action string
		Value, Var    float64
		Prior         float64
		Visits        int
		Changed       int64
	}
	const q = `SELECT state, action, value, prior, visits, var, changed FROM qvalues ORDER BY state, action`
	if err := s.db.SelectContext(ctx, &rows, q); err != nil {
		return nil, explain(s.path, "read the learner's table of", err)
	}
	var out []policy.QEntry
	for _, r := range rows {
		out = append(out, policy.QEntry{State: r.State, Action: r.Action, Value: r.Value, Prior: r.Prior,
			Visits: r.Visits, Var: r.Var, Changed: instant(r.Changed)})
	}
	return out, nil
}

// SaveState keeps a named blob, in place of an earlier one of that name.
func (s *Store) SaveState(ctx context.Context, name string, blob []byte) error {
	return s.inTx(ctx, "record "+name+" in", func(tx *sqlx.Tx) error {
		if blob == nil {
			blob = []byte{}
		}
		const q = `INSERT OR REPLACE INTO states (name, blob, saved) VALUES (?, ?, ?)`
		_, err := tx.ExecContext(ctx, q, name, blob, epoch(s.now()))
		return err
	})
}

// LoadState returns a named blob, nil when there is none.
func (s *Store) LoadState(ctx context.Context, name string) ([]byte, error) {
	var blob []byte
	err := s.db.GetContext(ctx, &blob, `SELECT blob FROM states WHERE name = ?`, name)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	return blob, explain(s.path, "read "+name+" of", err)
}
