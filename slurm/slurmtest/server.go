// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"rifling/slurm"
)

// Server is a slurmrestd with a slurmctld behind it. It speaks the versions
// that the snapshot's release ships, each in its own shapes; changes take
// effect and are listed; its clock stands still until Advance moves it.
type Server struct {
	URL string // http://host:port

	mu       sync.Mutex
	state    slurm.Snapshot
	site     map[slurm.JobID]int64
	changed  map[string]time.Time // last_job_update and its like, by list
	token    string
	faults   []*Fault
	posts    []Post
	requests []string
	down     bool
}

// Post is one change that was sent.
type Post struct {
	JobID slurm.JobID
	Body  map[string]any
	// Status is what was answered.
	Status int
}

// NewServer starts a server over a copy of s and stops it with the test.
func NewServer(t testing.TB, s *slurm.Snapshot) *Server {
	t.Helper()
	srv := &Server{state: *s, site: map[slurm.JobID]int64{}, changed: map[string]time.Time{}}
	srv.state.Jobs = slices.Clone(s.Jobs)
	srv.state.Nodes = slices.Clone(s.Nodes)
	srv.state.Partitions = slices.Clone(s.Partitions)
	for _, list := range []string{"jobs", "nodes", "partitions"} {
		srv.changed[list] = s.TakenAt
	}
	h := httptest.NewServer(srv)
	srv.URL = h.URL
	t.Cleanup(h.Close)
	return srv
}

// Versions returns the REST versions that a release ships, as the real ones do.
func Versions(r slurm.Release) []int {
	switch {
	case r.Before(23, 2):
		return []int{36, 37, 38}
	case r.Before(23, 11):
		return []int{37, 38, 39}
	case r.Before(24, 5):
		return []int{38, 39, 40}
	case r.Before(24, 11):
		return []int{39, 40, 41}
	case r.Before(25, 5):
		return []int{40, 41, 42}
	case r.Before(25, 11):
		return []int{40, 41, 42, 43}
	case r.Before(26, 5):
		return []int{41, 42, 43, 44}
	case r.Before(26, 11):
		return []int{42, 43, 44, 45}
	}
	return []int{44, 45, 46}
}

// Token makes the server want this token; others are refused in the release's
// own way. Empty accepts everybody, as a unix socket does.
func (s *Server) Token(token string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.token = token
}

// SetRelease changes Slurm's release, as an upgrade does.
func (s *Server) SetRelease(r slurm.Release) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.Release = r
}

// Stop makes slurmctld unreachable for slurmrestd until Start.
func (s *Server) Stop() { s.setDown(true) }

// Start brings slurmctld back.
func (s *Server) Start() { s.setDown(false) }

func (s *Server) setDown(down bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.down = down
}

// Advance moves slurmctld's clock.
func (s *Server) Advance(d time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.state.TakenAt = s.state.TakenAt.Add(d)
}

// Change lets f alter the cluster. All lists count as changed at the present
// second.
func (s *Server) Change(f func(*slurm.Snapshot)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f(&s.state)
	slices.SortFunc(s.state.Jobs, func(a, b slurm.Job) int { return int(int64(a.ID) - int64(b.ID)) })
	for list := range s.changed {
		s.changed[list] = s.state.TakenAt
	}
}

// Run starts a pending job on the given nodes.
func (s *Server) Run(id slurm.JobID, nodes ...string) {
	s.Change(func(c *slurm.Snapshot) {
		if j := c.Job(id); j != nil {
			*j = (&JobBuilder{*j}).Running(nodes...).Started(c.TakenAt).Obj()
		}
		occupy(c)
	})
}

// Remove forgets a job, as slurmctld does MinJobAge after its end.
func (s *Server) Remove(id slurm.JobID) {
	s.Change(func(c *slurm.Snapshot) {
		c.Jobs = slices.DeleteFunc(c.Jobs, func(j slurm.Job) bool { return j.ID == id })
	})
}

