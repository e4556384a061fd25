// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rifling/cmd/internal/config"
	"rifling/collector"
	"rifling/profile"
	"rifling/slurm"
)

// telemetry hands the collectors' samples to the loop. Without a secret it
// takes none: counters from anyone would let anyone steer.
type telemetry struct{ receiver *collector.Receiver }

func newTelemetry(c *config.Config) (*telemetry, error) {
	path := c.Listen.SecretFile
	if path == "" || c.Listen.Address == "" {
		return &telemetry{}, nil
	}
	if _, err := readSecret(path); err != nil {
		return nil, err
	}
	return &telemetry{receiver: collector.NewReceiver(collector.ReceiverOptions{
		Secret: func() (string, error) { return readSecret(path) }, Now: time.Now,
	})}, nil
}

// readSecret reads the file anew each time, so that it can be changed while the
// daemon runs.
func readSecret(path string) (string, error) {
	b, err := os.ReadFile(path)
	if err != nil {
		return "", slurm.WithHint(fmt.Errorf("read the collectors' secret: %w", err),
			"create listen.secret-file, e.g. `openssl rand -hex 32`, mode 0640, group rifling")
	}
	s := strings.TrimSpace(string(b))
	if s == "" {
		return "", slurm.WithHint(fmt.Errorf("the collectors' secret in %s is empty", path),
			"write one, e.g. `openssl rand -hex 32`")
	}
	return s, nil
}

// Drain returns the samples since the last call.
func (t *telemetry) Drain() []profile.Sample {
	if t.receiver == nil {
		return nil
	}
	in := t.receiver.Drain()
	out := make([]profile.Sample, len(in))
	for i, s := range in {
		out[i] = profile.Sample{
			JobID: s.JobID, Node: s.Node, At: s.At, Interval: s.Interval, GPUs: s.GPUs,
			Compute: s.Compute, Source: profile.Source(s.Source),
			NVLinkRate: s.NVLinkRate, PCIeRate: s.PCIeRate, NetRate: s.NetRate,
			NVLinkSpeed: s.NVLinkSpeed, PCIeSpeed: s.PCIeSpeed, NetSpeed: s.NetSpeed, NetShared: s.NetShared,
			Origin: profile.Origin(s.Origin), Weight: s.Weight, Throttled: s.Throttled, GPUShared: s.GPUShared,
		}
	}
	return out
}

// handler takes the collectors' batches; nil when there is no secret.
func (t *telemetry) handler() http.Handler {
	if t.receiver == nil {
		return nil
	}
	return t.receiver
}

func (t *telemetry) register(r prometheus.Registerer) {
	if t.receiver == nil {
		return
	}
	gauge := func(name, help string, value func(collector.Stats) float64) {
		r.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "rifling_collector_" + name, Help: help},
			func() float64 { return value(t.receiver.Stats()) }))
	}
	gauge("nodes", "Nodes whose collectors sent samples.", func(s collector.Stats) float64 { return float64(s.Nodes) })
	gauge("duplicates", "Samples that came before, since the start.", func(s collector.Stats) float64 { return float64(s.Duplicates) })
	gauge("overflow", "Samples that gave way for want of room, since the start.", func(s collector.Stats) float64 { return float64(s.Overflow) })
	gauge("last_accepted_timestamp_seconds", "Host time of the last sample taken.", func(s collector.Stats) float64 {
		if s.LastAccepted.IsZero() {
			return 0
		}
		return float64(s.LastAccepted.Unix())
	})
}
