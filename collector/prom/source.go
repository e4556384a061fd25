// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	v1 "github.com/prometheus/client_golang/api/prometheus/v1"

	"rifling/collector"
	"rifling/slurm"
)

// Source reads Prometheus. It is not safe for concurrent use.
type Source struct {
	opts Options
	api  v1.API
}

// New returns a Source; it asks nothing yet.
func New(o Options) (*Source, error) {
	o.URL = strings.TrimRight(o.URL, "/")
	if err := o.Validate(); err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	client, err := newAPI(o)
	if err != nil {
		return nil, fmt.Errorf("prometheus: %w", err)
	}
	return &Source{opts: o, api: client}, nil
}

// Left counts what was left out of a slot, by why and, where it is of one
// metric, of which: "no new value: DCGM_FI_DEV_GPU_UTIL".
type Left map[string]int

func (l Left) add(why, what string) {
	if what != "" {
		why += ": " + what
	}
	l[why]++
}

// Report tells how reading a slot went.
type Report struct {
	Series int  // that Prometheus has of the metrics
	Left   Left // what was left out
	// Missing are metrics of which Prometheus has no series at all.
	Missing []string
}

// Slot returns the end of the last slot that is over at now. Slots begin at
// multiples of the interval since 1970, so that a daemon that starts anew reads
// the same ones.
func (s *Source) Slot(now time.Time) time.Time {
	return now.Add(-now.Sub(time.Unix(0, 0)) % s.opts.Interval)
}

// Interval is the length of a slot.
func (s *Source) Interval() time.Duration { return s.opts.Interval }

// Read returns what the running GPU jobs did in the slot that ends at end, one
// sample for each job and node, in the order of nodes and jobs. jobs are those
// that Slurm has running now. An error means that nothing is known of the
// slot: one metric that could not be read would make the others say something
// else.
func (s *Source) Read(ctx context.Context, end time.Time, jobs []slurm.Job) ([]collector.Sample, Report, error) {
	rep := Report{Left: Left{}}
	start := end.Add(-s.opts.Interval)
	t := newTable(s.opts, jobs, rep.Left)
	for _, m := range s.opts.Metrics {
		matrix, err := s.query(ctx, m, end)
		if err != nil {
			return nil, rep, err
		}
		rep.Series += len(matrix)
		if len(matrix) == 0 {
			rep.Missing = append(rep.Missing, m.Name)
		}
		for _, v := range read(m, matrix, start, end, rep.Left) {
			t.put(m, v)
		}
	}
	if t.ours == 0 && rep.Series > 0 && len(jobs) > 0 {
		rep.Left.add("no series is of a node that runs a job", "")
	}
	return s.number(t.samples(), end, rep.Left), rep, nil
}

// boot stands for a collector's run: there is but one, and numbers go by time.
const boot = "prometheus"

// perSlot bounds the samples of one node in a slot.
const perSlot = 1 << 12

// number marks the samples with where they come from and gives each a number
// that is its own, whoever reads the slot and however often.
func (s *Source) number(samples []collector.Sample, end time.Time, left Left) []collector.Sample {
	count := map[string]uint64{}
	out := samples[:0]
	for _, x := range samples {
		count[x.Node]++
		x.Boot, x.Seq = boot, uint64(end.Unix())*perSlot+count[x.Node]
		x.At, x.Interval = end, s.opts.Interval
		x.Origin, x.Weight = collector.OriginPrometheus, s.opts.Weight
		if err := x.Validate(); err != nil || count[x.Node] >= perSlot {
			left.add("odd sample", "")
			continue
		}
		out = append(out, x)
	}
	return slices.Clip(out)
}
