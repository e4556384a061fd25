// SPDX-License-Identifier: Apache-2.0

package sacct

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

const us = "\x1f"

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// trained is a run of an hour on two nodes.
func trained(id slurm.JobID) slurm.PastJob {
	return slurm.PastJob{
		ID: id, ArrayTaskID: -1, Name: "train", User: "ada", Account: "lab", Partition: "gpu", QOS: "normal",
		Cluster: "c1", Command: "sbatch train.sh", State: slurm.State{Base: "COMPLETED"},
		Submit: noon, Eligible: noon, Start: noon.Add(time.Minute), End: noon.Add(61 * time.Minute), Elapsed: time.Hour,
		TimeLimit: 2 * time.Hour, GPUs: 8, GPUType: "a100", NodeCount: 2, Nodes: []string{"gpu01", "gpu02"},
		CPUs: 32, Priority: 1000, GPUUtil: -1, GPUMemory: -1,
	}
}

func text(runs ...slurm.PastJob) string {
	b := []byte(slurmtest.SacctHeader(us))
	for i := range runs {
		b = slurmtest.AppendSacctRow(b, &runs[i], us)
	}
	return string(b)
}

// read reads a text and returns the runs and how often what was odd.
func read(t testing.TB, in string) ([]slurm.PastJob, map[string]int, error) {
	t.Helper()
	var out []slurm.PastJob
	odd := map[string]int{}
	err := Read(strings.NewReader(in), Format{Location: time.UTC}, slurm.PastSink{
		Run: func(j *slurm.PastJob) error { out = append(out, *j); return nil },
		Odd: func(reason, where string) {
			odd[reason]++
			if !strings.HasPrefix(where, "line ") {
				t.Errorf("%s is at %q: which line?", reason, where)
			}
		},
	})
	return out, odd, err
}

