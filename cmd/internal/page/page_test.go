// SPDX-License-Identifier: Apache-2.0

package page

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"rifling/cmd/internal/explain"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/slurm/slurmtest"
	"rifling/store"
)

// site is a server over a history with the cycle that its view shows.
type site struct {
	*Server
	t    testing.TB
	view *View
}

func newSite(t testing.TB, o Options) *site {
	t.Helper()
	path := filepath.Join(t.TempDir(), "rifling.db")
	s, err := store.Open(path, store.Options{Now: func() time.Time { return slurmtest.Now }})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if o.History, err = store.OpenReadOnly(path); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = o.History.Close() })
	o.Version, o.Interval, o.Depth, o.Policy = "v1", 15*time.Second, 50, "rifling"
	o.Now, o.Zone, o.Log = func() time.Time { return slurmtest.Now.Add(5 * time.Second) }, time.UTC, slog.New(slog.DiscardHandler)
	st := &site{Server: NewServer(o), t: t}
	st.record(s)
	return st
}

// record keeps a cycle of a small cluster and remembers its view.
func (s *site) record(h *store.Store) {
	s.t.Helper()
	b := slurmtest.Snapshot().Nodes("gpu[01-04]", 8).Node(slurmtest.Node("gpu05").Drained()).
		Jobs(slurmtest.Job(10).Name("train").User("ada").GPUs(6).Running("gpu01"),
			slurmtest.Job(11).Name(`<b>bold</b>"'&`+"\u202e").User("bob").GPUs(4),
			slurmtest.Job(12).Name("held").User("eve").GPUs(2).Held(), slurmtest.Job(13).GPUs(1).Done("COMPLETED"))
	for i := range 250 {
		b.Jobs(slurmtest.Job(slurm.JobID(1000 + i)).User(fmt.Sprintf("u%d", i%5)).GPUs(1 + i%8).Priority(int64(900 - i)).Partition([]string{"gpu", "other"}[i%2]))
	}
	snap := b.Obj()
	factor := int64(500)
	s.view = &View{
		Cycle: 1, Published: slurmtest.Now, Took: 40 * time.Millisecond, Mode: "steer", Snapshot: snap,
		Profiles: map[slurm.JobID]profile.Profile{10: {JobID: 10, Group: 0, Level: profile.LevelJob, Count: 9, NPR: 0.8, NPRCount: 3, CommBound: true},
			11: {JobID: 11, Group: 1, Level: profile.LevelUser, Count: 3, LogCC: 2}, 12: {JobID: 12, Group: profile.GroupUnknown}},
		Groups: []profile.Group{{Index: 0, Center: -0.5, Members: 2}, {Index: 1, Center: 2, Members: 3}},
		Plan: policy.Plan{Policy: "rifling", Decisions: []policy.Decision{
			{JobID: 11, Action: policy.Pack, State: "g1 n1 one nic0 q0", Candidates: []string{"gpu02", "gpu03"}, Offset: 500, Reason: "one node can take it whole",
				Considered: []policy.Option{{Action: policy.Pack, Shape: "1 node", Value: -0.1, Visits: 3}}},
			{JobID: 12, Action: policy.Leave, Skipped: "it is held"},
		}},
		Owners: map[slurm.JobID]policy.Owner{11: {JobID: 11, SetExclude: []string{"gpu01", "gpu04"}, SetSiteFactor: &factor, ExpiresAt: slurmtest.Now.Add(time.Minute)}},
		ANPR:   0.8, ANPRGPUs: 6,
	}
	exclude := []string{"gpu01", "gpu04"}
	change := policy.Change{Kind: policy.KindSet, Update: slurm.Update{JobID: 11, ExcludedNodes: &exclude}, Owner: s.view.Owners[11], Why: "one node can take it whole"}
	ctx := context.Background()
	n, err := h.Begin(ctx, policy.Record{At: slurmtest.Now, Mode: "steer", Jobs: snap.Jobs, Profiles: s.view.Profiles, Plan: s.view.Plan,
		Changes: []policy.Change{change}, GPUs: 32, GPUsUsed: 6, ANPR: 0.8, ANPRGPUs: 6})
	if err == nil {
		err = errors.Join(h.End(ctx, n, []policy.Result{{Change: change, Outcome: policy.Applied}}, time.Second),
			h.SaveTable(ctx, slurmtest.Now, []policy.QEntry{
				{State: "g0 n1 one nic0 q0", Action: "pack", Value: -0.1, Visits: 4, Var: 0.01}, {State: "g0 n1 one nic0 q0", Action: "wait", Value: -0.6},
				{State: "g1 n2 leaf nic2 q1", Action: "leaf", Value: 0.02, Visits: 1},
			}))
	}
	if err != nil {
		s.t.Fatal(err)
	}
}

