// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql/driver"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/mattn/go-sqlite3"
	"golang.org/x/sync/errgroup"

	"rifling/policy"
)

// A million rows are read through the driver itself, since database/sql copies
// and converts each value, and the numbers of a job come packed into four
// integers, by operators alone, since each value and each function of SQLite
// costs as much as the rest of its row. From the highest bits down:
//
//	job_id
//	submit 33, GPUs 16, NPR 14                 NPR in 16,000ths + 1; 0: none
//	start 31, eligible 31                      seconds after submit, signed
//	ended 31, last seen 31                     likewise
const reportColumns = `j.job_id,
	j.submit << 30 | ((j.gpus & 65535) << 14) | iif(j.npr_count > 0, CAST(j.npr * 16000 + 1.5 AS INTEGER) & 16383, 0),
	(iif(j.start > 0, j.start - j.submit, -1073741824) & 2147483647) << 31
		| (iif(j.eligible > 0, j.eligible - j.submit, 0) & 2147483647),
	(iif(j.ended > 0, j.ended - j.submit, -1073741824) & 2147483647) << 31 | ((j.last_seen - j.submit) & 2147483647)`

const (
	reportFixed = 4        // columns before those of the key
	unset       = -1 << 30 // of the seconds after submit
)

// low31 and high31 read a signed number of 31 bits, from bit 0 and bit 31 on.
func low31(n int64) int64  { return n << 33 >> 33 }
func high31(n int64) int64 { return n << 2 >> 33 }

// keyColumns are the columns behind the words of a key; those of days and
// actions come from elsewhere.
var keyColumns = map[string]string{
	"user": "j.user", "account": "j.account", "partition": "j.partition", "qos": "j.qos",
	"gpu": "j.request", "group": "j.grp",
}

// workers bounds the connections that read at once.
const workers = 4

// scanReport gives the tally each job that passes. Several connections read a
// range of ids each: a report is bound by the processor.
func (s *Store) scanReport(ctx context.Context, t *tally) error {
	where, args, err := t.q.where()
	if err != nil {
		return err
	}
	columns := reportColumns
	for _, k := range t.q.By {
		if c := keyColumns[k]; c != "" {
			columns += ", " + c
		}
	}
	var ids struct{ Least, Most int64 }
	if err := s.reads.GetContext(ctx, &ids, `SELECT coalesce(min(job_id), 0) AS least, coalesce(max(job_id), -1) AS most FROM jobs`); err != nil {
		return err
	}
	n := int64(max(1, min(workers, runtime.GOMAXPROCS(0), s.reads.Stats().MaxOpenConnections)))
	step := (ids.Most-ids.Least)/n + 1
	parts := make([]*tally, n)
	g, ctx := errgroup.WithContext(ctx)
	for i := range n {
		parts[i] = newTally(t.q)
		p := pass{ctx: ctx, t: parts[i], types: map[string]string{}, from: ids.Least + i*step, to: ids.Least + (i+1)*step}
		q := `SELECT ` + columns + ` FROM jobs j NOT INDEXED WHERE ` + where + ` AND j.job_id >= ? AND j.job_id < ? ORDER BY j.job_id`
		g.Go(func() error { return s.scanPart(ctx, &p, q, append(slices.Clone(args), p.from, p.to)) })
	}
	if err := g.Wait(); err != nil {
		return err
	}
	for _, p := range parts {
		t.merge(p)
	}
	return nil
}

// scanPart walks over a range of ids on a connection of its own.
func (s *Store) scanPart(ctx context.Context, p *pass, query string, args []any) error {
	conn, err := s.reads.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Raw(func(driverConn any) (err error) {
		c, ok := driverConn.(*sqlite3.SQLiteConn)
		if !ok {
			return fmt.Errorf("connection is a %T", driverConn)
		}
		p.conn = c
		// One transaction, so that all that is read is of one moment.
		if _, err := c.Exec("BEGIN", nil); err != nil {
			return err
		}
		defer func() {
			_, e := c.Exec("ROLLBACK", nil)
			err = errors.Join(err, e)
		}()
		return p.run(query, args)
	})
}