func TestRunsComeBackAsWritten(t *testing.T) {
	names := rapid.SliceOfN(rapid.SampledFrom([]string{
		"train", " ", "|", us, "\n", "7", "\"", "é", "\x1e", ";", "\\", "'", "run_2026-01-01", "5" + us + "x", "--",
	}), 0, 6)
	seconds := func(rt *rapid.T, label string) time.Duration {
		return time.Duration(rapid.IntRange(1, 1e6).Draw(rt, label)) * time.Second
	}
	rapid.Check(t, func(rt *rapid.T) {
		var runs []slurm.PastJob
		for i := range rapid.IntRange(1, 8).Draw(rt, "runs") {
			j := trained(slurm.JobID(100 + i))
			j.Name = strings.ReplaceAll(strings.Join(names.Draw(rt, "name"), ""), us, "_")
			j.Command = strings.TrimRight(strings.Join(names.Draw(rt, "command"), ""), "\r\n"+us)
			j.Start = j.Submit.Add(seconds(rt, "waited"))
			j.Elapsed = seconds(rt, "took")
			j.End = j.Start.Add(j.Elapsed)
			j.State.Base = rapid.SampledFrom([]string{"COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "NODE_FAIL", "OUT_OF_MEMORY", "REQUEUED", "PREEMPTED"}).Draw(rt, "state")
			j.ExitCode = rapid.IntRange(0, 140).Draw(rt, "exit")
			if j.ExitCode == 128 {
				j.ExitCode = 0
			}
			switch rapid.IntRange(0, 4).Draw(rt, "kind") {
			case 0: // a task of an array
				j.ArrayJobID, j.ArrayTaskID = 90, int64(i)
			case 1: // one that never ran
				j.Start, j.Elapsed, j.Nodes, j.State.Base = time.Time{}, 0, nil, "CANCELLED"
			case 2: // one that still runs
				j.End, j.State.Base = time.Time{}, "RUNNING"
			case 3:
				j.HetJobID, j.Unlimited, j.TimeLimit = 99, true, 0
			}
			runs = append(runs, j)
		}
		got, _, err := read(t, text(runs...))
		if err != nil {
			rt.Fatal(err)
		}
		// A line of a command that looks like the first of a row would need the
		// delimiter behind a number: the generator writes that, and then it is
		// one odd row more, but never a run less.
		if len(got) < len(runs) {
			rt.Fatalf("%d runs of %d", len(got), len(runs))
		}
		for i := range runs {
			k := slices.IndexFunc(got, func(j slurm.PastJob) bool { return j.ID == runs[i].ID })
			if k < 0 {
				rt.Fatalf("run %d is lost", runs[i].ID)
			}
			// What a command holds behind a forged row is not its own any more.
			if !strings.Contains(runs[i].Command, us) {
				if diff := cmp.Diff(runs[i], got[k]); diff != "" {
					rt.Fatalf("(-written +read):\n%s", diff)
				}
			}
		}
	})
}

func TestOddRowsCostOnlyThemselves(t *testing.T) {
	edit := func(column, value string) func(string) string {
		return func(row string) string {
			fields := strings.Split(strings.TrimSuffix(row, "\n"), us)
			i := slices.Index(strings.Split(slurmtest.SacctColumns, ","), column)
			fields[i] = value
			return strings.Join(fields, us) + "\n"
		}
	}
	tests := map[string]struct {
		edit func(row string) string
		odd  string
		kept bool
		want func(*slurm.PastJob)
	}{
		"cut off in the middle":         {edit: func(r string) string { return r[:40] + "\n" }, odd: oddFew},
		"a blank line":                  {edit: func(string) string { return "\n" }},
		"no number":                     {edit: edit("JobIDRaw", "0"), odd: oddID},
		"an id that is too long":        {edit: edit("JobIDRaw", "99999999999"), odd: oddID},
		"a state that was cut off":      {edit: edit("State", "CANCELLED+"), odd: oddState},
		"no state":                      {edit: edit("State", ""), odd: oddState},
		"a state nobody knows yet":      {edit: edit("State", "PONDERING"), kept: true, want: func(j *slurm.PastJob) { j.State.Base = "PONDERING" }},
		"no submit time":                {edit: edit("Submit", "Unknown"), odd: oddSubmit},
		"an end that is no time":        {edit: edit("End", "soon"), odd: oddTime},
		"an end in the year 3000":       {edit: edit("End", "32503680000"), odd: oddTime},
		"a negative start":              {edit: edit("Start", "-5"), odd: oddTime},
		"a date in place of seconds":    {edit: edit("Submit", "2026-03-01T12:00:00"), kept: true},
		"TRES with rubbish":             {edit: edit("AllocTRES", "cpu=32,node=2,gres/gpu=8,gres/gpu:a100=8,,=3,billing"), odd: "odd AllocTRES", kept: true},
		"GPUs only typed":               {edit: edit("AllocTRES", "cpu=32,node=2,gres/gpu:a100=8"), kept: true},
		"GPUs of two types":             {edit: edit("AllocTRES", "cpu=32,node=2,gres/gpu:v100=6,gres/gpu:a100=2,gres/gpu=8"), kept: true, want: func(j *slurm.PastJob) { j.GPUType = "v100" }},
		"a node list that never closes": {edit: edit("NodeList", "gpu[01-"), odd: "odd node list", kept: true, want: func(j *slurm.PastJob) { j.Nodes = nil }},
		"a limit in words":              {edit: edit("TimelimitRaw", "Partition_Limit"), kept: true, want: func(j *slurm.PastJob) { j.TimeLimit = 0 }},
		"a limit that is none":          {edit: edit("TimelimitRaw", "UNLIMITED"), kept: true, want: func(j *slurm.PastJob) { j.TimeLimit, j.Unlimited = 0, true }},
		"a limit that is rubbish":       {edit: edit("TimelimitRaw", "x"), odd: "odd TimelimitRaw", kept: true, want: func(j *slurm.PastJob) { j.TimeLimit = 0 }},
		"elapsed is negative":           {edit: edit("ElapsedRaw", "-4"), odd: "odd ElapsedRaw", kept: true, want: func(j *slurm.PastJob) { j.Elapsed = 0 }},
		"elapsed longer than the run":   {edit: edit("ElapsedRaw", "3700"), odd: "ran longer than from start to end", kept: true},
		"ends before it starts": {edit: edit("End", fmt.Sprint(noon.Unix())), odd: "ends before it starts", kept: true,
			want: func(j *slurm.PastJob) { j.End, j.Elapsed = noon, 0 }},
		"an exit code in words":         {edit: edit("ExitCode", "one"), odd: "odd exit code", kept: true},
		"bytes that are no text":        {edit: edit("JobName", "a\xffb"), kept: true, want: func(j *slurm.PastJob) { j.Name = "a\uFFFDb" }},
		"pending tasks of an array":     {edit: edit("JobID", "6_[3-6%1]"), kept: true, want: func(j *slurm.PastJob) { j.ArrayJobID = 6 }},
		"a task of an array":            {edit: edit("JobID", "1043074_91"), kept: true, want: func(j *slurm.PastJob) { j.ArrayJobID, j.ArrayTaskID = 1043074, 91 }},
		"an array id that is rubbish":   {edit: edit("JobID", "7_x"), odd: "odd array or het id", kept: true},
		"a delimiter at the end (-p)":   {edit: func(r string) string { return strings.TrimSuffix(r, "\n") + us + "\n" }, kept: true},
		"the end of line of another OS": {edit: func(r string) string { return strings.TrimSuffix(r, "\n") + "\r\n" }, kept: true},
		"a delimiter in the name": {edit: edit("JobName", "a"+us+"b"), odd: "delimiter inside a name or command", kept: true,
			want: func(j *slurm.PastJob) { j.Name, j.Command = "a", "b"+us+"sbatch train.sh" }},
		"a command of a megabyte": {edit: edit("SubmitLine", strings.Repeat("x", 1<<20)), odd: "row longer than 64 KiB, its end cut off", kept: true,
			want: func(j *slurm.PastJob) { j.Command = strings.Repeat("x", maxFree) }},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			row := trained(2)
			in := text(trained(1)) + tc.edit(strings.TrimPrefix(text(row), slurmtest.SacctHeader(us))) +
				strings.TrimPrefix(text(trained(3)), slurmtest.SacctHeader(us))
			got, odd, err := read(t, in)
			if err != nil {
				t.Fatal(err)
			}
			want := []slurm.PastJob{trained(1)}
			if tc.kept {
				if tc.want != nil {
					tc.want(&row)
				}
				want = append(want, row)
			}
			if diff := cmp.Diff(append(want, trained(3)), got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			wantOdd := map[string]int{}
			if tc.odd != "" {
				wantOdd[tc.odd] = 1
			}
			if diff := cmp.Diff(wantOdd, odd); diff != "" {
				t.Errorf("odd (-want +got):\n%s", diff)
			}
		})
	}
}

func TestSteps(t *testing.T) {
	in := strings.Join([]string{
		"JobIDRaw|State|Submit|Start|End|AllocTRES|TRESUsageInTot|JobName",
		"7|COMPLETED|1772366400|1772366460|1772370060|cpu=8,gres/gpu=2,node=1||train",
		"7.batch|COMPLETED|1772366400|1772366460|1772370060|cpu=8|cpu=00:00:01|batch",
		"7.extern|COMPLETED|1772366400|1772366460|1772370060|cpu=8|gres/gpumem=0,gres/gpuutil=0|extern",
		"7.0|COMPLETED|1772366400|1772366460|1772370060|cpu=8|gres/gpumem=36266M,gres/gpuutil=150|train",
		"8|FAILED|1772366400|1772366460|1772370060|cpu=8,gres/gpu=2,node=1||train",
		"9.0|FAILED|1772366400|1772366460|1772370060|cpu=8||train",
	}, "\n")
	got, odd, err := read(t, in)
	if err != nil || len(got) != 2 {
		t.Fatalf("%v, %+v", err, got)
	}
	if got[0].GPUUtil != 0.75 || got[0].GPUMemory != 36266<<20 {
		t.Errorf("use of the GPUs: %v of 0.75, %v bytes of %d", got[0].GPUUtil, got[0].GPUMemory, 36266<<20)
	}
	if got[1].GPUUtil >= 0 || got[1].GPUMemory >= 0 {
		t.Errorf("a run without steps has a use of its GPUs: %+v", got[1])
	}
	if odd[oddStep] != 1 {
		t.Errorf("odd: %v", odd)
	}
}

func TestHeader(t *testing.T) {
	row := "7|COMPLETED|1772366400|1772366460|1772370060\n"
	tests := map[string]struct{ in, fails string }{
		"as sacct -P writes it":       {"JobIDRaw|State|Submit|Start|End\n" + row, ""},
		"in another order":            {"State|JobIDRaw|End|Submit|Start\nFAILED|7|1772370060|1772366400|1772366460\n", ""},
		"with a column nobody knows":  {"JobIDRaw|State|Submit|Start|End|Mood\n7|COMPLETED|1772366400|1772366460|1772370060|good\n", ""},
		"twice, of two joined files":  {"JobIDRaw|State|Submit|Start|End\n" + row + "JobIDRaw|State|Submit|Start|End\n", ""},
		"none":                        {row, "no header"},
		"an empty file":               {"", "nothing to read"},
		"padded with blanks":          {"JobIDRaw      State Submit Start End\n", "padded"},
		"without the end":             {"JobIDRaw|State|Submit|Start\n", "no column End"},
		"a picture, not a file of it": {"\x89PNG\r\n", "no header"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			got, _, err := read(t, tc.in)
			if tc.fails != "" {
				if err == nil || !strings.Contains(err.Error(), tc.fails) || !strings.Contains(slurm.HintOf(err), "--noconvert") {
					t.Errorf("error %v (hint: %s), want one of %q", err, slurm.HintOf(err), tc.fails)
				}
				return
			}
			if err != nil || len(got) != 1 || got[0].ID != 7 {
				t.Errorf("%v, %+v", err, got)
			}
		})
	}
}

