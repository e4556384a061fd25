// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/sim"
)

// TestMain lets the tests start this binary as the program itself, so that
// ranks are processes with locks of their own.
func TestMain(m *testing.M) {
	if os.Getenv("EMUJOB_TEST_PROCESS") != "" {
		main()
	}
	os.Exit(m.Run())
}

// cluster is a shared directory without Slurm.
type cluster struct {
	t   *testing.T
	dir string
}

func newCluster(t *testing.T, scale float64) cluster {
	t.Helper()
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "scale"), fmt.Appendf(nil, "%v\n", scale), 0o644); err != nil {
		t.Fatal(err)
	}
	return cluster{t, dir}
}

// proc is one rank.
type proc struct {
	cmd         *exec.Cmd
	out, errOut bytes.Buffer
}

// start runs one rank on each node as srun would, with that many GPUs from
// index first on.
func (c cluster) start(job int, nodes []string, first, gpus int, args ...string) []*proc {
	c.t.Helper()
	indices := make([]string, gpus)
	for i := range indices {
		indices[i] = strconv.Itoa(first + i)
	}
	var procs []*proc
	for i, node := range nodes {
		p := &proc{cmd: exec.Command(os.Args[0], append(args, "--tick", "50ms", "--wait", "10s")...)}
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.errOut
		p.cmd.Env = append(os.Environ(), "EMUJOB_TEST_PROCESS=1", "RIFLING_EMU_DIR="+c.dir,
			fmt.Sprint("SLURM_JOB_ID=", job), "SLURM_STEP_ID=0", fmt.Sprint("SLURM_STEP_NUM_TASKS=", len(nodes)),
			fmt.Sprint("SLURM_PROCID=", i), "SLURMD_NODENAME="+node,
			"SLURM_STEP_GPUS="+strings.Join(indices, ","))
		if err := p.cmd.Start(); err != nil {
			c.t.Fatal(err)
		}
		c.t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
		procs = append(procs, p)
	}
	return procs
}

// finish waits for all ranks and returns the leader's line.
func (c cluster) finish(procs []*proc) result {
	c.t.Helper()
	for i, p := range procs {
		if err := p.cmd.Wait(); err != nil {
			c.t.Errorf("rank %d: %v\n%s", i, err, p.errOut.String())
		}
	}
	var r result
	if err := json.Unmarshal(procs[0].out.Bytes(), &r); err != nil {
		c.t.Fatalf("result line %q: %v\n%s", procs[0].out.String(), err, procs[0].errOut.String())
	}
	return r
}

func (c cluster) number(path string) float64 {
	c.t.Helper()
	content, err := os.ReadFile(filepath.Join(c.dir, path))
	if err != nil {
		c.t.Fatal(err)
	}
	v, err := strconv.ParseFloat(strings.TrimSpace(string(content)), 64)
	if err != nil {
		c.t.Fatal(err)
	}
	return v
}

func near(t *testing.T, what string, got, want, tolerance float64) {
	t.Helper()
	if math.Abs(got-want) > tolerance*math.Abs(want) {
		t.Errorf("%s = %.4g, want %.4g within %.0f %%", what, got, want, tolerance*100)
	}
}

// The tables' step times of "4" and "22" (bert, batch 4; resnet50, batch 57).
func TestPackedAgainstSpreadAsMeasured(t *testing.T) {
	for name, tc := range map[string]struct {
		model        string
		packed, both float64 // measured step times, s
	}{
		"communication-bound": {"bert", 0.5334, 1.9491},
		"in between":          {"resnet50", 0.3364, 0.4736},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCluster(t, 60)
			args := []string{"--model", tc.model, "--seconds", "60"}
			packed := c.start(1, []string{"n1"}, 0, 4, args...)
			spread := c.start(2, []string{"n2", "n3"}, 0, 2, args...)
			p, s := c.finish(packed), c.finish(spread)

			near(t, "slowdown", p.Rate/s.Rate, tc.both/tc.packed, 0.10)
			near(t, "NPR of the packed job", p.NPR, 1, 0.02)
			if p.Shape != "4" || s.Shape != "2+2" || p.Phase != finished || s.Phase != finished {
				t.Errorf("packed %+v, spread %+v", p, s)
			}
		})
	}
}

// Two communication-bound jobs on the same NICs halve each other's share; a
// compute-bound one beside them does not count, nor does a packed one.
func TestJobsOnTheSameNICSlowEachOther(t *testing.T) {
	c := newCluster(t, 100)
	bert, _ := sim.FindModel("bert")
	nodes := []string{"n1", "n2"}
	gpus := map[string]int{"n1": 2, "n2": 2}
	want := sim.Rate(bert, gpus, func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, 2 })

	a := c.start(1, nodes, 0, 2, "--model", "bert", "--iterations", "180")
	b := c.start(2, nodes, 2, 2, "--model", "bert", "--iterations", "180")
	quiet := c.start(3, nodes, 4, 2, "--model", "resnet50-large", "--seconds", "200")
	packed := c.start(4, []string{"n1"}, 6, 2, "--model", "bert", "--seconds", "200")
	ra, rb := c.finish(a), c.finish(b)
	rp := c.finish(packed)
	c.finish(quiet)
	near(t, "rate of the first", ra.Rate, want, 0.08)
	near(t, "rate of the second", rb.Rate, want, 0.08)
	near(t, "time at work", ra.ComputeSeconds+ra.CommSeconds, ra.Seconds, 1e-6)
	near(t, "communicating beside the other", ra.CommSeconds, 2*ra.LinkSeconds, 0.12)
	near(t, "NPR of the packed job", rp.NPR, 1, 0.02)
}

