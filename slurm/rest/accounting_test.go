// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

var pastNoon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func pastRun(id slurm.JobID) slurm.PastJob {
	return slurm.PastJob{
		ID: id, ArrayTaskID: -1, Name: "train\n|\x1f é", User: "ada", Account: "lab", Partition: "gpu", QOS: "normal",
		Cluster: "c1", Command: "sbatch train.sh", State: slurm.State{Base: "COMPLETED"},
		Submit: pastNoon, Eligible: pastNoon, Start: pastNoon.Add(time.Minute), End: pastNoon.Add(61 * time.Minute), Elapsed: time.Hour,
		TimeLimit: 2 * time.Hour, GPUs: 8, GPUType: "a100", NodeCount: 2, Nodes: []string{"gpu01", "gpu02"},
		CPUs: 32, Priority: 1000, GPUUtil: -1, GPUMemory: -1,
	}
}

// database answers as slurmdbd's part of slurmrestd.
type database struct {
	t       *testing.T
	version int
	tres    string // the list of trackable resources
	jobs    string // the whole answer
	status  int
	asked   []string      // queries for jobs
	stall   chan struct{} // closed to end an answer that stalls
}

func (d *database) client() *Client {
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		v := fmt.Sprintf("/v0.0.%d/", d.version)
		switch {
		case !strings.Contains(r.URL.Path, v):
			http.Error(w, "Unable to find requested URL", http.StatusNotFound)
		case strings.HasSuffix(r.URL.Path, "/ping"):
			fmt.Fprintf(w, `{"meta":{"slurm":{"version":{"major":"24","micro":"5","minor":"11"}}},"errors":[]}`)
		case strings.Contains(r.URL.Path, "/tres"):
			fmt.Fprintf(w, `{"TRES":[%s],"errors":[]}`, d.tres)
		case strings.Contains(r.URL.Path, "/slurmdb/") && strings.Contains(r.URL.Path, "/jobs"):
			d.asked = append(d.asked, r.URL.RawQuery)
			if d.status != 0 {
				w.WriteHeader(d.status)
			}
			fmt.Fprint(w, d.jobs)
			if d.stall != nil {
				w.(http.Flusher).Flush() //nolint:forcetypeassert // net/http's own always is one
				<-d.stall
			}
		default:
			d.t.Errorf("asked for %s", r.URL)
		}
	}))
	d.t.Cleanup(srv.Close)
	c, err := New(Options{URL: srv.URL, MaxRetries: -1})
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(c.Close)
	return c
}

func readPast(c *Client) (out []slurm.PastJob, odd []string, err error) {
	err = c.PastJobs(context.Background(), pastNoon, pastNoon.Add(time.Hour), slurm.PastSink{
		Run: func(j *slurm.PastJob) error { out = append(out, *j); return nil },
		Odd: func(reason, where string) { odd = append(odd, reason+": "+where) },
	})
	return out, odd, err
}

func answerOf(parts ...string) string {
	return `{"meta":{},"jobs":[` + strings.Join(parts, ",") + `],"errors":[],"warnings":[]}`
}

func TestPastJobsOfNewerReleases(t *testing.T) {
	var want []slurm.PastJob
	var parts []string
	for i := range 8 {
		j := pastRun(slurm.JobID(i + 1))
		switch i {
		case 1:
			j.ArrayJobID, j.ArrayTaskID = 90, 0
		case 2:
			j.Unlimited, j.TimeLimit, j.HetJobID = true, 0, 2
		case 3:
			j.State.Base = "REQUEUED"
		case 4: // cancelled before its start
			j.State.Base, j.Nodes, j.Elapsed, j.Start = "CANCELLED", nil, 0, time.Time{}
		case 5:
			j.End, j.State.Base = time.Time{}, "RUNNING"
		case 6:
			j.ExitCode, j.State.Base = 128+9, "FAILED"
		case 7:
			j.ExitCode, j.State.Base, j.GPUType, j.Restarts = 3, "FAILED", "", 2
		}
		want = append(want, j)
		parts = append(parts, string(slurmtest.AppendPastJSON(nil, &j)))
	}
	d := &database{t: t, version: 42, jobs: answerOf(parts...)}
	got, odd, err := readPast(d.client())
	if err != nil || len(odd) > 0 {
		t.Fatalf("%v, odd %v", err, odd)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-written +read):\n%s", diff)
	}
	for _, need := range []string{"show_duplicates=true", "disable_truncate_usage_time=true", "skip_steps=true", "start_time=uts"} {
		if !strings.Contains(d.asked[0], need) {
			t.Errorf("asked %s without %s", d.asked[0], need)
		}
	}
}

