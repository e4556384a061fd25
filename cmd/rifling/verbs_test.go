// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"strings"
	"testing"
	"time"

	"rifling/policy"
	"rifling/slurm"
)

func TestPages(t *testing.T) {
	tests := map[string][]string{
		"status":          {"status"},
		"status-json":     {"status", "--json"},
		"jobs":            {"jobs"},
		"jobs-user":       {"jobs", "-u", "bob", "-n", "-P", "-o", "jobid,reason,action,owned"},
		"jobs-parsable":   {"jobs", "-p", "-o", "jobid,name,candidates,offset,why"},
		"jobs-json":       {"jobs", "--json", "-j", "10", "-o", "jobidraw,cc,npr,candidates,decided,start"},
		"jobs-fields":     {"jobs", "-e"},
		"groups":          {"groups"},
		"groups-json":     {"groups", "--json"},
		"groups-members":  {"groups", "-m"},
		"groups-bins":     {"groups", "--histogram", "-P"},
		"qtable":          {"qtable"},
		"qtable-group":    {"qtable", "-g", "unknown", "-P", "-n", "-o", "action,meaning"},
		"report":          {"report", "-P"},
		"report-action":   {"report", "--by", "action", "-P", "-o", "key%10,jobs,started,wait95,applied,failed"},
		"report-nothing":  {"report", "-S", "2020-01-01", "-E", "2020-01-02", "-P"},
		"explain-waiting": {"explain", "10"},
		"explain-packed":  {"explain", "11"},
		"explain-held":    {"explain", "12"},
		"explain-nothing": {"explain", "13"},
		"explain-odd":     {"explain", "14"},
		"explain-running": {"explain", "20"},
		"explain-array":   {"explain", "30_5"},
		"explain-task":    {"explain", "30_3"},
	}
	for name, args := range tests {
		t.Run(name, func(t *testing.T) {
			s := busySite(t)
			code, out, errs := s.run(args...)
			if code != 0 || errs != "" {
				t.Fatalf("exit %d, stderr %q", code, errs)
			}
			if strings.ContainsAny(out, "\x1b") {
				t.Error("an escape sequence of a job's name got through")
			}
			golden(t, name, out)
		})
	}
}

func TestExplainAfterTheStart(t *testing.T) {
	tests := map[string]struct {
		mode    string
		decided policy.Decision
		results bool
		then    []slurm.Job
		episode *policy.Episode
	}{
		"as-meant":  {mode: "steer", decided: packed(11), results: true, then: []slurm.Job{runningJob(11, "gpu01")}},
		"elsewhere": {mode: "steer", decided: packed(11), results: true, then: []slurm.Job{runningJob(11, "gpu02", "gpu04")}},
		"observed":  {mode: "observe", decided: packed(11), then: []slurm.Job{runningJob(11, "gpu02", "gpu04")}},
		"finished": {mode: "steer", decided: packed(11), results: true, then: []slurm.Job{endedJob(11, "COMPLETED", "gpu01")},
			episode: &policy.Episode{JobID: 11, Decided: t0, Action: policy.Pack, Actual: policy.Pack, Reward: -0.034,
				NPR: 0.96, NPRCount: 40, NeighbourDelta: -0.1, IdleGPUSeconds: 480, Learned: true}},
		"cancelled": {mode: "steer", decided: waiting(11), then: []slurm.Job{endedJob(11, "CANCELLED")}},
		"vanished":  {mode: "steer", decided: packed(11), results: true},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			r := record(t0, pendingJob(11))
			r.Mode = tc.mode
			r.Profiles[11] = knownProfile(11)
			r.Plan.Decisions = []policy.Decision{tc.decided}
			var results []policy.Result
			if tc.results {
				r.Changes = []policy.Change{exclude(11, "gpu02", "gpu04")}
				results = append(results, applied1(r.Changes[0]))
			}
			s.cycle(r, results...)
			r = record(t0.Add(2*time.Minute), tc.then...)
			r.Mode = tc.mode
			p := knownProfile(11)
			p.NPR, p.NPRCount = 0.96, 40
			if len(tc.then) > 0 && len(tc.then[0].Nodes) > 0 {
				r.Profiles[11] = p
			}
			s.cycle(r)
			if tc.episode != nil {
				st := s.writer()
				if err := st.SaveEpisodes(t.Context(), []policy.Episode{*tc.episode}); err != nil {
					t.Fatal(err)
				}
				st.Close()
			}
			code, out, errs := s.run("explain", "11")
			if code != 0 || errs != "" {
				t.Fatalf("exit %d, stderr %q", code, errs)
			}
			golden(t, "explain-"+name, out)
		})
	}
}

