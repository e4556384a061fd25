// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/slurm"
)

// ownerRow is a row of the table owners.
type ownerRow struct {
	JobID         slurm.JobID    `db:"job_id"`
	UserExclude   sql.NullString `db:"user_exclude"`
	UserNice      int64          `db:"user_nice"`
	UserRequired  sql.NullString `db:"user_required"`
	SetExclude    sql.NullString `db:"set_exclude"`
	SetRequired   sql.NullString `db:"set_required"`
	SetNice       sql.NullInt64  `db:"set_nice"`
	SetSiteFactor sql.NullInt64  `db:"set_site_factor"`
	PrevExclude   sql.NullString `db:"prev_exclude"`
	PrevRequired  sql.NullString `db:"prev_required"`
	PrevNice      sql.NullInt64  `db:"prev_nice"`
	SetAt         int64          `db:"set_at"`
	ExpiresAt     int64          `db:"expires_at"`
	Shunned       string         `db:"shunned"`
}

const upsertOwner = `INSERT OR REPLACE INTO owners (job_id, user_exclude, user_nice, user_required,
	set_exclude, set_required, set_nice, set_site_factor, prev_exclude, prev_required, prev_nice,
	set_at, expires_at, shunned)
VALUES (:job_id, :user_exclude, :user_nice, :user_required,
	:set_exclude, :set_required, :set_nice, :set_site_factor, :prev_exclude, :prev_required, :prev_nice,
	:set_at, :expires_at, :shunned)`

// Owners returns what rifling has set on jobs and not yet taken back, by
// ascending job id.
func (s *Store) Owners(ctx context.Context) ([]policy.Owner, error) {
	var rows []ownerRow
	if err := s.db.SelectContext(ctx, &rows, `SELECT * FROM owners ORDER BY job_id`); err != nil {
		return nil, explain(s.path, "read the owner records of", err)
	}
	out := make([]policy.Owner, 0, len(rows))
	for _, row := range rows {
		o, err := row.owner()
		if err != nil {
			return nil, explain(s.path, "read the owner records of", err)
		}
		out = append(out, o)
	}
	return out, nil
}

// SaveOwner keeps one owner record outside a cycle, e.g. a job's shunning.
func (s *Store) SaveOwner(ctx context.Context, o policy.Owner) error {
	return s.inTx(ctx, "record an owner in", func(tx *sqlx.Tx) error {
		return upsertOwners(ctx, tx, []policy.Owner{o})
	})
}

// ownerOf returns the owner record of a change.
func ownerOf(c policy.Change) policy.Owner {
	o := c.Owner
	o.JobID = c.Update.JobID
	return o
}

// ownersOfSets returns the owner records of those changes that set something.
func ownersOfSets(changes []policy.Change) []policy.Owner {
	var out []policy.Owner
	for _, c := range changes {
		if c.Kind == policy.KindSet {
			out = append(out, ownerOf(c))
		}
	}
	return out
}

// settleOwner keeps the owner record that stands after a result. Where the
// result leaves that open, a set stands as Begin kept it, and a take-back
// counts only if it was applied.
func settleOwner(ctx context.Context, tx *sqlx.Tx, r policy.Result) error {
	o := r.Owner
	if o == nil {
		if r.Change.Kind != policy.KindTakeBack || r.Outcome != policy.Applied {
			return nil
		}
		after := ownerOf(r.Change)
		o = &after
	}
	if o.SetAt.IsZero() {
		return deleteOwners(ctx, tx, []slurm.JobID{r.Change.Update.JobID})
	}
	return upsertOwners(ctx, tx, []policy.Owner{*o})
}

func upsertOwners(ctx context.Context, tx *sqlx.Tx, owners []policy.Owner) error {
	for _, o := range owners {
		if _, err := tx.NamedExecContext(ctx, upsertOwner, newOwnerRow(o)); err != nil {
			return err
		}
	}
	return nil
}

func deleteOwners(ctx context.Context, tx *sqlx.Tx, ids []slurm.JobID) error {
	return each(ctx, tx, `DELETE FROM owners WHERE job_id = ?`, ids, func(id slurm.JobID) []any { return []any{id} })
}

func newOwnerRow(o policy.Owner) ownerRow {
	return ownerRow{
		JobID:       o.JobID,
		UserExclude: packList(o.UserExclude), UserNice: o.UserNice, UserRequired: packList(o.UserRequired),
		SetExclude: packList(o.SetExclude), SetRequired: packList(o.SetRequired),
		SetNice: packInt(o.SetNice), SetSiteFactor: packInt(o.SetSiteFactor),
		PrevExclude: packList(o.PrevExclude), PrevRequired: packList(o.PrevRequired), PrevNice: packInt(o.PrevNice),
		SetAt: epoch(o.SetAt), ExpiresAt: epoch(o.ExpiresAt), Shunned: o.Shunned,
	}
}

func (row ownerRow) owner() (policy.Owner, error) {
	o := policy.Owner{
		JobID: row.JobID, UserNice: row.UserNice,
		SetNice: unpackInt(row.SetNice), SetSiteFactor: unpackInt(row.SetSiteFactor), PrevNice: unpackInt(row.PrevNice),
		SetAt: instant(row.SetAt), ExpiresAt: instant(row.ExpiresAt), Shunned: row.Shunned,
	}
	for _, f := range []struct {
		from sql.NullString
		to   *[]string
	}{
		{row.UserExclude, &o.UserExclude}, {row.UserRequired, &o.UserRequired},
		{row.SetExclude, &o.SetExclude}, {row.SetRequired, &o.SetRequired},
		{row.PrevExclude, &o.PrevExclude}, {row.PrevRequired, &o.PrevRequired},
	} {
		list, err := unpackList(f.from)
		if err != nil {
			return o, err
		}
		*f.to = list
	}
	return o, nil
}