// Shapes of v0.0.38, as 22.05.8 gave them in a lab, shortened.
func TestPastJobsOfTheOldestRelease(t *testing.T) {
	step := `{"step":{"job_id":9,"het":{"component":null},"id":"%s","name":"batch"},"tres":{"requested":{"total":[{"type":"gres","name":"gpuutil","id":1003,"count":%d},{"type":"gres","name":"gpumem","id":1002,"count":1048576},{"type":"cpu","name":null,"id":1,"count":10}]}}}`
	job := `{"account":"research","array":{"job_id":0,"task":null,"task_id":null},"association":{"account":"research","cluster":"lab","user":"alice"},"cluster":"lab",
	"time":{"elapsed":6,"eligible":1796117038,"end":1796117045,"start":1796117039,"submission":1796117038,"suspended":0,"limit":60},
	"exit_code":{"status":"SIGNALED","return_code":null,"signal":{"signal_id":15,"name":"Terminated"}},"het":{"job_id":0,"job_offset":null},"job_id":9,"name":"rq","nodes":"gpu02",
	"partition":"gpu","priority":10281,"qos":"normal","required":{"CPUs":1,"memory":0},"state":{"current":"REQUEUED","reason":"None"},
	"steps":[` + fmt.Sprintf(step, "extern", 400) + `,` + fmt.Sprintf(step, "batch", 60) + `],
	"tres":{"allocated":[{"type":"cpu","name":null,"id":1,"count":1},{"type":"energy","name":null,"id":3,"count":null},{"type":"node","name":null,"id":4,"count":1},{"type":"gres","name":"gpu","id":1001,"count":2}],
	"requested":[{"type":"cpu","name":null,"id":1,"count":1},{"type":"gres","name":"gpu","id":1001,"count":8}]},"user":"alice"}`
	d := &database{t: t, version: 38, jobs: answerOf(job), tres: `{"type":"gres","name":"gpuutil","id":1003}`}
	got, odd, err := readPast(d.client())
	if err != nil || len(odd) > 0 {
		t.Fatalf("%v, odd %v", err, odd)
	}
	at := func(sec int64) time.Time { return time.Unix(sec, 0).UTC() }
	want := []slurm.PastJob{{
		ID: 9, ArrayTaskID: -1, Name: "rq", User: "alice", Account: "research", Partition: "gpu", QOS: "normal", Cluster: "lab",
		State: slurm.State{Base: "REQUEUED"}, ExitCode: 128 + 15,
		Submit: at(1796117038), Eligible: at(1796117038), Start: at(1796117039), End: at(1796117045), Elapsed: 6 * time.Second,
		TimeLimit: time.Hour, GPUs: 2, NodeCount: 1, Nodes: []string{"gpu02"}, CPUs: 1, Priority: 10281,
		GPUUtil: 0.3, GPUMemory: 1 << 20,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if strings.Contains(d.asked[0], "skip_steps") {
		t.Error("the steps are left out, though the site records the use of GPUs")
	}
}

func TestPastJobsOddAndBroken(t *testing.T) {
	one := pastRun(1)
	good := string(slurmtest.AppendPastJSON(nil, &one))
	tests := map[string]struct {
		answer string
		status int
		runs   int
		odd    string
		is     error
	}{
		"an odd record among good ones":   {answer: answerOf(good, `{"job_id":"x"}`, good), runs: 2, odd: "record left out: record 2"},
		"a record without a submit time":  {answer: answerOf(good, `{"job_id":7,"state":{"current":"FAILED"}}`), runs: 1, odd: "no submit time"},
		"a record that is no object":      {answer: answerOf(`7`, good), runs: 1, odd: "not an object"},
		"odd nodes cost the nodes only":   {answer: answerOf(strings.Replace(good, `"nodes":"gpu[01-02]"`, `"nodes":"gpu[0"`, 1)), runs: 1, odd: "odd node list"},
		"nothing in the range":            {answer: answerOf()},
		"an answer that breaks off":       {answer: answerOf(good, good)[:len(good)+100], runs: 1, is: slurm.ErrUnreachable},
		"no JSON":                         {answer: "<html>", is: slurm.ErrUnreachable},
		"no list of jobs":                 {answer: `{"errors":[]}`, is: slurm.ErrRejected},
		"an error behind the list":        {answer: `{"jobs":[],"errors":[{"description":"Failure to query","error_number":7000}]}`, is: slurm.ErrBusy},
		"an error with a status":          {answer: `{"jobs":[],"errors":[{"description":"Access denied","error_number":2002}]}`, status: 500, is: slurm.ErrDenied},
		"a range that is too wide":        {answer: `{"jobs":[],"errors":[{"description":"too wide","error_number":7007}]}`, status: 500, is: slurm.ErrTooWide},
		"an answer that would be too big": {answer: `{"jobs":[],"errors":[{"description":"too large","error_number":7006}]}`, status: 500, is: slurm.ErrTooWide},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := &database{t: t, version: 42, jobs: tc.answer, status: tc.status}
			got, odd, err := readPast(d.client())
			if !errors.Is(err, tc.is) || tc.is == nil && err != nil {
				t.Errorf("error %v, want %v", err, tc.is)
			}
			if len(got) != tc.runs {
				t.Errorf("%d runs, want %d", len(got), tc.runs)
			}
			if all := strings.Join(odd, "\n"); !strings.Contains(all, tc.odd) || tc.odd == "" && all != "" {
				t.Errorf("odd %q, want %q", all, tc.odd)
			}
		})
	}
}