// A job that was killed slows nobody: its lock is gone with it.
func TestKilledJobLeavesTheNICToOthers(t *testing.T) {
	c := newCluster(t, 100)
	nodes := []string{"n1", "n2"}
	dead := c.start(1, nodes, 0, 2, "--model", "bert", "--iterations", "1e6")
	waitFor(t, "the first job's state", func() bool {
		st, err := shared{c.dir}.readState("1.0")
		return err == nil && st.Iterations > 0
	})
	for _, p := range dead {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
		_ = p.cmd.Wait()
	}
	r := c.finish(c.start(2, nodes, 2, 2, "--model", "bert", "--iterations", "90"))
	bert, _ := sim.FindModel("bert")
	alone := sim.Rate(bert, r.Placement, func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, 1 })
	near(t, "rate beside a dead job", r.Rate, alone, 0.05)
	if _, err := os.Stat(shared{c.dir}.rank("n1", "1.0", 0)); err == nil {
		t.Error("the dead job's registration is still there")
	}
}

func TestCancelledJobSaysHowFarItCame(t *testing.T) {
	c := newCluster(t, 1)
	p := c.start(1, []string{"n1"}, 0, 2, "--model", "ncf", "--iterations", "1e6")[0]
	waitFor(t, "the job's progress", func() bool {
		st, err := shared{c.dir}.readState("1.0")
		return err == nil && st.Iterations > 0
	})
	_ = p.cmd.Process.Signal(syscall.SIGTERM)
	_ = p.cmd.Wait()
	if got := p.cmd.ProcessState.ExitCode(); got != exitCancelled {
		t.Errorf("exit code %d, want %d: %s", got, exitCancelled, p.errOut.String())
	}
	var r result
	if err := json.Unmarshal(p.out.Bytes(), &r); err != nil || r.Phase != cancelled || r.Iterations <= 0 {
		t.Errorf("result %+v, error %v", r, err)
	}
	gpu, err := os.ReadFile(gpuPath(shared{c.dir}.node("n1"), 0))
	if err != nil || !strings.Contains(string(gpu), "\npid 0\n") {
		t.Errorf("the GPU is not idle: %v\n%s", err, gpu)
	}
}

func TestFollowerEndsWithItsLeader(t *testing.T) {
	c := newCluster(t, 1)
	procs := c.start(1, []string{"n1", "n2"}, 0, 2, "--model", "bert", "--iterations", "1e6")
	waitFor(t, "the job's state", func() bool { _, err := shared{c.dir}.readState("1.0"); return err == nil })
	_ = procs[0].cmd.Process.Kill()
	_ = procs[0].cmd.Wait()
	if err := procs[1].cmd.Wait(); err == nil || !strings.Contains(procs[1].errOut.String(), "rank 0 on n1 is gone") {
		t.Errorf("follower: %v, %q", err, procs[1].errOut.String())
	}
}

// The NIC of a job that it holds up moves the bytes of the formula in real
// time, whatever the time scale, and jobs on one node add up.
func TestCountersShowTheModelsRates(t *testing.T) {
	c := newCluster(t, 50)
	nodes := []string{"n1", "n2"}
	a := c.start(1, nodes, 0, 2, "--model", "bert", "--iterations", "1e6")
	b := c.start(2, nodes, 2, 2, "--model", "bert", "--iterations", "1e6")
	counter := "nodes/n2/" + portDir + "/counters/port_xmit_data"
	waitFor(t, "both jobs on the NIC", func() bool {
		sa, err1 := shared{c.dir}.readState("1.0")
		sb, err2 := shared{c.dir}.readState("2.0")
		return err1 == nil && err2 == nil && sa.Iterations > 0 && sb.Iterations > 0
	})
	time.Sleep(time.Second)
	before, start := c.number(counter), time.Now()
	time.Sleep(3 * time.Second)
	rate := 4 * (c.number(counter) - before) / time.Since(start).Seconds()

	bert, _ := sim.FindModel("bert")
	gpus := map[string]int{"n1": 2, "n2": 2}
	shared2 := func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, 2 }
	perJob := sim.Rate(bert, gpus, shared2) * sim.RingBytes(bert, 4) * 2
	near(t, "bytes per second on the NIC", rate, 2*perJob, 0.12) // written in steps of 0.2 s
	for _, p := range append(a, b...) {
		_ = p.cmd.Process.Signal(syscall.SIGKILL)
	}
}