// pass is one walk over the jobs, beside what was done to them, all in the
// order of their ids.
type pass struct {
	ctx      context.Context
	conn     *sqlite3.SQLiteConn
	t        *tally
	from, to int64 // job ids: from the first on, before the second

	made, changes, episodes, usage, actions *side
	types                                   map[string]string  // GPU type by request
	left                                    map[int64][2]int64 // usage of samples that are not counted yet
}

// checkEvery is how many rows are read between two looks at the context.
const checkEvery = 4096

func (p *pass) run(query string, args []any) error {
	if err := p.openSides(); err != nil {
		return err
	}
	defer p.closeSides()
	rows, err := p.query(query, args)
	if err != nil {
		return err
	}
	defer rows.Close()
	dest := make([]driver.Value, len(rows.Columns()))
	r := run{words: make([]string, len(p.t.q.By))}
	for n := 0; ; n++ {
		if n%checkEvery == 0 && p.ctx.Err() != nil {
			return p.ctx.Err()
		}
		err := rows.Next(dest)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if err := p.row(dest, &r); err != nil {
			return err
		}
		p.t.add(&r)
	}
}

func (p *pass) query(query string, args []any) (driver.Rows, error) {
	values := make([]driver.Value, len(args))
	for i, a := range args {
		v, err := driver.DefaultParameterConverter.ConvertValue(a)
		if err != nil {
			return nil, err
		}
		values[i] = v
	}
	return p.conn.Query(query, values)
}

// read unpacks the numbers of a job.
func (r *run) read(n [reportFixed]int64) {
	r.submit, r.gpus = n[1]>>30, n[1]>>14&0xffff
	r.npr = float64(n[1]&0x3fff-1) / 16000
	start, eligible, end, seen := high31(n[2]), low31(n[2]), high31(n[3]), low31(n[3])
	r.ended, r.start = end != unset, 0
	r.wait, r.elapsed, r.jct = -1, 0, -1
	if start == unset {
		return
	}
	r.start, r.wait = r.submit+start, max(0, start-eligible)
	if !r.ended {
		r.elapsed = max(0, seen-start)
		return
	}
	r.elapsed, r.jct = max(0, end-start), max(0, end)
}

// row unpacks one row and adds what was done to the job.
func (p *pass) row(dest []driver.Value, r *run) error {
	var n [reportFixed]int64
	for i := range n {
		n[i], _ = dest[i].(int64)
	}
	r.read(n)
	id, k := n[0], reportFixed
	for i, by := range p.t.q.By {
		switch by {
		case "day":
			r.words[i] = time.Unix(p.t.days.begin(r.submit), 0).In(p.t.q.Zone).Format(time.DateOnly)
			continue
		case "action":
			action, err := p.action(id)
			if err != nil {
				return err
			}
			r.words[i] = action
			continue
		case "gpu":
			text, _ := dest[k].(string)
			r.words[i] = p.gpuType(text)
		case "group":
			g, _ := dest[k].(int64)
			r.words[i] = GroupName(int(g))
		default:
			r.words[i], _ = dest[k].(string)
		}
		k++
	}
	return p.effects(id, r)
}

// gpuType reads the type out of a request; "" when none was named.
func (p *pass) gpuType(request string) string {
	kind, ok := p.types[request]
	if !ok {
		var req requestJSON
		if json.Unmarshal([]byte(request), &req) == nil {
			kind = req.Type
		}
		if len(p.types) < 10_000 {
			p.types[strings.Clone(request)] = kind
		}
	}
	return kind
}

// side is a query in the order of job ids that is read along with the jobs.
type side struct {
	rows driver.Rows
	dest []driver.Value
	id   int64 // of the row that is at hand
	done bool
}

func (p *pass) side(query string, args ...driver.Value) (*side, error) {
	rows, err := p.conn.Query(query, args)
	if err != nil {
		return nil, err
	}
	s := &side{rows: rows, dest: make([]driver.Value, len(rows.Columns()))}
	return s, s.next()
}

func (s *side) next() error {
	err := s.rows.Next(s.dest)
	if errors.Is(err, io.EOF) {
		s.done = true
		return nil
	}
	if err == nil {
		s.id, _ = s.dest[0].(int64)
	}
	return err
}

