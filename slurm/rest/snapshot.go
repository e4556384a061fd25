// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/slurm"
)

const (
	// fullEvery bounds how long cached lists are trusted, by slurmctld's clock:
	// a net under the change check, for clocks that jump and for a backup
	// controller that took over.
	fullEvery = 10 * time.Minute
	// maxOdd bounds the kinds of odd records that are told apart.
	maxOdd = 64
)

// cache keeps what the last poll read. The slices are replaced, never changed:
// snapshots share them.
type cache struct {
	at         time.Time // slurmctld's clock just before the lists were last asked for
	full       time.Time // the same, when they were last read without a condition
	cluster    string
	jobs       section[slurm.Job]
	nodes      section[slurm.Node]
	partitions section[partition]
}

// section is one cached list, with what was odd in it.
type section[T any] struct {
	items []T
	odd   map[string]int
}

// Snapshot reads the cluster as it is now. Lists that did not change since the
// last call are taken from the cache; an answer that says "no change" is never
// an empty queue. Records that cannot be read are left out and counted in Odd.
//
// Errors wrap slurm.ErrAuth, slurm.ErrBusy, slurm.ErrUnreachable or
// slurm.ErrUnknownVersion; the cache stays as it was.
func (c *Client) Snapshot(ctx context.Context) (*slurm.Snapshot, error) {
	c.poll.Lock()
	defer c.poll.Unlock()
	before, _, err := c.connected(ctx)
	if err != nil {
		return nil, err
	}
	d, err := c.Diag(ctx)
	if err != nil {
		return nil, err
	}
	next := c.cache
	if d.At.Before(next.at) || d.At.Sub(next.full) >= fullEvery || c.Release().REST != before.REST {
		next = cache{full: d.At, cluster: next.cluster}
	}
	p := poller{c: c, since: next.at, cluster: next.cluster}
	if next.jobs, err = fetch(ctx, &p, "jobs", next.jobs, jobRecord); err != nil {
		return nil, err
	}
	if next.nodes, err = fetch(ctx, &p, "nodes", next.nodes, c.nodeRecord); err != nil {
		return nil, err
	}
	if next.partitions, err = fetch(ctx, &p, "partitions", next.partitions, partitionRecord); err != nil {
		return nil, err
	}
	next.at, next.cluster = d.At, p.cluster
	c.cache = next
	return next.snapshot(c.Release()), nil
}

// poller is one poll: the instant to compare with and what the answers told on
// the way.
type poller struct {
	c       *Client
	since   time.Time // zero: read everything
	cluster string
}

// fetch reads one list, or returns old where slurmctld says that nothing in it
// changed.
func fetch[T any](ctx context.Context, p *poller, name string, old section[T], read func(*record) (T, string)) (section[T], error) {
	since := p.since
	if name == "nodes" && p.c.Release().REST < 45 {
		// slurmrestd asks for the partitions too, with the same update_time,
		// and answers a bare 500 "Unspecified error" when one of the two lists
		// is unchanged (live: 22.05 when either is, 24.11 when only the nodes
		// changed). 26.05 is right.
		since = time.Time{}
	}
	a, err := p.ask(ctx, name, since)
	if errors.Is(err, slurm.ErrNoChange) && !since.IsZero() {
		p.c.count(func(s *Stats) { s.NoChange++ })
		return old, nil
	}
	if errors.Is(err, slurm.ErrRejected) && !since.IsZero() {
		// A release that takes no update_time in this form: read everything.
		since = time.Time{}
		a, err = p.ask(ctx, name, since)
	}
	if err != nil {
		return old, err
	}
	items, ok := a.list(name)
	if len(items) == 0 && !since.IsZero() {
		if len(a.warnings) > 0 {
			p.c.count(func(s *Stats) { s.NoChange++ })
			return old, nil
		}
		// Empty, and nothing says why: make sure.
		if a, err = p.ask(ctx, name, time.Time{}); err != nil {
			return old, err
		}
		items, ok = a.list(name)
	}
	if !ok {
		return old, &Error{Op: "read " + name, Kind: slurm.ErrUnreachable, Text: "the answer holds no list of " + name}
	}
	p.c.count(func(s *Stats) { s.FullReads++ })
	return decode(name, items, read, p), nil
}

