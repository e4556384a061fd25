// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/collector"
	"rifling/slurm"
)

// brief is what the tests look at of a sample.
type brief struct {
	Node          string
	Job           slurm.JobID
	GPUs          int
	Compute       float64
	Source        collector.Source
	NVLink, PCIe  float64
	Net, NetSpeed float64
	NetShared     bool
}

func briefs(samples []collector.Sample) []brief {
	var out []brief
	round := func(v float64) float64 { return math.Round(v*1e6) / 1e6 }
	for _, s := range samples {
		out = append(out, brief{s.Node, s.JobID, s.GPUs, round(s.Compute), s.Source, round(s.NVLinkRate), round(s.PCIeRate),
			round(s.NetRate), round(s.NetSpeed), s.NetShared})
	}
	return out
}

const (
	sm    = "DCGM_FI_PROF_SM_ACTIVE"
	watts = "DCGM_FI_DEV_POWER_USAGE"
	util  = "DCGM_FI_DEV_GPU_UTIL"
	nvl   = "DCGM_FI_PROF_NVLINK_TX_BYTES"
	pcie  = "DCGM_FI_PROF_PCIE_TX_BYTES"
	netTx = "node_infiniband_port_data_transmitted_bytes_total"
	speed = "node_infiniband_rate_bytes_per_second"
)