func TestSinkStopsTheReading(t *testing.T) {
	full := errors.New("disk full")
	n := 0
	err := Read(strings.NewReader(text(trained(1), trained(2), trained(3))), Format{}, slurm.PastSink{
		Run: func(*slurm.PastJob) error { n++; return full }, Odd: func(string, string) {},
	})
	if !errors.Is(err, full) || n != 1 {
		t.Errorf("%v after %d runs", err, n)
	}
}

// TestSharedCasesAsFields puts every odd string of the shared cases into every
// column of a row between two others: whatever it does to its own row, the
// neighbours are read, and nothing is lost uncounted.
func TestSharedCasesAsFields(t *testing.T) {
	for id, s := range sharedStrings(t) {
		for i, column := range strings.Split(slurmtest.SacctColumns, ",") {
			if strings.ContainsAny(s, us) || i == 0 && strings.Contains(s, "\n") {
				continue
			}
			row := trained(2)
			fields := strings.Split(strings.TrimSuffix(strings.TrimPrefix(text(row), slurmtest.SacctHeader(us)), "\n"), us)
			fields[i] = s
			got, odd, err := read(t, text(trained(1))+strings.Join(fields, us)+"\n"+strings.TrimPrefix(text(trained(3)), slurmtest.SacctHeader(us)))
			if err != nil {
				t.Fatalf("%s in %s: %v", id, column, err)
			}
			if len(got) < 2 || got[0].ID != 1 || got[len(got)-1].ID != 3 || len(got) == 2 && len(odd) == 0 {
				t.Errorf("%s in %s (%q): %d runs, odd %v", id, column, s, len(got), odd)
			}
			if len(got) == 2 && i > 0 && column != "State" && column != "Submit" && column != "Start" && column != "End" && !strings.Contains(s, "\n") {
				t.Errorf("%s in %s (%q): the run is gone, though another field is odd", id, column, s)
			}
		}
	}
	if got := standard(nil, true); slices.ContainsFunc(got, func(f string) bool { return strings.Contains(f, "GRES") }) {
		t.Errorf("A13: sacct no longer has AllocGRES and ReqGRES: %v", got)
	}
}