// Job returns the server's own record of a job; the zero value when it has none.
func (s *Server) Job(id slurm.JobID) slurm.Job {
	s.mu.Lock()
	defer s.mu.Unlock()
	if j := s.state.Job(id); j != nil {
		return *j
	}
	return slurm.Job{}
}

// SiteFactor returns the offset that was set on a job; no real answer tells it.
func (s *Server) SiteFactor(id slurm.JobID) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.site[id]
}

// Posts returns the changes that were sent, refused ones too, in order.
func (s *Server) Posts() []Post {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.posts)
}

// Requests returns method and path of all requests, in order.
func (s *Server) Requests() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return slices.Clone(s.requests)
}

// ServeHTTP answers one request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	s.mu.Lock()
	s.requests = append(s.requests, r.Method+" "+r.URL.RequestURI())
	fault := s.fault(r)
	s.mu.Unlock()
	if fault != nil && fault.strike(w, r) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	a := s.answer(r, body)
	if fault != nil && fault.Half {
		fault.cutShort(w, a)
		return
	}
	a.write(w)
}

// reply is one answer before it is written.
type reply struct {
	status int
	text   string         // text/plain when not empty
	body   map[string]any // JSON
}

func (a reply) write(w http.ResponseWriter) {
	switch {
	case a.status == http.StatusNotModified:
		w.WriteHeader(a.status)
	case a.text != "":
		w.Header().Set("Content-Type", "text/plain")
		w.WriteHeader(a.status)
		io.WriteString(w, a.text)
	default:
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(a.status)
		json.NewEncoder(w).Encode(a.body)
	}
}

