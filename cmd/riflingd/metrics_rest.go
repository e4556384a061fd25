// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rifling/slurm/rest"
)

// restMetrics shows what the client of slurmrestd counts, read when it is
// asked, and the life of its token.
type restMetrics struct {
	client   *rest.Client
	database string
	now      func() time.Time
}

var (
	restRequests = prometheus.NewDesc("rifling_rest_requests_total", "Requests sent to slurmrestd, retries included.", nil, nil)
	restUpdates  = prometheus.NewDesc("rifling_rest_updates_sent_total", "Of these, changes sent to jobs.", nil, nil)
	restRetries  = prometheus.NewDesc("rifling_rest_retries_total", "Requests sent again after a failure.", nil, nil)
	restErrors   = prometheus.NewDesc("rifling_rest_errors_total", "Failed requests by kind.", []string{"kind"}, nil)
	restReceived = prometheus.NewDesc("rifling_rest_received_bytes_total", "Bodies received from slurmrestd.", nil, nil)
	restLatency  = prometheus.NewDesc("rifling_rest_latency_seconds", "Time of the last answer of slurmrestd.", nil, nil)
	tokenExpiry  = prometheus.NewDesc("rifling_token_expiry_seconds", "Time until the token for slurmrestd ends; negative once it has. Missing where none is used or it names no end.", nil, nil)
	databaseSize = prometheus.NewDesc("rifling_database_bytes", "Size of the database file.", nil, nil)
)

// Describe names the metrics.
func (m *restMetrics) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{restRequests, restUpdates, restRetries, restErrors, restReceived, restLatency, tokenExpiry, databaseSize} {
		ch <- d
	}
}

// Collect reads the counts.
func (m *restMetrics) Collect(ch chan<- prometheus.Metric) {
	st := m.client.Stats()
	send := func(d *prometheus.Desc, kind prometheus.ValueType, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(d, kind, v, labels...)
	}
	send(restRequests, prometheus.CounterValue, float64(st.Requests))
	send(restUpdates, prometheus.CounterValue, float64(st.Posts))
	send(restRetries, prometheus.CounterValue, float64(st.Retries))
	send(restReceived, prometheus.CounterValue, float64(st.BytesIn))
	send(restLatency, prometheus.GaugeValue, st.Latency.Seconds())
	for kind, n := range st.Errors {
		send(restErrors, prometheus.CounterValue, float64(n), kind)
	}
	if t := m.client.TokenExpiry(); !t.IsZero() {
		send(tokenExpiry, prometheus.GaugeValue, t.Sub(m.now()).Seconds())
	}
	if info, err := os.Stat(m.database); err == nil {
		send(databaseSize, prometheus.GaugeValue, float64(info.Size()))
	}
}
