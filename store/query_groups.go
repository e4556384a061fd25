// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"rifling/profile"
)

// Groups returns the groups of the last grouping, the most communication-bound
// first, and when it was made; none and the zero time before the first.
func (s *Store) Groups(ctx context.Context) ([]profile.Group, time.Time, error) {
	var rows []struct {
		At      int64   `db:"at"`
		Index   int     `db:"idx"`
		Center  float64 `db:"center"`
		Spread  float64 `db:"spread"`
		Members int     `db:"members"`
	}
	const q = `SELECT * FROM groups WHERE at = (SELECT max(at) FROM groups) ORDER BY center, idx`
	if err := s.db.SelectContext(ctx, &rows, q); err != nil {
		return nil, time.Time{}, explain(s.path, "read the groups of", err)
	}
	var at time.Time
	out := make([]profile.Group, 0, len(rows))
	for _, r := range rows {
		at = instant(r.At)
		out = append(out, profile.Group{Index: r.Index, Center: r.Center, Spread: r.Spread, Members: r.Members})
	}
	return out, at, nil
}

// Drift is how a group's centre moved, in log cc.
type Drift struct {
	// Last is the way since the grouping before the newest; meaningless when
	// HasLast is false, for a group that was not there then.
	Last    float64
	HasLast bool
	// Week is the way since the last grouping that is at least a week older
	// than the newest; likewise.
	Week    float64
	HasWeek bool
}

// week is how far back Drift.Week looks, seconds.
const week = 7 * 24 * 3600

// Drifts returns how the groups of the last grouping moved, by their numbers.
func (s *Store) Drifts(ctx context.Context) (map[int]Drift, error) {
	var rows []struct {
		Index        int      `db:"idx"`
		Center       float64  `db:"center"`
		Before, Week *float64 // NULL: not there then
	}
	const q = `WITH newest AS (SELECT max(at) AS at FROM groups)
		SELECT g.idx, g.center,
			(SELECT b.center FROM groups b WHERE b.idx = g.idx AND b.at =
				(SELECT max(at) FROM groups WHERE at < newest.at)) AS before,
			(SELECT b.center FROM groups b WHERE b.idx = g.idx AND b.at =
				(SELECT max(at) FROM groups WHERE at <= newest.at - ?)) AS week
		FROM groups g, newest WHERE g.at = newest.at`
	if err := s.db.SelectContext(ctx, &rows, q, week); err != nil {
		return nil, explain(s.path, "read the groups of", err)
	}
	out := map[int]Drift{}
	for _, r := range rows {
		var d Drift
		if r.Before != nil {
			d.Last, d.HasLast = r.Center-*r.Before, true
		}
		if r.Week != nil {
			d.Week, d.HasWeek = r.Center-*r.Week, true
		}
		out[r.Index] = d
	}
	return out, nil
}

// Member is one family of jobs, as its newest job was last seen.
type Member struct {
	Group  int // or profile.GroupUnknown
	Family string
	User   string
	Name   string
	GPUs   int
	Jobs   int           // of the history
	LogCC  float64       // meaningless when Level is profile.LevelNone
	Count  int           // samples behind LogCC
	Level  profile.Level // where LogCC comes from
}

// Members returns the families of the jobs that pass the filter, by group and
// family, those of unknown group last.
func (s *Store) Members(ctx context.Context, f Filter) ([]Member, error) {
	where, args, err := f.where()
	if err != nil {
		return nil, err
	}
	// With max() in the list SQLite takes the other columns from the row that
	// has the maximum.
	var rows []struct {
		Group  int     `db:"grp"`
		Family string  `db:"family"`
		User   string  `db:"user"`
		Name   string  `db:"name"`
		GPUs   int     `db:"gpus"`
		Jobs   int     `db:"jobs"`
		LogCC  float64 `db:"log_cc"`
		Count  int     `db:"cc_count"`
		Level  string  `db:"cc_level"`
		Newest int64   `db:"newest"`
	}
	q := `SELECT j.grp, j.family, j.user, j.name, j.gpus, count(*) AS jobs, j.log_cc, j.cc_count, j.cc_level,
			max(j.job_id) AS newest
		FROM jobs j WHERE j.family <> '' AND ` + where + `
		GROUP BY j.family ORDER BY j.grp < 0, j.grp, j.family`
	if err := s.db.SelectContext(ctx, &rows, q, args...); err != nil {
		return nil, explain(s.path, "read the members of groups in", err)
	}
	out := make([]Member, 0, len(rows))
	for _, r := range rows {
		out = append(out, Member{Group: r.Group, Family: r.Family, User: r.User, Name: r.Name,
			GPUs: r.GPUs, Jobs: r.Jobs, LogCC: r.LogCC, Count: r.Count, Level: profile.Level(r.Level)})
	}
	return out, nil
}
