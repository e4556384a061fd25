// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"slices"
	"time"

	"rifling/slurm"
)

// Options say where Prometheus is and what its metrics mean. Start from
// DefaultOptions.
type Options struct {
	URL       string
	TokenFile string // bearer token, read again for each query; "" sends none
	CAFile    string // PEM certificates to check https with; "" the system's
	// Interval is the length of a slot. Below Prometheus' own scrape interval a
	// slot may hold no value.
	Interval time.Duration
	Timeout  time.Duration // of one query
	MaxBytes int64         // of one answer
	// Weight is what a sample counts against one of the collector's own, 0..1.
	Weight float64
	// PowerIdle and PowerLimit are a GPU's watts without work and at most; both
	// make an activity out of its power. 0: not known.
	PowerIdle, PowerLimit float64
	Labels                Labels
	Metrics               []Metric
}

// Labels name the labels that say whose a series is. Of several the first that
// a series has counts.
type Labels struct {
	Node []string // Slurm's name of the node; a port and a domain behind it do not matter
	GPU  []string // tells the node's GPUs apart: UUID or index
	Port []string // tell the node's network ports apart, all together
	Job  []string // Slurm's job id; empty and "0" are no job
}

// Meaning is what a metric measures.
type Meaning string

// What a metric may mean. The first group is of a GPU, the second of a port of
// the node. Rates and speeds are bytes per second of one direction.
const (
	SM          Meaning = "sm-activity" // part of the SMs that work, or of the tensor cores, 0..1
	Utilization Meaning = "utilization" // part of the time with a kernel, 0..1
	Power       Meaning = "power"       // watts
	PowerLimit  Meaning = "power-limit" // watts
	NVLinkTx    Meaning = "nvlink-tx"
	NVLinkRx    Meaning = "nvlink-rx"
	NVLinkSpeed Meaning = "nvlink-speed"
	PCIeTx      Meaning = "pcie-tx"
	PCIeRx      Meaning = "pcie-rx"
	PCIeSpeed   Meaning = "pcie-speed"

	NetTx    Meaning = "net-tx"
	NetRx    Meaning = "net-rx"
	NetSpeed Meaning = "net-speed"
)

// most is the greatest value of each meaning that is believed.
var most = map[Meaning]float64{
	SM: 1, Utilization: 1, Power: 5000, PowerLimit: 5000,
	NVLinkTx: fastest, NVLinkRx: fastest, NVLinkSpeed: fastest,
	PCIeTx: fastest, PCIeRx: fastest, PCIeSpeed: fastest,
	NetTx: fastest, NetRx: fastest, NetSpeed: fastest,
}

// fastest is more bytes per second than any one link carries.
const fastest = 4e12

func (m Meaning) ofPort() bool { return m == NetTx || m == NetRx || m == NetSpeed }

// Kind tells how a metric's values are read.
type Kind string

// The kinds.
const (
	Gauge   Kind = "gauge"   // the mean of a slot's values
	Counter Kind = "counter" // what it grew by over the time of that, by its own time stamps
)

// Metric is one metric of Prometheus.
type Metric struct {
	Name    string
	Means   Meaning
	Kind    Kind
	Scale   float64 // one unit of the metric, in the unit of its meaning
	Matcher string  // more of the selector, as between braces: job="dcgm"
}

// DefaultOptions read DCGM exporter and node_exporter as they are by default,
// every 30 s. The URL is left to the site.
func DefaultOptions() Options {
	return Options{
		Interval: 30 * time.Second,
		Timeout:  10 * time.Second,
		MaxBytes: 64 << 20,
		Weight:   0.5,
		Labels: Labels{
			Node: []string{"Hostname", "nodename", "instance"},
			GPU:  []string{"UUID", "gpu"},
			Port: []string{"device", "port"},
			Job:  []string{"hpc_job"},
		},
		Metrics: DefaultMetrics(),
	}
}

