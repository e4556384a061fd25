// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

// tree writes files below a new directory.
func tree(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestSysfsNet(t *testing.T) {
	now := func() time.Time { return start }
	hca := func(name string) string { return "class/infiniband/" + name + "/ports/1/" }
	for name, tc := range map[string]struct {
		files map[string]string
		want  []Port
		odd   Odd
	}{
		"one port, words of 4 bytes": {
			map[string]string{hca("mlx5_0") + "rate": "100 Gb/sec (4X EDR)\n", hca("mlx5_0") + "state": "4: ACTIVE\n",
				hca("mlx5_0") + "counters/port_xmit_data": "250\n", hca("mlx5_0") + "counters/port_rcv_data": "1000\n"},
			[]Port{{Name: "mlx5_0/1", Speed: 12.5e9, Xmit: reading{1000, start}, Rcv: reading{4000, start}}}, Odd{}},
		"a port that is down is no port": {
			map[string]string{hca("mlx5_1") + "rate": "10 Gb/sec (4X SDR)\n", hca("mlx5_1") + "state": "1: DOWN\n",
				hca("mlx5_1") + "counters/port_xmit_data": "0\n", hca("mlx5_1") + "counters/port_rcv_data": "0\n"},
			nil, Odd{}},
		"an unknown speed leaves the counters": {
			map[string]string{hca("x") + "rate": "fast\n",
				hca("x") + "counters/port_xmit_data": "1\n", hca("x") + "counters/port_rcv_data": "1\n"},
			[]Port{{Name: "x/1", Xmit: reading{4, start}, Rcv: reading{4, start}}}, Odd{"network port speed": 1}},
		"a counter stuck at 32 bits": {
			map[string]string{hca("x") + "rate": "56 Gb/sec (4X FDR)\n",
				hca("x") + "counters/port_xmit_data": "4294967295\n", hca("x") + "counters/port_rcv_data": "1\n"},
			nil, Odd{"network port counter": 1}},
		"text where a number should be": {
			map[string]string{hca("x") + "rate": "56 Gb/sec\n",
				hca("x") + "counters/port_xmit_data": "N/A (no PMA)\n", hca("x") + "counters/port_rcv_data": "1\n"},
			nil, Odd{"network port counter": 1}},
		"no such device": {map[string]string{"class/net/eth0/speed": "1000\n"}, nil, Odd{}},
	} {
		t.Run(name, func(t *testing.T) {
			odd := Odd{}
			got, err := SysfsNet{Root: tree(t, tc.files), Now: now}.Read(odd)
			if err != nil {
				t.Fatal(err)
			}
			diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(reading{}), cmpopts.EquateEmpty()) + cmp.Diff(tc.odd, odd)
			if diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestProc(t *testing.T) {
	proc := Proc{Root: tree(t, map[string]string{
		"1/cgroup":  "5:devices:/slurm/uid_2001/job_17/step_0/task_0\n4:memory:/user.slice\n",
		"2/cgroup":  "0::/system.slice/slurmstepd.scope/job_18/step_batch/user/task_0\n",
		"2/environ": "PATH=/bin\x00SLURM_JOB_ID=99\x00SLURM_JOB_NUM_NODES=4\x00",
		"3/cgroup":  "0::/system.slice/slurmstepd.scope/s0123456789ABC/step_0/user/task_0\n",
		"3/environ": "SLURM_JOB_ID=19\x00SLURM_NNODES=2\x00",
		"4/cgroup":  "0::/user.slice/user-1000.slice\n",
		"4/environ": "HOME=/home/x\x00",
		"5/environ": "SLURM_JOB_ID=20\x00",
		"6/environ": "SLURM_JOB_ID=-1\x00SLURM_NNODES=many\x00",
	})}
	for name, tc := range map[string]struct {
		pid  int
		want JobRef
		ok   bool
	}{
		"cgroup version 1":                         {1, JobRef{ID: 17}, true},
		"the cgroup's word counts over the user's": {2, JobRef{ID: 18, Nodes: 4}, true},
		"a SLUID leaves it to the environment":     {3, JobRef{ID: 19, Nodes: 2}, true},
		"no job of Slurm":                          {4, JobRef{}, false},
		"a site without cgroups":                   {5, JobRef{ID: 20}, true},
		"odd environment":                          {6, JobRef{}, false},
		"a process that is gone":                   {7, JobRef{}, false},
	} {
		t.Run(name, func(t *testing.T) {
			got, ok := proc.Job(tc.pid)
			if !reflect.DeepEqual(got, tc.want) || ok != tc.ok {
				t.Errorf("got %+v, %v; want %+v, %v", got, ok, tc.want, tc.ok)
			}
		})
	}
}
