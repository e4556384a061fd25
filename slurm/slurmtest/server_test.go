// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"encoding/json"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
)

func serve(t *testing.T, r slurm.Release) *Server {
	t.Helper()
	return NewServer(t, Snapshot().Release(r).Nodes("gpu[01-04]", 8).Jobs(
		Job(1).GPUs(4).Running("gpu01"),
		Job(2).GPUs(8),
		Job(3).GPUs(1).Array("1-6%2"),
	).Obj())
}

// do sends a request and decodes the answer; body is nil unless it was JSON.
func do(t *testing.T, srv *Server, method, path, send string) (status int, body map[string]any) {
	t.Helper()
	req, err := http.NewRequest(method, srv.URL+path, strings.NewReader(send))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	json.Unmarshal(raw, &body)
	return resp.StatusCode, body
}

func size(body map[string]any, key string) int {
	list, _ := body[key].([]any)
	return len(list)
}

// number returns errors[0].error_number.
func number(body map[string]any) int {
	list, _ := body["errors"].([]any)
	if len(list) == 0 {
		return 0
	}
	n, _ := list[0].(map[string]any)["error_number"].(float64)
	return int(n)
}

func TestServerSpeaksEachVersionsShapes(t *testing.T) {
	old := serve(t, slurm.Release{Major: 22, Minor: 5, Micro: 8, REST: 38})
	_, body := do(t, old, "GET", "/slurm/v0.0.38/job/2", "")
	j := body["jobs"].([]any)[0].(map[string]any)
	if j["job_state"] != "PENDING" || j["nice"] != nil || j["tres_per_job"] != "gres:gpu:8" || j["priority"] != 1000.0 {
		t.Errorf("v0.0.38: %v", j)
	}
	recent := serve(t, slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42})
	_, body = do(t, recent, "GET", "/slurm/v0.0.42/job/2", "")
	j = body["jobs"].([]any)[0].(map[string]any)
	if _, list := j["job_state"].([]any); !list || j["nice"] != 0.0 || j["tres_per_job"] != "gres/gpu:8" || j["priority"].(map[string]any)["number"] != 1000.0 {
		t.Errorf("v0.0.42: %v", j)
	}
	for _, v := range []string{"38", "45"} {
		if status, body := do(t, recent, "GET", "/slurm/v0.0."+v+"/ping", ""); status != http.StatusNotFound || body != nil {
			t.Errorf("v0.0.%s on 24.11: HTTP %d %v", v, status, body)
		}
	}
}

func TestServerSaysNoChange(t *testing.T) {
	srv := serve(t, slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42})
	srv.Advance(10 * time.Second)
	later := "?update_time=" + json.Number("1796100010").String()
	status, body := do(t, srv, "GET", "/slurm/v0.0.42/jobs/"+later, "")
	if status != 200 || size(body, "jobs") != 0 || size(body, "warnings") != 1 {
		t.Errorf("HTTP %d, %v", status, body)
	}
	srv.Change(func(s *slurm.Snapshot) { s.Job(2).Priority = 5 })
	if _, body := do(t, srv, "GET", "/slurm/v0.0.42/jobs/"+later, ""); size(body, "jobs") != 3 {
		t.Errorf("after a change: %v", body)
	}
	old := serve(t, slurm.Release{Major: 22, Minor: 5, Micro: 8, REST: 38})
	old.Advance(10 * time.Second)
	if status, _ := do(t, old, "GET", "/slurm/v0.0.38/jobs"+later, ""); status != http.StatusNotModified {
		t.Errorf("v0.0.38: HTTP %d, want 304", status)
	}
}

