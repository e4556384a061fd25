// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
)

// fortnight has jobs of 20 days; from day 10 on they wait half as long.
func fortnight(t *testing.T) *site {
	s := newSite(t)
	var jobs []slurm.Job
	for i := range 200 {
		j := endedJob(slurm.JobID(1000+i), "COMPLETED", "gpu01")
		day := i / 10
		wait := time.Duration(60+i%10*3+day%3) * time.Minute
		if day >= 10 {
			wait /= 2
		}
		j.SubmitTime = t0.AddDate(0, 0, day-20).Add(time.Duration(i%10) * time.Hour)
		j.EligibleTime = j.SubmitTime
		j.StartTime = j.SubmitTime.Add(wait)
		j.EndTime = j.StartTime.Add(time.Hour)
		j.User = []string{"ada", "=cmd|' /C calc'!A0", "<script>alert(1)</script>", "eve\x1b[2J"}[i%4]
		jobs = append(jobs, j)
	}
	s.cycle(record(t0, jobs...))
	return s
}

func TestReportComparesBeforeAndAfter(t *testing.T) {
	s := fortnight(t)
	code, out, errs := s.run("report", "--before-after", t0.AddDate(0, 0, -10).Format("2006-01-02T15:04:05"), "-o", "when,jobs,waitmean")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %q", code, errs)
	}
	golden(t, "report-before-after", out)
	if _, again, _ := s.run("report", "--before-after", t0.AddDate(0, 0, -10).Format("2006-01-02T15:04:05"), "-o", "when,jobs,waitmean"); again != out {
		t.Error("the same report again is another")
	}
}

