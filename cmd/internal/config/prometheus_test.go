// SPDX-License-Identifier: Apache-2.0

package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"rifling/collector/prom"
	"rifling/slurm"
)

func TestPrometheus(t *testing.T) {
	load := func(yaml string) *Config {
		t.Helper()
		path := filepath.Join(t.TempDir(), "rifling.yaml")
		if err := os.WriteFile(path, []byte(yaml), 0o600); err != nil {
			t.Fatal(err)
		}
		c, err := Load(path, nil)
		if err != nil {
			t.Fatal(err)
		}
		return c
	}
	if s, err := load("mode: observe\n").Exporters(); s != nil || err != nil {
		t.Errorf("without a URL: %v, %v", s, err)
	}

	c := load(`prometheus:
  url: http://p:9090
  labels: {node: [host], gpu: [card]}
  metrics:
  - {name: my_gpu_busy_percent, means: sm-activity, scale: 0.01, matcher: 'Cluster="X"'}
  - {name: my_bytes_total, means: net-tx, kind: counter}
`)
	want := prom.DefaultOptions()
	want.URL, want.Labels.Node, want.Labels.GPU = "http://p:9090", []string{"host"}, []string{"card"}
	want.Metrics = []prom.Metric{
		{Name: "my_gpu_busy_percent", Means: prom.SM, Kind: prom.Gauge, Scale: 0.01, Matcher: `Cluster="X"`},
		{Name: "my_bytes_total", Means: prom.NetTx, Kind: prom.Counter, Scale: 1},
	}
	if diff := cmp.Diff(want, c.Prometheus.options()); diff != "" {
		t.Errorf("options (-want +got):\n%s", diff)
	}
	if s, err := c.Exporters(); s == nil || err != nil {
		t.Errorf("source %v, error %v", s, err)
	}

	c.Prometheus.Weight = 2
	if _, err := c.Exporters(); err == nil || !strings.Contains(err.Error(), "weight 2") || slurm.HintOf(err) == "" {
		t.Errorf("weight 2: error %v, hint %q", err, slurm.HintOf(err))
	}
}
