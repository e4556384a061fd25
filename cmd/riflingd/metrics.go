// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"rifling/cycle"
	"rifling/policy"
	"rifling/slurm"
)

// metrics are what /metrics shows, in base units. docs/metrics.md lists them.
// What Slurm's own exporter shows is not among them: jobs and GPUs are counted
// as rifling sees them, to set its other figures beside.
type metrics struct {
	registry *prometheus.Registry

	jobs     *prometheus.GaugeVec
	gpus     *prometheus.GaugeVec
	anpr     prometheus.Gauge
	anprGPUs prometheus.Gauge
	held     *prometheus.GaugeVec
	owned    prometheus.Gauge
	putOff   prometheus.Gauge
	queueAge *prometheus.GaugeVec
	cycles   *prometheus.CounterVec
	took     prometheus.Histogram
	phases   *prometheus.HistogramVec
	last     prometheus.Gauge
	updates  *prometheus.CounterVec
	odd      *prometheus.GaugeVec

	standing  *prometheus.GaugeVec
	decisions *prometheus.CounterVec
	explored  prometheus.Counter
	before    map[slurm.JobID]string // what was decided in the cycle before

	learning
	profiling
}

// maker makes metrics and registers them.
type maker struct{ r *prometheus.Registry }

func (m maker) gauge(name, help string) prometheus.Gauge {
	g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rifling_" + name, Help: help})
	m.r.MustRegister(g)
	return g
}

func (m maker) gauges(name, help string, labels ...string) *prometheus.GaugeVec {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rifling_" + name, Help: help}, labels)
	m.r.MustRegister(g)
	return g
}

func (m maker) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: "rifling_" + name, Help: help})
	m.r.MustRegister(c)
	return c
}

func (m maker) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rifling_" + name, Help: help}, labels)
	m.r.MustRegister(c)
	return c
}

func (m maker) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: "rifling_" + name, Help: help, Buckets: buckets})
	m.r.MustRegister(h)
	return h
}

// cycleBuckets are of cycles and their phases, seconds.
var cycleBuckets = []float64{.003, .01, .03, .1, .3, 1, 3, 10, 30}

func newMetrics(t *telemetry) *metrics {
	mk := maker{prometheus.NewRegistry()}
	m := &metrics{
		registry: mk.r,
		jobs:     mk.gauges("jobs", "GPU jobs in the last snapshot, as far as rifling manages them.", "state"),
		gpus:     mk.gauges("gpus", "GPUs of usable nodes in the last snapshot.", "state"),
		anpr:     mk.gauge("anpr_ratio", "GPU-weighted mean normalized processing rate of running jobs, 0 to 1."),
		anprGPUs: mk.gauge("anpr_gpus", "GPUs behind rifling_anpr_ratio: those of running jobs with fresh counters."),
		held:     mk.gauges("held", "1 while this keeps the daemon from setting anything: pause, quiet, slow, refused, worse.", "reason"),
		owned:    mk.gauge("owned_jobs", "Jobs that carry something set by rifling."),
		putOff:   mk.gauge("changes_put_off", "Changes left to a later cycle by limits.max-changes."),
		queueAge: mk.gauges("queue_age_seconds", "Time since waiting GPU jobs became eligible: median, 95th percentile and maximum.", "stat"),
		cycles:   mk.counters("cycles_total", "Cycles by result.", "result"),
		took:     mk.histogram("cycle_duration_seconds", "Time that a cycle took.", cycleBuckets),
		last:     mk.gauge("last_cycle_timestamp_seconds", "Slurm's time of the last cycle that succeeded."),
		updates:  mk.counters("updates_total", "Updates of jobs by kind and outcome.", "kind", "outcome"),
		odd:      mk.gauges("odd_records", "Records of the last snapshot that could not be read, by reason.", "reason"),

		standing:  mk.gauges("standing_decisions", "Decisions of the last cycle by action; skipped: a guard rail kept hands off.", "action"),
		decisions: mk.counters("decisions_total", "New decisions by action: the first on a job, or another than in the cycle before.", "action"),
		explored:  mk.counter("explored_decisions_total", "New decisions that were drawn at random to learn."),
		learning:  newLearning(mk),
		profiling: newProfiling(mk),
	}
	m.phases = prometheus.NewHistogramVec(prometheus.HistogramOpts{
		Name: "rifling_cycle_phase_duration_seconds", Help: "Time that each phase of a cycle took.", Buckets: cycleBuckets,
	}, []string{"phase"})
	mk.r.MustRegister(m.phases, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rifling_build_info", Help: "Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 }),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	m.begin()
	t.register(mk.r)
	return m
}

