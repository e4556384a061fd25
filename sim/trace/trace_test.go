// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bytes"
	"compress/gzip"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"
)

func read(t *testing.T, text string, o Options) ([]Job, Report) {
	t.Helper()
	jobs, rep, err := ReadAll(strings.NewReader(text), "", o)
	if err != nil {
		t.Fatal(err)
	}
	return jobs, rep
}

// Each format's row becomes the job that it means.
func TestFormats(t *testing.T) {
	nan := math.NaN()
	for name, tc := range map[string]struct {
		text string
		want Job
	}{
		"SWF": {"; UnixStartTime: 0\n1 60 5 222 80 -1 -1 96 14400 1024 0 7 3 9 1 -1 -1 -1\n",
			Job{Line: 2, ID: "1", Submit: time.Minute, Wait: 5 * time.Second, Duration: 222 * time.Second, GPUs: 96,
				Milli: 1000, Limit: 4 * time.Hour, User: "7", Group: "3", Name: "9", Queue: "1", Memory: 96 << 20, Estimate: nan}},
		"Philly": {"job,submit_s,gpus,duration_s,noisy_gpu_seconds_estimate\np1,49302,8,2126,-14744\n",
			Job{Line: 2, ID: "p1", Submit: 49302 * time.Second, Duration: 2126 * time.Second, GPUs: 8, Milli: 1000,
				Estimate: 8 * -14744, Wait: -1, Completed: true}},
		"Muri": {"job_id,num_gpu,submit_time,iterations,model_name,batch_size,duration,interval,iteration_time,resource_time_0,resource_time_1,resource_time_2,priority\n" +
			"0,4,1500,1046,vgg,128,927475,11174,886,703,62,17,2\n",
			Job{Line: 2, ID: "0", Submit: 1500 * time.Millisecond, Duration: 927475 * time.Millisecond, GPUs: 4, Milli: 1000,
				Model: "vgg", Batch: 128, Iterations: 1046, Stages: []float64{0.703, 0.062, 0.017}, Priority: 2,
				Estimate: nan, Wait: -1, Completed: true}},
		"Pollux": {"name,time,application,num_replicas,batch_size\nncf-0,107,ncf,6,2048\n",
			Job{Line: 2, ID: "ncf-0", Submit: 107 * time.Second, GPUs: 6, Milli: 1000, Model: "ncf", Batch: 2048,
				Iterations: 1, Estimate: nan, Wait: -1, Completed: true}},
		"openb": {"name,cpu_milli,memory_mib,num_gpu,gpu_milli,gpu_spec,qos,pod_phase,creation_time,deletion_time,scheduled_time\n" +
			"pod,6000,12288,1,460,,LS,Running,427,1427,427\n",
			Job{Line: 2, ID: "pod", Submit: 427 * time.Second, Duration: 1000 * time.Second, GPUs: 1, Milli: 460, CPUs: 6,
				Memory: 12 << 30, Queue: "LS", Estimate: nan, Wait: -1, Completed: true}},
		"lab": {"job,gpus,duration,limit,submit_requested,submit_real,start_real,end_real,nodes,by_backfill,state\n" +
			"2,16,1835,2160,45,46,50,1884,\"n[2-3]\",0,COMPLETED\n",
			Job{Line: 2, ID: "2", Submit: 46 * time.Second, Wait: 4 * time.Second, Duration: 1835 * time.Second,
				Limit: 36 * time.Minute, GPUs: 16, Milli: 1000, Estimate: nan, Completed: true}},
		"DeepShare": {`{"0": {"model": "MoE", "gpu_demand": 4, "total_samples_to_train": 159.5}}`,
			Job{Line: 1, ID: "0", GPUs: 4, Milli: 1000, Model: "MoE", Iterations: 159.5, Estimate: nan, Wait: -1, Completed: true}},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, rep := read(t, tc.text, Options{})
			if diff := cmp.Diff([]Job{tc.want}, jobs, cmpopts.EquateNaNs(), cmpopts.EquateApprox(1e-12, 0)); diff != "" {
				t.Errorf("want -, got +:\n%s\n%+v", diff, rep)
			}
		})
	}
}

