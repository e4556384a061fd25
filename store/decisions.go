// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/slurm"
)

// Decisions stand for many cycles. One that says the same as the job's last
// one only extends it; what may vary without meaning anything new (the
// sentence, the nodes it would take now, the learner's values, the deadline) follows the newest.
const extendDecision = `UPDATE decisions SET last_cycle = :cycle, last_at = :at,
	target = :target, reason = :reason, value = :value, deadline = :deadline, considered = :considered
WHERE id = (SELECT max(id) FROM decisions WHERE job_id = :job_id)
	AND mode = :mode AND policy = :policy AND action = :action AND state = :state
	AND candidates IS :candidates AND offset = :offset AND skipped = :skipped AND explored = :explored`

const insertDecision = `INSERT INTO decisions (job_id, first_cycle, last_cycle, first_at, last_at, mode, policy,
	action, state, candidates, target, offset, skipped, explored, reason, value, deadline, considered)
VALUES (:job_id, :cycle, :cycle, :at, :at, :mode, :policy,
	:action, :state, :candidates, :target, :offset, :skipped, :explored, :reason, :value, :deadline, :considered)`

// decisionRow is what the statements above take and, with the spans of cycles
// and time, a row of the table decisions.
type decisionRow struct {
	JobID      slurm.JobID    `db:"job_id"`
	Cycle      int64          `db:"cycle"`
	At         int64          `db:"at"`
	FirstCycle int64          `db:"first_cycle"`
	LastCycle  int64          `db:"last_cycle"`
	FirstAt    int64          `db:"first_at"`
	LastAt     int64          `db:"last_at"`
	Mode       string         `db:"mode"`
	Policy     string         `db:"policy"`
	Action     policy.Action  `db:"action"`
	State      string         `db:"state"`
	Candidates sql.NullString `db:"candidates"`
	Target     sql.NullString `db:"target"`
	Offset     int64          `db:"offset"`
	Skipped    string         `db:"skipped"`
	Explored   bool           `db:"explored"`
	Reason     string         `db:"reason"`
	Value      float64        `db:"value"`
	Deadline   int64          `db:"deadline"`
	Considered string         `db:"considered"`
}

// optionJSON is how an option that was considered is kept.
type optionJSON struct {
	Action policy.Action `json:"action"`
	Nodes  string        `json:"nodes,omitempty"` // host list
	Shape  string        `json:"shape,omitempty"`
	Value  float64       `json:"value"`
	Prior  float64       `json:"prior,omitempty"`
	Visits int           `json:"visits,omitempty"`
	Note   string        `json:"note,omitempty"`
}

func saveDecisions(ctx context.Context, tx *sqlx.Tx, cycle int64, r policy.Record) error {
	if len(r.Plan.Decisions) == 0 {
		return nil
	}
	extend, err := tx.PrepareNamedContext(ctx, extendDecision)
	if err != nil {
		return err
	}
	defer extend.Close()
	insert, err := tx.PrepareNamedContext(ctx, insertDecision)
	if err != nil {
		return err
	}
	defer insert.Close()
	for _, d := range r.Plan.Decisions {
		row := newDecisionRow(d)
		row.Cycle, row.At, row.Mode, row.Policy = cycle, epoch(r.At), r.Mode, r.Plan.Policy
		res, err := extend.ExecContext(ctx, row)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n > 0 {
			if err != nil {
				return err
			}
			continue
		}
		if _, err := insert.ExecContext(ctx, row); err != nil {
			return err
		}
	}
	return nil
}

func newDecisionRow(d policy.Decision) decisionRow {
	options := make([]optionJSON, len(d.Considered))
	for i, o := range d.Considered {
		options[i] = optionJSON{Action: o.Action, Nodes: slurm.CompressHosts(o.Nodes), Shape: o.Shape,
			Value: o.Value, Prior: o.Prior, Visits: o.Visits, Note: o.Note}
	}
	return decisionRow{
		JobID: d.JobID, Action: d.Action, State: d.State, Candidates: packNodes(d.Candidates), Target: packNodes(d.Target),
		Offset: d.Offset, Skipped: d.Skipped, Explored: d.Explored, Reason: d.Reason, Value: d.Value,
		Deadline: epoch(d.Deadline), Considered: toJSON(options),
	}
}
