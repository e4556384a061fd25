// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/contrib/workload"
)

func TestParseResult(t *testing.T) {
	text := `srun: job 12 started
{"job":12,"model":"bert","phase":"cancelled","npr":0.1,"seconds":5}
{"not":"a result"}
{"job":12,"model":"bert","phase":"finished","npr":0.5,"seconds":60,"nodes":2,"shape":"4+4","placement":{"gpu01":4,"gpu02":4}}
bye
`
	want := &Result{Job: 12, Model: "bert", Phase: "finished", NPR: 0.5, Seconds: 60, Nodes: 2, Shape: "4+4", Placement: map[string]int{"gpu01": 4, "gpu02": 4}}
	if diff := cmp.Diff(want, parseResult(text)); diff != "" {
		t.Errorf("result (-want +got):\n%s", diff)
	}
	if got := parseResult("slurmstepd: error: cancelled\n"); got != nil {
		t.Errorf("a job that printed none has the result %+v", got)
	}
}

func TestParseSacct(t *testing.T) {
	got, err := parseSacct("17|CANCELLED by 2001|1000|1010|1030|2|gpu[01-02]")
	if err != nil {
		t.Fatal(err)
	}
	want := Row{ID: "17", State: "CANCELLED", Submit: time.Unix(1000, 0), Start: time.Unix(1010, 0), End: time.Unix(1030, 0), Nodes: 2, NodeList: "gpu[01-02]"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("row (-want +got):\n%s", diff)
	}
	got, err = parseSacct("18|PENDING|1000|Unknown|Unknown|1|None assigned")
	if err != nil || !got.Start.IsZero() || !got.End.IsZero() {
		t.Errorf("a job that has not started: %+v, %v", got, err)
	}
	if _, err := parseSacct("18|PENDING"); err == nil {
		t.Error("a short line was taken")
	}
}

func TestSummarize(t *testing.T) {
	at := func(s int64) time.Time { return time.Unix(s, 0) }
	rows := []Row{
		{State: "COMPLETED", Submit: at(100), Start: at(100), End: at(160), Job: workload.Job{GPUs: 1}, Result: &Result{NPR: 1, Seconds: 60}},
		{State: "COMPLETED", Submit: at(110), Start: at(130), End: at(190), Job: workload.Job{GPUs: 4}, Result: &Result{NPR: 0.5, Seconds: 60}},
		{State: "TIMEOUT", Submit: at(120), Start: at(160), End: at(220), Job: workload.Job{GPUs: 2}},
	}
	want := Summary{
		Jobs: 3, Killed: 1,
		Makespan:  120 * time.Minute,
		MeanJCT:   80 * time.Minute, // 60, 80 and 100 s
		P95JCT:    100 * time.Minute,
		MeanDelay: 20 * time.Minute, // 0, 20 and 40 s
		ANPR:      0.6,              // (1*1 + 4*0.5) / 5
	}
	if diff := cmp.Diff(want, Summarize(rows, 60, 1)); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	// A clock that runs as fast as the jobs stretches nothing.
	if got := Summarize(rows, 40, 40).Makespan; got != 2*time.Minute {
		t.Errorf("makespan at the jobs' own pace = %v, want 2m", got)
	}
	if diff := cmp.Diff(Summary{}, Summarize(nil, 60, 1)); diff != "" {
		t.Errorf("no rows (-want +got):\n%s", diff)
	}
}

func TestPaced(t *testing.T) {
	got := Paced(1.0 / 60)
	if got["limits.max-wait"] != "2m0s" || got["agent.tau"] != "1m0s" || got["limits.ttl"] != "20s" {
		t.Errorf("paced to a minute an hour: %v", got)
	}
	if got := Paced(1); len(got) != 0 {
		t.Errorf("a lab at the jobs' pace needs no overrides: %v", got)
	}
}
