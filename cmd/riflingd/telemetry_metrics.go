// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/prometheus/client_golang/prometheus"
)

// ingest shows what the receiver counts. It reads the counts when it is asked,
// so that they belong together.
type ingest struct {
	t *telemetry

	nodes, last, requests, accepted, duplicates, rejected, refused, groups, skewed *prometheus.Desc
}

func (t *telemetry) register(r prometheus.Registerer) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rifling_collector_"+name, help, labels, nil)
	}
	r.MustRegister(&ingest{
		t:          t,
		nodes:      desc("nodes", "Nodes whose collectors sent samples."),
		last:       desc("last_accepted_timestamp_seconds", "Host time of the last sample taken."),
		requests:   desc("requests_total", "Batches that came."),
		accepted:   desc("samples_total", "Samples taken and kept."),
		duplicates: desc("duplicates_total", "Samples that came before."),
		rejected:   desc("rejected_total", "Samples left out, by reason.", "reason"),
		refused:    desc("refused_total", "Batches refused, by reason.", "reason"),
		groups:     desc("transactions_total", "Transactions that kept samples or found only such as came before."),
		skewed:     desc("skewed_total", "Batches of nodes whose clock is off by more than a minute; their times are corrected."),
	})
}

// Describe names the metrics.
func (i *ingest) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{i.nodes, i.last, i.requests, i.accepted, i.duplicates, i.rejected, i.refused, i.groups, i.skewed} {
		ch <- d
	}
}

// Collect reads the counts.
func (i *ingest) Collect(ch chan<- prometheus.Metric) {
	s := i.t.receiver.Stats()
	last := 0.0
	if !s.LastAccepted.IsZero() {
		last = float64(s.LastAccepted.Unix())
	}
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	send(i.nodes, prometheus.GaugeValue, float64(s.Nodes))
	send(i.last, prometheus.GaugeValue, last)
	send(i.requests, prometheus.CounterValue, float64(s.Requests))
	send(i.accepted, prometheus.CounterValue, float64(s.Accepted))
	send(i.duplicates, prometheus.CounterValue, float64(s.Duplicates))
	send(i.groups, prometheus.CounterValue, float64(s.Groups))
	send(i.skewed, prometheus.CounterValue, float64(s.Skewed))
	for why, n := range s.Rejected {
		send(i.rejected, prometheus.CounterValue, float64(n), why)
	}
	for why, n := range s.Refused {
		send(i.refused, prometheus.CounterValue, float64(n), why)
	}
}