// scenes are what Prometheus holds, what Slurm runs, and what must come of it.
var scenes = map[string]struct {
	series  map[string][]fakeSeries
	jobs    []slurm.Job
	options func(*Options)
	want    []brief
	left    Left
}{
	"DCGM exporter with its job's label": {
		series: map[string][]fakeSeries{
			sm:  {gauge(0.5, dcgm("a", 0, 7)...), gauge(0.7, dcgm("a", 1, 7)...), gauge(0.2, dcgm("a", 2, 8)...), gauge(0, dcgm("a", 3, 0)...)},
			nvl: {gauge(10, dcgm("a", 0, 7)...), gauge(20, dcgm("a", 1, 7)...), gauge(40, dcgm("a", 2, 8)...), gauge(0, dcgm("a", 3, 0)...)},
		},
		jobs: []slurm.Job{runningJob(7, 2, "a"), runningJob(8, 1, "a")},
		want: []brief{
			{Node: "a", Job: 7, GPUs: 2, Compute: 0.6, Source: "gpm", NVLink: 30},
			{Node: "a", Job: 8, GPUs: 1, Compute: 0.2, Source: "gpm", NVLink: 40},
		},
	},
	"a network counter by its own time stamps, on the port that is connected": {
		series: map[string][]fakeSeries{
			sm:    {gauge(0.5, dcgm("a", 0, 7)...), gauge(0.5, dcgm("b", 0, 7)...)},
			netTx: {counter(300, nic("a", "mlx5_0")...), fakeSeries{pairs(nic("a", "mlx5_1")), []point{{-10, "0"}, {5, "0"}, {20, "0"}}}, counter(200, nic("b", "mlx5_0")...)},
			speed: {gauge(1000, nic("a", "mlx5_0")...), gauge(5000, nic("a", "mlx5_1")...), gauge(1000, nic("b", "mlx5_0")...)},
		},
		jobs: []slurm.Job{runningJob(7, 1, "a", "b")},
		want: []brief{
			{Node: "a", Job: 7, GPUs: 1, Compute: 0.5, Source: "gpm", Net: 300, NetSpeed: 1000},
			{Node: "b", Job: 7, GPUs: 1, Compute: 0.5, Source: "gpm", Net: 200, NetSpeed: 1000},
		},
	},
	"jobs on one NIC share by PCIe, those on one node have none of it": {
		series: map[string][]fakeSeries{
			sm:    {gauge(0.5, dcgm("a", 0, 7)...), gauge(0.5, dcgm("a", 1, 8)...), gauge(0.5, dcgm("a", 2, 9)...)},
			pcie:  {gauge(30, dcgm("a", 0, 7)...), gauge(10, dcgm("a", 1, 8)...), gauge(99, dcgm("a", 2, 9)...)},
			netTx: {counter(400, nic("a", "mlx5_0")...)},
			speed: {gauge(1000, nic("a", "mlx5_0")...)},
		},
		jobs: []slurm.Job{runningJob(7, 1, "a", "b"), runningJob(8, 1, "a", "b"), runningJob(9, 1, "a")},
		want: []brief{
			{Node: "a", Job: 7, GPUs: 1, Compute: 0.5, Source: "gpm", PCIe: 30, Net: 300, NetSpeed: 1000, NetShared: true},
			{Node: "a", Job: 8, GPUs: 1, Compute: 0.5, Source: "gpm", PCIe: 10, Net: 100, NetSpeed: 1000, NetShared: true},
			{Node: "a", Job: 9, GPUs: 1, Compute: 0.5, Source: "gpm", PCIe: 99, NetSpeed: 1000},
		},
	},
	"power above idle, and utilization where no limit is known": {
		series: map[string][]fakeSeries{
			watts:                          {gauge(230, dcgm("a", 0, 7)...), gauge(300, dcgm("b", 0, 8)...)},
			"DCGM_FI_DEV_POWER_MGMT_LIMIT": {gauge(400, dcgm("a", 0, 7)...)},
			util:                           {gauge(100, dcgm("a", 0, 7)...), gauge(80, dcgm("b", 0, 8)...)},
		},
		jobs: []slurm.Job{runningJob(7, 1, "a"), runningJob(8, 1, "b")},
		want: []brief{
			{Node: "a", Job: 7, GPUs: 1, Compute: 0.5, Source: "power"},
			{Node: "b", Job: 8, GPUs: 1, Compute: 0.8, Source: "utilization"},
		},
	},
	"no job's label: the node's one job, on as many GPUs as Slurm gave it": {
		series: map[string][]fakeSeries{
			util: {gauge(0, dcgm("a", 0, 0)...), gauge(90, dcgm("a", 1, 0)...), gauge(70, dcgm("a", 2, 0)...), gauge(1, dcgm("a", 3, 0)...)},
		},
		jobs: []slurm.Job{runningJob(7, 2, "a")},
		want: []brief{{Node: "a", Job: 7, GPUs: 2, Compute: 0.8, Source: "utilization"}},
	},
	"no job's label and two jobs: neither": {
		series: map[string][]fakeSeries{sm: {gauge(0.5, dcgm("a", 0, 0)...), gauge(0.5, dcgm("a", 1, 0)...)}},
		jobs:   []slurm.Job{runningJob(7, 1, "a"), runningJob(8, 1, "a")},
		left:   Left{"node with several jobs and no job's label": 1},
	},
	"a job that Slurm has elsewhere, and an odd label": {
		series: map[string][]fakeSeries{sm: {gauge(0.5, dcgm("a", 0, 9)...), gauge(0.5, append(dcgm("b", 0, 0), "hpc_job", "train")...)}},
		jobs:   []slurm.Job{runningJob(7, 1, "a"), runningJob(8, 1, "b")},
		// An odd label is none: the node's one job is told by Slurm's record.
		want: []brief{{Node: "b", Job: 8, GPUs: 1, Compute: 0.5, Source: "gpm"}},
		left: Left{"GPU of a job that Slurm does not have there": 1, "a job's label that is no job id": 1},
	},
	"a GPU that two jobs share": {
		series: map[string][]fakeSeries{sm: {gauge(0.5, dcgm("a", 0, 7)...), gauge(0.5, dcgm("a", 0, 8)...)}},
		jobs:   []slurm.Job{runningJob(7, 1, "a"), runningJob(8, 1, "a")},
		left:   Left{"GPU of several jobs": 1, "second series of a GPU: " + sm: 1},
	},
	"a job that has just started has its own series": {
		series: map[string][]fakeSeries{sm: {
			{pairs(dcgm("a", 0, 0)), []point{{-10, "0"}, {5, "0"}}}, {pairs(dcgm("a", 0, 7)), []point{{20, "0.9"}}},
		}},
		jobs: []slurm.Job{runningJob(7, 1, "a")},
		want: []brief{{Node: "a", Job: 7, GPUs: 1, Compute: 0.9, Source: "gpm"}},
	},
	"a task of an array": {
		series: map[string][]fakeSeries{sm: {gauge(0.5, append(dcgm("a", 0, 0), "hpc_job", "21_3")...)}},
		jobs: []slurm.Job{func() slurm.Job {
			j := runningJob(24, 1, "a")
			j.ArrayJobID, j.ArrayTaskID = 21, 3
			return j
		}(), runningJob(25, 1, "a")},
		want: []brief{{Node: "a", Job: 24, GPUs: 1, Compute: 0.5, Source: "gpm"}},
	},
	"stale, not a number, reset, huge, negative": {
		series: map[string][]fakeSeries{
			sm: {
				{pairs(dcgm("a", 0, 7)), []point{{-20, "0.5"}, {-5, "0.5"}}}, // stale
				{pairs(dcgm("b", 0, 8)), []point{{5, "NaN"}, {20, "0.5"}}},
				gauge(1.5, dcgm("c", 0, 9)...),
				gauge(-0.5, dcgm("d", 0, 10)...),
			},
			nvl: {{pairs(dcgm("b", 0, 8)), []point{{5, "9223372036854775794"}, {20, "9223372036854775794"}}}},
			netTx: {
				{pairs(nic("b", "mlx5_0")), []point{{-10, "900"}, {5, "1000"}, {20, "10"}}},
			},
		},
		jobs: []slurm.Job{runningJob(7, 1, "a"), runningJob(8, 1, "b", "z"), runningJob(9, 1, "c"), runningJob(10, 1, "d")},
		left: Left{
			"no new value: " + sm: 1, "not a number: " + sm: 1, "out of range: " + sm: 2, "out of range: " + nvl: 1,
			"counter went back: " + netTx: 1, "job with a gap in its values": 4,
		},
	},
	"a port that was reset: nothing is known of the network": {
		series: map[string][]fakeSeries{
			sm:    {gauge(0.5, dcgm("a", 0, 7)...)},
			netTx: {counter(100, nic("a", "mlx5_0")...), {pairs(nic("a", "mlx5_1")), []point{{-10, "900"}, {5, "1000"}, {20, "10"}}}},
			speed: {gauge(1000, nic("a", "mlx5_0")...), gauge(1000, nic("a", "mlx5_1")...)},
		},
		jobs: []slurm.Job{runningJob(7, 1, "a", "b")},
		want: []brief{{Node: "a", Job: 7, GPUs: 1, Compute: 0.5, Source: "gpm"}},
		left: Left{"counter went back: " + netTx: 1},
	},
	"two Prometheus jobs scrape the same exporters": {
		series: map[string][]fakeSeries{
			sm:    {gauge(0.5, append(dcgm("a", 0, 7), "job", "one")...), gauge(0.6, append(dcgm("a", 0, 7), "job", "two")...)},
			netTx: {counter(100, append(nic("a", "mlx5_0"), "job", "one")...), counter(100, append(nic("a", "mlx5_0"), "job", "two")...)},
		},
		jobs: []slurm.Job{runningJob(7, 1, "a", "b")},
		want: []brief{{Node: "a", Job: 7, GPUs: 1, Compute: 0.5, Source: "gpm", Net: 100}},
		left: Left{"second series of a GPU: " + sm: 1, "second series of a port: " + netTx: 1},
	},
	"a site's own names": {
		series: map[string][]fakeSeries{
			"site_gpu_busy_percent": {gauge(40, "host", "a", "card", "0", "slurm_job", "7")},
			"site_nvlink_kib_total": {counter(10, "host", "a", "card", "0", "slurm_job", "7")},
		},
		options: func(o *Options) {
			o.Labels = Labels{Node: []string{"host"}, GPU: []string{"card"}, Job: []string{"slurm_job"}}
			o.Metrics = []Metric{
				{Name: "site_gpu_busy_percent", Means: SM, Kind: Gauge, Scale: 0.01, Matcher: `cluster="x"`},
				{Name: "site_nvlink_kib_total", Means: NVLinkTx, Kind: Counter, Scale: 1024},
			}
		},
		jobs: []slurm.Job{runningJob(7, 1, "a")},
		want: []brief{{Node: "a", Job: 7, GPUs: 1, Compute: 0.4, Source: "gpm", NVLink: 10240}},
	},
	"node names that are none of Slurm's": {
		series: map[string][]fakeSeries{sm: {gauge(0.5, dcgm("pod-1", 0, 7)...)}},
		jobs:   []slurm.Job{runningJob(7, 1, "a")},
		left:   Left{"no series is of a node that runs a job": 1},
	},
	"nothing runs": {series: map[string][]fakeSeries{sm: {gauge(0.5, dcgm("a", 0, 0)...)}}},
}