// An answer that does not come in time is asked for in smaller parts.
func TestPastJobsThatTakeTooLong(t *testing.T) {
	one := pastRun(1)
	for _, sent := range []string{"", answerOf(string(slurmtest.AppendPastJSON(nil, &one)))[:500]} {
		d := &database{t: t, version: 42, jobs: sent, stall: make(chan struct{})}
		c := d.client()
		t.Cleanup(func() { close(d.stall) }) // before the server waits for its answers
		if _, err := c.Connect(context.Background()); err != nil {
			t.Fatal(err)
		}
		c.gpuUsage(context.Background())
		c.http.Timeout = 50 * time.Millisecond
		if _, _, err := readPast(c); !errors.Is(err, slurm.ErrTooWide) || !errors.Is(err, slurm.ErrUnreachable) {
			t.Errorf("after %d bytes: %v", len(sent), err)
		}
	}
}

func TestPastJobsStopsWithTheSink(t *testing.T) {
	one := pastRun(1)
	full := errors.New("disk full")
	d := &database{t: t, version: 42, jobs: answerOf(string(slurmtest.AppendPastJSON(nil, &one)))}
	err := d.client().PastJobs(context.Background(), pastNoon, pastNoon, slurm.PastSink{
		Run: func(*slurm.PastJob) error { return full }, Odd: func(string, string) {},
	})
	if !errors.Is(err, full) || errors.Is(err, slurm.ErrUnreachable) {
		t.Errorf("error %v, want the sink's own", err)
	}
}

func FuzzPastJob(f *testing.F) {
	one := pastRun(1)
	f.Add(slurmtest.AppendPastJSON(nil, &one))
	f.Fuzz(func(t *testing.T, raw []byte) {
		j, odd, _ := readPastJob(raw)
		if odd == "" && (j == nil || j.ID == 0 || j.Submit.IsZero() || j.Elapsed < 0 || j.GPUs < 0) {
			t.Errorf("%+v", j)
		}
	})
}
