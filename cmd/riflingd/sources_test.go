// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"rifling/collector"
	"rifling/collector/prom"
	"rifling/cycle"
	"rifling/slurm"
)

// oneJob is a cluster on which job 7 runs on two nodes.
type oneJob struct{ cycle.Cluster }

func (oneJob) Snapshot(context.Context) (*slurm.Snapshot, error) {
	return &slurm.Snapshot{Jobs: []slurm.Job{{
		ID: 7, State: slurm.State{Base: "RUNNING"}, Nodes: []string{"a", "b"}, NodeGPUs: map[string]int{"a": 1, "b": 1},
		Request: slurm.GPURequest{PerNode: 1},
	}, {ID: 8, State: slurm.State{Base: "PENDING"}, Request: slurm.GPURequest{PerNode: 1}}}}, nil
}

// Prometheus' samples are kept beside the collectors', once, and not where a
// collector speaks; its failing is logged once and ends nothing.
func TestSources(t *testing.T) {
	now := time.Now().Truncate(time.Second)
	down := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		result := ""
		if strings.HasPrefix(r.FormValue("query"), "DCGM_FI_PROF_SM_ACTIVE[") {
			for _, node := range []string{"a", "b"} {
				result += fmt.Sprintf(`,{"metric":{"Hostname":%q,"gpu":"0","hpc_job":"7"},"values":[[%d,"0.5"]]}`, node, now.Unix()-1)
			}
		}
		if down {
			http.Error(w, "down", http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"matrix","result":[%s]}}`, strings.TrimPrefix(result, ","))
	}))
	defer server.Close()
	o := prom.DefaultOptions()
	o.URL = server.URL
	source, err := prom.New(o)
	if err != nil {
		t.Fatal(err)
	}
	receiver := collector.NewReceiver(collector.ReceiverOptions{
		Secret: func() (string, error) { return "s", nil }, Now: func() time.Time { return now },
	})
	_, err = receiver.Add([]collector.Sample{{Node: "a", Boot: "its-own", Seq: 1, JobID: 7, At: now, Interval: time.Second, GPUs: 1}}, 0)
	if err != nil {
		t.Fatal(err)
	}
	var text bytes.Buffer
	s := &sources{
		prom: source, jobs: &runningJobs{Cluster: oneJob{}}, add: receiver.Add, said: map[string]bool{},
		log: slog.New(slog.NewTextHandler(&text, nil)),
	}
	s.read(t.Context(), now) // before the first snapshot: nothing is known of the jobs
	if s.total.readings != 0 {
		t.Errorf("read before Slurm has answered: %+v", s.total)
	}
	if _, err := s.jobs.Snapshot(t.Context()); err != nil {
		t.Fatal(err)
	}
	if jobs := *s.jobs.last.Load(); len(jobs) != 1 || jobs[0].ID != 7 {
		t.Errorf("running jobs %+v", jobs)
	}
	s.read(t.Context(), now)
	s.read(t.Context(), now) // the same slot again
	down = true
	s.read(t.Context(), now)
	s.read(t.Context(), now)
	down = false
	s.read(t.Context(), now)

	kept := receiver.Drain()
	if len(kept) != 2 || kept[1].Node != "b" || kept[1].Origin != collector.OriginPrometheus || kept[1].Weight != 0.5 {
		t.Errorf("kept: %+v", kept)
	}
	for what, want := range map[string]int{
		"could not be read": 1, "is read again": 1, "DCGM_FI_DEV_POWER_USAGE": 1,
	} {
		if got := strings.Count(text.String(), what); got != want {
			t.Errorf("%q is logged %d times, want %d:\n%s", what, got, want, text.String())
		}
	}
	r := prometheus.NewPedanticRegistry()
	s.register(r)
	families, err := r.Gather()
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]float64{}
	for _, f := range families {
		for _, m := range f.GetMetric() {
			if name := f.GetName(); len(m.GetLabel()) == 1 && !strings.Contains(name, "left_out") {
				got[name+" "+m.GetLabel()[0].GetValue()] = m.GetCounter().GetValue()
			}
		}
	}
	want := map[string]float64{
		"rifling_prometheus_readings_total failed": 2, "rifling_prometheus_readings_total ok": 3,
		"rifling_prometheus_samples_total collector": 3, "rifling_prometheus_samples_total duplicate": 2,
		"rifling_prometheus_samples_total taken": 1,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("metrics (-want +got):\n%s", diff)
	}
}

func TestSourcesEndWithTheDaemon(t *testing.T) {
	(&sources{}).run(t.Context()) // none is configured: returns at once
	o := prom.DefaultOptions()
	o.URL = "http://127.0.0.1:1"
	source, err := prom.New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	(&sources{prom: source, jobs: &runningJobs{}, log: slog.New(slog.DiscardHandler)}).run(ctx)
}
