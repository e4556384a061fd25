// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"rifling/policy"
)

// ClusterDay is how the cluster did on one day, over the daemon's cycles.
type ClusterDay struct {
	Day    time.Time // its begin
	Cycles int
	// GPUs of usable nodes and those in use, summed over cycles.
	Used Sum
	// Split is how many of the free GPUs lay on partly taken nodes, N all that
	// were free, both summed over the cycles in which jobs waited.
	Split Sum
	// Unevenness is the standard deviation over nodes of the part in use.
	Unevenness Sum
	ANPR       Sum // weighed by GPUs
	Pending    Sum // waiting jobs
}

// ClusterDays sums up the cycles from since on and before until, oldest day
// first; a zero bound is that of the history. Days without a cycle are left out.
func (s *Store) ClusterDays(ctx context.Context, since, until time.Time, zone *time.Location) ([]ClusterDay, error) {
	if zone == nil {
		zone = time.UTC
	}
	var span struct{ First, Last int64 }
	const bounds = `SELECT coalesce((SELECT min(at) FROM cycles), 0) AS first, coalesce((SELECT max(at) FROM cycles), 0) AS last`
	if err := s.db.GetContext(ctx, &span, bounds); err != nil {
		return nil, explain(s.path, "read the cycles of", err)
	}
	from, to := max(span.First, epoch(since)), span.Last+1
	if !until.IsZero() {
		to = min(to, until.Unix())
	}
	var out []ClusterDay
	days := dayFinder{zone: zone}
	for at := from; at > 0 && at < to; at = days.end {
		d := ClusterDay{Day: time.Unix(days.begin(at), 0).In(zone)}
		if err := s.clusterDay(ctx, &d, at, min(to, days.end)); err != nil {
			return nil, explain(s.path, "read the cycles of", err)
		}
		if d.Cycles > 0 {
			out = append(out, d)
		}
	}
	return out, nil
}

func (s *Store) clusterDay(ctx context.Context, d *ClusterDay, from, to int64) error {
	const q = `SELECT count(*), coalesce(sum(gpus_used), 0.0), coalesce(sum(gpus), 0.0),
		coalesce(sum(free_split) FILTER (WHERE free_split >= 0 AND pending > 0), 0.0),
		coalesce(sum(gpus - gpus_used) FILTER (WHERE free_split >= 0 AND pending > 0), 0.0),
		coalesce(sum(unevenness) FILTER (WHERE unevenness >= 0), 0.0), count(*) FILTER (WHERE unevenness >= 0),
		coalesce(sum(anpr * anpr_gpus), 0.0), coalesce(sum(anpr_gpus), 0.0), coalesce(sum(pending), 0.0)
		FROM cycles WHERE at >= ? AND at < ? AND policy NOT IN (?, ?)`
	row := s.db.QueryRowContext(ctx, q, from, to, policy.PlanStop, policy.PlanRecover)
	err := row.Scan(&d.Cycles, &d.Used.Sum, &d.Used.N, &d.Split.Sum, &d.Split.N, &d.Unevenness.Sum, &d.Unevenness.N,
		&d.ANPR.Sum, &d.ANPR.N, &d.Pending.Sum)
	d.Pending.N = float64(d.Cycles)
	return err
}

// Mean is the sum over the number of its terms; 0 without any.
func (s Sum) Mean() float64 {
	if s.N == 0 {
		return 0
	}
	return s.Sum / s.N
}

// Plus adds two sums up.
func (s Sum) Plus(o Sum) Sum { return Sum{s.Sum + o.Sum, s.N + o.N} }
