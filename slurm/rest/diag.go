// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"rifling/slurm"
)

// Diag is what sdiag shows of slurmctld's load and of its schedulers. Counters
// run since slurmctld's last reset of its statistics.
type Diag struct {
	At            time.Time     // slurmctld's clock
	ServerThreads int           // threads at work on requests
	AgentQueue    int           // messages waiting to be sent
	DBDQueue      int           // messages waiting for slurmdbd
	Pending       int           // jobs, as of the last count
	Running       int           // jobs, as of the last count
	ScheduleLast  time.Duration // the main scheduler's last pass
	ScheduleMean  time.Duration
	BackfillLast  time.Duration // backfill's last pass
	BackfillMean  time.Duration
	BackfillDepth int // jobs that backfill tried in its last pass
	BackfillQueue int // jobs that it saw
	Backfilled    int // jobs that it started
}

// Diag asks slurmctld for its statistics. It is the cheapest answer that
// carries slurmctld's clock on every release.
func (c *Client) Diag(ctx context.Context) (Diag, error) {
	a, err := c.get(ctx, "slurm", "read diag", nil, "diag")
	if err != nil {
		return Diag{}, err
	}
	s := a.object("statistics")
	d := Diag{
		At:            s.instant("req_time"),
		ServerThreads: s.count("server_thread_count"),
		AgentQueue:    s.count("agent_queue_size"),
		DBDQueue:      s.count("dbd_agent_queue_size"),
		Pending:       s.count("jobs_pending"),
		Running:       s.count("jobs_running"),
		ScheduleLast:  micros(s, "schedule_cycle_last"),
		ScheduleMean:  micros(s, "schedule_cycle_mean"),
		BackfillLast:  micros(s, "bf_cycle_last"),
		BackfillMean:  micros(s, "bf_cycle_mean"),
		BackfillDepth: s.count("bf_last_depth"),
		BackfillQueue: s.count("bf_queue_len"),
		Backfilled:    s.count("bf_backfilled_jobs"),
	}
	if d.At.IsZero() {
		return d, fmt.Errorf("read diag: slurmctld's clock (req_time) is missing: %s", s.odd)
	}
	return d, nil
}

func micros(r *record, key string) time.Duration {
	return time.Duration(r.num(key).n) * time.Microsecond
}

// AdminLevel returns the name that the client acts under and its AdminLevel in
// the accounting database: "None", "Operator" or "Administrator". Without
// accounting, and for a user whom slurmdbd does not know, it is an error that
// wraps slurm.ErrBusy or slurm.ErrGone.
func (c *Client) AdminLevel(ctx context.Context) (user, level string, err error) {
	user = c.userName()
	a, err := c.get(ctx, "slurmdb", "read user "+user, nil, "user", user)
	if err != nil {
		return user, "", databaseHint(err)
	}
	users, _ := a.list("users")
	for _, raw := range users {
		u := newRecord(raw)
		if u.text("name") != user {
			continue
		}
		// 22.05: "Operator"; later a list such as ["Operator"] or [].
		if level = u.text("administrator_level"); level == "" || strings.EqualFold(level, "Not Set") {
			level = "None"
		}
		return user, level, nil
	}
	return user, "", slurm.WithHint(fmt.Errorf("read user %s: %w: slurmdbd does not know the user", user, slurm.ErrGone),
		"add it: sacctmgr add user %s account=ACCOUNT adminlevel=operator", user)
}

// Accounting reports whether the accounting database answers: nil, or an error
// that says why not.
func (c *Client) Accounting(ctx context.Context) error {
	_, err := c.get(ctx, "slurmdb", "read accounting", nil, "clusters")
	if err != nil {
		return databaseHint(fmt.Errorf("slurmdbd: %w", err))
	}
	return nil
}

// databaseHint says what to do when it is not slurmctld that is away.
func databaseHint(err error) error {
	if errors.Is(err, slurm.ErrBusy) {
		return slurm.WithHint(err, "is slurmdbd up, and does AccountingStorageHost name it? sacctmgr show stats")
	}
	return err
}
