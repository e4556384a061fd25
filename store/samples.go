// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"errors"
	"math"
	"sync"
	"time"

	"github.com/jmoiron/sqlx"

	"rifling/profile"
	"rifling/slurm"
)

// Sender is what is known of the collector on a node.
type Sender struct {
	Node  string
	At    time.Time // of its newest sample, by the daemon host's clock
	State string    // of the collector's numbers, for the caller to read; "" leaves it as it is
}

// KeepSamples keeps samples and what is known of their senders in one
// transaction: when it returns nil, both outlive a power cut. The samples' At
// is by the daemon host's clock.
func (s *Store) KeepSamples(ctx context.Context, samples []profile.Sample, senders []Sender) error {
	var w sampleWriter
	err := s.inTx(ctx, "keep samples in", func(tx *sqlx.Tx) error {
		w = sampleWriter{s: s, tx: tx}
		if err := w.samples(ctx, samples, 0); err != nil {
			return err
		}
		return w.senders(ctx, senders)
	})
	if err == nil {
		s.ids.add(w.found)
	}
	return err
}

// insertSamples adds samples that a cycle brought, whose At is by slurmctld's
// clock, behind the host's by shift.
func (s *Store) insertSamples(ctx context.Context, tx *sqlx.Tx, samples []profile.Sample, shift time.Duration) error {
	w := sampleWriter{s: s, tx: tx}
	if err := w.samples(ctx, samples, shift); err != nil {
		return err
	}
	var senders []Sender
	for _, p := range samples {
		senders = append(senders, Sender{Node: p.Node, At: p.At.Add(shift)})
	}
	return w.senders(ctx, senders)
}

// Senders returns what is known of the nodes' collectors.
func (s *Store) Senders(ctx context.Context) ([]Sender, error) {
	var rows []struct {
		Name, State string
		At          int64
	}
	const q = `SELECT name, at, state FROM senders JOIN nodes ON id = node WHERE state <> ''`
	if err := s.db.SelectContext(ctx, &rows, q); err != nil {
		return nil, explain(s.path, "read the senders in", err)
	}
	out := make([]Sender, len(rows))
	for i, r := range rows {
		out[i] = Sender{Node: r.Name, At: instant(r.At), State: r.State}
	}
	return out, nil
}

// SamplesAfter returns up to limit samples that were kept after the one of the
// given number, in order of arrival, and the number of the last of them. Their
// At is by the daemon host's clock. It reads past the writing connection, so
// that a long read keeps no one waiting.
func (s *Store) SamplesAfter(ctx context.Context, after int64, limit int) ([]profile.Sample, int64, error) {
	const q = `SELECT s.id, r.job_id, n.name, s.at, s.interval_ms, r.gpus, s.compute, r.source,
		s.nvlink, s.pcie, s.net, r.nvlink_speed, r.pcie_speed, r.net_speed, r.net_shared,
		r.origin, r.weight, s.throttled, r.gpu_shared
		FROM samples s JOIN series r ON r.id = s.series JOIN nodes n ON n.id = r.node
		WHERE s.id > ? ORDER BY s.id LIMIT ?`
	rows, err := s.reads.QueryContext(ctx, q, after, limit)
	if err != nil {
		return nil, after, explain(s.path, "read samples in", err)
	}
	defer rows.Close()
	var out []profile.Sample
	last := after
	for rows.Next() {
		var p profile.Sample
		var job, at, interval int64
		if err := rows.Scan(&last, &job, &p.Node, &at, &interval, &p.GPUs, &p.Compute, &p.Source,
			&p.NVLinkRate, &p.PCIeRate, &p.NetRate, &p.NVLinkSpeed, &p.PCIeSpeed, &p.NetSpeed, &p.NetShared,
			&p.Origin, &p.Weight, &p.Throttled, &p.GPUShared); err != nil {
			return nil, after, explain(s.path, "read samples in", err)
		}
		p.JobID, p.At, p.Interval = slurm.JobID(job), time.UnixMilli(at).UTC(), time.Duration(interval)*time.Millisecond
		p.Compute, p.Throttled = p.Compute/million, p.Throttled/million
		out = append(out, p)
	}
	return out, last, explain(s.path, "read samples in", rows.Err())
}

// million is the scale of parts of one: an integer takes three bytes of a row
// where a float takes eight.
const million = 1e6

// whole rounds what a row keeps as an integer. What is no number, or beyond any
// link, was refused before; it must not break the row of the others.
func whole(x float64) int64 {
	if !(x > 0) {
		return 0
	}
	return int64(min(math.Round(x), 1e15))
}

// ids remembers the numbers of nodes and series, so that a sample costs one
// statement.
type ids struct {
	mu     sync.Mutex
	nodes  map[string]int64
	series map[seriesKey]int64
}

// seriesKey is what the samples of a series have in common.
type seriesKey struct {
	day                              int64
	job                              slurm.JobID
	node                             int64
	gpus                             int
	source                           profile.Source
	origin                           profile.Origin
	weight                           float64
	netShared, gpuShared             bool
	nvlinkSpeed, pcieSpeed, netSpeed float64
}

// idsKept bounds the memory of ids; what is beyond is looked up again.
const idsKept = 200_000

