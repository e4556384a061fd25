// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/policy"
	"rifling/slurm"
)

// Filter narrows a query; what is empty does not narrow.
type Filter struct {
	// Since and Until choose jobs as sacct does: those that were in the queue
	// or ran at some moment of [Since, Until).
	Since, Until time.Time
	Jobs         []slurm.JobID // raw ids; an array's id stands for all its tasks
	Users        []string
	Accounts     []string
	Partitions   []string
	QOS          []string
	Groups       []int
	// Current chooses the jobs that the last cycle saw pending or running.
	Current bool
}

// where writes the filter as a condition on the table jobs, named j.
func (f Filter) where() (string, []any, error) {
	conds, args := []string{"1"}, []any{}
	add := func(cond string, a ...any) {
		conds = append(conds, cond)
		args = append(args, a...)
	}
	if !f.Since.IsZero() {
		add("(j.ended = 0 AND j.last_seen >= ? OR j.ended > ?)", epoch(f.Since), epoch(f.Since))
	}
	if !f.Until.IsZero() {
		add("j.submit < ?", epoch(f.Until))
	}
	if len(f.Jobs) > 0 {
		add("(j.job_id IN (?) OR j.array_job_id IN (?))", f.Jobs, f.Jobs)
	}
	for _, c := range []struct {
		name   string
		values []string
	}{{"user", f.Users}, {"account", f.Accounts}, {"qos", f.QOS}} {
		if len(c.values) > 0 {
			add("j."+c.name+" IN (?)", c.values)
		}
	}
	if len(f.Partitions) > 0 {
		var named []string
		for _, p := range f.Partitions {
			named = append(named, "instr(',' || j.partition || ',', ?) > 0")
			args = append(args, ","+p+",")
		}
		conds = append(conds, "("+strings.Join(named, " OR ")+")")
	}
	if len(f.Groups) > 0 {
		add("j.grp IN (?)", f.Groups)
	}
	if f.Current {
		add("j.last_seen >= (SELECT coalesce(max(at), 0) FROM cycles WHERE id = (SELECT max(id) FROM cycles))" +
			" AND (j.state = 'PENDING' OR j.state LIKE 'PENDING+%' OR j.state = 'RUNNING' OR j.state LIKE 'RUNNING+%')")
	}
	return sqlx.In(strings.Join(conds, " AND "), args...)
}

// Decision is one decision and the time that it stood.
type Decision struct {
	policy.Decision
	Mode, Policy          string
	FirstAt, LastAt       time.Time
	FirstCycle, LastCycle int64
}

func (row *decisionRow) decision() (Decision, error) {
	var options []optionJSON
	if err := json.Unmarshal([]byte(row.Considered), &options); err != nil {
		return Decision{}, fmt.Errorf("decision on job %d: options: %w", row.JobID, err)
	}
	candidates, err := unpackNodes(row.Candidates)
	if err != nil {
		return Decision{}, fmt.Errorf("decision on job %d: %w", row.JobID, err)
	}
	target, err := unpackNodes(row.Target)
	if err != nil {
		return Decision{}, fmt.Errorf("decision on job %d: %w", row.JobID, err)
	}
	d := Decision{
		Decision: policy.Decision{
			JobID: row.JobID, Action: row.Action, State: row.State, Candidates: candidates,
			Target: target, Offset: row.Offset,
			Reason: row.Reason, Skipped: row.Skipped, Explored: row.Explored, Value: row.Value,
			Deadline: instant(row.Deadline),
		},
		Mode: row.Mode, Policy: row.Policy,
		FirstAt: instant(row.FirstAt), LastAt: instant(row.LastAt),
		FirstCycle: row.FirstCycle, LastCycle: row.LastCycle,
	}
	for _, o := range options {
		nodes, err := slurm.ExpandHosts(o.Nodes)
		if err != nil {
			return Decision{}, fmt.Errorf("decision on job %d: option %s: %w", row.JobID, o.Action, err)
		}
		d.Considered = append(d.Considered, policy.Option{Action: o.Action, Nodes: nodes, Shape: o.Shape,
			Value: o.Value, Prior: o.Prior, Visits: o.Visits, Note: o.Note})
	}
	return d, nil
}

func decisionsOf(rows []decisionRow) ([]Decision, error) {
	out := make([]Decision, 0, len(rows))
	for i := range rows {
		d, err := rows[i].decision()
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}

// Change is one write to Slurm, as it was recorded.
type Change struct {
	JobID   slurm.JobID
	Cycle   int64 // 0: by rifling release
	At      time.Time
	Kind    policy.Kind
	Update  slurm.Update
	Why     string
	Outcome policy.Outcome // empty: recorded, but its end is not known
	Detail  string
}

// changeRow is a row of the table changes.
type changeRow struct {
	JobID   slurm.JobID `db:"job_id"`
	Cycle   int64       `db:"cycle"`
	At      int64       `db:"at"`
	Kind    string      `db:"kind"`
	Change  string      `db:"change"`
	Why     string      `db:"why"`
	Outcome string      `db:"outcome"`
	Detail  string      `db:"detail"`
}

const selectChanges = `SELECT job_id, coalesce(cycle, 0) AS cycle, at, kind, change, why, outcome, detail FROM changes `

func (s *Store) changes(ctx context.Context, rest string, args ...any) ([]Change, error) {
	var rows []changeRow
	if err := s.db.SelectContext(ctx, &rows, selectChanges+rest, args...); err != nil {
		return nil, err
	}
	out := make([]Change, 0, len(rows))
	for _, r := range rows {
		u, err := unpackUpdate(r.JobID, r.Change)
		if err != nil {
			return nil, err
		}
		out = append(out, Change{JobID: r.JobID, Cycle: r.Cycle, At: instant(r.At), Kind: policy.Kind(r.Kind),
			Update: u, Why: r.Why, Outcome: policy.Outcome(r.Outcome), Detail: r.Detail})
	}
	return out, nil
}

func unpackUpdate(id slurm.JobID, text string) (slurm.Update, error) {
	var u updateJSON
	if err := json.Unmarshal([]byte(text), &u); err != nil {
		return slurm.Update{}, fmt.Errorf("change of job %d: %w", id, err)
	}
	out := slurm.Update{JobID: id, SiteFactor: u.SiteFactor, Nice: u.Nice}
	for _, f := range []struct {
		from *string
		to   **[]string
	}{{u.ExcludedNodes, &out.ExcludedNodes}, {u.RequiredNodes, &out.RequiredNodes}} {
		if f.from == nil {
			continue
		}
		nodes, err := slurm.ExpandHosts(*f.from)
		if err != nil {
			return slurm.Update{}, fmt.Errorf("change of job %d: %w", id, err)
		}
		list := append([]string{}, nodes...)
		*f.to = &list
	}
	return out, nil
}
