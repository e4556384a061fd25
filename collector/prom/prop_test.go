// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"fmt"
	"math"
	"testing"

	"github.com/prometheus/common/model"
	"pgregory.net/rapid"

	"rifling/slurm"
)

// Whatever Prometheus holds, what comes of it is sound, numbered once, of jobs
// that Slurm has there, and moves no more than the node's ports did.
func TestAnySeries(t *testing.T) {
	values := []float64{0, 0.5, 1, 1.005, 50, -1, 1e9, 1e300, math.NaN(), math.Inf(1), 9223372036854775794}
	nodes := []string{"a", "b", "c", "a.example", "b:9400", ""}
	rapid.Check(t, func(t *rapid.T) {
		jobs := []slurm.Job{runningJob(7, 2, "a", "b"), runningJob(8, 1, "a"), runningJob(9, 1, "b", "c")}
		o := DefaultOptions()
		o.URL = "http://x"
		s, err := New(o)
		if err != nil {
			t.Fatal(err)
		}
		left := Left{}
		table := newTable(o, jobs, left)
		for _, m := range o.Metrics {
			var matrix model.Matrix
			for range rapid.IntRange(0, 6).Draw(t, "series") {
				st := &model.SampleStream{Metric: model.Metric{
					"Hostname": model.LabelValue(rapid.SampledFrom(nodes).Draw(t, "node")),
					"UUID":     model.LabelValue(rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "gpu")),
					"device":   model.LabelValue(rapid.SampledFrom([]string{"", "0", "1"}).Draw(t, "port")),
					"hpc_job":  model.LabelValue(rapid.SampledFrom([]string{"", "0", "7", "8", "9", "99", "x", "7_1"}).Draw(t, "job")),
				}}
				for range rapid.IntRange(0, 4).Draw(t, "points") {
					at := begin.UnixMilli() + rapid.Int64Range(-31_000, 31_000).Draw(t, "at")
					v := rapid.OneOf(rapid.SampledFrom(values), rapid.Float64Range(0, 1)).Draw(t, "value")
					st.Values = append(st.Values, model.SamplePair{Timestamp: model.Time(at), Value: model.SampleValue(v)})
				}
				matrix = append(matrix, st)
			}
			for _, v := range read(m, matrix, begin, end, left) {
				table.put(m, v)
			}
		}
		seen, net := map[string]bool{}, map[string]float64{}
		samples := s.number(table.samples(), end, left)
		for i := range samples {
			x := &samples[i]
			if err := x.Validate(); err != nil {
				t.Fatalf("%+v: %v", x, err)
			}
			if key := fmt.Sprint(x.Node, " ", x.Seq); seen[key] {
				t.Fatalf("number twice: %s", key)
			} else {
				seen[key] = true
			}
			if n := table.nodes[x.Node]; n == nil || table.jobs[x.JobID] == nil {
				t.Fatalf("sample of a job that is not there: %+v", x)
			}
			net[x.Node] += x.NetRate
		}
		for name, rate := range net {
			var tx, rx float64
			for _, p := range table.nodes[name].ports {
				tx, rx = tx+p.m[NetTx], rx+p.m[NetRx]
			}
			if rate > max(tx, rx)*(1+1e-9) {
				t.Fatalf("jobs on %s moved %v, its ports %v", name, rate, max(tx, rx))
			}
		}
		if left["odd sample"] > 0 {
			t.Fatal("an odd sample was made")
		}
	})
}
