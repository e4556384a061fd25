// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
)

// stat is /proc/PID/stat of a process that began then.
func stat(start string) string {
	return "1 (py) thon (x) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 " + start + " 5 6 7\n"
}

// procTree is a procfs of processes that have a stat each.
func procTree(t *testing.T, files map[string]string) *Proc {
	t.Helper()
	all := map[string]string{}
	for name, content := range files {
		all[name] = content
		all[filepath.Join(filepath.Dir(name), "stat")] = stat("100")
	}
	return NewProc(tree(t, all))
}

func TestProc(t *testing.T) {
	proc := procTree(t, map[string]string{
		"1/cgroup":   "5:devices:/slurm/uid_2001/job_17/step_0/task_0\n4:memory:/user.slice\n",
		"2/cgroup":   "0::/system.slice/slurmstepd.scope/job_18/step_batch/user/task_0\n",
		"2/environ":  "PATH=/bin\x00SLURM_JOB_ID=99\x00SLURM_JOB_NUM_NODES=4\x00",
		"3/cgroup":   "0::/system.slice/slurmstepd.scope/s0123456789ABC/step_0/user/task_0\n",
		"3/environ":  "SLURM_JOB_ID=19\x00SLURM_NNODES=2\x00SLURMD_NODENAME=gpu01\x00",
		"4/cgroup":   "0::/user.slice/user-1000.slice\n",
		"4/environ":  "HOME=/home/x\x00",
		"5/environ":  "SLURM_JOB_ID=20\x00",
		"6/environ":  "SLURM_JOB_ID=-1\x00SLURM_NNODES=many\x00",
		"8/cgroup":   "0::/system.slice/gpu02_slurmstepd.scope/job_21/step_0/user/task_0\n",
		"8/environ":  "SLURM_JOB_ID=21\x00SLURM_NNODES=1\x00SLURMD_NODENAME=gpu02\x00",
		"9/cgroup":   "0::/system.slice/slurmstepd.scope/job_22/step_batch/user/task_0\n",
		"9/environ":  "SLURM_JOB_ID=22\x00SLURM_JOB_GPUS=4-5,7\x00SLURM_STEP_GPUS=0\x00GPU_DEVICE_ORDINAL=0,1,2\x00",
		"10/cgroup":  "0::/system.slice/slurmstepd.scope/job_23/step_0/user/task_0\n",
		"10/environ": "SLURM_JOB_ID=23\x00SLURM_JOB_GPUS=4,5\x00SLURM_STEP_GPUS=0,MIG-aa\x00",
		"11/environ": "SLURM_JOB_ID=24\x00SLURM_JOB_GPUS=4,5\x00SLURM_STEP_ID=0\x00",
	})
	for name, tc := range map[string]struct {
		pid  int
		want JobRef
		ok   bool
	}{
		"cgroup version 1":                                  {1, JobRef{ID: 17, Way: WayCgroup}, true},
		"the cgroup's word counts over the user's":          {2, JobRef{ID: 18, Way: WayCgroup}, true},
		"a SLUID leaves it to the environment":              {3, JobRef{ID: 19, Way: WayEnviron, Nodes: 2, Node: "gpu01"}, true},
		"no job of Slurm":                                   {4, JobRef{Way: WayNone}, false},
		"a site without cgroups":                            {5, JobRef{ID: 20, Way: WayEnviron}, true},
		"odd environment":                                   {6, JobRef{Way: WayNone}, false},
		"a process that is gone":                            {7, JobRef{Way: WayHidden}, false},
		"another slurmd of this machine":                    {8, JobRef{ID: 21, Way: WayCgroup, Nodes: 1, Node: "gpu02", NodeSure: true}, true},
		"the batch script's GPUs":                           {9, JobRef{ID: 22, Way: WayCgroup, GPUs: []int{4, 5, 7}}, true},
		"a step's GPUs, not those of the batch script":      {10, JobRef{ID: 23, Way: WayCgroup, GPUs: []int{0}, UUIDs: []string{"MIG-aa"}}, true},
		"a step without a list has none of the batch's own": {11, JobRef{ID: 24, Way: WayEnviron}, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := proc.Job(tc.pid)
			if diff := cmp.Diff(tc.want, got); diff != "" || ok != tc.ok {
				t.Errorf("found %v (-want +got)\n%s", ok, diff)
			}
		})
	}
}