// heading and row make a trace of the shortest format.
const heading = "job,submit_s,gpus,duration_s,noisy_gpu_seconds_estimate\n"

// What cannot be right is left out and named by its line; strict refuses it.
func TestOddRows(t *testing.T) {
	good := "a,1,8,10,80\n"
	for name, tc := range map[string]struct {
		text string
		o    Options
		what string
		line int
	}{
		"negative duration":         {heading + good + "b,2,8,-5,1\n", Options{}, "negative duration", 3},
		"negative submit time":      {heading + "b,-2,8,5,1\n" + good, Options{}, "negative submit time", 2},
		"no GPUs":                   {heading + good + "b,2,0,5,1\n", Options{}, "no GPUs or processors", 3},
		"duplicate":                 {heading + good + "a,2,8,5,1\n", Options{}, "job id seen before", 3},
		"larger than the cluster":   {heading + good + "b,2,65,5,1\n", Options{MaxGPUs: 64}, "larger than the cluster", 3},
		"too few columns":           {heading + good + "b,2,8\n", Options{}, "wrong number of columns", 3},
		"words for numbers":         {heading + good + "b,soon,8,5,1\n", Options{}, "column submit_s is no number", 3},
		"half a GPU where whole":    {heading + good + "b,2,0.5,5,1\n", Options{}, "column gpus is no count", 3},
		"time beyond any clock":     {heading + good + "b,1e300,8,5,1\n", Options{}, "column submit_s is no time", 3},
		"a quote that never closes": {heading + good + "b,\"2,8,5,1\n", Options{}, `not CSV: extraneous or missing " in quoted-field`, 3},
		"SWF, too few fields":       {";\n1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n2 0 0\n", Options{}, "not 18 fields", 3},
		"SWF, words":                {";\n1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n2 0 0 x 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n", Options{}, "field 4 is no number", 3},
		"JSON, odd type":            {`{"0": {"model": "a", "gpu_demand": 1, "total_samples_to_train": 5}, "1": {"gpu_demand": "x"}}`, Options{}, "field gpu_demand has an odd type", 2},
		"JSON, cut short":           {`{"0": {"model": "a", "gpu_demand": 1, "total_samples_to_train": 5}, "1": {"gpu`, Options{}, "the stream is cut short here", 2},
	} {
		t.Run(name, func(t *testing.T) {
			jobs, rep := read(t, tc.text, tc.o)
			if len(jobs) != 1 || rep.Left[tc.what] != 1 || len(rep.First) != 1 || rep.First[0].Line != tc.line {
				t.Errorf("%d jobs, left out %v, first %v; want one of %q at line %d", len(jobs), rep.Left, rep.First, tc.what, tc.line)
			}
			tc.o.Strict = true
			var p RowError
			if _, _, err := ReadAll(strings.NewReader(tc.text), "", tc.o); !errors.As(err, &p) || p.Line != tc.line {
				t.Errorf("strict: %v, want a RowError of line %d", err, tc.line)
			}
		})
	}
}

func TestUnsortedRowsAreSortedOrRefused(t *testing.T) {
	text := heading + "a,5,1,1,1\nb,3,1,1,1\nc,4,1,1,1\n"
	jobs, rep := read(t, text, Options{})
	ids := ""
	for _, j := range jobs {
		ids += j.ID
	}
	if ids != "bca" || rep.Unsorted != 2 {
		t.Errorf("order %s, unsorted %d; want bca and 2", ids, rep.Unsorted)
	}
	if _, _, err := ReadAll(strings.NewReader(text), "", Options{Strict: true}); err == nil {
		t.Error("strict took an unsorted trace")
	}
}