func sharedStrings(t *testing.T) map[string]string {
	t.Helper()
	dir := os.Getenv("RIFLING_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "..", "..", "shared")
	}
	path := filepath.Join(dir, "cases", "cases.json")
	b, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		t.Skipf("%s is not there: set RIFLING_SHARED", path)
	}
	if err != nil {
		t.Fatal(err)
	}
	var cases []struct{ ID, Input string }
	if err := json.Unmarshal(b, &cases); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, c := range cases {
		out[c.ID] = c.Input
	}
	if len(out) < 50 {
		t.Fatalf("only %d cases: %v", len(out), slices.Collect(maps.Keys(out)))
	}
	return out
}

func FuzzRead(f *testing.F) {
	f.Add(text(trained(1), trained(2)))
	f.Add("JobIDRaw|State|Submit|Start|End|JobName\n1|CANCELLED by 3|5|None|Unknown|a\nb\n1.0|x\n")
	f.Fuzz(func(t *testing.T, in string) {
		err := Read(strings.NewReader(in), Format{Location: time.UTC}, slurm.PastSink{
			Run: func(j *slurm.PastJob) error {
				if j.ID == 0 || j.Submit.IsZero() || j.GPUs < 0 || j.Elapsed < 0 || len(j.Name) > 3*maxFree {
					t.Errorf("%+v", j)
				}
				return nil
			},
			Odd: func(string, string) {},
		})
		if err != nil && !strings.Contains(err.Error(), "header") {
			t.Error(err)
		}
	})
}

func BenchmarkRead(b *testing.B) {
	var runs []slurm.PastJob
	for i := range 2000 {
		j := trained(slurm.JobID(i + 1))
		j.Name = fmt.Sprint("train_", i%50)
		j.Nodes = []string{fmt.Sprintf("gpu%03d", i%100), fmt.Sprintf("gpu%03d", i%100+1)}
		runs = append(runs, j)
	}
	in := text(runs...)
	b.SetBytes(int64(len(in)))
	for b.Loop() {
		if err := Read(strings.NewReader(in), Format{}, slurm.PastSink{
			Run: func(*slurm.PastJob) error { return nil }, Odd: func(string, string) {},
		}); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(runs)), "ns/run")
}
