// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/collector"
)

// stand builds the stand-in NVML and a node of files: a job on one GPU, a
// process of nobody on another, a third idle, a fourth that two jobs share; one
// port up, one down.
func stand(t *testing.T) config {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc to build the stand-in NVML with")
	}
	const ib, eth = "sys/class/infiniband/mlx5_0/ports/1/", "sys/class/net/eth0/"
	dir := files(t, map[string]string{
		"gpu/0": gpuFile("GPU-a", 100), "gpu/1": gpuFile("GPU-b", 101), "gpu/2": gpuFile("GPU-c", 0),
		"gpu/3":           strings.Replace(gpuFile("GPU-d", 0), "pid 0", "proc 100 60\nproc 102 20", 1),
		"proc/102/stat":   "102 (b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12347 0 0\n",
		"proc/102/cgroup": "0::/system.slice/slurmstepd.scope/job_18/step_0/user/task_0\n",
		"proc/100/stat":   "100 (a) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n",
		"proc/100/cgroup": "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0\n",
		"proc/101/stat":   "101 (b) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12346 0 0\n",
		"proc/101/cgroup": "0::/user.slice/user-1000.slice\n", "proc/101/environ": "HOME=/\x00",
		ib + "rate": "50 Gb/sec (4X)\n", ib + "state": "4: ACTIVE\n",
		ib + "counters/port_xmit_data": "0\n", ib + "counters/port_rcv_data": "0\n",
		eth + "type": "1\n", eth + "operstate": "down\n", eth + "device/vendor": "1\n",
	})
	lib := filepath.Join(dir, "libnvidia-ml.so.1")
	sources, err := filepath.Glob("../../contrib/nvmlstub/*.c")
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("gcc", append([]string{"-shared", "-fPIC", "-o", lib}, sources...)...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	t.Setenv("RIFLING_NVML_STUB_DIR", dir)
	keepFresh(t, dir)
	return config{Node: "gpu01", URL: "http://127.0.0.1:1", SecretFile: filepath.Join(dir, "secret"), Interval: 200 * time.Millisecond,
		Library: lib, Sysfs: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), LogLevel: "info"}
}

// keepFresh gives the files of a node's GPUs new time stamps until the test
// ends, as a driver renews its counters.
func keepFresh(t *testing.T, dir string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "gpu", "?"))
	if err != nil || len(paths) == 0 {
		t.Fatalf("GPUs %v, %v", paths, err)
	}
	texts := map[string]string{}
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		texts[path], _, _ = strings.Cut(string(text), "stamp_us")
	}
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	t.Cleanup(func() { cancel(); <-ended })
	go func() {
		defer close(ended)
		for ctx.Err() == nil {
			for path, text := range texts {
				fresh := fmt.Sprintf("%sstamp_us %d\n", text, time.Now().UnixMicro())
				if err := os.WriteFile(path+".new", []byte(fresh), 0o600); err != nil {
					t.Error(err)
				}
				if err := os.Rename(path+".new", path); err != nil {
					t.Error(err)
				}
			}
			time.Sleep(20 * time.Millisecond)
		}
	}()
}

func TestOnceShowsAllThatIsThere(t *testing.T) {
	c := stand(t)
	var out bytes.Buffer
	if err := printOnce(t.Context(), c, true, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	var got []string
	for dec := json.NewDecoder(&out); dec.More(); {
		var l struct {
			Kind      string
			Node      string
			UUID      string
			Name      string
			Type      string
			Up        bool
			Used      bool
			NoJob     string `json:"no_job"`
			JobID     int    `json:"job_id"`
			Model     string
			GPUs      int
			Weight    float64
			GPUShared bool `json:"gpu_shared"`
			FoundBy   map[string]int
			Jobs      []struct {
				JobID   int    `json:"job_id"`
				FoundBy string `json:"found_by"`
				Share   float64
			}
		}
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		line := []string{l.Kind, l.Node, l.UUID, l.Name, l.Type, l.NoJob}
		for _, j := range l.Jobs {
			line = append(line, fmt.Sprintf("%d %s %.2f", j.JobID, j.FoundBy, j.Share))
		}
		if l.Kind == "sample" {
			line = append(line, fmt.Sprint(l.JobID))
		}
		if l.GPUShared && l.GPUs == 1 && l.Weight == 0.125 && l.Model != "" {
			line = append(line, "shared")
		}
		if l.Used {
			line = append(line, "used")
		}
		got = append(got, strings.Join(strings.Fields(strings.Join(line, " ")), " "))
	}
	want := []string{"node gpu01", "sample gpu01 17", "sample gpu01 18 shared", "gpu GPU-a 17 cgroup 1.00", "gpu GPU-b none", "gpu GPU-c",
		"gpu GPU-d 17 cgroup 0.75 18 cgroup 0.25", "port mlx5_0/1 infiniband used", "port eth0 ethernet"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	out.Reset()
	if err := printOnce(t.Context(), c, false, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"job 17 by cgroup", "a process, of no job", "idle", "counts", "down"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("the tables do not say %q:\n%s", want, out.String())
		}
	}
}

func TestCheckOfPortsThatAreNotThere(t *testing.T) {
	c := stand(t)
	c.Ports = []string{"mlx6_*"}
	var out bytes.Buffer
	if err := check(t.Context(), c, &out); err == nil || !strings.Contains(out.String(), "FAIL  network  no port that is up has a name of --ports mlx6_*") {
		t.Errorf("error %v:\n%s", err, out.String())
	}
}

// What was measured while riflingd was away arrives after the collector was
// stopped and started again, once and in order.
func TestSamplesOutliveTheCollector(t *testing.T) {
	c := stand(t)
	c.Spool = t.TempDir()
	if err := os.WriteFile(c.SecretFile, []byte("s3cret\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	r := collector.NewReceiver(collector.ReceiverOptions{Secret: collector.SecretFile(c.SecretFile), Now: time.Now})
	daemon := httptest.NewServer(r)
	defer daemon.Close()
	away := c
	away.URL = "http://127.0.0.1:1"
	runFor(t, away, time.Second)
	if got := r.Drain(); len(got) != 0 {
		t.Fatalf("%d samples came to a daemon that nobody was told of", len(got))
	}
	c.URL = daemon.URL
	runFor(t, c, time.Second)
	last := map[string]uint64{}
	var boots []string
	for _, s := range r.Drain() {
		if last[s.Boot] == 0 {
			boots = append(boots, s.Boot)
		}
		if s.Seq != last[s.Boot]+1 {
			t.Errorf("sample %d of run %s comes after %d", s.Seq, s.Boot, last[s.Boot])
		}
		last[s.Boot] = s.Seq
	}
	if len(boots) != 2 || last[boots[0]] < 2 {
		t.Errorf("samples of runs %v came, want of both, those of the first first", last)
	}
}

// runFor runs the collector for so long.
func runFor(t *testing.T, c config, d time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var log bytes.Buffer
	if err := run(ctx, c, &log); err != nil {
		t.Fatalf("run: %v\n%s", err, log.String())
	}
}