func TestScenes(t *testing.T) {
	for name, tc := range scenes {
		t.Run(name, func(t *testing.T) {
			f := &fakePrometheus{series: tc.series}
			s := serve(t, f, tc.options)
			samples, rep, err := s.Read(t.Context(), end, tc.jobs)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, briefs(samples)); diff != "" {
				t.Errorf("samples (-want +got):\n%s", diff)
			}
			if tc.left == nil {
				tc.left = Left{}
			}
			if diff := cmp.Diff(tc.left, rep.Left); diff != "" {
				t.Errorf("left out (-want +got):\n%s", diff)
			}
			if f.queries != len(s.opts.Metrics) {
				t.Errorf("%d queries for %d metrics", f.queries, len(s.opts.Metrics))
			}
		})
	}
}

// A slot gives the same samples whoever reads it and however often, and the
// numbers of later slots are higher.
func TestSamplesAreIdempotent(t *testing.T) {
	tc := scenes["DCGM exporter with its job's label"]
	f := &fakePrometheus{series: tc.series}
	first, _, err := serve(t, f, nil).Read(t.Context(), end, tc.jobs)
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := serve(t, f, nil).Read(t.Context(), end, tc.jobs)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, again); diff != "" {
		t.Errorf("read twice (-first +second):\n%s", diff)
	}
	for i, s := range first {
		if s.Origin != collector.OriginPrometheus || s.Weight != 0.5 || s.Boot != boot || !s.At.Equal(end) || s.Interval != 30*time.Second {
			t.Errorf("sample %+v", s)
		}
		if i > 0 && s.Seq <= first[i-1].Seq {
			t.Errorf("numbers %d, %d", first[i-1].Seq, s.Seq)
		}
	}
	s := serve(t, f, nil)
	later, _, err := s.Read(t.Context(), end.Add(time.Second), tc.jobs)
	if err != nil || len(later) == 0 || later[0].Seq <= first[len(first)-1].Seq {
		t.Errorf("a second later: %v, error %v", later, err)
	}
	for now, want := range map[time.Time]time.Time{end: end, end.Add(29 * time.Second): end, end.Add(-time.Nanosecond): begin} {
		if got := s.Slot(now); !got.Equal(want) {
			t.Errorf("slot at %v ends %v, want %v", now, got, want)
		}
	}
}