// get returns status, headers and body of a path.
func (s *site) get(path string) (int, http.Header, string) {
	s.t.Helper()
	r := httptest.NewRequest(http.MethodGet, path, nil)
	r.RemoteAddr, r.Host = "127.0.0.1:4000", "localhost:6830"
	w := httptest.NewRecorder()
	s.Handler().ServeHTTP(w, r)
	return w.Code, w.Header(), w.Body.String()
}

var allPaths = []string{
	"/", "/cluster", "/cluster?view=table", "/cluster?partition=gpu", "/cluster?partition=none", "/nodes/gpu01", "/nodes/gpu05", "/queue", "/queue?state=running",
	"/queue?user=u1&partition=gpu&group=%3F&action=none&reason=Priority", "/queue?page=2&sort=gpus", "/queue?page=-7", "/queue?page=x", "/queue?page=99999", "/decisions",
	"/decisions?outcome=failed&before=3", "/decisions?before=-1", "/learning", "/learning?span=90d", "/learning?span=x", "/qtable", "/qtable?group=0&words=leaf&tried=1",
	"/finished", "/finished?from=1.2", "/finished?from=x&group=1&user=ada", "/jobs/11", "/jobs/10", "/jobs/13", "/?live=1",
}

// Every page answers before the first cycle and after it, with headers that
// keep a browser from doing more than show it.
func TestPagesAnswer(t *testing.T) {
	s := newSite(t, Options{})
	for _, shown := range []bool{false, true} {
		if shown {
			s.Publish(s.view)
		}
		for _, path := range allPaths {
			code, h, body := s.get(path)
			if code != http.StatusOK || !strings.Contains(body, "</html>") || strings.Contains(body, "<no value>") || strings.Contains(body, "%!") {
				t.Errorf("%s, shown %v: %d\n%s", path, shown, code, body)
			}
			if !strings.HasPrefix(path, "/jobs") && strings.Contains(body, "No cycle yet") == shown {
				t.Errorf("%s, shown %v, says the contrary", path, shown)
			}
			csp := h.Get("Content-Security-Policy")
			if !strings.Contains(csp, "default-src 'none'") || !strings.Contains(csp, "frame-ancestors 'none'") || strings.Contains(csp, "unsafe") ||
				h.Get("X-Content-Type-Options") != "nosniff" || h.Get("Cache-Control") != "no-store" {
				t.Errorf("%s has headers %v", path, h)
			}
			for _, bad := range []string{"<script", " style=", " onload=", "javascript:", "http://", "https://"} {
				if strings.Contains(body, bad) {
					t.Errorf("%s holds %q", path, bad)
				}
			}
		}
	}
	if _, h, _ := s.get("/queue?live=1"); h.Get("Refresh") == "" {
		t.Error("a page that is to follow does not reload")
	}
	if _, h, _ := s.get("/queue"); h.Get("Refresh") != "" {
		t.Error("a page reloads unasked")
	}
}