func TestAnswersWhenSomethingIsMissing(t *testing.T) {
	empty := func(s *site) { s.writer().Close() }
	tests := map[string]struct {
		prepare func(*site)
		args    []string
		code    int
		want    []string // in stderr
	}{
		"no database yet":    {args: []string{"status"}, code: 1, want: []string{"no database yet", "hint: riflingd creates it"}},
		"jobs without any":   {args: []string{"jobs"}, code: 1, want: []string{"no database yet", "hint: "}},
		"no cycle yet":       {prepare: empty, args: []string{"status"}, code: 1, want: []string{"not finished a cycle", "hint: "}},
		"an unknown job":     {prepare: empty, args: []string{"explain", "4711"}, code: 1, want: []string{"job 4711: job is not in the history", "hint: "}},
		"no job id":          {args: []string{"explain", "train"}, code: 2, want: []string{"job id", "train"}},
		"no argument":        {args: []string{"explain"}, code: 2, want: []string{"hint: usage: rifling explain JOBID"}},
		"an unknown verb":    {args: []string{"explode"}, code: 2, want: []string{`unknown command "explode"`, "hint: rifling --help"}},
		"an unknown flag":    {args: []string{"jobs", "--colour"}, code: 2, want: []string{"unknown flag: --colour", "hint: "}},
		"an unknown field":   {prepare: empty, args: []string{"jobs", "-o", "jobid,colour"}, code: 2, want: []string{`unknown field "colour"`, "hint: fields are JobID,"}},
		"an unknown split":   {prepare: empty, args: []string{"report", "--by", "colour"}, code: 2, want: []string{"colour"}},
		"an odd time":        {prepare: empty, args: []string{"jobs", "-S", "yesteryear"}, code: 2, want: []string{"yesteryear", "hint: write it as"}},
		"an empty range":     {prepare: empty, args: []string{"jobs", "-S", "2026-12-02", "-E", "2026-12-01"}, code: 2, want: []string{"is empty"}},
		"an odd group":       {prepare: empty, args: []string{"jobs", "-g", "big"}, code: 2, want: []string{"big", "hint: "}},
		"an unknown action":  {prepare: empty, args: []string{"qtable", "--action", "jump"}, code: 2, want: []string{"jump"}},
		"both parsable":      {prepare: empty, args: []string{"jobs", "-p", "-P"}, code: 2, want: []string{"exclude"}},
		"a stray argument":   {args: []string{"status", "now"}, code: 2, want: []string{"now"}},
		"an unknown key":     {prepare: func(s *site) { s.extra = "colour: red\n" }, args: []string{"status"}, code: 1, want: []string{"colour", "hint: "}},
		"not a database":     {prepare: func(s *site) { writeText(s, s.db(), "text") }, args: []string{"status"}, code: 1, want: []string{"not a database of rifling", "hint: "}},
		"nothing to release": {args: []string{"release"}, code: 1, want: []string{"no database yet"}},
		"a name to release":  {args: []string{"release", "train"}, code: 2, want: []string{"train"}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			if tc.prepare != nil {
				tc.prepare(s)
			}
			code, out, errs := s.run(tc.args...)
			if code != tc.code || out != "" {
				t.Errorf("exit %d, stdout %q, want exit %d", code, out, tc.code)
			}
			if !strings.HasPrefix(errs, "rifling: ") {
				t.Errorf("stderr %q", errs)
			}
			for _, w := range tc.want {
				if !strings.Contains(errs, w) {
					t.Errorf("stderr %q does not hold %q", errs, w)
				}
			}
		})
	}
}

func writeText(s *site, path, text string) {
	s.t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
}

func TestAnEmptyHistoryIsAnEmptyTable(t *testing.T) {
	for _, verb := range []string{"jobs", "groups", "qtable"} {
		s := newSite(t)
		s.writer().Close()
		code, out, errs := s.run(verb, "-P")
		if code != 0 || errs != "" || strings.Count(out, "\n") != 1 {
			t.Errorf("%s: exit %d, %q, %q", verb, code, out, errs)
		}
		if code, out, _ = s.run(verb, "--json"); code != 0 || !json.Valid([]byte(out)) {
			t.Errorf("%s --json: exit %d, %q", verb, code, out)
		}
	}
}

func TestStatusTellsThatTheDaemonIsAway(t *testing.T) {
	s := busySite(t)
	s.now = s.now.Add(3 * time.Hour)
	_, out, _ := s.run("status")
	if !strings.Contains(out, "seems not to run") {
		t.Errorf("got:\n%s", out)
	}
	_, out, _ = s.run("explain", "11")
	if !strings.Contains(out, "Mind that riflingd's last cycle was 3 h 0 min ago") {
		t.Errorf("got:\n%s", out)
	}
}

// After a clean stop the jobs are still those of the last real cycle.
func TestACleanStopIsToldAndHidesNothing(t *testing.T) {
	s := busySite(t)
	stop := record(t0.Add(time.Minute))
	stop.Plan.Policy, stop.GPUs, stop.GPUsUsed = "stop", 0, 0
	s.cycle(stop)
	_, out, _ := s.run("status")
	for _, want := range []string{"riflingd was stopped 8 s ago", "policy      rifling", "8 GPU jobs waiting"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	_, out, _ = s.run("explain", "11")
	if !strings.Contains(out, "riflingd was stopped 8 s ago") || !strings.Contains(out, "rifling chose packing") {
		t.Errorf("got:\n%s", out)
	}
	if _, out, _ = s.run("jobs", "-n"); strings.Count(out, "\n") != 8 {
		t.Errorf("jobs after the stop:\n%s", out)
	}
	if _, out, _ = s.run("status", "--json"); !strings.Contains(out, `"alive": false`) {
		t.Errorf("got:\n%s", out)
	}
}

func TestVersionAndCompletion(t *testing.T) {
	s := newSite(t)
	if code, out, _ := s.run("version"); code != 0 || !strings.HasPrefix(out, "rifling devel, database schema ") {
		t.Errorf("version: exit %d, %q", code, out)
	}
	for _, shell := range []string{"bash", "zsh", "fish"} {
		if code, out, _ := s.run("completion", shell); code != 0 || !strings.Contains(out, "rifling") {
			t.Errorf("completion %s: exit %d", shell, code)
		}
	}
}
