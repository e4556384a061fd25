// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"
)

// pruneBatch bounds the rows that one transaction deletes, so that the lock is
// never held for long.
const pruneBatch = 5000

// Prune forgets what is older than before: samples, cycles with their
// decisions and changes, releases, episodes, groupings but for the newest, and
// jobs that were last seen earlier. Owner records and what was learnt stay.
func (s *Store) Prune(ctx context.Context, before time.Time) error {
	for _, q := range []string{
		`DELETE FROM samples WHERE id IN (SELECT id FROM samples WHERE at < ? LIMIT ?)`,
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
			res, err := s.db.ExecContext(ctx, q, epoch(before), pruneBatch)
			if err != nil {
				return explain(s.path, "forget old rows of", err)
			}
			n, err := res.RowsAffected()
			if err != nil {
				return explain(s.path, "forget old rows of", err)
			}
			if n < pruneBatch {
				break
			}
		}
	}
	return explain(s.path, "shrink", s.shrink(ctx))
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
