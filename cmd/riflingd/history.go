// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"rifling/slurm"
)

const (
	learnEvery = 24 * time.Hour
	learnBatch = 2000
)

// learnPast reads the run times of the last months from the accounting that
// was imported, at the start and once a day. What the book has learned already
// it knows again by job and end.
func (d *daemon) learnPast(ctx context.Context) {
	now := time.Now()
	if d.conf.History.Learn <= 0 || now.Sub(d.learned) < learnEvery {
		return
	}
	d.learned = now
	runs := 0
	batch := make([]slurm.PastJob, 0, learnBatch)
	learn := func() {
		d.loop.Book.LearnPast(batch)
		runs, batch = runs+len(batch), batch[:0]
	}
	err := d.store.EachPast(ctx, now.Add(-d.conf.History.Learn), time.Time{}, func(j *slurm.PastJob) error {
		if batch = append(batch, *j); len(batch) == learnBatch {
			learn()
		}
		return ctx.Err()
	})
	learn()
	switch {
	case err != nil && ctx.Err() == nil:
		d.log.Warn("past jobs could not be read, the rest is learnt tomorrow", "err", err)
	case runs > 0:
		d.log.Info("learnt from past jobs", "runs", runs, "took", time.Since(now).Round(time.Millisecond))
	}
}

// prunePast forgets accounting by its own retention.
func (d *daemon) prunePast(ctx context.Context, now time.Time) {
	if d.conf.History.Retention <= 0 {
		return
	}
	if err := d.store.PrunePast(ctx, now.Add(-d.conf.History.Retention)); err != nil {
		d.log.Warn("old accounting could not be removed", "err", err)
	}
}