// each calls f with each row of the job; ids must ascend from call to call.
func (s *side) each(id int64, f func(row []driver.Value)) error {
	for !s.done && s.id <= id {
		if s.id == id {
			f(s.dest)
		}
		if err := s.next(); err != nil {
			return err
		}
	}
	return nil
}

func (p *pass) openSides() (err error) {
	for _, o := range []struct {
		to    **side
		query string
		skip  bool
	}{
		{&p.made, `SELECT DISTINCT job_id FROM decisions INDEXED BY decisions_made WHERE skipped = '' AND job_id >= ? AND job_id < ? ORDER BY job_id`, false},
		{&p.changes, `SELECT job_id, outcome FROM changes INDEXED BY changes_set WHERE kind = 'set' AND job_id >= ? AND job_id < ? ORDER BY job_id`, false},
		{&p.episodes, `SELECT job_id, reward FROM episodes WHERE learned AND job_id >= ? AND job_id < ? ORDER BY job_id`, false},
		{&p.usage, `SELECT job_id, gpu_ms, busy FROM usage WHERE job_id >= ? AND job_id < ? ORDER BY job_id`, false},
		{&p.actions, `SELECT job_id, action, skipped <> '' FROM decisions INDEXED BY decisions_job WHERE job_id >= ? AND job_id < ? ORDER BY job_id, id`, !p.by("action")},
	} {
		if o.skip {
			continue
		}
		if *o.to, err = p.side(o.query, p.from, p.to); err != nil {
			p.closeSides()
			return err
		}
	}
	return p.uncounted()
}

func (p *pass) closeSides() {
	for _, s := range []*side{p.made, p.changes, p.episodes, p.usage, p.actions} {
		if s != nil {
			s.rows.Close() //nolint:errcheck,gosec // a reader's
		}
	}
}

func (p *pass) by(key string) bool {
	for _, k := range p.t.q.By {
		if k == key {
			return true
		}
	}
	return false
}

// uncounted sums up the samples of the last minute or so, which are not in the
// table usage yet.
func (p *pass) uncounted() error {
	const bounds = `SELECT (SELECT id FROM usage_mark), (SELECT coalesce(max(id), 0) FROM samples)`
	s, err := p.side(bounds)
	if err != nil {
		return err
	}
	mark, newest := s.dest[0], s.dest[1]
	if err := s.rows.Close(); err != nil {
		return err
	}
	rows, err := p.conn.Query(usageOf, []driver.Value{mark, newest})
	if err != nil {
		return err
	}
	defer rows.Close()
	p.left = map[int64][2]int64{}
	dest := make([]driver.Value, 4)
	for {
		err := rows.Next(dest)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		id, _ := dest[0].(int64)
		covered, _ := dest[2].(int64)
		busy, _ := dest[3].(float64)
		p.left[id] = [2]int64{covered, int64(busy)}
	}
}

// effects adds what rifling did to the job and what its GPUs did.
func (p *pass) effects(id int64, r *run) error {
	r.made, r.applied, r.skip, r.fail, r.reward, r.rewards = false, 0, 0, 0, 0, 0
	r.measured, r.busy = p.left[id][0], p.left[id][1]
	return errors.Join(
		p.made.each(id, func([]driver.Value) { r.made = true }),
		p.changes.each(id, func(row []driver.Value) {
			switch outcome, _ := row[1].(string); policy.Outcome(outcome) {
			case policy.Applied:
				r.applied++
			case policy.Skipped:
				r.skip++
			case policy.Failed:
				r.fail++
			}
		}),
		p.episodes.each(id, func(row []driver.Value) {
			x, _ := row[1].(float64)
			r.reward, r.rewards = r.reward+x, r.rewards+1
		}),
		p.usage.each(id, func(row []driver.Value) {
			covered, _ := row[1].(int64)
			busy, _ := row[2].(int64)
			r.measured, r.busy = r.measured+covered, r.busy+busy
		}))
}

// action is what was decided last on the job, in one word.
func (p *pass) action(id int64) (string, error) {
	out := ActionName(nil)
	err := p.actions.each(id, func(row []driver.Value) {
		out, _ = row[1].(string)
		if skipped, _ := row[2].(int64); skipped != 0 {
			out = "skipped"
		}
	})
	return out, err
}
