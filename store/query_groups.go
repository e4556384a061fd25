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
	const q = `SELECT * FROM groups WHERE at = (SELECT max(at) FROM groups) ORDER BY idx`
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

// Member is one family of jobs within a group.
type Member struct {
	Group  int
	Family string
	User   string
	Name   string // of the family's newest job
	GPUs   int
	Jobs   int
	LogCC  float64 // of the family's newest job
	Count  int     // samples behind LogCC
}

// Members returns the families of the jobs that pass the filter and whose ratio
// is known, by group and family.
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
		Newest int64   `db:"newest"`
	}
	q := `SELECT j.grp, j.family, j.user, j.name, j.gpus, count(*) AS jobs, j.log_cc, j.cc_count,
			max(j.job_id) AS newest
		FROM jobs j WHERE j.family <> '' AND j.grp >= 0 AND ` + where + `
		GROUP BY j.grp, j.family ORDER BY j.grp, j.family`
	if err := s.db.SelectContext(ctx, &rows, q, args...); err != nil {
		return nil, explain(s.path, "read the members of groups in", err)
	}
	out := make([]Member, 0, len(rows))
	for _, r := range rows {
		out = append(out, Member{Group: r.Group, Family: r.Family, User: r.User, Name: r.Name,
			GPUs: r.GPUs, Jobs: r.Jobs, LogCC: r.LogCC, Count: r.Count})
	}
	return out, nil
}
