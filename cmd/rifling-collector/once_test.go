// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"io"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// stand builds the stand-in NVML and a node of files: a job on one GPU, a
// process of nobody on another, a third idle; one port up, one down.
func stand(t *testing.T) config {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc to build the stand-in NVML with")
	}
	const ib, eth = "sys/class/infiniband/mlx5_0/ports/1/", "sys/class/net/eth0/"
	dir := files(t, map[string]string{
		"gpu/0": gpuFile("GPU-a", 100), "gpu/1": gpuFile("GPU-b", 101), "gpu/2": gpuFile("GPU-c", 0),
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
	return config{Node: "gpu01", URL: "http://127.0.0.1:1", SecretFile: filepath.Join(dir, "secret"), Interval: 200 * time.Millisecond,
		Library: lib, Sysfs: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), LogLevel: "info"}
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
			Kind    string
			Node    string
			UUID    string
			Name    string
			Up      bool
			Used    bool
			NoJob   string `json:"no_job"`
			JobID   int    `json:"job_id"`
			FoundBy map[string]int
			Jobs    []struct {
				JobID   int    `json:"job_id"`
				FoundBy string `json:"found_by"`
			}
		}
		if err := dec.Decode(&l); err != nil {
			t.Fatal(err)
		}
		line := []string{l.Kind, l.Node, l.UUID, l.Name, l.NoJob}
		for _, j := range l.Jobs {
			line = append(line, j.FoundBy)
		}
		if l.Used {
			line = append(line, "used")
		}
		got = append(got, strings.Join(strings.Fields(strings.Join(line, " ")), " "))
	}
	want := []string{"node gpu01", "sample gpu01", "gpu GPU-a cgroup", "gpu GPU-b none", "gpu GPU-c", "port mlx5_0/1 used", "port eth0"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}

	out.Reset()
	if err := printOnce(t.Context(), c, false, &out, io.Discard); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"job 17 by cgroup", "1 processes, of no job", "idle", "counts", "down"} {
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
