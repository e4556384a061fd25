// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/slurm"
)

// pastColumns are those of past_jobs behind its key, in the order of pastRow.
const pastColumns = `ended, state, start, eligible, elapsed_s, suspended_s, limit_s, exit_code, restarts,
	array_job, array_task, het_job, user, account, part, qos, name, command,
	gpus, gpu_type, nodes, node_count, cpus, priority, gpu_util, gpu_memory`

const pastWidth = 26

var insertPast = `INSERT INTO past_jobs (cluster, job_id, submit, ` + pastColumns + `) VALUES (` +
	strings.Repeat("?, ", 2+pastWidth) + `?) ON CONFLICT DO NOTHING`

// A run that is over does not go back to running, whichever reading comes
// last. What a reading does not tell (a file without the column) is kept from
// the one that did.
var updatePast = `UPDATE past_jobs SET (` + pastColumns + `) = (` + strings.Repeat("?, ", pastWidth-2) +
	`coalesce(?, gpu_util), coalesce(?, gpu_memory))
WHERE cluster = ? AND job_id = ? AND submit = ? AND (ended = 0 OR ? > 0) AND (` + pastColumns + `) IS NOT (` +
	strings.Repeat("?, ", pastWidth-2) + `coalesce(?, gpu_util), coalesce(?, gpu_memory))`

// wordSlack is how far a word's mark of its last use may lag behind: it then
// costs one write a word and month, not one a run.
const wordSlack = 30 * 24 * 60 * 60

// PastWriter stores runs of the past, and remembers meanwhile which words the
// table has. It may be used by one goroutine at a time.
type PastWriter struct {
	store *Store
	words wordCache
}

// PastWriter returns a writer of accounting.
func (s *Store) PastWriter() *PastWriter { return &PastWriter{store: s} }

// SavePast stores runs of the past, each once however often it comes, and
// notes that the range of time from since to until has been read whole, when
// until is after since; all in one transaction. It returns how many runs were
// new and how many had changed.
//
// Keep a call to some thousand runs: other writers wait meanwhile.
func (p *PastWriter) SavePast(ctx context.Context, runs []slurm.PastJob, since, until time.Time) (fresh, changed int, err error) {
	s := p.store
	err = s.inTx(ctx, "store accounting in", func(tx *sqlx.Tx) error {
		// A statement that can be cancelled costs a goroutine; these are short.
		brief := context.WithoutCancel(ctx)
		w, err := p.begin(brief, tx)
		if err != nil {
			return err
		}
		defer w.close()
		for i := range runs {
			if err := ctx.Err(); err != nil {
				return err
			}
			isNew, isChanged, err := w.save(brief, &runs[i])
			if err != nil {
				return err
			}
			if isNew {
				fresh++
			}
			if isChanged {
				changed++
			}
		}
		if !since.Before(until) {
			return nil
		}
		return noteRange(ctx, tx, since.Unix(), until.Unix(), s.now().Unix())
	})
	if err != nil {
		p.words.reset() // some may have been taken back with the rows
		return 0, 0, err
	}
	return fresh, changed, nil
}

// pastTx has the statements of one transaction.
type pastTx struct {
	insert, update, addWord, findWord, useWord *sql.Stmt

	words *wordCache
	args  []any
}

func (p *PastWriter) begin(ctx context.Context, tx *sqlx.Tx) (*pastTx, error) {
	w := &pastTx{words: &p.words, args: make([]any, 0, 2*pastWidth+4)}
	var errs []error
	prepare := func(query string) *sql.Stmt {
		stmt, err := tx.PrepareContext(ctx, query)
		errs = append(errs, err)
		return stmt
	}
	w.insert, w.update = prepare(insertPast), prepare(updatePast)
	w.addWord = prepare(`INSERT INTO past_words (hash, word, used) VALUES (?, ?, ?) ON CONFLICT DO NOTHING`)
	w.findWord = prepare(`SELECT id, used, word FROM past_words WHERE hash = ?`)
	w.useWord = prepare(`UPDATE past_words SET used = ? WHERE id = ?`)
	if err := errors.Join(errs...); err != nil {
		w.close()
		return nil, err
	}
	return w, nil
}

func (w *pastTx) close() {
	for _, stmt := range []*sql.Stmt{w.insert, w.update, w.addWord, w.findWord, w.useWord} {
		if stmt != nil {
			stmt.Close() //nolint:errcheck,gosec // it goes with its transaction
		}
	}
}

func (w *pastTx) save(ctx context.Context, j *slurm.PastJob) (fresh, changed bool, err error) {
	used := max(epoch(j.Submit), epoch(j.End))
	cluster, err := w.word(ctx, j.Cluster, used)
	if err != nil {
		return false, false, err
	}
	if cluster == nil {
		cluster = int64(0)
	}
	key := [3]any{cluster, int64(j.ID), epoch(j.Submit)}
	w.args = append(w.args[:0], key[:]...)
	if w.args, err = w.row(ctx, w.args, j, used); err != nil {
		return false, false, err
	}
	res, err := w.insert.ExecContext(ctx, w.args...)
	if err != nil {
		return false, false, err
	}
	if n, err := res.RowsAffected(); err != nil || n > 0 {
		return n > 0, false, err
	}
	values := w.args[3:]
	all := slices.Concat(values, key[:], []any{epoch(j.End)}, values)
	if res, err = w.update.ExecContext(ctx, all...); err != nil {
		return false, false, err
	}
	n, err := res.RowsAffected()
	return false, n > 0, err
}

