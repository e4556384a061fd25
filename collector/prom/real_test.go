// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"fmt"
	"math"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
)

// A real Prometheus that scrapes a small exporter gives the rates that the
// exporter has. It needs the program: on the path, or named by
// RIFLING_PROMETHEUS.
func TestRealPrometheus(t *testing.T) {
	program := os.Getenv("RIFLING_PROMETHEUS")
	if program == "" {
		found, err := exec.LookPath("prometheus")
		if err != nil {
			t.Skip("needs prometheus: install it, or name it by RIFLING_PROMETHEUS")
		}
		program = found
	}
	began := time.Now()
	const bytesPerSecond = 1e9
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		moved := bytesPerSecond * time.Since(began).Seconds()
		for gpu := range 2 {
			fmt.Fprintf(w, "DCGM_FI_PROF_SM_ACTIVE{gpu=\"%d\",UUID=\"GPU-%d\",Hostname=\"a\",hpc_job=\"7\"} 0.%d\n", gpu, gpu, 4+2*gpu)
			fmt.Fprintf(w, "DCGM_FI_PROF_PCIE_TX_BYTES{gpu=\"%d\",UUID=\"GPU-%d\",Hostname=\"a\",hpc_job=\"7\"} NaN\n", gpu, gpu)
		}
		fmt.Fprintf(w, "node_infiniband_port_data_transmitted_bytes_total{device=\"mlx5_0\",port=\"1\"} %.0f\n", moved)
		fmt.Fprint(w, "node_infiniband_rate_bytes_per_second{device=\"mlx5_0\",port=\"1\"} 6.25e+09\n")
	}))
	t.Cleanup(exporter.Close)

	o := DefaultOptions()
	o.URL, o.Interval, o.Timeout = startPrometheus(t, program, strings.TrimPrefix(exporter.URL, "http://")), 4*time.Second, 4*time.Second
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	jobs := []slurm.Job{runningJob(7, 2, "a", "b")}
	for deadline := time.Now().Add(40 * time.Second); ; time.Sleep(time.Second) {
		end := s.Slot(time.Now())
		samples, rep, err := s.Read(t.Context(), end, jobs)
		if err == nil && len(samples) == 1 && samples[0].NetRate > 0 && end.Sub(began) > 2*o.Interval {
			x := samples[0]
			if x.GPUs != 2 || math.Abs(x.Compute-0.5) > 1e-9 || x.NetSpeed != 6.25e9 || math.Abs(x.NetRate/bytesPerSecond-1) > 0.05 {
				t.Errorf("sample %+v", x)
			}
			if rep.Left["not a number: DCGM_FI_PROF_PCIE_TX_BYTES"] == 0 || len(rep.Missing) != 7 {
				t.Errorf("left out %v, missing %v", rep.Left, rep.Missing)
			}
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("nothing came: %+v, %+v, error %v", samples, rep, err)
		}
	}
}

// startPrometheus starts one that scrapes the target every second and returns
// its address. The target is named as node_exporter on node a would be.
func startPrometheus(t *testing.T, program, target string) string {
	t.Helper()
	dir := t.TempDir()
	config := fmt.Sprintf("global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: node\n  static_configs:\n"+
		"  - {targets: [%q], labels: {instance: \"a:9100\"}}\n", target)
	file := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := ln.Addr().String()
	_ = ln.Close() // free again; the kernel hands ports out in turn
	cmd := exec.Command(program, "--config.file="+file, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=warn")
	var text strings.Builder
	cmd.Stderr = &text
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if t.Failed() {
			t.Log(text.String())
		}
	})
	return "http://" + address
}
