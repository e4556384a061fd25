// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"rifling/collector"
)

// BenchmarkNode measures what the program costs a node of 8 GPUs on which two
// jobs have 40 processes: it runs the real program against the stand-in NVML,
// the machine's own procfs and a daemon's receiver, and reads the kernel's
// account of it. One operation is one reading, sent and written to the spool;
// the readings are a second apart, so a run takes as many seconds.
//
//	go test -run - -bench Node -benchtime 30x ./cmd/rifling-collector
//
// cpu-%-at-15s is what remains of one core at the interval of a real node.
func BenchmarkNode(b *testing.B) {
	dir := b.TempDir()
	program, library := filepath.Join(dir, "rifling-collector"), filepath.Join(dir, "libnvidia-ml.so.1")
	build(b, "go", "build", "-ldflags", `-s -w -extldflags "-Wl,-z,lazy"`, "-o", program, ".")
	sources, err := filepath.Glob("../../contrib/nvmlstub/*.c")
	if err != nil {
		b.Fatal(err)
	}
	build(b, "gcc", append([]string{"-shared", "-fPIC", "-O2", "-o", library}, sources...)...)
	pids := jobProcesses(b, 40)
	writeNode(b, dir, pids)

	secret := filepath.Join(dir, "secret")
	if err := os.WriteFile(secret, []byte("s3cret\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	r := collector.NewReceiver(collector.ReceiverOptions{Secret: collector.SecretFile(secret), Now: time.Now})
	daemon := httptest.NewServer(r)
	defer daemon.Close()

	cmd := exec.Command(program, "--node", "gpu01", "--url", daemon.URL, "--secret-file", secret, "--interval", "1s",
		"--nvml-library", library, "--sysfs", filepath.Join(dir, "sys"), "--spool", filepath.Join(dir, "spool"))
	cmd.Env = append(os.Environ(), "RIFLING_NVML_STUB_DIR="+dir)
	cmd.Stderr = b.Output()
	if err := cmd.Start(); err != nil {
		b.Fatal(err)
	}
	defer func() {
		_ = cmd.Process.Signal(os.Interrupt)
		_ = cmd.Wait()
	}()
	const renewed = 4 // times a second, as a driver renews its counters
	settle := time.Now().Add(10 * time.Second)
	for len(r.Drain()) == 0 {
		if time.Now().After(settle) {
			b.Fatal("no sample came")
		}
		time.Sleep(time.Second / renewed)
		writeNode(b, dir, pids)
	}
	before, start := onCPU(b, cmd.Process.Pid), time.Now()
	for i := range renewed * b.N {
		time.Sleep(time.Until(start.Add(time.Duration(i+1) * time.Second / renewed)))
		writeNode(b, dir, pids)
	}
	used, wall := onCPU(b, cmd.Process.Pid)-before, time.Since(start)
	got := len(r.Drain())
	if want := 2 * (b.N - 1); got < want {
		b.Fatalf("%d samples of two jobs in %d readings", got, b.N)
	}
	perReading := used.Seconds() / math.Round(wall.Seconds())
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(perReading*1000, "cpu-ms/reading")
	b.ReportMetric(100*perReading/15, "cpu-%-at-15s")
	b.ReportMetric(peakMB(b, cmd.Process.Pid), "MB-peak")
}

func build(b *testing.B, name string, args ...string) {
	b.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		b.Fatalf("%s: %v\n%s", name, err, out)
	}
}

// jobProcesses starts processes that sleep, of two jobs across nodes in turn.
func jobProcesses(b *testing.B, n int) []int {
	b.Helper()
	var pids []int
	for i := range n {
		cmd := exec.Command("sleep", "600")
		cmd.Env = append(os.Environ(), fmt.Sprintf("SLURM_JOB_ID=%d", 17+i%8/4), "SLURM_JOB_NUM_NODES=2")
		if err := cmd.Start(); err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() {
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		})
		pids = append(pids, cmd.Process.Pid)
	}
	return pids
}

// writeNode writes 8 GPUs that the processes are on in turn, and one port.
func writeNode(b *testing.B, dir string, pids []int) {
	b.Helper()
	all := map[string]string{}
	for gpu := range 8 {
		text := fmt.Sprintf("uuid GPU-%d\nactivity 0.5\nmilliwatt 230000\nstamp_us %d\n", gpu, time.Now().UnixMicro())
		for i := gpu; i < len(pids); i += 8 {
			text += fmt.Sprintf("pid %d\n", pids[i])
		}
		all[fmt.Sprintf("gpu/%d", gpu)] = text
	}
	const port = "sys/class/infiniband/mlx5_0/ports/1/"
	all[port+"rate"], all[port+"state"] = "50 Gb/sec (4X)\n", "4: ACTIVE\n"
	all[port+"counters/port_xmit_data"], all[port+"counters/port_rcv_data"] = "0\n", "0\n"
	for name, text := range all {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			b.Fatal(err)
		}
		if err := os.WriteFile(path+".new", []byte(text), 0o600); err != nil {
			b.Fatal(err)
		}
		if err := os.Rename(path+".new", path); err != nil {
			b.Fatal(err)
		}
	}
}

// onCPU is the time that all threads of a process have run.
func onCPU(b *testing.B, pid int) time.Duration {
	b.Helper()
	if runtime.GOOS != "linux" {
		b.Skip("needs Linux's procfs")
	}
	tasks, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/schedstat", pid))
	if err != nil || len(tasks) == 0 {
		b.Skip("the kernel keeps no schedstat")
	}
	var sum time.Duration
	for _, t := range tasks {
		text, err := os.ReadFile(t)
		if err != nil {
			continue
		}
		ns, err := strconv.ParseInt(strings.Fields(string(text))[0], 10, 64)
		if err != nil {
			b.Fatal(err)
		}
		sum += time.Duration(ns)
	}
	return sum
}

// peakMB is the most memory that a process had resident.
func peakMB(b *testing.B, pid int) float64 {
	b.Helper()
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		b.Fatal(err)
	}
	for line := range strings.Lines(string(text)) {
		if v, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, err := strconv.ParseFloat(strings.Fields(v)[0], 64)
			if err != nil {
				b.Fatal(err)
			}
			return kib * 1024 / 1e6
		}
	}
	b.Fatal("no VmHWM")
	return 0
}
