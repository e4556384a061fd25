// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"rifling/policy"
)

// Cycle is one cycle of the daemon.
type Cycle struct {
	ID          int64
	At          time.Time // by slurmctld's clock
	Begun       time.Time // by the daemon host's clock, as Ended
	Ended       time.Time // zero: the daemon is at it, or died in it
	Took        time.Duration
	Mode        string
	Policy      string
	Seed        uint64
	Pending     int // GPU jobs of managed partitions
	PendingGPUs int
	Running     int
	GPUs        int
	GPUsUsed    int
	ANPR        float64 // meaningless when ANPRGPUs is 0
	ANPRGPUs    int
	Odd         map[string]int
}

// cycleRow is a row of the table cycles.
type cycleRow struct {
	ID          int64   `db:"id"`
	At          int64   `db:"at"`
	BegunAt     int64   `db:"begun_at"`
	EndedAt     int64   `db:"ended_at"`
	TookMS      int64   `db:"took_ms"`
	Mode        string  `db:"mode"`
	Policy      string  `db:"policy"`
	Seed        int64   `db:"seed"`
	Pending     int     `db:"pending"`
	PendingGPUs int     `db:"pending_gpus"`
	Running     int     `db:"running"`
	GPUs        int     `db:"gpus"`
	GPUsUsed    int     `db:"gpus_used"`
	ANPR        float64 `db:"anpr"`
	ANPRGPUs    int     `db:"anpr_gpus"`
	Odd         string  `db:"odd"`
	FreeSplit   int     `db:"free_split"`
	Unevenness  float64 `db:"unevenness"`
}

// Stopped reports whether the cycle is the record of a clean stop.
func (c *Cycle) Stopped() bool { return c.Policy == policy.PlanStop }

// LastCycle returns the newest record of the daemon, that of a clean stop
// included; nil when there is none.
func (s *Store) LastCycle(ctx context.Context) (*Cycle, error) {
	return s.oneCycle(ctx, `SELECT * FROM cycles ORDER BY id DESC LIMIT 1`)
}

// lastPlan returns the newest cycle that decided on jobs, or the newest of any
// kind when there is no such.
func (s *Store) lastPlan(ctx context.Context) (*Cycle, error) {
	// From the newest on, which ends soon: sorting half a million cycles takes
	// a second.
	c, err := s.oneCycle(ctx, `SELECT * FROM cycles WHERE policy NOT IN (?, ?) ORDER BY id DESC LIMIT 1`, policy.PlanStop, policy.PlanRecover)
	if c != nil || err != nil {
		return c, err
	}
	return s.LastCycle(ctx)
}

func (s *Store) oneCycle(ctx context.Context, query string, args ...any) (*Cycle, error) {
	var r cycleRow
	err := s.db.GetContext(ctx, &r, query, args...)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, explain(s.path, "read the last cycle of", err)
	}
	c := &Cycle{
		ID: r.ID, At: instant(r.At), Begun: instant(r.BegunAt), Ended: instant(r.EndedAt),
		Took: time.Duration(r.TookMS) * time.Millisecond, Mode: r.Mode, Policy: r.Policy, Seed: uint64(r.Seed),
		Pending: r.Pending, PendingGPUs: r.PendingGPUs, Running: r.Running, GPUs: r.GPUs, GPUsUsed: r.GPUsUsed,
		ANPR: r.ANPR, ANPRGPUs: r.ANPRGPUs,
	}
	if err := json.Unmarshal([]byte(r.Odd), &c.Odd); err != nil {
		return nil, explain(s.path, "read the last cycle of", fmt.Errorf("cycle %d: %w", r.ID, err))
	}
	return c, nil
}

// Status is what the daemon was last seen doing.
type Status struct {
	Last       *Cycle // the newest that decided on jobs; nil: no cycle has been recorded
	Newest     *Cycle // the newest record of the daemon, that of a clean stop included
	Owned      int    // jobs on which rifling has something set
	Decisions  map[policy.Action]int
	Skipped    int       // decisions of the last cycle that keep hands off
	Changes    int       // applied in the day before the last cycle
	Problems   []Change  // failed or of unknown end in that day, newest first, 10 at most
	LastSample time.Time // newest counters of any collector; zero when there are none
	Collectors int       // nodes heard of in the hour before the last cycle
	QEntries   int       // cells of the learner's table
}

// Status returns what the daemon was last seen doing.
func (s *Store) Status(ctx context.Context) (*Status, error) {
	last, err := s.lastPlan(ctx)
	if err != nil {
		return nil, err
	}
	newest, err := s.LastCycle(ctx)
	if err != nil {
		return nil, err
	}
	st := &Status{Last: last, Newest: newest, Decisions: map[policy.Action]int{}}
	if last == nil {
		return st, nil
	}
	if err := s.fillStatus(ctx, st); err != nil {
		return nil, explain(s.path, "read the status in", err)
	}
	return st, nil
}

func (s *Store) fillStatus(ctx context.Context, st *Status) (err error) {
	at := epoch(st.Last.At)
	day := at - 24*3600
	var newest int64
	for _, c := range []struct {
		to   any
		sql  string
		args []any
	}{
		{&st.Owned, `SELECT count(*) FROM owners`, nil},
		{&st.QEntries, `SELECT count(*) FROM qvalues`, nil},
		// Samples bear the host's time, a cycle both.
		{&newest, `SELECT coalesce(max(s.at) + (SELECT at - begun_at FROM cycles WHERE id = ?), 0) FROM senders s`, []any{st.Last.ID}},
		{&st.Collectors, `SELECT count(*) FROM senders WHERE at >= (SELECT begun_at - 3600 FROM cycles WHERE id = ?)`, []any{st.Last.ID}},
		{&st.Changes, `SELECT count(*) FROM changes WHERE at >= ? AND outcome = 'applied'`, []any{day}},
		{&st.Skipped, `SELECT count(*) FROM decisions WHERE last_cycle = ? AND skipped <> ''`, []any{st.Last.ID}},
	} {
		if err := s.db.GetContext(ctx, c.to, c.sql, c.args...); err != nil {
			return err
		}
	}
	st.LastSample = instant(newest)
	var actions []struct {
		Action policy.Action
		N      int
	}
	const q = `SELECT action, count(*) AS n FROM decisions WHERE last_cycle = ? AND skipped = '' GROUP BY action`
	if err := s.db.SelectContext(ctx, &actions, q, st.Last.ID); err != nil {
		return err
	}
	for _, a := range actions {
		st.Decisions[a.Action] = a.N
	}
	// The changes of a cycle that is still at work are not overdue.
	running := int64(0)
	if st.Newest.Ended.IsZero() {
		running = st.Newest.ID
	}
	st.Problems, err = s.changes(ctx, `WHERE at >= ? AND (outcome = 'failed' OR outcome = '' AND cycle <> ?)
		ORDER BY id DESC LIMIT 10`, day, running)
	return err
}