// DefaultMetrics are DCGM exporter's and node_exporter's. The PROF fields of
// DCGM are rates, whatever an exporter's list calls them.
func DefaultMetrics() []Metric {
	return []Metric{
		{Name: "DCGM_FI_PROF_SM_ACTIVE", Means: SM, Kind: Gauge, Scale: 1},
		{Name: "DCGM_FI_DEV_POWER_USAGE", Means: Power, Kind: Gauge, Scale: 1},
		{Name: "DCGM_FI_DEV_POWER_MGMT_LIMIT", Means: PowerLimit, Kind: Gauge, Scale: 1},
		{Name: "DCGM_FI_DEV_GPU_UTIL", Means: Utilization, Kind: Gauge, Scale: 0.01},
		{Name: "DCGM_FI_PROF_NVLINK_TX_BYTES", Means: NVLinkTx, Kind: Gauge, Scale: 1},
		{Name: "DCGM_FI_PROF_NVLINK_RX_BYTES", Means: NVLinkRx, Kind: Gauge, Scale: 1},
		{Name: "DCGM_FI_PROF_PCIE_TX_BYTES", Means: PCIeTx, Kind: Gauge, Scale: 1},
		{Name: "DCGM_FI_PROF_PCIE_RX_BYTES", Means: PCIeRx, Kind: Gauge, Scale: 1},
		{Name: "node_infiniband_port_data_transmitted_bytes_total", Means: NetTx, Kind: Counter, Scale: 1},
		{Name: "node_infiniband_port_data_received_bytes_total", Means: NetRx, Kind: Counter, Scale: 1},
		{Name: "node_infiniband_rate_bytes_per_second", Means: NetSpeed, Kind: Gauge, Scale: 1},
	}
}

var metricName = regexp.MustCompile(`^[a-zA-Z_:][a-zA-Z0-9_:]*$`)

// Validate returns all that is wrong with the options.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	u, err := url.Parse(o.URL)
	check(err == nil && (u.Scheme == "http" || u.Scheme == "https") && u.Host != "", "url %q is not http://HOST or https://HOST", o.URL)
	check(o.Interval >= time.Second && o.Interval <= time.Hour, "interval %s is not between 1s and 1h", o.Interval)
	check(o.Timeout > 0 && o.Timeout <= o.Interval, "timeout %s is not between 0 and the interval %s", o.Timeout, o.Interval)
	check(o.MaxBytes > 0, "no room for an answer")
	check(o.Weight > 0 && o.Weight <= 1, "weight %v is not above 0 and at most 1", o.Weight)
	check(o.PowerIdle >= 0 && (o.PowerLimit == 0 || o.PowerLimit > o.PowerIdle), "power from %v W idle to %v W is no range", o.PowerIdle, o.PowerLimit)
	check(len(o.Labels.Node) > 0 && len(o.Labels.GPU) > 0, "labels: node and gpu are needed")
	check(len(o.Metrics) > 0, "no metrics")
	for _, m := range o.Metrics {
		check(metricName.MatchString(m.Name), "metric %q is no name that Prometheus has", m.Name)
		check(most[m.Means] > 0, "metric %s: unknown meaning %q", m.Name, m.Means)
		check(m.Kind == Gauge || m.Kind == Counter, "metric %s: kind %q is neither gauge nor counter", m.Name, m.Kind)
		check(m.Scale > 0 && m.Scale < 1e18, "metric %s: scale %v is not positive", m.Name, m.Scale)
	}
	activity := slices.ContainsFunc(o.Metrics, func(m Metric) bool { return m.Means == SM || m.Means == Utilization || m.Means == Power })
	check(activity || len(o.Metrics) == 0, "no metric tells how much a GPU computes")
	if len(errs) == 0 {
		return nil
	}
	return slurm.WithHint(errors.Join(errs...), "docs/design/sources.md has an example for each key")
}