// Hostile names break neither cells nor markup.
func TestReportForms(t *testing.T) {
	s := fortnight(t)
	_, out, errs := s.run("report", "--by", "user", "--csv")
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 5 || len(rows[0]) != 13 || errs != "" {
		t.Fatalf("%v, %d rows, %q:\n%s", err, len(rows), errs, out)
	}
	for _, r := range rows[1:] {
		if strings.ContainsAny(r[0][:1], "=+-@") || strings.Contains(r[0], "\x1b") {
			t.Errorf("a spreadsheet would run %q", r[0])
		}
	}
	_, out, _ = s.run("report", "--by", "user,day", "--json", "--before-after", "2026-11-21")
	var got struct {
		Jobs    []map[string]any
		Changes []struct {
			Mean      string
			Low, High float64
		}
		Cluster struct {
			Cycles int `json:"cycles"`
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || len(got.Jobs) == 0 || got.Cluster.Cycles != 1 {
		t.Errorf("%v: %+v", err, got)
	}
	_, out, _ = s.run("report", "--by", "user", "--html", "--before-after", "2026-11-21")
	for _, bad := range []string{"<script", "\x1b", "http://", "https://", "src="} {
		if strings.Contains(out, bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	for _, want := range []string{"<!DOCTYPE html>", `lang="en"`, `role="img"`, "<desc", "prefers-color-scheme: dark", "@media print", `scope="col"`, `scope="row"`,
		"&lt;script&gt;", "Before and after", "queueing delay"} {
		if !strings.Contains(out, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
}

func TestReportRefuses(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		want string
	}{
		"an odd date":          {[]string{"--before-after", "someday"}, "someday"},
		"a date out of range":  {[]string{"--before-after", "2026-01-01", "-S", "2026-02-01"}, "not within"},
		"two forms":            {[]string{"--csv", "--html"}, "--csv and --html exclude each other"},
		"a split twice":        {[]string{"--by", "user,user"}, "twice"},
		"an odd split":         {[]string{"--by", "colour"}, "user,account,partition"},
		"an odd field":         {[]string{"-o", "colour"}, "unknown field"},
		"an odd since":         {[]string{"--since", "when"}, "when"},
		"an odd seed":          {[]string{"--seed", "x"}, "seed"},
		"a field of no split":  {[]string{"-o", "user"}, "unknown field"},
		"an empty since-until": {[]string{"--since", "2026-02-01", "--until", "2026-01-01"}, "is empty"},
	} {
		t.Run(name, func(t *testing.T) {
			s := busySite(t)
			code, out, errs := s.run(append([]string{"report"}, tc.args...)...)
			if code != 2 || out != "" || !strings.Contains(errs, tc.want) {
				t.Errorf("exit %d, %q, %q", code, out, errs)
			}
		})
	}
}

func TestReplayNeedsAccounting(t *testing.T) {
	s := busySite(t)
	code, _, errs := s.run("report", "--counterfactual")
	if code != 1 || !strings.Contains(errs, "accounting that was imported") || !strings.Contains(errs, "hint: rifling history") {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestReportReplaysSlurmAlone(t *testing.T) {
	s := newSite(t)
	st := s.writer()
	var runs []slurm.PastJob
	for i := range 60 {
		at := t0.AddDate(0, 0, -10).Add(time.Duration(i) * 3 * time.Hour)
		runs = append(runs, slurm.PastJob{ID: slurm.JobID(i + 1), ArrayTaskID: -1, User: "ada", Account: "lab", Partition: "gpu", QOS: "normal", Name: "train",
			State: slurm.State{Base: "COMPLETED"}, Submit: at, Eligible: at, Start: at.Add(time.Duration(i%3) * time.Hour), End: at.Add(time.Duration(i%3)*time.Hour + 2*time.Hour),
			Elapsed: 2 * time.Hour, TimeLimit: 4 * time.Hour, GPUs: 8, NodeCount: 1, Nodes: []string{fmt.Sprintf("gpu0%d", 1+i%2)}, GPUUtil: -1, GPUMemory: -1})
	}
	if _, _, err := st.PastWriter().SavePast(t.Context(), runs, time.Time{}, time.Time{}); err != nil {
		t.Fatal(err)
	}
	st.Close()
	code, out, errs := s.run("report", "--counterfactual", "--since", "2026-11-20", "--before-after", "2026-11-26")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %q", code, errs)
	}
	for _, want := range []string{"Slurm alone, replayed on the same", "where it was", "How far that can be trusted: on", "Do not trust differences of that size"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
}

// A plain user hears of own jobs; root, the database's owner, and everybody
// where the site says so, of all.
func TestUsersSeeTheirOwn(t *testing.T) {
	asker := func(name string, uid int) func() (Asker, error) {
		return func() (Asker, error) { return Asker{name, uid}, nil }
	}
	tests := map[string]struct {
		who   Asker
		extra string
		args  []string
		code  int
		want  string // in the output, or in the error where the exit is not 0
		not   string
	}{
		"own jobs":          {who: Asker{"bob", 4711}, args: []string{"jobs", "-P", "-o", "jobid,user"}, want: "12|bob", not: "ada"},
		"those of others":   {who: Asker{"bob", 4711}, args: []string{"jobs", "-u", "ada"}, code: 1, want: "may see the jobs of bob only"},
		"own report":        {who: Asker{"bob", 4711}, args: []string{"report", "--by", "user", "-P", "-o", "user,jobs"}, want: "bob|1", not: "ada"},
		"own story":         {who: Asker{"bob", 4711}, args: []string{"explain", "12"}, want: "Job 12"},
		"another's story":   {who: Asker{"bob", 4711}, args: []string{"explain", "11"}, code: 1, want: "job 11 is of another user"},
		"a node of another": {who: Asker{"bob", 4711}, args: []string{"explain", "12", "--why-not", "gpu02"}, want: "1 GPU job of other users ran there", not: "of ada"},
		"own top":           {who: Asker{"bob", 4711}, args: []string{"top"}, want: "7 jobs of others not shown", not: "ada"},
		"root":              {who: Asker{"root", 0}, args: []string{"explain", "11"}, want: "Job 11"},
		"an open site":      {who: Asker{"bob", 4711}, extra: "users-see: all\n", args: []string{"explain", "11"}, want: "Job 11"},
		"an odd setting":    {who: Asker{"bob", 4711}, extra: "users-see: some\n", args: []string{"jobs"}, code: 1, want: "use own or all"},
		"no replay":         {who: Asker{"bob", 4711}, args: []string{"report", "--counterfactual"}, code: 1, want: "needs the jobs of all users"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := busySite(t)
			s.extra, s.asker = tc.extra, asker(tc.who.Name, tc.who.UID)
			code, out, errs := s.run(tc.args...)
			text := out
			if tc.code != 0 {
				text = errs
			}
			if code != tc.code || !strings.Contains(text, tc.want) || tc.not != "" && strings.Contains(text, tc.not) {
				t.Errorf("exit %d, %q, got\n%s", code, errs, text)
			}
		})
	}
}
