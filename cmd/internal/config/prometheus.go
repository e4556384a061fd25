// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"time"

	"rifling/collector/prom"
	"rifling/slurm"
)

// Prometheus is where a site's own exporters are read; not at all without a URL.
type Prometheus struct {
	URL        string             `mapstructure:"url"`
	TokenFile  string             `mapstructure:"token-file"`
	CAFile     string             `mapstructure:"ca-file"`
	Interval   time.Duration      `mapstructure:"interval"`
	Timeout    time.Duration      `mapstructure:"timeout"`
	Weight     float64            `mapstructure:"weight"`
	PowerIdle  float64            `mapstructure:"power-idle"`
	PowerLimit float64            `mapstructure:"power-limit"`
	Labels     PrometheusLabels   `mapstructure:"labels"`
	Metrics    []PrometheusMetric `mapstructure:"metrics"`
}

// PrometheusLabels name the labels of nodes, GPUs, ports and jobs.
type PrometheusLabels struct {
	Node []string `mapstructure:"node"`
	GPU  []string `mapstructure:"gpu"`
	Port []string `mapstructure:"port"`
	Job  []string `mapstructure:"job"`
}

// PrometheusMetric is one metric and what it means.
type PrometheusMetric struct {
	Name    string  `mapstructure:"name"`
	Means   string  `mapstructure:"means"`
	Kind    string  `mapstructure:"kind"`
	Scale   float64 `mapstructure:"scale"`
	Matcher string  `mapstructure:"matcher"`
}

func defaultPrometheus() Prometheus {
	o := prom.DefaultOptions()
	return Prometheus{
		Interval: o.Interval, Timeout: o.Timeout, Weight: o.Weight,
		Labels:  PrometheusLabels(o.Labels),
		Metrics: []PrometheusMetric{},
	}
}

// options are the section as package prom takes it. A metric without a scale
// has 1, one without a kind is a gauge.
func (p *Prometheus) options() prom.Options {
	o := prom.DefaultOptions()
	o.URL, o.TokenFile, o.CAFile = p.URL, p.TokenFile, p.CAFile
	o.Interval, o.Timeout, o.Weight = p.Interval, p.Timeout, p.Weight
	o.PowerIdle, o.PowerLimit = p.PowerIdle, p.PowerLimit
	o.Labels = prom.Labels(p.Labels)
	if len(p.Metrics) == 0 {
		return o
	}
	o.Metrics = make([]prom.Metric, len(p.Metrics))
	for i, m := range p.Metrics {
		o.Metrics[i] = prom.Metric{
			Name: m.Name, Means: prom.Meaning(m.Means), Kind: prom.Kind(m.Kind), Scale: m.Scale, Matcher: m.Matcher,
		}
		if m.Kind == "" {
			o.Metrics[i].Kind = prom.Gauge
		}
		if m.Scale == 0 {
			o.Metrics[i].Scale = 1
		}
	}
	return o
}

// Exporters returns the source that the section describes; nil when it names
// no Prometheus.
func (c *Config) Exporters() (*prom.Source, error) {
	if c.Prometheus.URL == "" {
		return nil, nil
	}
	s, err := prom.New(c.Prometheus.options())
	if err != nil {
		return nil, slurm.WithHint(fmt.Errorf("configuration: %w", err), "see the section prometheus in etc/rifling.yaml")
	}
	return s, nil
}