// Instants count from the first one, whatever the zone that each is written in.
func TestInstants(t *testing.T) {
	head := "job,submit_s,gpus,duration_s,user,milli\n"
	first := "a,2026-01-01T12:00:00+01:00,1,5,u,1000\n"
	jobs, rep := read(t, head+first+"b,2026-01-01T11:30:00Z,1,5,u,1000\n", Options{})
	if len(jobs) != 2 || jobs[0].Submit != 0 || jobs[1].Submit != 30*time.Minute {
		t.Fatalf("%+v %+v, want the second half an hour after the first", jobs, rep)
	}
	for what, row := range map[string]string{
		"column submit_s is no instant with a time zone": "b,2026-01-01T13:00:00,1,5,u,1000\n",
		"column submit_s mixes instants and seconds":     "b,60,1,5,u,1000\n",
		"negative submit time":                           "b,2026-01-01T10:00:00Z,1,5,u,1000\n",
	} {
		if jobs, rep := read(t, head+first+row, Options{}); len(jobs) != 1 || rep.Left[what] != 1 {
			t.Errorf("%s: left out %v, want %q", row, rep.Left, what)
		}
	}
}

func TestGzipCutShort(t *testing.T) {
	var packed bytes.Buffer
	z := gzip.NewWriter(&packed)
	_, _ = io.WriteString(z, heading)
	for i := range 2000 {
		_, _ = io.WriteString(z, strings.Replace("X,1,1,10,1\n", "X", strings.Repeat("x", i%7)+string(rune('a'+i%26))+time.Duration(i).String(), 1))
	}
	_ = z.Close()
	whole, _, err := ReadAll(bytes.NewReader(packed.Bytes()), "", Options{})
	if err != nil || len(whole) != 2000 {
		t.Fatalf("%d jobs of 2000, %v", len(whole), err)
	}
	cutShort := packed.Bytes()[:packed.Len()/2]
	jobs, rep, err := ReadAll(bytes.NewReader(cutShort), "", Options{})
	if err != nil || rep.Left["the stream is cut short here"] != 1 || len(jobs) == 0 || len(jobs) == 2000 {
		t.Errorf("%d jobs, left out %v, %v", len(jobs), rep.Left, err)
	}
	if _, _, err := ReadAll(bytes.NewReader(cutShort), "", Options{Strict: true}); err == nil {
		t.Error("strict took a stream that is cut short")
	}
}

func TestUnknownFormat(t *testing.T) {
	for _, text := range []string{"", "what,is,this\n1,2,3\n", "hello"} {
		if _, _, err := ReadAll(strings.NewReader(text), "", Options{}); !errors.Is(err, ErrFormat) {
			t.Errorf("%q: %v, want ErrFormat", text, err)
		}
	}
	if _, err := NewReader(strings.NewReader(heading), Muri, Options{}); !errors.Is(err, ErrFormat) {
		t.Errorf("a Philly trace read as Muri: %v, want ErrFormat", err)
	}
}

// What is written is read back as it was.
func TestOwnFormat(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		word := rapid.StringMatching(`[a-z ,"']{0,8}[a-z]`)
		want := Job{
			Line: 2, ID: word.Draw(t, "id"), User: word.Draw(t, "user"), Group: word.Draw(t, "group"), Name: word.Draw(t, "name"),
			Queue: word.Draw(t, "queue"), Model: word.Draw(t, "model"), Milli: rapid.IntRange(1, 1000).Draw(t, "milli"),
			Submit:   time.Duration(rapid.Int64Range(0, 1e15).Draw(t, "submit")) * time.Microsecond,
			Duration: time.Duration(rapid.Int64Range(1, 1e12).Draw(t, "duration")) * time.Microsecond,
			Limit:    time.Duration(rapid.Int64Range(0, 1e6).Draw(t, "limit")) * time.Second,
			Wait:     time.Duration(rapid.Int64Range(-1, 1e6).Draw(t, "wait")),
			GPUs:     rapid.IntRange(1, 4096).Draw(t, "gpus"), Nodes: rapid.IntRange(0, 64).Draw(t, "nodes"),
			CPUs: rapid.IntRange(0, 64).Draw(t, "cpus"), Batch: rapid.IntRange(0, 512).Draw(t, "batch"),
			Iterations: rapid.Float64Range(0, 1e12).Draw(t, "iterations"), Estimate: rapid.Float64Range(-1e9, 1e9).Draw(t, "estimate"),
			Priority: rapid.IntRange(-5, 5).Draw(t, "priority"), Completed: rapid.Bool().Draw(t, "completed"),
		}
		want.Wait = max(-1, want.Wait.Round(time.Microsecond))
		var out bytes.Buffer
		w := NewWriter(&out)
		if err := errors.Join(w.Write(want), w.Flush()); err != nil {
			t.Fatal(err)
		}
		jobs, rep, err := ReadAll(bytes.NewReader(out.Bytes()), "", Options{})
		if err != nil || len(jobs) != 1 {
			t.Fatalf("%v %+v\n%s", err, rep, out.String())
		}
		trim := cmp.FilterPath(func(p cmp.Path) bool { return p.Last().Type() == nil }, cmp.Ignore())
		if diff := cmp.Diff(trimmed(want), jobs[0], trim, cmpopts.EquateApprox(1e-12, 0)); diff != "" {
			t.Fatalf("want -, got +:\n%s", diff)
		}
	})
}

