// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strconv"
	"sync"
	"testing"
	"time"

	"rifling/slurm"
)

// fakePrometheus answers range selectors at an instant, as Prometheus' API
// does, from the series that a test gives it.
type fakePrometheus struct {
	mu      sync.Mutex
	series  map[string][]fakeSeries // by metric
	queries int
	broken  http.HandlerFunc // answers instead
}

type fakeSeries struct {
	labels map[string]string
	points []point
}

// point is a value so many seconds after the slot's begin.
type point struct {
	at float64
	v  string
}

var selector = regexp.MustCompile(`^(\w+)(?:\{.*\})?\[(\w+)\]$`)

func (f *fakePrometheus) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.queries++
	_ = r.ParseForm() // a body that was read lets the server see that its client is gone
	if f.broken != nil {
		f.broken(w, r)
		return
	}
	if r.URL.Path != "/api/v1/query" {
		http.NotFound(w, r)
		return
	}
	m := selector.FindStringSubmatch(r.FormValue("query"))
	if m == nil {
		http.Error(w, `{"status":"error","errorType":"bad_data","error":"no range selector"}`, http.StatusBadRequest)
		return
	}
	window, err1 := time.ParseDuration(m[2])
	at, err2 := strconv.ParseFloat(r.FormValue("time"), 64)
	if err1 != nil || err2 != nil {
		http.Error(w, "odd query", http.StatusBadRequest)
		return
	}
	result := []any{}
	for _, s := range f.series[m[1]] {
		labels := maps.Clone(s.labels)
		labels["__name__"] = m[1]
		var values [][2]any
		for _, p := range s.points {
			t := float64(begin.Unix()) + p.at
			if t <= at && t > at-window.Seconds() {
				values = append(values, [2]any{t, p.v})
			}
		}
		if len(values) > 0 {
			result = append(result, map[string]any{"metric": labels, "values": values})
		}
	}
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(map[string]any{
		"status": "success", "data": map[string]any{"resultType": "matrix", "result": result},
	})
}

// The slot of the tests: 30 s that end at end.
var (
	begin = time.Unix(1_700_000_010, 0)
	end   = begin.Add(30 * time.Second)
)

// gauge is a metric that shows the same value every 15 s, at and before the slot.
func gauge(v float64, labels ...string) fakeSeries {
	text := strconv.FormatFloat(v, 'g', -1, 64)
	return fakeSeries{labels: pairs(labels), points: []point{{-10, text}, {5, text}, {20, text}}}
}

// counter is a metric that grows so much a second.
func counter(perSecond float64, labels ...string) fakeSeries {
	s := fakeSeries{labels: pairs(labels)}
	for _, at := range []float64{-10, 5, 20} {
		s.points = append(s.points, point{at, strconv.FormatFloat(1e6+perSecond*(at+10), 'f', 3, 64)})
	}
	return s
}

func pairs(labels []string) map[string]string {
	out := map[string]string{}
	for i := 0; i+1 < len(labels); i += 2 {
		out[labels[i]] = labels[i+1]
	}
	return out
}

// dcgm is the labels of a GPU as DCGM exporter has them; no job when 0.
func dcgm(node string, gpu, job int) []string {
	out := []string{"Hostname", node, "instance", node + ":9400", "gpu", strconv.Itoa(gpu), "UUID", fmt.Sprintf("GPU-%s-%d", node, gpu)}
	if job > 0 {
		out = append(out, "hpc_job", strconv.Itoa(job))
	}
	return out
}

func nic(node, device string) []string {
	return []string{"instance", node + ".cluster.example:9100", "device", device, "port", "1"}
}

// runningJob is a job of Slurm's record with so many GPUs on each of its nodes.
func runningJob(id slurm.JobID, gpus int, nodes ...string) slurm.Job {
	j := slurm.Job{ID: id, ArrayTaskID: -1, State: slurm.State{Base: "RUNNING"}, Nodes: nodes, NodeGPUs: map[string]int{}}
	for _, n := range nodes {
		j.NodeGPUs[n] = gpus
	}
	j.Request.PerNode = gpus
	return j
}

func serve(t *testing.T, f *fakePrometheus, change func(*Options)) *Source {
	t.Helper()
	server := httptest.NewServer(f)
	t.Cleanup(server.Close)
	o := DefaultOptions()
	o.URL = server.URL
	if change != nil {
		change(&o)
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	return s
}