func TestServerCarriesUpdatesOut(t *testing.T) {
	for _, tt := range []struct {
		name, path, send string
		release          slurm.Release
		status, number   int
		excludes         []string // of job 2, afterwards
	}{
		{"exclude, 40+", "v0.0.42/job/2", `{"excluded_nodes":"gpu[01-02]"}`, slurm.Release{Major: 24, Minor: 11}, 200, 0, []string{"gpu01", "gpu02"}},
		{"an empty list changes nothing", "v0.0.42/job/2", `{"excluded_nodes":[]}`, slurm.Release{Major: 24, Minor: 11}, 200, 0, []string{"gpu04"}},
		{"an empty string clears", "v0.0.42/job/2", `{"excluded_nodes":""}`, slurm.Release{Major: 24, Minor: 11}, 200, 0, nil},
		{"exclude, 38", "v0.0.38/job/2", `{"exclude_nodes":"gpu01"}`, slurm.Release{Major: 22, Minor: 5}, 200, 0, []string{"gpu01"}},
		{"the newer key on 38", "v0.0.38/job/2", `{"excluded_nodes":"gpu01"}`, slurm.Release{Major: 22, Minor: 5}, 200, 9001, []string{"gpu04"}},
		{"a running job", "v0.0.42/job/1", `{"excluded_nodes":"gpu01"}`, slurm.Release{Major: 24, Minor: 11}, 500, 2073, []string{"gpu04"}},
		{"all or nothing", "v0.0.42/job/2", `{"excluded_nodes":"gpu01","site_factor":{"set":true}}`, slurm.Release{Major: 24, Minor: 11}, 422, 9000, []string{"gpu04"}},
		{"an unknown node", "v0.0.42/job/2", `{"excluded_nodes":"gpu99"}`, slurm.Release{Major: 24, Minor: 11}, 500, 2018, []string{"gpu04"}},
		{"an unknown job", "v0.0.42/job/99", `{"excluded_nodes":"gpu01"}`, slurm.Release{Major: 24, Minor: 11}, 404, 2017, []string{"gpu04"}},
		{"an array's task", "v0.0.42/job/3_1", `{"excluded_nodes":"gpu01"}`, slurm.Release{Major: 24, Minor: 11}, 422, 9000, []string{"gpu04"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := serve(t, tt.release)
			srv.Change(func(s *slurm.Snapshot) { s.Job(2).ExcludedNodes = []string{"gpu04"} })
			status, body := do(t, srv, "POST", "/slurm/"+tt.path, tt.send)
			if status != tt.status || number(body) != tt.number {
				t.Errorf("HTTP %d, number %d: %v", status, number(body), body)
			}
			if got := srv.Job(2).ExcludedNodes; !slices.Equal(got, tt.excludes) {
				t.Errorf("excludes %v, want %v", got, tt.excludes)
			}
			if p := srv.Posts(); len(p) != 1 || p[0].Status != tt.status {
				t.Errorf("posts %+v", p)
			}
		})
	}
}

func TestFaultsStrikeInTurn(t *testing.T) {
	srv := serve(t, slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42})
	srv.Fail(Fault{Path: "/jobs", Status: 502, Number: 1804}, Fault{Path: "/jobs", Status: 511, Number: 1007})
	for i, want := range []int{502, 511, 200} {
		if status, _ := do(t, srv, "GET", "/slurm/v0.0.42/jobs", ""); status != want {
			t.Errorf("request %d: HTTP %d, want %d", i, status, want)
		}
	}
	if status, _ := do(t, srv, "GET", "/slurm/v0.0.42/nodes", ""); status != 200 {
		t.Errorf("another path: HTTP %d", status)
	}
}

func TestBuildersAgree(t *testing.T) {
	s := Snapshot().Nodes("gpu[01-04]", 8).Jobs(Job(9).GPUs(6).Running("gpu01", "gpu02"), Job(3).GPUs(1)).Obj()
	if s.Jobs[0].ID != 3 || s.Node("gpu01").GPUsUsed != 3 || s.Node("gpu01").State.Base != "MIXED" || s.Node("gpu03").Leaf != "leaf2" {
		t.Errorf("%+v", s)
	}
	if got := s.JobNodes(s.Job(3)); len(got) != 4 {
		t.Errorf("partition gpu has %v", got)
	}
	j := Job(5).Array("1-6%2").Obj()
	if !j.IsArray() || j.ArrayMaxTasks != 2 || j.ArrayTaskID != -1 {
		t.Errorf("%+v", j)
	}
}