// trimmed is a job whose words have lost the space around them, as in a file.
func trimmed(j Job) Job {
	for _, s := range []*string{&j.ID, &j.User, &j.Group, &j.Name, &j.Queue, &j.Model} {
		*s = strings.TrimSpace(*s)
	}
	return j
}

// Every trace that lies beside the project reads whole; the numbers of jobs are
// those that its description gives.
func TestSharedTraces(t *testing.T) {
	shared := os.Getenv("RIFLING_SHARED")
	if shared == "" {
		shared = filepath.Join("..", "..", "..", "shared")
	}
	dir := filepath.Join(shared, "traces")
	if _, err := os.Stat(dir); err != nil {
		t.Skipf("no traces at %s: set RIFLING_SHARED to the folder that holds traces/", dir)
	}
	for name, want := range map[string]int{
		"muri/trace1.csv": 1494, "muri/trace3.csv": 992, "muri/trace4.csv": 2638,
		"philly_vc/7f04ca_10x8.csv": 604, "philly_vc/0e4a51_8x8.csv": 1269, "philly_vc/2869ce_8x8.csv": 315,
		"philly_vc/103959_4x8.csv": 1450, "pollux/workload-1.csv": 160,
		"slurm_ground_truth/run1_synthetic_4x8.csv": 90, "slurm_ground_truth/run3_philly_2869ce_8x8.csv": 315,
		"openb/openb_pod_list_default.csv": 8152, "deepshare/simulate/trace0": 256, "ricc/RICC-2010-2.swf.gz": 447794,
	} {
		t.Run(name, func(t *testing.T) {
			f, err := os.Open(filepath.Join(dir, name))
			if err != nil {
				t.Skip(err)
			}
			defer f.Close()
			jobs, rep, err := ReadAll(f, "", Options{})
			if err != nil || rep.Rows != want {
				t.Fatalf("%d rows, want %d, %v", rep.Rows, want, err)
			}
			if left := want - len(jobs); left*100 > want {
				t.Errorf("%d of %d rows left out: %v %v", left, want, rep.Left, rep.First)
			} else if left > 0 {
				t.Logf("left out: %v", rep.Left)
			}
		})
	}
}

func FuzzReader(f *testing.F) {
	f.Add([]byte(heading + "a,1,8,10,80\n"))
	f.Add([]byte(heading + "\"0000")) // a row that is only the beginning of a quote
	f.Add([]byte(";\n1 0 0 10 1 -1 -1 1 10 -1 1 1 1 -1 1 -1 -1 -1\n"))
	f.Add([]byte(`{"0": {"model": "a", "gpu_demand": 1, "total_samples_to_train": 5}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		jobs, rep, err := ReadAll(bytes.NewReader(data), "", Options{MaxGPUs: 1000})
		if err != nil {
			return
		}
		for _, j := range jobs {
			if j.Duration < 0 || j.Submit < 0 || j.GPUs < 0 || j.GPUs > 1000 {
				t.Fatalf("took %+v", j)
			}
		}
		left := 0
		for _, n := range rep.Left {
			left += n
		}
		if rep.Jobs != len(jobs) || rep.Jobs+left < rep.Rows {
			t.Fatalf("%+v does not add up", rep)
		}
	})
}