// row appends the values of pastColumns.
func (w *pastTx) row(ctx context.Context, args []any, j *slurm.PastJob, used int64) ([]any, error) {
	var ids [9]any
	nodes := ""
	if len(j.Nodes) > 0 {
		nodes = w.words.hostList(j.Nodes)
	}
	for i, word := range [9]string{
		j.State.String(), j.User, j.Account, j.Partition, j.QOS, j.Name, j.Command, j.GPUType, nodes,
	} {
		var err error
		if ids[i], err = w.word(ctx, word, used); err != nil {
			return nil, err
		}
	}
	after := func(t time.Time) any {
		if t.IsZero() {
			return nil
		}
		return t.Unix() - j.Submit.Unix()
	}
	limit := unlessZero(int64(j.TimeLimit / time.Second))
	if j.Unlimited {
		limit = int64(unlimited)
	}
	var task, util, memory any
	if j.ArrayTaskID >= 0 {
		task = j.ArrayTaskID
	}
	if j.GPUUtil >= 0 {
		util = int64(math.Round(min(1, j.GPUUtil) * 1000))
	}
	if j.GPUMemory >= 0 {
		memory = int64(min(j.GPUMemory, 1<<62))
	}
	if ids[0] == nil {
		ids[0] = int64(0)
	}
	return append(args, epoch(j.End), ids[0], after(j.Start), after(j.Eligible),
		int64(j.Elapsed/time.Second), unlessZero(int64(j.Suspended/time.Second)), limit,
		unlessZero(int64(j.ExitCode)), unlessZero(int64(j.Restarts)),
		unlessZero(int64(j.ArrayJobID)), task, unlessZero(int64(j.HetJobID)),
		ids[1], ids[2], ids[3], ids[4], ids[5], ids[6],
		int64(j.GPUs), ids[7], ids[8], int64(j.NodeCount), int64(j.CPUs), unlessZero(j.Priority), util, memory), nil
}

func unlessZero(n int64) any {
	if n == 0 {
		return nil
	}
	return n
}

// word returns the id of a word, which it adds when it is new; nil for none.
func (w *pastTx) word(ctx context.Context, word string, used int64) (any, error) {
	if word == "" {
		return nil, nil
	}
	e, ok := w.words.byWord[word]
	if !ok {
		var err error
		if e, err = w.findOrAdd(ctx, word, used); err != nil {
			return nil, err
		}
		w.words.put(word, e)
	}
	if used <= e.used+wordSlack {
		return e.id, nil
	}
	res, err := w.useWord.ExecContext(ctx, used, e.id)
	if err != nil {
		return nil, err
	}
	e.used = used
	if n, err := res.RowsAffected(); err != nil {
		return nil, err
	} else if n == 0 { // riflingd has pruned it since it was found
		if e, err = w.findOrAdd(ctx, word, used); err != nil {
			return nil, err
		}
	}
	w.words.put(word, e)
	return e.id, nil
}

// findOrAdd looks in the table. An index of hashes is a fraction of one of
// words, which would hold each of them twice; two words of one hash take the
// next free one.
func (w *pastTx) findOrAdd(ctx context.Context, word string, used int64) (wordEntry, error) {
	for hash := hashWord(word); ; hash++ {
		res, err := w.addWord.ExecContext(ctx, hash, word, used)
		if err != nil {
			return wordEntry{}, err
		}
		if n, err := res.RowsAffected(); err != nil {
			return wordEntry{}, err
		} else if n > 0 {
			id, err := res.LastInsertId()
			return wordEntry{id, used}, err
		}
		var e wordEntry
		var other string
		err = w.findWord.QueryRowContext(ctx, hash).Scan(&e.id, &e.used, &other)
		if err != nil || other == word {
			return e, err
		}
	}
}

// noteRange adds a range to those read whole and joins what touches.
func noteRange(ctx context.Context, tx *sqlx.Tx, since, until, now int64) error {
	var wide struct {
		Since sql.NullInt64 `db:"since"`
		Until sql.NullInt64 `db:"until"`
	}
	err := tx.GetContext(ctx, &wide, `SELECT min(since) AS since, max(until) AS until
		FROM past_ranges WHERE since <= ? AND until >= ?`, until, since)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, `DELETE FROM past_ranges WHERE since <= ? AND until >= ?`, until, since); err != nil {
		return err
	}
	if wide.Since.Valid {
		since, until = min(since, wide.Since.Int64), max(until, wide.Until.Int64)
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO past_ranges (since, until, read) VALUES (?, ?, ?)`, since, until, now)
	return err
}
