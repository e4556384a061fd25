// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/jmoiron/sqlx"
)

// pruneBatch bounds the rows that one transaction deletes, so that the lock is
// never held for long.
const pruneBatch = 5000

// Prune forgets what is older than before: means of samples, cycles with their
// decisions and changes, releases, episodes, groupings but for the newest, and
// jobs that were last seen earlier. Owner records and what was learnt stay.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	for _, q := range []string{
		`DELETE FROM means WHERE (res, at, series) IN (SELECT res, at, series FROM means WHERE at < ? LIMIT ?)`,
		`DELETE FROM usage WHERE job_id IN (SELECT job_id FROM usage WHERE at < ? LIMIT ?)`,
		`DELETE FROM senders WHERE node IN (SELECT node FROM senders WHERE seen < ? LIMIT ?)`,
		`DELETE FROM cycles WHERE id IN (SELECT id FROM cycles WHERE at < ? LIMIT ?)`,
		`DELETE FROM changes WHERE id IN (SELECT id FROM changes WHERE cycle IS NULL AND at < ? LIMIT ?)`,
		`DELETE FROM episodes WHERE (job_id, decided) IN
			(SELECT job_id, decided FROM episodes WHERE max(decided, started, ended) < ? LIMIT ?)`,
		`DELETE FROM groups WHERE at IN
			(SELECT DISTINCT at FROM groups WHERE at < ? AND at < (SELECT max(at) FROM groups) LIMIT ?)`,
		`DELETE FROM jobs WHERE job_id IN (SELECT job_id FROM jobs WHERE last_seen < ?
			AND job_id NOT IN (SELECT job_id FROM owners) LIMIT ?)`,
	} {
		for {
			n, err := affected(s.db.ExecContext(ctx, q, epoch(before), pruneBatch))
			if err != nil {
				return explain(s.path, "forget old rows of", err)
			}
			if n < pruneBatch {
				break
			}
		}
	}
	if err := s.pruneSeries(ctx, before); err != nil {
		return err
	}
	return explain(s.path, "shrink", s.shrink(ctx))
}

// pruneSeries forgets the series of days that have gone by, and nodes of which
// nothing is left. Their numbers must be forgotten before another transaction
// can use them.
func (s *Store) pruneSeries(ctx context.Context, before time.Time) error {
	return s.inTx(ctx, "forget old series of", func(tx *sqlx.Tx) error {
		s.ids.forget()
		// Samples that wait for being folded keep their series: the oldest by
		// arrival, and those up to so many days older that came after it.
		const series = `DELETE FROM series WHERE day < min(?,
			coalesce((SELECT at FROM samples ORDER BY id LIMIT 1) / 86400000 - 8, ?))`
		if _, err := tx.ExecContext(ctx, series, day(before), day(before)); err != nil {
			return err
		}
		_, err := tx.ExecContext(ctx, `DELETE FROM nodes WHERE id NOT IN (SELECT node FROM series UNION SELECT node FROM senders)`)
		return err
	})
}

// affected returns how many rows a statement changed.
func affected(res sql.Result, err error) (int64, error) {
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// shrink gives free pages back to the file system. The pragma frees one page a
// step, so its empty rows are read to the end.
func (s *Store) shrink(ctx context.Context) error {
	rows, err := s.db.QueryContext(ctx, `PRAGMA incremental_vacuum`)
	if err != nil {
		return err
	}
	defer rows.Close()
	for rows.Next() {
	}
	return rows.Err()
}
