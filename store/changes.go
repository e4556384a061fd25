// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/slurm"
)

// updateJSON is how an update is kept. An empty host list clears, nil leaves
// alone.
type updateJSON struct {
	ExcludedNodes *string `json:"excluded_nodes,omitempty"` // host list
	RequiredNodes *string `json:"required_nodes,omitempty"` // host list
	SiteFactor    *int64  `json:"site_factor,omitempty"`
	Nice          *int64  `json:"nice,omitempty"`
}

func packUpdate(u slurm.Update) string {
	list := func(nodes *[]string) *string {
		if nodes == nil {
			return nil
		}
		s := slurm.CompressHosts(*nodes)
		return &s
	}
	return toJSON(updateJSON{ExcludedNodes: list(u.ExcludedNodes), RequiredNodes: list(u.RequiredNodes),
		SiteFactor: u.SiteFactor, Nice: u.Nice})
}

const insertChange = `INSERT INTO changes (cycle, job_id, at, kind, change, why, outcome, detail)
	VALUES (?, ?, ?, ?, ?, ?, ?, ?)`

func insertChanges(ctx context.Context, tx *sqlx.Tx, cycle int64, at time.Time, changes []policy.Change) error {
	return each(ctx, tx, insertChange, changes, func(c policy.Change) []any {
		return []any{cycle, c.Update.JobID, epoch(at), c.Kind, packUpdate(c.Update), c.Why, "", ""}
	})
}

// endChange notes the outcome on the oldest change of this cycle, job and kind
// that has none yet. A change that was decided after Begin, such as taking
// back what Slurm then called impossible, gets a row of its own.
func endChange(ctx context.Context, tx *sqlx.Tx, cycle int64, r policy.Result) error {
	const q = `UPDATE changes SET outcome = ?, detail = ? WHERE id = (
		SELECT min(id) FROM changes WHERE cycle = ? AND job_id = ? AND kind = ? AND outcome = '')`
	id := r.Change.Update.JobID
	res, err := tx.ExecContext(ctx, q, r.Outcome, r.Detail, cycle, id, r.Change.Kind)
	if err != nil {
		return err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return err
	}
	const late = `INSERT INTO changes (cycle, job_id, at, kind, change, why, outcome, detail)
		SELECT id, ?, at, ?, ?, ?, ?, ? FROM cycles WHERE id = ?`
	_, err = tx.ExecContext(ctx, late, id, r.Change.Kind, packUpdate(r.Change.Update),
		r.Change.Why, r.Outcome, r.Detail, cycle)
	return err
}

// SaveRelease keeps what became of a job that was taken back outside the
// daemon's cycles, at the given instant, and the owner record that then stands.
func (s *Store) SaveRelease(ctx context.Context, at time.Time, r policy.Result) error {
	return s.inTx(ctx, "record a release in", func(tx *sqlx.Tx) error {
		_, err := tx.ExecContext(ctx, insertChange, nil, r.Change.Update.JobID, epoch(at), policy.KindTakeBack,
			packUpdate(r.Change.Update), r.Change.Why, r.Outcome, r.Detail)
		if err != nil {
			return err
		}
		return settleOwner(ctx, tx, r)
	})
}
