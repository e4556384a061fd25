// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rifling/collector"
	"rifling/collector/prom"
	"rifling/cycle"
	"rifling/slurm"
)

// sources reads what others measured, beside the cycles. What they say comes in
// as the collectors' samples do; that they are away or odd ends nothing.
type sources struct {
	prom *prom.Source // nil: no other source
	jobs *runningJobs
	add  func([]collector.Sample, time.Duration) (collector.Taken, error)
	log  *slog.Logger

	said    map[string]bool
	failing string // the last error, while it lasts

	mu    sync.Mutex // guards what follows
	total sourceCounts
}

// sourceCounts are since the start.
type sourceCounts struct {
	readings, failed            int // slots
	accepted, duplicates, other int // samples; other: of nodes whose collector speaks
	left                        map[string]int
	last                        time.Time // end of the last slot that was read
}

// runningJobs is the cluster, and remembers which GPU jobs its last snapshot
// had running, for those who must know between two cycles.
type runningJobs struct {
	cycle.Cluster
	last atomic.Pointer[[]slurm.Job]
}

// Snapshot reads the cluster.
func (r *runningJobs) Snapshot(ctx context.Context) (*slurm.Snapshot, error) {
	s, err := r.Cluster.Snapshot(ctx)
	if err != nil {
		return s, err
	}
	var jobs []slurm.Job
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Running() && j.WantsGPU() {
			jobs = append(jobs, slurm.Job{
				ID: j.ID, ArrayJobID: j.ArrayJobID, ArrayTaskID: j.ArrayTaskID, State: j.State, Request: j.Request,
				Nodes: slices.Clone(j.Nodes), NodeGPUs: maps.Clone(j.NodeGPUs),
			})
		}
	}
	r.last.Store(&jobs)
	return s, nil
}

// delay is how long after a slot's end it is read: Prometheus' last scrape
// has come in by then.
func delay(interval time.Duration) time.Duration { return min(5*time.Second, interval/4) }

// collectorHold is how long a node's collector may be silent before another
// source speaks for the node. A node that goes to and fro would mix what two
// sources call activity.
const collectorHold = 10 * time.Minute

// run reads slot by slot until ctx ends. A slot that took too long is followed
// by the next one, not by all those since.
func (s *sources) run(ctx context.Context) {
	if s.prom == nil {
		return
	}
	for {
		next := s.prom.Slot(time.Now()).Add(s.prom.Interval() + delay(s.prom.Interval()))
		t := time.NewTimer(time.Until(next))
		select {
		case <-ctx.Done():
			t.Stop()
			return
		case <-t.C:
		}
		s.read(ctx, s.prom.Slot(time.Now()))
	}
}

// read reads one slot and has its samples kept.
func (s *sources) read(ctx context.Context, end time.Time) {
	jobs := s.jobs.last.Load()
	if jobs == nil {
		return // Slurm has not answered yet
	}
	// All queries together must be over before the next slot is.
	ctx, cancel := context.WithTimeout(ctx, s.prom.Interval())
	defer cancel()
	samples, rep, err := s.prom.Read(ctx, end, *jobs)
	var taken collector.Taken
	if err == nil {
		taken, err = s.add(samples, collectorHold)
	}
	s.count(end, rep, taken, err)
	s.note(ctx, err)
	if err == nil {
		s.say(rep, taken)
	}
}

func (s *sources) count(end time.Time, rep prom.Report, taken collector.Taken, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := &s.total
	t.readings++
	if err != nil {
		t.failed++
	} else {
		t.last = end
	}
	t.accepted += taken.Accepted
	t.duplicates += taken.Duplicates
	t.other += taken.Covered
	if t.left == nil {
		t.left = map[string]int{}
	}
	for why, n := range rep.Left {
		t.left[why] += n
	}
	for why, n := range taken.Rejected {
		t.left[why] += n
	}
}

// note logs an error when it comes and when it is over, not each time.
func (s *sources) note(ctx context.Context, err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case (text == "") == (s.failing == "") || ctx.Err() == context.Canceled:
		return
	case err != nil:
		s.log.Error("Prometheus could not be read; each interval tries again", "err", err, "hint", slurm.HintOf(err))
	default:
		s.log.Info("Prometheus is read again")
	}
	s.failing = text
}

// say tells of each thing that is left out, once.
func (s *sources) say(rep prom.Report, taken collector.Taken) {
	var fresh []string
	add := func(what string, n int) {
		if !s.said[what] {
			s.said[what] = true
			fresh = append(fresh, fmt.Sprintf("%s (%d)", what, n))
		}
	}
	for _, m := range rep.Missing {
		add("no series of "+m, 0)
	}
	for _, why := range slices.Sorted(maps.Keys(rep.Left)) {
		add(why, rep.Left[why])
	}
	for _, why := range slices.Sorted(maps.Keys(taken.Rejected)) {
		add(why, taken.Rejected[why])
	}
	if len(fresh) > 0 {
		s.log.Warn("of what Prometheus has, this is left out; more of its kind is counted and not logged",
			"what", strings.Join(fresh, "; "), "hint", "see docs/design/sources.md for what each means")
	}
	s.log.Debug("Prometheus read", "series", rep.Series, "accepted", taken.Accepted, "duplicates", taken.Duplicates,
		"covered", taken.Covered)
}

// register shows the counts on /metrics.
func (s *sources) register(r prometheus.Registerer) {
	if s.prom != nil {
		r.MustRegister(s)
	}
}

var (
	sourceReadings = prometheus.NewDesc("rifling_prometheus_readings_total", "Slots of Prometheus that were read, by result.", []string{"result"}, nil)
	sourceSamples  = prometheus.NewDesc("rifling_prometheus_samples_total", "Samples made of them: taken, or left since they came before or the node's collector says the same.", []string{"outcome"}, nil)
	sourceLeft     = prometheus.NewDesc("rifling_prometheus_left_out_total", "Series, GPUs and jobs left out, by reason.", []string{"reason"}, nil)
	sourceLast     = prometheus.NewDesc("rifling_prometheus_last_slot_timestamp_seconds", "End of the last slot that was read.", nil, nil)
)

// Describe names the metrics.
func (s *sources) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{sourceReadings, sourceSamples, sourceLeft, sourceLast} {
		ch <- d
	}
}

// Collect reads the counts.
func (s *sources) Collect(ch chan<- prometheus.Metric) {
	s.mu.Lock()
	t := s.total
	t.left = maps.Clone(t.left)
	s.mu.Unlock()
	count := func(d *prometheus.Desc, n int, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	count(sourceReadings, t.readings-t.failed, "ok")
	count(sourceReadings, t.failed, "failed")
	count(sourceSamples, t.accepted, "taken")
	count(sourceSamples, t.duplicates, "duplicate")
	count(sourceSamples, t.other, "collector")
	for why, n := range t.left {
		count(sourceLeft, n, why)
	}
	last := 0.0
	if !t.last.IsZero() {
		last = float64(t.last.Unix())
	}
	ch <- prometheus.MustNewConstMetric(sourceLast, prometheus.GaugeValue, last)
}