// ask requests the list, if it changed since the given instant.
func (p *poller) ask(ctx context.Context, name string, since time.Time) (*answer, error) {
	var query map[string][]string
	if !since.IsZero() {
		t := strconv.FormatInt(since.Unix(), 10)
		if p.c.Release().REST >= 40 {
			// v0.0.40 and 41 read no plain number here, v0.0.38 nothing else (live).
			t = "uts" + t
		}
		query = map[string][]string{"update_time": {t}}
	}
	a, err := p.c.get(ctx, "slurm", "read "+name, query, name)
	if err == nil && a.cluster != "" {
		p.cluster = a.cluster
	}
	return a, err
}

// decode reads the records of a list and counts those that are odd.
func decode[T any](name string, items []json.RawMessage, read func(*record) (T, string), p *poller) section[T] {
	out := section[T]{items: make([]T, 0, len(items)), odd: map[string]int{}}
	for _, raw := range items {
		r := newRecord(raw)
		if p.cluster == "" {
			p.cluster = r.text("cluster")
		}
		item, key := read(r)
		for _, n := range r.notes {
			countOdd(out.odd, name+": "+n)
		}
		if r.odd == "" && key == "" {
			r.odd = "no name or id"
		}
		if r.odd != "" {
			countOdd(out.odd, name+": "+r.odd)
			continue
		}
		out.items = append(out.items, item)
	}
	return out
}

// countOdd keeps the number of different complaints in bounds.
func countOdd(m map[string]int, what string) {
	if _, known := m[what]; !known && len(m) >= maxOdd {
		what = "other"
	}
	m[what]++
}

// snapshot assembles the lists.
func (k cache) snapshot(r slurm.Release) *slurm.Snapshot {
	s := &slurm.Snapshot{
		TakenAt: k.at,
		Cluster: k.cluster,
		Release: r,
		Jobs:    slices.Clone(k.jobs.items),
		Nodes:   k.nodes.items,
		Odd:     map[string]int{},
	}
	slices.SortFunc(s.Jobs, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	for _, odd := range []map[string]int{k.jobs.odd, k.nodes.odd, k.partitions.odd} {
		maps.Copy(s.Odd, odd)
	}
	limits := map[string]time.Duration{}
	for _, p := range k.partitions.items {
		s.Partitions = append(s.Partitions, p.Partition)
		limits[p.Name] = p.defaultTime
	}
	for i := range s.Jobs {
		fillLimit(&s.Jobs[i], limits)
	}
	return s
}

// fillLimit gives a job that names no time limit its partition's, as slurmctld
// does when it starts the job.
func fillLimit(j *slurm.Job, limits map[string]time.Duration) {
	if j.TimeLimit == 0 && !j.Unlimited {
		first, _, _ := strings.Cut(j.Partition, ",")
		j.TimeLimit = limits[first]
	}
}

// Job reads one job afresh. Errors wrap slurm.ErrGone when Slurm no longer
// knows it; a record that cannot be read is an error as well, and not "gone".
func (c *Client) Job(ctx context.Context, id slurm.JobID) (slurm.Job, error) {
	op := fmt.Sprintf("read job %d", id)
	a, err := c.get(ctx, "slurm", op, nil, "job", strconv.FormatUint(uint64(id), 10))
	if err != nil {
		return slurm.Job{}, err
	}
	// The id of an array brings all its tasks.
	items, _ := a.list("jobs")
	for _, raw := range items {
		r := newRecord(raw)
		j, _ := jobRecord(r)
		switch {
		case j.ID != id:
		case r.odd != "":
			return slurm.Job{}, &Error{Op: op, Kind: slurm.ErrRejected, Text: "odd record: " + r.odd}
		default:
			return j, nil
		}
	}
	return slurm.Job{}, &Error{Op: op, Kind: slurm.ErrGone, Text: fmt.Sprintf("none of %d records has this id", len(items))}
}
