// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"rifling/collector"
	"rifling/slurm"
)

// files writes files below a new directory.
func files(t *testing.T, content map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range content {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func gpuFile(uuid string, pid int) string {
	return fmt.Sprintf("uuid %s\npid %d\nactivity 0.5\nmilliwatt 230000\nstamp_us %d\n", uuid, pid, time.Now().UnixMicro())
}

// A node of files, the stand-in NVML, the program and the daemon's receiver:
// what goes in at one end comes out at the other.
func TestFromANodeToTheDaemon(t *testing.T) {
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc to build the stand-in NVML with")
	}
	const port = "sys/class/infiniband/mlx5_0/ports/1/"
	dir := files(t, map[string]string{
		"gpu/0": gpuFile("GPU-a", 100), "gpu/1": gpuFile("GPU-b", 100), "gpu/2": gpuFile("GPU-c", 0),
		"proc/100/cgroup":  "0::/system.slice/slurmstepd.scope/job_17/step_0/user/task_0\n",
		"proc/100/stat":    "100 (python) S 1 1 1 0 -1 0 0 0 0 0 0 0 0 0 20 0 1 0 12345 0 0\n",
		"proc/100/environ": "SLURM_JOB_ID=17\x00SLURM_JOB_NUM_NODES=2\x00",
		port + "rate":      "50 Gb/sec (4X)\n", port + "state": "4: ACTIVE\n",
		port + "counters/port_xmit_data": "0\n", port + "counters/port_rcv_data": "0\n",
		"secret": "s3cret\n",
	})
	lib := filepath.Join(dir, "libnvidia-ml.so.1")
	if out, err := exec.Command("gcc", "-shared", "-fPIC", "-o", lib, "../../contrib/nvmlstub/nvmlstub.c").CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	t.Setenv("RIFLING_NVML_STUB_DIR", dir)
	keepFresh(t, dir)
	r := collector.NewReceiver(collector.ReceiverOptions{
		Secret: collector.SecretFile(filepath.Join(dir, "secret")), Now: time.Now})
	daemon := httptest.NewServer(r)
	defer daemon.Close()
	c := config{Node: "gpu01", URL: daemon.URL, SecretFile: filepath.Join(dir, "secret"), Interval: time.Second,
		Library: lib, Sysfs: filepath.Join(dir, "sys"), Proc: filepath.Join(dir, "proc"), LogLevel: "info"}

	var report bytes.Buffer
	if err := check(t.Context(), c, &report); err != nil {
		t.Errorf("check: %v\n%s", err, report.String())
	}
	if !strings.Contains(report.String(), "GPU-a: job 17 by cgroup") {
		t.Errorf("check said\n%s", report.String())
	}

	ctx, cancel := context.WithCancel(t.Context())
	var log bytes.Buffer
	ended := make(chan error, 1)
	go func() { ended <- run(ctx, c, &log) }()
	time.Sleep(300 * time.Millisecond)
	for _, name := range []string{"port_xmit_data", "port_rcv_data"} {
		if err := os.WriteFile(filepath.Join(dir, port, "counters", name), []byte("250000000\n"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	var got []collector.Sample
	for deadline := time.Now().Add(10 * time.Second); len(got) == 0 && time.Now().Before(deadline); {
		time.Sleep(50 * time.Millisecond)
		got = r.Drain()
	}
	cancel()
	if err := <-ended; err != nil {
		t.Errorf("run: %v", err)
	}
	if len(got) == 0 {
		t.Fatalf("no sample came\n%s", log.String())
	}
	s := got[0]
	if s.Node != "gpu01" || s.JobID != 17 || s.GPUs != 2 || s.Source != collector.SourcePower || s.NetSpeed != 6.25e9 || s.NetShared {
		t.Errorf("sample %+v", s)
	}
	if diff := cmp.Diff([]string{"GPU-a", "GPU-b"}, s.UUIDs); diff != "" {
		t.Errorf("UUIDs (-want +got)\n%s", diff)
	}
	// 10^9 bytes in an interval of about a second; 0.5 above idle.
	if math.Abs(s.NetRate*s.Interval.Seconds()-1e9) > 0.1e9 || math.Abs(s.Compute-0.5) > 0.01 {
		t.Errorf("net rate %v over %s, compute %v", s.NetRate, s.Interval, s.Compute)
	}
	if strings.Contains(log.String(), "s3cret") {
		t.Error("the log holds the secret")
	}
}

func TestCheckFindsWhatIsWanting(t *testing.T) {
	c := config{Node: "gpu01", URL: "http://127.0.0.1:1", SecretFile: filepath.Join(t.TempDir(), "none"), Interval: time.Second,
		Library: "/nonexistent/libnvidia-ml.so.1", Sysfs: t.TempDir(), Proc: t.TempDir()}
	var out bytes.Buffer
	if err := check(t.Context(), c, &out); !errors.Is(err, errCheck) {
		t.Errorf("error %v", err)
	}
	for _, want := range []string{"FAIL  nvml", "--nvml-library", "none  network", "FAIL  riflingd", "openssl rand"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("check does not say %q:\n%s", want, out.String())
		}
	}
}

// A node without a driver goes on trying, and says so once.
func TestRunWithoutADriver(t *testing.T) {
	dir := files(t, map[string]string{"secret": "x\n"})
	c := config{Node: "gpu01", URL: "http://127.0.0.1:1", SecretFile: filepath.Join(dir, "secret"), Interval: 20 * time.Millisecond,
		Library: "/nonexistent/libnvidia-ml.so.1", Sysfs: dir, Proc: dir, LogLevel: "info"}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	var log bytes.Buffer
	if err := run(ctx, c, &log); err != nil {
		t.Errorf("run: %v", err)
	}
	if n := strings.Count(log.String(), "opening NVML failed"); n != 1 {
		t.Errorf("said %d times that there is no driver:\n%s", n, log.String())
	}
}

func TestOptions(t *testing.T) {
	t.Setenv("RIFLING_COLLECTOR_URL", "https://ctl:6830/")
	t.Setenv("RIFLING_COLLECTOR_SECRET_FILE", "/run/secret")
	t.Setenv("RIFLING_COLLECTOR_INTERVAL", "30s")
	t.Setenv("RIFLING_COLLECTOR_PORTS", "mlx5_*,eth0")
	t.Setenv("STATE_DIRECTORY", "/var/lib/x:/var/lib/y")
	parse := func(args ...string) (config, error) {
		cmd := newRoot()
		var c config
		var err error
		cmd.RunE = func(cmd *cobra.Command, _ []string) error { c, err = load(cmd); return nil }
		cmd.SetArgs(args)
		if e := cmd.Execute(); e != nil {
			t.Fatal(e)
		}
		return c, err
	}
	got, err := parse("--interval", "5s", "--node", "gpu07")
	want := config{Node: "gpu07", URL: "https://ctl:6830", SecretFile: "/run/secret", Interval: 5 * time.Second,
		Ports: []string{"mlx5_*", "eth0"}, Spool: "/var/lib/x", SpoolMiB: 64, Sysfs: "/sys", Proc: "/proc", LogLevel: "info"}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got)\n%s", err, diff)
	}
}

// Who calls wrongly is told what is wrong, in one line, and by the exit status.
func TestCalledWrongly(t *testing.T) {
	for name, tc := range map[string]struct {
		args []string
		says string
	}{
		"an unknown option":         {[]string{"--nodes", "gpu01"}, "unknown flag: --nodes"},
		"an unknown command":        {[]string{"chekc"}, `no command "chekc"`},
		"check takes no words":      {[]string{"check", "gpu01"}, `no command "gpu01"`},
		"no duration":               {[]string{"--interval", "15"}, "missing unit"},
		"an interval of 1 ms":       {[]string{"--interval", "1ms"}, "not between 1s and 1h"},
		"no pattern":                {[]string{"--ports", "mlx5_[", "check"}, `"mlx5_["`},
		"no level":                  {[]string{"--log-level", "loud"}, "loud"},
		"no room":                   {[]string{"--spool-mib", "0"}, "--spool-mib"},
		"JSON of what":              {[]string{"--json"}, "--json goes with --once"},
		"--once is not for a check": {[]string{"check", "--once"}, "unknown flag: --once"},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := newRoot()
			cmd.SetArgs(tc.args)
			cmd.SetOut(io.Discard)
			cmd.SetErr(io.Discard)
			err := cmd.ExecuteContext(t.Context())
			if err == nil || !strings.Contains(err.Error(), tc.says) || exitStatus(err) != exitMisuse || slurm.HintOf(err) == "" {
				t.Errorf("error %v, exit status %d, hint %q; want %q, 2 and a hint", err, exitStatus(err), slurm.HintOf(err), tc.says)
			}
			if strings.Contains(fmt.Sprint(err), "\n") {
				t.Errorf("more than a line: %v", err)
			}
		})
	}
	if exitStatus(errCheck) != exitFailed || exitStatus(nil) != 0 {
		t.Error("what fails is not 1, or what succeeds not 0")
	}
}