func TestMissingMetricsAreNamed(t *testing.T) {
	f := &fakePrometheus{series: map[string][]fakeSeries{sm: {gauge(0.5, dcgm("a", 0, 7)...)}}}
	_, rep, err := serve(t, f, nil).Read(t.Context(), end, []slurm.Job{runningJob(7, 1, "a")})
	if err != nil {
		t.Fatal(err)
	}
	if len(rep.Missing) != len(DefaultMetrics())-1 || rep.Missing[0] != watts {
		t.Errorf("missing %v", rep.Missing)
	}
}

// Whatever is wrong with Prometheus ends one reading, within its time, with an
// error that says what.
func TestBrokenPrometheus(t *testing.T) {
	release := make(chan struct{})
	defer close(release)
	for name, tc := range map[string]struct {
		broken http.HandlerFunc
		want   string
		hint   string
	}{
		"hangs": {func(_ http.ResponseWriter, r *http.Request) {
			select {
			case <-r.Context().Done():
			case <-release:
			}
		}, context.DeadlineExceeded.Error(), "prometheus.timeout"},
		"wrong token": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "no", http.StatusUnauthorized) }, "401", "token"},
		"not Prometheus": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
			"DCGM_FI_PROF_SM_ACTIVE", "prometheus.url"},
		"odd selector": {func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusBadRequest)
			_, _ = w.Write([]byte(`{"status":"error","errorType":"bad_data","error":"parse error"}`))
		}, "parse error", "prometheus.metrics"},
		"another type": {func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"status":"success","data":{"resultType":"scalar","result":[1,"1"]}}`))
		}, "scalar", ""},
		"too much": {func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(make([]byte, 1<<20)) }, "larger", "matchers"},
	} {
		t.Run(name, func(t *testing.T) {
			s := serve(t, &fakePrometheus{broken: tc.broken}, func(o *Options) { o.Timeout, o.MaxBytes = 200*time.Millisecond, 1<<16 })
			samples, _, err := s.Read(t.Context(), end, []slurm.Job{runningJob(7, 1, "a")})
			if err == nil || !strings.Contains(err.Error(), tc.want) || len(samples) > 0 {
				t.Errorf("%d samples, error %v, want one with %q", len(samples), err, tc.want)
			}
			if got := slurm.HintOf(err); !strings.Contains(got, tc.hint) {
				t.Errorf("hint %q, want %q in it", got, tc.hint)
			}
		})
	}
}

func TestTokenIsReadAgain(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	got := ""
	f := &fakePrometheus{broken: func(w http.ResponseWriter, r *http.Request) {
		got = r.Header.Get("Authorization")
		http.Error(w, "no", http.StatusUnauthorized)
	}}
	s := serve(t, f, func(o *Options) { o.TokenFile = file })
	for _, token := range []string{"one", "two"} {
		if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, _ = s.Read(t.Context(), end, nil)
		if got != "Bearer "+token {
			t.Errorf("sent %q", got)
		}
	}
}

func TestValidate(t *testing.T) {
	valid := DefaultOptions()
	valid.URL = "http://prometheus:9090"
	if err := valid.Validate(); err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Options){
		"url":               func(o *Options) { o.URL = "prometheus:9090" },
		"interval":          func(o *Options) { o.Interval = time.Millisecond },
		"timeout":           func(o *Options) { o.Timeout = o.Interval + 1 },
		"weight":            func(o *Options) { o.Weight = math.NaN() },
		"power":             func(o *Options) { o.PowerIdle, o.PowerLimit = 100, 50 },
		"labels":            func(o *Options) { o.Labels.Node = nil },
		"no name":           func(o *Options) { o.Metrics[0].Name = `x{a="b"}` },
		"unknown meaning":   func(o *Options) { o.Metrics[0].Means = "speed" },
		"neither gauge nor": func(o *Options) { o.Metrics[0].Kind = "rate" },
		"scale":             func(o *Options) { o.Metrics[0].Scale = 0 },
		"no metrics":        func(o *Options) { o.Metrics = nil },
		"how much a GPU":    func(o *Options) { o.Metrics = o.Metrics[4:] },
	} {
		t.Run(name, func(t *testing.T) {
			o := valid
			o.Metrics = DefaultMetrics()
			change(&o)
			if err := o.Validate(); err == nil || !strings.Contains(err.Error(), name) {
				t.Errorf("error %v, want one with %q", err, name)
			}
		})
	}
}
