// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/contrib/labrun"
	"rifling/contrib/workload"
)

// twoPolicies is a comparison in which pack takes a tenth off completion times.
func twoPolicies() []outcome {
	s := func(makespan, jct time.Duration, anpr float64) labrun.Summary {
		return labrun.Summary{Jobs: 60, Makespan: makespan, MeanJCT: jct, P95JCT: 2 * jct, MeanDelay: jct / 2, ANPR: anpr}
	}
	return []outcome{
		{policy: bySlurm, seed: 1, summary: s(5*time.Hour, 2*time.Hour, 0.8)},
		{policy: bySlurm, seed: 2, summary: s(5*time.Hour, 3*time.Hour, 0.8)},
		{policy: byPack, seed: 1, summary: s(5*time.Hour, 108*time.Minute, 0.88)},
		{policy: byPack, seed: 2, summary: s(5*time.Hour, 162*time.Minute, 0.88)},
	}
}

func TestTable(t *testing.T) {
	var b bytes.Buffer
	if err := newTable([]string{bySlurm, byPack}, []uint64{1, 2}, twoPolicies()).print(&b); err != nil {
		t.Fatal(err)
	}
	want := `
  policy      seed       makespan       mean JCT        p95 JCT     mean delay           ANPR  not completed
   slurm         1         5.00 h         2.00 h         4.00 h         1.00 h          0.800        0 of 60
   slurm         2         5.00 h         3.00 h         6.00 h         1.50 h          0.800        0 of 60
    pack         1         5.00 h         1.80 h         3.60 h         0.90 h          0.880        0 of 60
    pack         2         5.00 h         2.70 h         5.40 h         1.35 h          0.880        0 of 60
   slurm      mean  5.00 h ± 0.00  2.50 h ± 0.71  5.00 h ± 1.41  1.25 h ± 0.35  0.800 ± 0.000               
    pack      mean  5.00 h ± 0.00  2.25 h ± 0.64  4.50 h ± 1.27  1.12 h ± 0.32  0.880 ± 0.000               
    pack  vs slurm         +0.0 %        -10.0 %        -10.0 %        -10.0 %        +10.0 %               

`
	if diff := cmp.Diff(want, b.String()); diff != "" {
		t.Errorf("table (-want +got):\n%s", diff)
	}
}

func TestBarLine(t *testing.T) {
	tb := newTable([]string{bySlurm, byPack}, []uint64{1, 2}, twoPolicies())
	target := func(v float64) *float64 { return &v }
	tests := []struct {
		name   string
		metric string
		target *float64
		want   string
		met    bool
	}{
		{"no target is always met", "jct", nil, "bar: lab-compare value=-10.0 target=none ok", true},
		{"completion times fell far enough", "jct", target(-9.5), "bar: lab-compare value=-10.0 target=-9.5 ok", true},
		{"not far enough", "jct", target(-15), "bar: lab-compare value=-10.0 target=-15 short", false},
		{"a rate must rise", "anpr", target(5), "bar: lab-compare value=10.0 target=5 ok", true},
		{"and this one too little", "anpr", target(19.6), "bar: lab-compare value=10.0 target=19.6 short", false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, met := tb.bar(tt.metric, tt.target)
			if got != tt.want || met != tt.met {
				t.Errorf("bar = %q, %v; want %q, %v", got, met, tt.want, tt.met)
			}
		})
	}
}

func TestBadFlags(t *testing.T) {
	tests := map[string][]string{
		"pick":                              {"-policies", "slurm,pick"},
		"twice":                             {"-seeds", "1,1"},
		"seed 2 is in -seeds and in -train": {"-seeds", "1,2", "-train", "2"},
		"metric":                            {"-metric", "speed"},
		"above 0":                           {"-parallel", "0"},
		"-target":                           {"-target", "much"},
	}
	for say, args := range tests {
		var out, errs bytes.Buffer
		if code := run(context.Background(), args, &out, &errs); code != 2 || !strings.Contains(errs.String(), say) {
			t.Errorf("%v: status %d, said %q; want 2 and %q", args, code, errs.String(), say)
		}
	}
}

func TestCSVHasARowPerJob(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rows.csv")
	row := labrun.Row{
		ID: "7", State: "COMPLETED", NodeList: "gpu01", Submit: time.Unix(10, 0), Start: time.Unix(20, 0), End: time.Unix(30, 0),
		Job:    workload.Job{Name: "bert-x", User: "alice", Model: "bert", GPUs: 4, Request: []string{"--nodes=1", "--gres=gpu:4"}, Work: time.Hour},
		Result: &labrun.Result{Shape: "4", NPR: 1},
	}
	killed := row
	killed.ID, killed.State, killed.Result = "8", "TIMEOUT", nil
	if err := writeCSV(path, []outcome{{policy: byPack, seed: 2, rows: []labrun.Row{row, killed}}}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	want := `policy,seed,job,name,user,model,gpus,request,open,state,submit,start,end,nodes,shape,npr,work_seconds
pack,2,7,bert-x,alice,bert,4,--nodes=1 --gres=gpu:4,false,COMPLETED,10,20,30,gpu01,4,1.0000,3600
pack,2,8,bert-x,alice,bert,4,--nodes=1 --gres=gpu:4,false,TIMEOUT,10,20,30,gpu01,,,3600
`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("CSV (-want +got):\n%s", diff)
	}
}

func TestCopyDatabase(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "a.db"), filepath.Join(dir, "b.db")
	if err := copyDatabase(from, to); err == nil {
		t.Error("a database that is not there was copied")
	}
	for _, f := range []string{from, from + "-wal"} {
		if err := os.WriteFile(f, []byte(f), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := copyDatabase(from, to); err != nil {
		t.Fatal(err)
	}
	for _, suffix := range []string{"", "-wal"} {
		if got, err := os.ReadFile(to + suffix); err != nil || string(got) != from+suffix {
			t.Errorf("%s holds %q, %v", to+suffix, got, err)
		}
	}
}