// Nodes that are started at one instant read at instants spread over the
// interval, each always at its own.
func TestNodesDoNotSpeakAtOnce(t *testing.T) {
	const interval = 15 * time.Second
	now := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	var inSecond [15]int
	for i := range 1000 {
		node := fmt.Sprintf("gpu%04d", i+1)
		wait := untilPhase(now, node, interval)
		if wait < interval/2 || wait >= interval*3/2 {
			t.Fatalf("%s waits %s", node, wait)
		}
		at := now.Add(wait).UnixNano() % int64(interval)
		if later := now.Add(7 * time.Second); later.Add(untilPhase(later, node, interval)).UnixNano()%int64(interval) != at {
			t.Fatalf("%s has another phase when it starts later", node)
		}
		inSecond[at/int64(time.Second)]++
	}
	for second, n := range inSecond { // 67 on average; 5 standard deviations
		if n > 67+41 {
			t.Errorf("%d of 1000 nodes speak in second %d of 15", n, second)
		}
	}
}

func TestReadRights(t *testing.T) {
	for name, tc := range map[string]struct {
		status, mounts string
		want           rights
	}{
		"root":               {"CapEff:\t000001ffffffffff\n", "", rights{known: true, ptrace: true, files: true}},
		"the unit's":         {"Uid:\t990\nCapEff:\t0000000000080004\n", "", rights{known: true, ptrace: true, files: true}},
		"nobody":             {"CapEff:\t0000000000000000\n", "", rights{known: true}},
		"nobody, hidden":     {"CapEff:\t0000000000000000\n", "proc PROC proc rw,hidepid=2 0 0\n", rights{known: true, hidepid: true}},
		"a word, as now":     {"CapEff:\t0000000000000000\n", "proc PROC proc rw,hidepid=invisible 0 0\n", rights{known: true, hidepid: true}},
		"not hidden":         {"CapEff:\t0000000000000000\n", "proc PROC proc rw,hidepid=0 0 0\n", rights{known: true}},
		"another procfs":     {"CapEff:\t0000000000000000\n", "proc /mnt proc rw,hidepid=2 0 0\n", rights{known: true}},
		"no number":          {"CapEff:\tmany\n", "", rights{}},
		"half of what it is": {"CapEff:\t0000000000080000\n", "", rights{known: true, ptrace: true}},
	} {
		t.Run(name, func(t *testing.T) {
			dir := files(t, map[string]string{"self/status": tc.status})
			mounts := strings.ReplaceAll(tc.mounts, "PROC", dir)
			if err := os.WriteFile(filepath.Join(dir, "self", "mounts"), []byte(mounts), 0o600); err != nil {
				t.Fatal(err)
			}
			if got := readRights(dir); got != tc.want {
				t.Errorf("%+v, want %+v", got, tc.want)
			}
			if err := os.MkdirAll(filepath.Join(dir, "self", "ns"), 0o700); err != nil {
				t.Fatal(err)
			}
			for ns, inside := range map[string]bool{"pid:[4026531836]": false, "pid:[4026532201]": true} {
				link := filepath.Join(dir, "self", "ns", "pid")
				_ = os.Remove(link)
				if err := os.Symlink(ns, link); err != nil {
					t.Fatal(err)
				}
				if got := readRights(dir); got.inside != inside {
					t.Errorf("in %s: %+v", ns, got)
				}
			}
		})
	}
}

func TestPlain(t *testing.T) {
	for address, want := range map[string]bool{
		"http://127.0.0.1:6830": false,
		"http://[::1]:6830":     false,
		"http://localhost:6830": false,
		"https://ctl:6830":      false,
		"http://ctl:6830":       true,
		"http://10.0.0.1:6830":  true,
	} {
		if got := plain(address); got != want {
			t.Errorf("plain(%q) = %v, want %v", address, got, want)
		}
	}
}