func TestLoadOf(t *testing.T) {
	bert, _ := sim.FindModel("bert")
	nic := func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, 1 }
	spread := map[string]int{"a": 2, "b": 2}
	rate := sim.Rate(bert, spread, nic)
	l := loadOf(bert, state{GPUs: spread, Rate: rate}, 2)

	// Held up by its NIC, the job shows there the part of the time that it
	// communicates, and on its GPUs the rest.
	comm := sim.CommSeconds(bert, spread, nic)
	near(t, "NIC share", l.NetRate/sim.DefaultNICBytesPerSecond, comm/(comm+bert.ComputeSeconds), 1e-9)
	near(t, "sum of shares", l.NetRate/sim.DefaultNICBytesPerSecond+l.Activity, 1, 1e-9)

	packed := map[string]int{"a": 4}
	l = loadOf(bert, state{GPUs: packed, Rate: sim.Rate(bert, packed, nic)}, 4)
	if l.NetRate != 0 || l.NVLinkRate <= 0 {
		t.Errorf("packed job: %+v", l)
	}
}

func TestClaims(t *testing.T) {
	for name, tc := range map[string]struct {
		ranks  []rank
		byRank map[int][]int
		byNode map[string]int
	}{
		"one task per node": {
			[]rank{{Rank: 0, Node: "a", GPUs: []int{0, 1}}, {Rank: 1, Node: "b", GPUs: []int{2}}},
			map[int][]int{0: {0, 1}, 1: {2}}, map[string]int{"a": 2, "b": 1}},
		"one GPU per task": {
			[]rank{{Rank: 0, Node: "a", GPUs: []int{0}}, {Rank: 1, Node: "a", GPUs: []int{1}}, {Rank: 2, Node: "b", GPUs: []int{0}}},
			map[int][]int{0: {0}, 1: {1}, 2: {0}}, map[string]int{"a": 2, "b": 1}},
		"tasks that all see the node's GPUs count each once": {
			[]rank{{Rank: 0, Node: "a", GPUs: []int{0, 1}}, {Rank: 1, Node: "a", GPUs: []int{0, 1}}},
			map[int][]int{0: {0, 1}}, map[string]int{"a": 2}},
	} {
		t.Run(name, func(t *testing.T) {
			byRank, byNode := claims(tc.ranks)
			if diff := cmp.Diff(tc.byRank, byRank) + cmp.Diff(tc.byNode, byNode); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestPlaceFromEnv(t *testing.T) {
	batch := map[string]string{
		"SLURM_JOB_ID": "17", "SLURMD_NODENAME": "gpu01", "SLURM_NNODES": "2", "SLURM_PROCID": "0",
		"SLURM_JOB_GPUS": "4-5,7", "SLURM_GPUS_ON_NODE": "3",
	}
	with := func(more map[string]string) map[string]string {
		out := map[string]string{}
		for k, v := range batch {
			out[k] = v
		}
		for k, v := range more {
			out[k] = v
		}
		return out
	}
	srun := map[string]string{"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "1",
		"SLURMD_NODENAME": "gpu02", "SLURM_STEP_GPUS": "0,1"}
	for name, tc := range map[string]struct {
		env  map[string]string
		want place
	}{
		"a batch script is one process on its node": {batch,
			place{Job: 17, Key: "17.batch", Node: "gpu01", Ranks: 1, GPUs: []int{4, 5, 7}}},
		"a task of srun knows its node's part": {with(srun),
			place{Job: 17, Key: "17.0", Node: "gpu02", Rank: 1, Ranks: 2, GPUs: []int{0, 1}}},
		"srun hands on the first node's GPUs, which are not ours": {
			with(map[string]string{"SLURM_STEP_ID": "0", "SLURM_STEP_NUM_TASKS": "1", "SLURM_GPUS_ON_NODE": "2"}),
			place{Job: 17, Key: "17.0", Node: "gpu01", Ranks: 1, GPUs: []int{0, 1}}},
		"a requeued job is another run": {with(map[string]string{"SLURM_RESTART_COUNT": "1"}),
			place{Job: 17, Key: "17.batch.r1", Node: "gpu01", Ranks: 1, GPUs: []int{4, 5, 7}}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := placeFromEnv(func(k string) string { return tc.env[k] })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
	for name, env := range map[string]map[string]string{
		"outside Slurm":   {},
		"no GPU":          with(map[string]string{"SLURM_JOB_GPUS": "", "SLURM_GPUS_ON_NODE": ""}),
		"odd list":        with(map[string]string{"SLURM_JOB_GPUS": "0,x"}),
		"rank beyond all": with(map[string]string{"SLURM_STEP_NUM_TASKS": "2", "SLURM_PROCID": "2"}),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := placeFromEnv(func(k string) string { return env[k] }); err == nil {
				t.Errorf("no error but %+v", got)
			}
		})
	}
}

func waitFor(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("waited in vain for " + what)
}