func TestProcJobs(t *testing.T) {
	proc := procTree(t, map[string]string{
		"1/cgroup":   "0::/init.scope\n",
		"30/environ": "SLURM_JOB_ID=20\x00SLURM_JOB_GPUS=0,1\x00SLURMD_NODENAME=gpu01\x00SLURM_NNODES=2\x00",
		"31/environ": "SLURM_JOB_ID=20\x00SLURM_STEP_ID=0\x00SLURM_STEP_GPUS=1,3\x00",
		"32/environ": "SLURM_JOB_ID=21\x00",
		"self/stat":  stat("1"),
	})
	want := []JobRef{
		{ID: 20, Way: WayList, Nodes: 2, Node: "gpu01", GPUs: []int{0, 1, 3}},
		{ID: 21, Way: WayList},
	}
	if diff := cmp.Diff(want, proc.Jobs()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// What is known of a process is its own: a number that another process has
// taken is read anew, and a process without a job is looked at again.
func TestProcKeepsWhatItKnows(t *testing.T) {
	proc := procTree(t, map[string]string{"5/environ": "SLURM_JOB_ID=20\x00"})
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(proc.Root, "5", name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want := func(id slurm.JobID, why string) {
		t.Helper()
		proc.Next()
		if got, _ := proc.Job(5); got.ID != id {
			t.Errorf("%s: job %d, want %d", why, got.ID, id)
		}
	}
	want(20, "first met")
	write("environ", "SLURM_JOB_ID=21\x00")
	want(20, "the same process, whatever it writes now")
	write("stat", stat("101"))
	want(21, "another process of that number")
	write("environ", "HOME=/\x00")
	write("stat", stat("102"))
	want(0, "a process of no job")
	write("environ", "SLURM_JOB_ID=22\x00")
	want(0, "the same, right after")
	for range noneFor {
		proc.Next()
		proc.Job(5)
	}
	want(22, "the same, a while after")
	proc.Next()
	proc.Next()
	if len(proc.kept) != 0 {
		t.Errorf("%d processes are kept that nobody asks for", len(proc.kept))
	}
}

// An environment that must not be read is told from one without a job.
func TestProcWithoutRights(t *testing.T) {
	proc := procTree(t, map[string]string{
		"1/cgroup": "0::/system.slice/slurmstepd.scope/s0123456789ABC/step_0\n", "1/environ": "",
		"2/cgroup": "0::/system.slice/job_x.service\n", "2/environ": "",
		"3/cgroup": "0::/system.slice/slurmstepd.scope/job_5/step_0\n", "3/environ": "",
		"4/cgroup": "0::/system.slice/slurmd.service\n", "4/environ": "",
	})
	for pid := 1; pid <= 4; pid++ {
		if err := os.Chmod(filepath.Join(proc.Root, strconv.Itoa(pid), "environ"), 0); err != nil {
			t.Fatal(err)
		}
	}
	asNobody(t, proc.Root, func() {
		for pid, want := range map[int]JobRef{1: {Way: WayClosed}, 2: {Way: WayNone}, 3: {ID: 5, Way: WayCgroup}, 4: {Way: WayClosed}} {
			if got, _ := proc.Job(pid); !cmp.Equal(want, got) {
				t.Errorf("process %d: %+v, want %+v", pid, got, want)
			}
		}
	})
}

// asNobody runs f without root's power over files, and lets it into dir.
func asNobody(t *testing.T, dir string, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if os.Geteuid() == 0 {
			for _, d := range []string{dir, filepath.Dir(dir)} {
				if err := os.Chmod(d, 0o755); err != nil {
					t.Error(err)
				}
			}
			runtime.LockOSThread() // for ever: the thread ends with this goroutine
			if err := syscall.Setfsuid(65534); err != nil {
				t.Error(err)
			}
		}
		f()
	}()
	<-done
}

func FuzzEnviron(f *testing.F) {
	f.Add("SLURM_JOB_ID=20\x00SLURM_JOB_GPUS=0-3\x00SLURM_NNODES=2", "batch")
	f.Add("SLURM_JOB_ID=\x00=\x00SLURM", "0")
	f.Fuzz(func(t *testing.T, text, step string) {
		var ref JobRef
		addEnviron(&ref, environ([]byte(text)), step)
		if ref.ID == 0 && (ref.Nodes != 0 || ref.GPUs != nil) {
			t.Errorf("%+v of no job", ref)
		}
		if ref.Nodes < 0 {
			t.Errorf("%d nodes", ref.Nodes)
		}
	})
}

// Whatever a process calls itself, its start is read from the right place.
func TestStartOfAnyName(t *testing.T) {
	proc := NewProc(t.TempDir())
	dir := filepath.Join(proc.Root, "7")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		name := rapid.StringMatching(`[ -~]{0,15}`).Draw(t, "name")
		want := rapid.StringMatching(`[0-9]{1,12}`).Draw(t, "start")
		text := fmt.Sprintf("7 (%s) S 1 1 1 0 -1 4194560 1 0 0 0 0 0 0 0 20 0 1 0 %s 5 6 7\n", name, want)
		if err := os.WriteFile(filepath.Join(dir, "stat"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, ok := proc.start(7); got != want || !ok {
			t.Errorf("start %q, want %q", got, want)
		}
	})
}