func TestWhatIsNotThere(t *testing.T) {
	s := newSite(t, Options{})
	s.Publish(s.view)
	for path, want := range map[string]string{
		"/jobs/999": "not in the history", "/jobs/x": "no job id", "/jobs/99999999999": "no job id", "/nodes/nowhere": "no node", "/nothing": "nothing here", "/static/x": "nothing here",
	} {
		code, _, body := s.get(path)
		if code != http.StatusNotFound || !strings.Contains(html.UnescapeString(body), want) {
			t.Errorf("%s: %d, want 404 with %q\n%s", path, code, want, body)
		}
	}
	for _, method := range []string{"POST", "PUT", "DELETE", "PATCH"} {
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, httptest.NewRequest(method, "/queue", nil))
		if w.Code != http.StatusMethodNotAllowed {
			t.Errorf("%s is answered with %d", method, w.Code)
		}
	}
}

// Whatever a job is called is shown as text, and marks that change the
// direction of writing are made visible.
func TestNamesAreText(t *testing.T) {
	s := newSite(t, Options{})
	s.Publish(s.view)
	for _, path := range []string{"/queue", "/jobs/11"} {
		_, _, body := s.get(path)
		if strings.Contains(body, "<b>bold") || !strings.Contains(body, "&lt;b&gt;bold&lt;/b&gt;") || strings.Contains(body, "\u202e") || !strings.Contains(body, `\u202e`) {
			t.Errorf("%s does not show the name as text", path)
		}
	}
}

func TestOnlyThisMachine(t *testing.T) {
	s := newSite(t, Options{Loopback: true})
	s.Publish(s.view)
	for _, tc := range []struct {
		from, host string
		want       int
	}{
		{"127.0.0.1:1", "127.0.0.1:6830", 200}, {"[::1]:1", "[::1]:6830", 200}, {"127.0.0.1:1", "localhost", 200},
		{"[::ffff:127.0.0.1]:1", "localhost:6830", 200},
		{"10.0.0.1:1", "127.0.0.1:6830", 403}, {"127.0.0.1:1", "evil.example:6830", 403}, {"127.0.0.1:1", "localhost.evil.example", 403},
		{"x", "localhost", 403},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.RemoteAddr, r.Host = tc.from, tc.host
		w := httptest.NewRecorder()
		s.Handler().ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("from %s for %s: %d, want %d", tc.from, tc.host, w.Code, tc.want)
		}
	}
}

var links = regexp.MustCompile(`(?:href|action)="([^"#]*)`)

// Behind a proxy every link stays under its path, and the page answers there
// whether the proxy takes the path away or not.
func TestBasePath(t *testing.T) {
	s := newSite(t, Options{BasePath: "/site/rifling"})
	s.Publish(s.view)
	for _, prefix := range []string{"", "/site/rifling"} {
		for _, path := range allPaths {
			code, _, body := s.get(prefix + path)
			if code != http.StatusOK {
				t.Errorf("%s%s: %d", prefix, path, code)
			}
			for _, m := range links.FindAllStringSubmatch(body, -1) {
				if m[1] != "" && !strings.HasPrefix(m[1], "/site/rifling/") {
					t.Errorf("%s%s links to %s", prefix, path, m[1])
				}
			}
		}
	}
	if code, _, _ := s.get("/site/rifling"); code != http.StatusOK {
		t.Errorf("without a slash at the end: %d", code)
	}
	if code, _, _ := s.get("/site/riflingx"); code != http.StatusNotFound {
		t.Errorf("what only begins like the path: %d", code)
	}
}

// Every link of every page leads somewhere.
func TestLinksLeadSomewhere(t *testing.T) {
	s := newSite(t, Options{})
	s.Publish(s.view)
	seen, todo := map[string]bool{}, []string{"/"}
	for len(todo) > 0 && len(seen) < 2000 {
		path := todo[0]
		todo = todo[1:]
		code, _, body := s.get(path)
		if code != http.StatusOK {
			t.Errorf("%s: %d", path, code)
		}
		for _, m := range links.FindAllStringSubmatch(body, -1) {
			if to := html.UnescapeString(m[1]); to != "" && !seen[to] && !strings.Contains(to, "live=1") {
				seen[to] = true
				todo = append(todo, to)
			}
		}
	}
	if len(seen) < 100 {
		t.Errorf("found only %d links", len(seen))
	}
}

