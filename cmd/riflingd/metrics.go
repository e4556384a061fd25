// SPDX-License-Identifier: Apache-2.0

package main

import (
	"runtime"

	"github.com/prometheus/client_golang/prometheus"

	"rifling/cycle"
	"rifling/slurm/rest"
)

// metrics are what /metrics shows, in base units.
type metrics struct {
	registry *prometheus.Registry

	jobs      *prometheus.GaugeVec
	gpus      *prometheus.GaugeVec
	anpr      prometheus.Gauge
	held      *prometheus.GaugeVec
	owned     prometheus.Gauge
	putOff    prometheus.Gauge
	cycles    *prometheus.CounterVec
	took      prometheus.Histogram
	last      prometheus.Gauge
	updates   *prometheus.CounterVec
	samples   prometheus.Counter
	rejected  *prometheus.CounterVec
	odd       *prometheus.GaugeVec
	learned   prometheus.Counter
	requests  prometheus.Gauge
	posts     prometheus.Gauge
	latency   prometheus.Gauge
	restError *prometheus.GaugeVec
}

func newMetrics(t *telemetry) *metrics {
	r := prometheus.NewRegistry()
	gauge := func(name, help string) prometheus.Gauge {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: "rifling_" + name, Help: help})
		r.MustRegister(g)
		return g
	}
	gauges := func(name, help, label string) *prometheus.GaugeVec {
		g := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "rifling_" + name, Help: help}, []string{label})
		r.MustRegister(g)
		return g
	}
	counter := func(name, help string) prometheus.Counter {
		c := prometheus.NewCounter(prometheus.CounterOpts{Name: "rifling_" + name, Help: help})
		r.MustRegister(c)
		return c
	}
	counters := func(name, help string, labels ...string) *prometheus.CounterVec {
		c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "rifling_" + name, Help: help}, labels)
		r.MustRegister(c)
		return c
	}
	m := &metrics{
		registry:  r,
		jobs:      gauges("jobs", "GPU jobs in the last snapshot.", "state"),
		gpus:      gauges("gpus", "GPUs of usable nodes in the last snapshot.", "state"),
		anpr:      gauge("anpr_ratio", "GPU-weighted mean normalized processing rate of running jobs, 0 to 1."),
		held:      gauges("held", "1 while this keeps the daemon from setting anything: pause, quiet, slow, refused, worse.", "reason"),
		owned:     gauge("owned_jobs", "Jobs that carry something set by rifling."),
		putOff:    gauge("changes_put_off", "Changes left to a later cycle by limits.max-changes."),
		cycles:    counters("cycles_total", "Cycles by result.", "result"),
		last:      gauge("last_cycle_timestamp_seconds", "Slurm's time of the last cycle that succeeded."),
		updates:   counters("updates_total", "Updates of jobs by kind and outcome.", "kind", "outcome"),
		samples:   counter("samples_total", "Counter samples taken in."),
		rejected:  counters("samples_rejected_total", "Counter samples refused, by reason.", "reason"),
		odd:       gauges("odd_records", "Records of the last snapshot that could not be read, by reason.", "reason"),
		learned:   counter("episodes_learned_total", "Runs that taught the learner."),
		requests:  gauge("rest_requests", "Requests sent to slurmrestd since the start."),
		posts:     gauge("rest_updates_sent", "Of these, changes sent to jobs."),
		latency:   gauge("rest_latency_seconds", "Time of the last answer of slurmrestd."),
		restError: gauges("rest_errors", "Failed requests since the start, by kind.", "kind"),
		took: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "rifling_cycle_duration_seconds", Help: "Time that a cycle took.",
			Buckets: []float64{.01, .03, .1, .3, 1, 3, 10, 30},
		}),
	}
	r.MustRegister(m.took, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rifling_build_info", Help: "Always 1.",
		ConstLabels: prometheus.Labels{"version": version, "goversion": runtime.Version()},
	}, func() float64 { return 1 }))
	t.register(r)
	return m
}

func (m *metrics) failed() { m.cycles.WithLabelValues("failed").Inc() }

// observe takes in what a cycle did; err says that it did not take place.
func (m *metrics) observe(rep cycle.Report, st rest.Stats, err error) {
	m.requests.Set(float64(st.Requests))
	m.posts.Set(float64(st.Posts))
	m.latency.Set(st.Latency.Seconds())
	for kind, n := range st.Errors {
		m.restError.WithLabelValues(kind).Set(float64(n))
	}
	if err != nil {
		return
	}
	m.cycles.WithLabelValues("ok").Inc()
	m.took.Observe(rep.Took.Seconds())
	m.last.Set(float64(rep.At.Unix()))
	m.jobs.WithLabelValues("pending").Set(float64(rep.Pending))
	m.jobs.WithLabelValues("running").Set(float64(rep.Running))
	m.gpus.WithLabelValues("used").Set(float64(rep.GPUsUsed))
	m.gpus.WithLabelValues("free").Set(float64(rep.GPUs - rep.GPUsUsed))
	m.anpr.Set(rep.ANPR)
	m.held.Reset()
	if rep.Held != nil {
		m.held.WithLabelValues(rep.Held.Kind).Set(1)
	}
	m.owned.Set(float64(rep.Owned))
	m.putOff.Set(float64(rep.PutOff))
	m.samples.Add(float64(rep.Samples))
	m.learned.Add(float64(rep.Learned))
	for why, n := range rep.Rejected {
		m.rejected.WithLabelValues(why).Add(float64(n))
	}
	m.odd.Reset()
	for why, n := range rep.Odd {
		m.odd.WithLabelValues(why).Set(float64(n))
	}
	for _, r := range rep.Results {
		m.updates.WithLabelValues(string(r.Change.Kind), string(r.Outcome)).Inc()
	}
}
