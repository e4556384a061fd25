// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/slurm"
)

// modeSteer is the mode in which changes are written to Slurm.
const modeSteer = "steer"

// Begin keeps a cycle before its first write to Slurm, in one transaction: the
// jobs as they are, the samples, the plan, the changes that are about to be
// written, the owner records of those that set something, and which owner
// records to drop. It returns the cycle's number.
//
// A take-back leaves the owner record as it is until End says that it was
// applied: after a crash in between, it can be done again. In observe mode
// nothing will be set, so nothing becomes owned.
func (s *Store) Begin(ctx context.Context, r policy.Record) (int64, error) {
	var cycle int64
	err := s.inTx(ctx, "record a cycle in", func(tx *sqlx.Tx) error {
		var err error
		if cycle, err = s.insertCycle(ctx, tx, r); err != nil {
			return err
		}
		for _, part := range []func() error{
			func() error { return upsertJobs(ctx, tx, r) },
			func() error { return s.insertSamples(ctx, tx, r.Samples, s.now().Sub(r.At)) },
			func() error { return saveDecisions(ctx, tx, cycle, r) },
			func() error { return insertChanges(ctx, tx, cycle, r.At, r.Changes) },
			func() error { return deleteOwners(ctx, tx, r.Forget) },
			func() error { return upsertOwners(ctx, tx, r.Renew) },
			func() error {
				if r.Mode != modeSteer {
					return nil
				}
				return upsertOwners(ctx, tx, ownersOfSets(r.Changes))
			},
		} {
			if err := part(); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return 0, err
	}
	return cycle, nil
}

// End keeps how a cycle's changes ended, the owner records that stand after
// them, and how long the cycle took. A change without a result keeps an empty
// outcome: its end is not known.
func (s *Store) End(ctx context.Context, cycle int64, results []policy.Result, took time.Duration) error {
	return s.inTx(ctx, "record the results of a cycle in", func(tx *sqlx.Tx) error {
		for _, r := range results {
			if err := endChange(ctx, tx, cycle, r); err != nil {
				return err
			}
			if err := settleOwner(ctx, tx, r); err != nil {
				return err
			}
		}
		const q = `UPDATE cycles SET ended_at = ?, took_ms = ? WHERE id = ?`
		_, err := tx.ExecContext(ctx, q, epoch(s.now()), took.Milliseconds(), cycle)
		return err
	})
}

// tasks returns how many jobs a pending record stands for: of an array those
// tasks that are still to start, as far as Slurm's shortened list tells.
func tasks(j *slurm.Job) int {
	if !j.IsArray() || j.ArrayTaskID >= 0 {
		return 1
	}
	n, _, _, err := slurm.ParseTasks(j.ArrayTaskString)
	if err != nil {
		return 1
	}
	return max(1, n)
}

func (s *Store) insertCycle(ctx context.Context, tx *sqlx.Tx, r policy.Record) (int64, error) {
	var pending, pendingGPUs, running int
	for i := range r.Jobs {
		switch j := &r.Jobs[i]; {
		case j.Pending():
			pending += tasks(j)
			pendingGPUs += tasks(j) * j.Total()
		case j.Running():
			running++
		}
	}
	odd := r.Odd
	if odd == nil {
		odd = map[string]int{}
	}
	const q = `INSERT INTO cycles (at, begun_at, mode, policy, seed, pending, pending_gpus, running,
		gpus, gpus_used, anpr, anpr_gpus, odd, free_split, unevenness) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	split, uneven := r.FreeSplit, r.Unevenness
	if r.GPUs == 0 { // no nodes: a stop's record
		split, uneven = -1, -1
	}
	res, err := tx.ExecContext(ctx, q, epoch(r.At), epoch(s.now()), r.Mode, r.Plan.Policy, int64(r.Seed),
		pending, pendingGPUs, running, r.GPUs, r.GPUsUsed, r.ANPR, r.ANPRGPUs, toJSON(odd), split, uneven)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}
