// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/slurm"
)

// epoch is the one way in for instants: whole seconds, 0 when unset.
func epoch(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.Unix()
}

// instant is the way out.
func instant(sec int64) time.Time {
	if sec == 0 {
		return time.Time{}
	}
	return time.Unix(sec, 0).UTC()
}

// unlimited stands in a file for a time limit that is none.
const unlimited = -1

// packNodes writes a list of nodes as Slurm's host list; nil, which means all
// nodes or none known, is NULL.
func packNodes(nodes []string) sql.NullString {
	if nodes == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: slurm.CompressHosts(nodes), Valid: true}
}

func unpackNodes(s sql.NullString) ([]string, error) {
	if !s.Valid {
		return nil, nil
	}
	nodes, err := slurm.ExpandHosts(s.String)
	if err != nil {
		return nil, err
	}
	if nodes == nil {
		nodes = []string{}
	}
	return nodes, nil
}

// packList keeps a list exactly, its order and the difference between nil and
// empty included.
func packList(list []string) sql.NullString {
	if list == nil {
		return sql.NullString{}
	}
	return sql.NullString{String: toJSON(list), Valid: true}
}

func unpackList(s sql.NullString) ([]string, error) {
	if !s.Valid {
		return nil, nil
	}
	var list []string
	err := json.Unmarshal([]byte(s.String), &list)
	return list, err
}

func packInt(n *int64) sql.NullInt64 {
	if n == nil {
		return sql.NullInt64{}
	}
	return sql.NullInt64{Int64: *n, Valid: true}
}

func unpackInt(n sql.NullInt64) *int64 {
	if !n.Valid {
		return nil
	}
	return &n.Int64
}

// toJSON encodes plain values of this package, which cannot fail.
func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		panic(fmt.Sprintf("encode %T: %v", v, err))
	}
	return string(b)
}

// inTx runs f in one transaction and says what was being done on an error.
func (s *Store) inTx(ctx context.Context, doing string, f func(tx *sqlx.Tx) error) error {
	tx, err := s.db.BeginTxx(ctx, nil)
	if err != nil {
		return explain(s.path, doing, err)
	}
	defer tx.Rollback() //nolint:errcheck // after Commit it does nothing
	if err := f(tx); err != nil {
		return explain(s.path, doing, err)
	}
	return explain(s.path, doing, tx.Commit())
}

// each runs one prepared statement for every item.
func each[T any](ctx context.Context, tx *sqlx.Tx, query string, items []T, args func(T) []any) error {
	if len(items) == 0 {
		return nil
	}
	stmt, err := tx.PreparexContext(ctx, query)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for _, item := range items {
		if _, err := stmt.ExecContext(ctx, args(item)...); err != nil {
			return err
		}
	}
	return nil
}