// begin makes the series whose labels are known, so that a first event is seen
// as a rise from 0.
func (m *metrics) begin() {
	for _, r := range []string{"ok", "failed"} {
		m.cycles.WithLabelValues(r)
	}
	for _, kind := range []policy.Kind{policy.KindSet, policy.KindTakeBack} {
		for _, o := range []policy.Outcome{policy.Applied, policy.Skipped, policy.Failed} {
			m.updates.WithLabelValues(string(kind), string(o))
		}
	}
	for _, p := range cycle.PhaseNames {
		m.phases.WithLabelValues(p)
	}
	for _, a := range policy.Actions {
		m.decisions.WithLabelValues(string(a))
	}
	m.decisions.WithLabelValues(actionSkipped)
}

func (m *metrics) failed() { m.cycles.WithLabelValues("failed").Inc() }

// observe takes in what a cycle did. The loop is the one that did it; it stands
// still meanwhile.
func (m *metrics) observe(rep *cycle.Report, l *cycle.Loop) {
	m.cycles.WithLabelValues("ok").Inc()
	m.took.Observe(rep.Took.Seconds())
	for _, p := range rep.Phases {
		m.phases.WithLabelValues(p.Name).Observe(p.Took.Seconds())
	}
	m.last.Set(float64(rep.At.Unix()))
	m.jobs.WithLabelValues("pending").Set(float64(rep.Pending))
	m.jobs.WithLabelValues("running").Set(float64(rep.Running))
	m.gpus.WithLabelValues("used").Set(float64(rep.GPUsUsed))
	m.gpus.WithLabelValues("free").Set(float64(rep.GPUs - rep.GPUsUsed))
	m.anpr.Set(rep.ANPR)
	_, gpus := l.Book.ANPR(rep.Snapshot)
	m.anprGPUs.Set(float64(gpus))
	m.held.Reset()
	if rep.Held != nil {
		m.held.WithLabelValues(rep.Held.Kind).Set(1)
	}
	m.owned.Set(float64(rep.Owned))
	m.putOff.Set(float64(rep.PutOff))
	m.odd.Reset()
	for why, n := range rep.Odd {
		m.odd.WithLabelValues(why).Set(float64(n))
	}
	for _, r := range rep.Results {
		m.updates.WithLabelValues(string(r.Change.Kind), string(r.Outcome)).Inc()
	}
	m.decided(&rep.Plan)
	m.waiting(rep.Snapshot)
	m.learning.observe(rep, l.Policy)
	m.profiling.observe(rep, l.Book.Groups())
}

// actionSkipped is what a decision that keeps hands off counts as.
const actionSkipped = "skipped"

// decided counts the decisions that stand, and those that are new.
func (m *metrics) decided(plan *policy.Plan) {
	m.standing.Reset()
	now := make(map[slurm.JobID]string, len(plan.Decisions))
	count := map[string]int{}
	for _, a := range policy.Actions {
		count[string(a)] = 0
	}
	count[actionSkipped] = 0
	for i := range plan.Decisions {
		d := &plan.Decisions[i]
		action := string(d.Action)
		if d.Skipped != "" {
			action = actionSkipped
		}
		now[d.JobID] = action
		count[action]++
		if m.before[d.JobID] == action {
			continue
		}
		m.decisions.WithLabelValues(action).Inc()
		if d.Explored {
			m.explored.Inc()
		}
	}
	for a, n := range count {
		m.standing.WithLabelValues(a).Set(float64(n))
	}
	m.before = now
}
