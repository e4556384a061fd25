// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
)

// usageOf sums samples up by job: what they cover and what of it was busy.
const usageOf = `SELECT r.job_id AS job_id, max(s.at) / 1000 AS at, sum(s.interval_ms * r.gpus) AS gpu_ms,
	round(sum(1.0 * s.interval_ms * r.gpus * s.compute) / 1000000) AS busy
	FROM samples s JOIN series r ON r.id = s.series WHERE s.id > ? AND s.id <= ? GROUP BY r.job_id`

// countUsage adds the samples that came since the last call to the usage of
// their jobs, in small steps with pauses in between, each sample once.
func (s *Store) countUsage(ctx context.Context, pause time.Duration) error {
	for ctx.Err() == nil {
		var n int64
		err := s.inTx(ctx, "count the usage of jobs in", func(tx *sqlx.Tx) (err error) {
			n, err = countSamples(ctx, tx)
			return err
		})
		if err != nil || n < foldBatch {
			return err
		}
		wait(ctx, pause)
	}
	return ctx.Err()
}

// countSamples takes the next samples in order of arrival and returns how many
// numbers it went on.
func countSamples(ctx context.Context, tx *sqlx.Tx) (int64, error) {
	var mark, newest int64
	if err := tx.GetContext(ctx, &mark, `SELECT id FROM usage_mark`); err != nil {
		return 0, err
	}
	if err := tx.GetContext(ctx, &newest, `SELECT coalesce(max(id), 0) FROM samples`); err != nil {
		return 0, err
	}
	end := min(mark+foldBatch, newest)
	if end <= mark {
		return 0, nil
	}
	const add = `INSERT INTO usage (job_id, at, gpu_ms, busy) ` + usageOf + `
		ON CONFLICT (job_id) DO UPDATE SET at = max(at, excluded.at), gpu_ms = gpu_ms + excluded.gpu_ms, busy = busy + excluded.busy`
	if _, err := tx.ExecContext(ctx, add, mark, end); err != nil {
		return 0, err
	}
	_, err := tx.ExecContext(ctx, `UPDATE usage_mark SET id = ?`, end)
	return end - mark, err
}