func (c *ids) node(name string) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.nodes[name]
	return id, ok
}

func (c *ids) get(k seriesKey) (int64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	id, ok := c.series[k]
	return id, ok
}

// add takes in what a transaction found, once it was committed.
func (c *ids) add(found *ids) {
	if found == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.nodes == nil || len(c.nodes)+len(c.series) > idsKept {
		c.nodes, c.series = map[string]int64{}, map[seriesKey]int64{}
	}
	for k, v := range found.nodes {
		c.nodes[k] = v
	}
	for k, v := range found.series {
		c.series[k] = v
	}
}

func (c *ids) forget() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.nodes, c.series = nil, nil
}

// sampleWriter writes samples in one transaction. What it finds is known to
// others only once that is committed.
type sampleWriter struct {
	s     *Store
	tx    *sqlx.Tx
	found *ids
}

func (w *sampleWriter) samples(ctx context.Context, samples []profile.Sample, shift time.Duration) error {
	if len(samples) == 0 {
		return nil
	}
	const q = `INSERT INTO samples (series, at, interval_ms, compute, nvlink, pcie, net, throttled)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?)`
	stmt, err := w.tx.PreparexContext(ctx, q)
	if err != nil {
		return err
	}
	defer stmt.Close()
	for i := range samples {
		p := &samples[i]
		at := p.At.Add(shift)
		series, err := w.series(ctx, p, at)
		if err != nil {
			return err
		}
		_, err = stmt.ExecContext(ctx, series, at.UnixMilli(), max(1, p.Interval.Milliseconds()), whole(p.Compute*million),
			whole(p.NVLinkRate), whole(p.PCIeRate), whole(p.NetRate), whole(p.Throttled*million))
		if err != nil {
			return err
		}
	}
	return nil
}

// day returns the number of the day of an instant.
func day(t time.Time) int64 { return t.Unix() / (24 * 3600) }

func (w *sampleWriter) series(ctx context.Context, p *profile.Sample, at time.Time) (int64, error) {
	node, err := w.node(ctx, p.Node)
	if err != nil {
		return 0, err
	}
	k := seriesKey{
		day(at), p.JobID, node, p.GPUs, p.Source, p.Origin, p.Weight, p.NetShared, p.GPUShared,
		float64(whole(p.NVLinkSpeed)), float64(whole(p.PCIeSpeed)), float64(whole(p.NetSpeed)),
	}
	if id, ok := w.found.series[k]; ok {
		return id, nil
	}
	if id, ok := w.s.ids.get(k); ok {
		return id, nil
	}
	args := []any{k.day, k.job, k.node, k.gpus, k.source, k.origin, k.weight, k.netShared, k.gpuShared,
		k.nvlinkSpeed, k.pcieSpeed, k.netSpeed}
	const find = `SELECT id FROM series WHERE day = ? AND job_id = ? AND node = ? AND gpus = ? AND source = ? AND origin = ?
		AND weight = ? AND net_shared = ? AND gpu_shared = ? AND nvlink_speed = ? AND pcie_speed = ? AND net_speed = ?`
	const insert = `INSERT INTO series (day, job_id, node, gpus, source, origin, weight, net_shared, gpu_shared,
		nvlink_speed, pcie_speed, net_speed) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`
	id, err := w.findOrInsert(ctx, find, insert, args)
	if err == nil {
		w.found.series[k] = id
	}
	return id, err
}

func (w *sampleWriter) node(ctx context.Context, name string) (int64, error) {
	if w.found == nil {
		w.found = &ids{nodes: map[string]int64{}, series: map[seriesKey]int64{}}
	}
	if id, ok := w.found.nodes[name]; ok {
		return id, nil
	}
	if id, ok := w.s.ids.node(name); ok {
		return id, nil
	}
	id, err := w.findOrInsert(ctx, `SELECT id FROM nodes WHERE name = ?`, `INSERT INTO nodes (name) VALUES (?)`, []any{name})
	if err == nil {
		w.found.nodes[name] = id
	}
	return id, err
}

func (w *sampleWriter) findOrInsert(ctx context.Context, find, insert string, args []any) (int64, error) {
	var id int64
	err := w.tx.GetContext(ctx, &id, find, args...)
	if !errors.Is(err, sql.ErrNoRows) {
		return id, err
	}
	res, err := w.tx.ExecContext(ctx, insert, args...)
	if err != nil {
		return 0, err
	}
	return res.LastInsertId()
}

func (w *sampleWriter) senders(ctx context.Context, senders []Sender) error {
	const q = `INSERT INTO senders (node, at, seen, state) VALUES (?, ?, ?, ?) ON CONFLICT (node) DO UPDATE SET
		at = max(at, excluded.at), seen = excluded.seen, state = iif(excluded.state = '', state, excluded.state)`
	nodes := make([]int64, len(senders))
	for i, s := range senders {
		var err error
		if nodes[i], err = w.node(ctx, s.Node); err != nil {
			return err
		}
	}
	i := -1
	return each(ctx, w.tx, q, senders, func(s Sender) []any {
		i++
		return []any{nodes[i], epoch(s.At), epoch(w.s.now()), s.State}
	})
}