var jobLinks = regexp.MustCompile(`href="/jobs/(\d+)"`)

// Page by page the queue comes whole, in the order of priority, and once.
func TestQueuePages(t *testing.T) {
	s := newSite(t, Options{})
	s.Publish(s.view)
	var got []string
	for page := 1; page <= 3; page++ {
		_, _, body := s.get(fmt.Sprintf("/queue?page=%d", page))
		for _, m := range jobLinks.FindAllStringSubmatch(body, -1) {
			got = append(got, m[1])
		}
	}
	if len(got) != 252 || got[0] != "11" || got[1] != "1000" || got[len(got)-1] != "12" {
		t.Errorf("%d jobs, first %v", len(got), got[:3])
	}
	for query, want := range map[string]int{
		"user=bob": 1, "user=u1&partition=gpu": 25, "partition=other": 100, "action=pack": 1, "action=skipped": 1, "group=1": 1, "reason=JobHeldUser": 1, "user=nobody": 0,
		"state=running": 1, "state=running&group=0": 1, "state=running&user=bob": 0,
	} {
		_, _, body := s.get("/queue?" + query)
		if n := len(jobLinks.FindAllString(body, -1)); n != want {
			t.Errorf("%s shows %d jobs, want %d", query, n, want)
		}
	}
}

// The job page has every word of what `rifling explain` says.
func TestJobPageExplains(t *testing.T) {
	s := newSite(t, Options{})
	s.Publish(s.view)
	for _, id := range []slurm.JobID{10, 11, 12} {
		story, err := s.o.History.Story(context.Background(), id)
		if err != nil {
			t.Fatal(err)
		}
		_, _, body := s.get(fmt.Sprintf("/jobs/%d", id))
		text := html.UnescapeString(body)
		for line := range strings.SplitSeq(explain.Of(story, explain.Options{Now: s.o.Now().In(time.UTC), Interval: s.o.Interval, Depth: s.o.Depth}).Text(), "\n") {
			if !strings.Contains(text, strings.TrimSpace(line)) {
				t.Errorf("the page of job %d lacks %q", id, line)
			}
		}
	}
}

// A failure is told with its hint beside what was seen last, until a cycle
// succeeds.
func TestTrouble(t *testing.T) {
	s := newSite(t, Options{})
	s.Publish(s.view)
	s.Fail(slurm.WithHint(errors.New("slurmrestd cannot be reached"), "is it running?"))
	_, _, body := s.get("/queue")
	if !strings.Contains(body, "slurmrestd cannot be reached") || !strings.Contains(body, "is it running?") || !strings.Contains(body, "/jobs/11") {
		t.Error("the failure or what was seen before is not shown")
	}
	s.Pause("by ada, upgrade; it ends with `rifling resume`.")
	if _, _, body := s.get("/"); !strings.Contains(body, "by ada, upgrade") {
		t.Error("the pause is not shown")
	}
	s.Pause("")
	s.Publish(s.view)
	if _, _, body := s.get("/"); strings.Contains(body, "cannot be reached") || strings.Contains(body, "upgrade") {
		t.Error("what is over is still shown")
	}
}

// A view is read by many while the next ones are published; run with -race.
func TestReadersAndWriter(t *testing.T) {
	s := newSite(t, Options{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		for i := range 50 {
			v := &View{Cycle: int64(i), Published: slurmtest.Now, Mode: "steer", Snapshot: s.view.Snapshot, Profiles: s.view.Profiles, Groups: s.view.Groups, Plan: s.view.Plan, Owners: s.view.Owners}
			s.Publish(v)
		}
	}()
	for range 20 {
		for _, p := range []string{"/cluster", "/queue", "/decisions"} {
			if code, _, _ := s.get(p); code != http.StatusOK {
				t.Fatal(p, code)
			}
		}
	}
	<-done
}