// answer routes a request. The caller holds the lock.
func (s *Server) answer(r *http.Request, body []byte) reply {
	if s.token != "" && (r.Header.Get("X-SLURM-USER-TOKEN") == "" || r.Header.Get("X-SLURM-USER-NAME") == "") {
		return reply{status: http.StatusUnauthorized, text: "Authentication failure"}
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	version := 0
	if len(parts) >= 3 {
		version, _ = strconv.Atoi(strings.TrimPrefix(parts[1], "v0.0."))
	}
	if !slices.Contains(Versions(s.state.Release), version) {
		return reply{status: http.StatusNotFound, text: "Unable find requested URL. Please view /openapi/v3 for API reference."}
	}
	v := &view{s: s, version: version}
	if refused, ok := v.refused(r, parts[2]); ok {
		return refused
	}
	switch what := parts[0] + " " + parts[2]; {
	case what == "slurm ping":
		return v.ok(map[string]any{"pings": []any{map[string]any{"hostname": "ctl", "mode": "primary", "ping": "UP"}}})
	case what == "slurm diag":
		return v.ok(map[string]any{"statistics": map[string]any{"req_time": v.instant(s.state.TakenAt), "server_thread_count": 1}})
	case what == "slurm jobs", what == "slurm nodes", what == "slurm partitions":
		return v.list(parts[2], r.URL.Query().Get("update_time"))
	case what == "slurm job" && len(parts) == 4 && r.Method == http.MethodGet:
		return v.job(parts[3])
	case what == "slurm job" && len(parts) == 4 && r.Method == http.MethodPost:
		return v.update(parts[3], body)
	case what == "slurmdb clusters":
		return v.ok(map[string]any{"clusters": []any{map[string]any{"name": s.state.Cluster}}})
	case what == "slurmdb user" && len(parts) == 4:
		return v.user(parts[3])
	}
	return reply{status: http.StatusNotFound, text: "Unable find requested URL. Please view /openapi/v3 for API reference."}
}

// refused answers for a wrong token and for a slurmctld that is away. ping asks
// slurmctld without a credential since 24.11.
func (v *view) refused(r *http.Request, what string) (reply, bool) {
	wrong := v.s.token != "" && r.Header.Get("X-SLURM-USER-TOKEN") != v.s.token
	old := v.s.state.Release.Before(24, 11)
	switch {
	case wrong && what == "ping" && !old:
	case wrong && old:
		return v.fail(http.StatusInternalServerError, -1, "Unspecified error", what), true
	case wrong:
		return v.fail(http.StatusNetworkAuthenticationRequired, 1007, "Protocol authentication error", what), true
	case v.s.down && old:
		return v.fail(http.StatusInternalServerError, -1, "Unspecified error", what), true
	case v.s.down:
		return v.fail(http.StatusBadGateway, 1800, "Unable to contact slurm controller (connect failure)", what), true
	}
	return reply{}, false
}

// list answers for a whole list, or says that it did not change. The instant is
// a plain number for v0.0.38, must be marked with "uts" for 40 and 41, and may
// be either later.
func (v *view) list(name, since string) reply {
	digits, marked := strings.CutPrefix(since, "uts")
	if marked && v.old() || !marked && since != "" && (v.version == 40 || v.version == 41) {
		return v.fail(http.StatusUnprocessableEntity, 9202, "Parsing of "+since+" for timestamp failed", name)
	}
	if t, err := strconv.ParseInt(digits, 10, 64); err == nil && t > 0 && t-1 >= v.s.changed[name].Unix() {
		return v.unchanged(name, t)
	}
	var items []any
	switch name {
	case "jobs":
		for i := range v.s.state.Jobs {
			items = append(items, v.jobRecord(&v.s.state.Jobs[i]))
		}
	case "nodes":
		for i := range v.s.state.Nodes {
			items = append(items, v.nodeRecord(&v.s.state.Nodes[i]))
		}
	case "partitions":
		for i := range v.s.state.Partitions {
			items = append(items, v.partitionRecord(&v.s.state.Partitions[i]))
		}
	}
	if items == nil {
		items = []any{}
	}
	out := map[string]any{name: items}
	if v.version >= 40 {
		out["last_update"] = v.instant(v.s.state.TakenAt)
	}
	return v.ok(out)
}

// unchanged is "no change" as the real ones put it: v0.0.38 has no words for
// nodes but a bare error, later releases an empty list of jobs and a warning.
func (v *view) unchanged(name string, t int64) reply {
	switch {
	case name == "jobs" && v.version >= 40:
		a := v.ok(map[string]any{"jobs": []any{}, "last_update": v.num(0)})
		a.body["warnings"] = []any{map[string]any{
			"description": fmt.Sprintf("No job changes since update_time[%d]=%s", t, time.Unix(t, 0).UTC().Format("2006-01-02T15:04:05")),
			"source":      "op_handler_jobs",
		}}
		return a
	case name == "nodes" && v.version < 40:
		a := v.ok(map[string]any{"nodes": []any{}})
		a.status = http.StatusInternalServerError
		a.body["errors"] = []any{map[string]any{"error": "Unspecified error", "errno": -1}}
		return a
	}
	return reply{status: http.StatusNotModified}
}

// job answers for one job; the id of an array brings its tasks as well.
func (v *view) job(id string) reply {
	n, _ := strconv.ParseUint(id, 10, 32)
	var items []any
	for i := range v.s.state.Jobs {
		if j := &v.s.state.Jobs[i]; j.ID == slurm.JobID(n) || j.ArrayJobID == slurm.JobID(n) && n != 0 {
			items = append(items, v.jobRecord(j))
		}
	}
	if len(items) == 0 {
		return v.gone(id)
	}
	return v.ok(map[string]any{"jobs": items})
}

func (v *view) gone(id string) reply {
	status := http.StatusNotFound
	if v.s.state.Release.Before(23, 11) {
		status = http.StatusInternalServerError
	}
	return v.fail(status, 2017, "Invalid job id specified", "job "+id)
}

func (v *view) user(name string) reply {
	var level any = []string{"Operator"}
	if v.version < 40 {
		level = "Operator"
	}
	return v.ok(map[string]any{"users": []any{map[string]any{"name": name, "administrator_level": level}}})
}
