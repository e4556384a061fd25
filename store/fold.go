// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"
)

// SampleAges says how long samples are kept in which detail, counted from now.
type SampleAges struct {
	Raw         time.Duration // as they came; 0 means for ever, up to MaxSamples
	FiveMinutes time.Duration // as means of 5 minutes; later, as hourly means; 0 means for ever
}

// Steps of the means, seconds.
const (
	fineStep   = 300
	coarseStep = 3600
)

// foldBatch bounds the rows that one transaction turns into means: about 20 ms
// in which a cycle must wait.
const foldBatch = 5000

// Folded says what FoldSamples did, in rows.
type Folded struct {
	Raw  int64 // samples that became means of five minutes
	Fine int64 // those that became hourly means
}

// FoldSamples turns samples that are too old, or too many, into means of five
// minutes, and old ones of these into hourly means. Rows and their means change
// places in one transaction, so each sample counts once whatever happens. It
// works in small steps with pauses in between, until nothing is left or ctx
// ends.
func (s *Store) FoldSamples(ctx context.Context, ages SampleAges, pause time.Duration) (Folded, error) {
	var f Folded
	// A sample is counted before it can go.
	if err := s.countUsage(ctx, pause); err != nil {
		return f, err
	}
	for _, part := range []struct {
		total *int64
		step  func(context.Context, *sqlx.Tx, time.Time) (int64, error)
		age   time.Duration
		skip  bool
	}{
		{&f.Raw, s.foldRaw, ages.Raw, false},
		{&f.Fine, foldFine, ages.FiveMinutes, ages.FiveMinutes <= 0},
	} {
		for !part.skip && ctx.Err() == nil {
			var before time.Time // zero: nothing is too old
			if part.age > 0 {
				before = s.now().Add(-part.age)
			}
			var n int64
			err := s.inTx(ctx, "fold samples in", func(tx *sqlx.Tx) (err error) {
				n, err = part.step(ctx, tx, before)
				return err
			})
			if err != nil {
				return f, err
			}
			*part.total += n
			if n == 0 {
				break
			}
			wait(ctx, pause)
		}
	}
	return f, ctx.Err()
}

func wait(ctx context.Context, d time.Duration) {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
	case <-t.C:
	}
}

// upsertMeans adds to a mean what belongs to it, by weight of time.
const upsertMeans = ` ON CONFLICT (res, at, series) DO UPDATE SET
	n = n + excluded.n, ms = ms + excluded.ms,
	compute = round((1.0 * compute * ms + 1.0 * excluded.compute * excluded.ms) / (ms + excluded.ms)),
	nvlink = round((1.0 * nvlink * ms + 1.0 * excluded.nvlink * excluded.ms) / (ms + excluded.ms)),
	pcie = round((1.0 * pcie * ms + 1.0 * excluded.pcie * excluded.ms) / (ms + excluded.ms)),
	net = round((1.0 * net * ms + 1.0 * excluded.net * excluded.ms) / (ms + excluded.ms)),
	throttled = round((1.0 * throttled * ms + 1.0 * excluded.throttled * excluded.ms) / (ms + excluded.ms))`

// foldRaw takes the oldest samples by arrival, as long as they are older than
// before or above the bound. One that came late waits until those before it
// are gone. The newest stays, since it tells the next one's number.
func (s *Store) foldRaw(ctx context.Context, tx *sqlx.Tx, before time.Time) (int64, error) {
	var span struct{ Least, Most int64 }
	const bounds = `SELECT coalesce((SELECT min(id) FROM samples), 0) AS least, coalesce((SELECT max(id) FROM samples), 0) AS most`
	if err := tx.GetContext(ctx, &span, bounds); err != nil || span.Most == 0 {
		return 0, err
	}
	cut := int64(-1 << 62)
	if !before.IsZero() {
		cut = before.UnixMilli()
	}
	// The first that is young enough to stay, among those that come next.
	const young = `SELECT coalesce(min(id), ?) FROM samples WHERE id < ? AND at >= ?`
	end := min(span.Least+foldBatch, span.Most)
	if err := tx.GetContext(ctx, &end, young, end, end, cut); err != nil {
		return 0, err
	}
	end = max(end, min(span.Most-s.maxSamples+1, span.Least+foldBatch))
	var counted int64 // samples that came meanwhile wait for the next call
	if err := tx.GetContext(ctx, &counted, `SELECT id FROM usage_mark`); err != nil {
		return 0, err
	}
	end = min(end, counted+1)
	if end <= span.Least {
		return 0, nil
	}
	const means = `INSERT INTO means SELECT ?, at / (1000 * ?) * ?, series, count(*), sum(interval_ms),
		round(sum(1.0 * compute * interval_ms) / sum(interval_ms)), round(sum(1.0 * nvlink * interval_ms) / sum(interval_ms)),
		round(sum(1.0 * pcie * interval_ms) / sum(interval_ms)), round(sum(1.0 * net * interval_ms) / sum(interval_ms)),
		round(sum(1.0 * throttled * interval_ms) / sum(interval_ms))
		FROM samples WHERE id < ? GROUP BY 2, 3`
	if _, err := tx.ExecContext(ctx, means+upsertMeans, fineStep, fineStep, fineStep, end); err != nil {
		return 0, err
	}
	return affected(tx.ExecContext(ctx, `DELETE FROM samples WHERE id < ?`, end))
}

// foldFine turns the oldest means of five minutes into hourly ones.
func foldFine(ctx context.Context, tx *sqlx.Tx, before time.Time) (int64, error) {
	var last *int64
	const pick = `SELECT max(at) FROM (SELECT at FROM means WHERE res = ? AND at < ? ORDER BY at LIMIT ?)`
	if err := tx.GetContext(ctx, &last, pick, fineStep, epoch(before), foldBatch); err != nil || last == nil {
		return 0, err
	}
	const means = `INSERT INTO means SELECT ?, at / ? * ?, series, sum(n), sum(ms),
		round(sum(1.0 * compute * ms) / sum(ms)), round(sum(1.0 * nvlink * ms) / sum(ms)), round(sum(1.0 * pcie * ms) / sum(ms)),
		round(sum(1.0 * net * ms) / sum(ms)), round(sum(1.0 * throttled * ms) / sum(ms))
		FROM means WHERE res = ? AND at <= ? GROUP BY 2, 3`
	if _, err := tx.ExecContext(ctx, means+upsertMeans, coarseStep, coarseStep, coarseStep, fineStep, *last); err != nil {
		return 0, err
	}
	return affected(tx.ExecContext(ctx, `DELETE FROM means WHERE res = ? AND at <= ?`, fineStep, *last))
}

// SampleRows says in how many rows samples are kept.
type SampleRows struct{ Raw, Fine, Coarse int64 }

// SampleRows counts the rows of samples and of their means.
func (s *Store) SampleRows(ctx context.Context) (SampleRows, error) {
	var r SampleRows
	const q = `SELECT (SELECT count(*) FROM samples) AS raw, (SELECT count(*) FROM means WHERE res = ?) AS fine,
		(SELECT count(*) FROM means WHERE res = ?) AS coarse`
	err := explain(s.path, "count samples in", s.db.GetContext(ctx, &r, q, fineStep, coarseStep))
	return r, err
}
