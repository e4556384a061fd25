// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseReason(t *testing.T) {
	cases := map[string]struct {
		reason, description string
		word                string
		nodes               []string
	}{
		"plain":                       {"Priority", "", "Priority", nil},
		"no reason yet":               {"None", "", "", nil},
		"nodes in the description":    {"ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:n[01-02]", "ReqNodeNotAvail", []string{"n01", "n02"}},
		"nodes in the reason":         {"ReqNodeNotAvail, UnavailableNodes:n3,n5", "", "ReqNodeNotAvail", []string{"n3", "n5"}},
		"as squeue prints it":         {"(ReqNodeNotAvail, UnavailableNodes:n3)", "", "ReqNodeNotAvail", []string{"n3"}},
		"as old releases print it":    {"(ReqNodeNotAvail(Unavailable:n3))", "", "ReqNodeNotAvail", []string{"n3"}},
		"no node named after all":     {"ReqNodeNotAvail", "ReqNodeNotAvail, UnavailableNodes:", "ReqNodeNotAvail", nil},
		"another addition":            {"ReqNodeNotAvail", "ReqNodeNotAvail, May be reserved for other job", "ReqNodeNotAvail", nil},
		"a sentence is no word":       {"", "(Nodes required for job are DOWN, DRAINED or reserved)", "", nil},
		"the description alone":       {"", "Resources", "Resources", nil},
		"a broken host list":          {"ReqNodeNotAvail", "UnavailableNodes:n[1", "ReqNodeNotAvail", nil},
		"the reason leads":            {"BadConstraints", "Nodes required for job are DOWN", "BadConstraints", nil},
		"the nodes stop at the blank": {"ReqNodeNotAvail", "UnavailableNodes:n1 and more", "ReqNodeNotAvail", []string{"n1"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			word, nodes := ParseReason(tc.reason, tc.description)
			if word != tc.word {
				t.Errorf("word %q, want %q", word, tc.word)
			}
			if diff := cmp.Diff(tc.nodes, nodes); diff != "" {
				t.Errorf("nodes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseCgroup(t *testing.T) {
	cases := map[string]CgroupJob{
		"3:cpuset:/slurm/uid_7/job_99/step_extern":                          {JobID: 99, Step: "extern"},
		"3:cpuset:/slurm/uid_7/job_99":                                      {JobID: 99},
		"5:freezer:/slurm_n-4/uid_7/job_99/step_12":                         {JobID: 99, Step: "12", Node: "n-4"},
		"0::/system.slice/slurmstepd.scope/job_99/step_0/user/task_3":       {JobID: 99, Step: "0"},
		"0::/system.slice/n4_slurmstepd.scope/job_99/step_interactive/x":    {JobID: 99, Step: "interactive", Node: "n4"},
		"/system.slice/slurmstepd.scope/job_99/step_batch":                  {JobID: 99, Step: "batch"},
		"0::/system.slice/slurmstepd.scope/s0123456789ABC/step_batch/user":  {SLUID: "s0123456789ABC", Step: "batch"},
		"0::/system.slice/slurmstepd.scope/job_99/step_0/user/docker/job_5": {JobID: 99, Step: "0"},
		"0::/../slurmstepd.scope/job_99/step_0":                             {JobID: 99, Step: "0"},
	}
	for in, want := range cases {
		got, ok := ParseCgroup(in)
		if diff := cmp.Diff(want, got); diff != "" || !ok {
			t.Errorf("%q: %t (-want +got):\n%s", in, ok, diff)
		}
	}
	for name, in := range map[string]string{
		"the root":                        "0::/",
		"nothing":                         "",
		"slurmstepd's own":                "0::/system.slice/slurmstepd.scope/system",
		"the scope alone":                 "0::/system.slice/slurmstepd.scope",
		"slurmd":                          "0::/system.slice/slurmd.service",
		"a job's name elsewhere":          "0::/machine.slice/job_12/step_0",
		"made by a user in their slice":   "0::/user.slice/user-7.slice/user@7.service/slurmstepd.scope/job_12/step_0",
		"the same, seen from a container": "0::/../../user.slice/user-7.slice/slurmstepd.scope/job_12/step_0",
		"job 0":                           "4:memory:/slurm/uid_7/job_0",
		"no number":                       "4:memory:/slurm/uid_7/job_x",
		"a number too large":              "4:memory:/slurm/uid_7/job_4294967296",
		"a SLUID too short":               "0::/system.slice/slurmstepd.scope/s0123456789AB/step_0",
		"a SLUID in lower case":           "0::/system.slice/slurmstepd.scope/sabcdefghijklm/step_0",
	} {
		if got, ok := ParseCgroup(in); ok {
			t.Errorf("%s: %q is taken for %+v", name, in, got)
		}
	}
}

func TestSplitRows(t *testing.T) {
	text := "1|a|x|\n\n2|b|y|\r\n3|c\n4|d|e|z|\n"
	rows, err := SplitRows(text, "|", 3)
	if diff := cmp.Diff([][]string{{"1", "a", "x"}, {"2", "b", "y"}}, rows); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err == nil || !strings.Contains(HintOf(err), "--delimiter") {
		t.Errorf("error %v with hint %q", err, HintOf(err))
	}
	rows, err = SplitRows("n1  idle\t4 \n", "", 3)
	if diff := cmp.Diff([][]string{{"n1", "idle", "4"}}, rows); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}

func TestParseDevices(t *testing.T) {
	got, err := ParseDevices("0,2-3, GPU-1f, MIG-2a,x,-1,")
	want := []Device{{Index: 0}, {Index: 2}, {Index: 3}, {Index: -1, UUID: "GPU-1f"}, {Index: -1, UUID: "MIG-2a"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"x", "-1", ""}, rejected(err)); diff != "" {
		t.Errorf("rejected (-want +got):\n%s", diff)
	}
	for _, none := range []string{"", "NoDevFiles", "(null)"} {
		if got, err := ParseDevices(none); got != nil || err != nil {
			t.Errorf("ParseDevices(%q) = %v, %v", none, got, err)
		}
	}
}

func TestJobDevicesBelievesTheNodesIndexes(t *testing.T) {
	cases := map[string]struct {
		env  map[string]string
		want []Device
	}{
		"both":                                {map[string]string{"SLURM_JOB_GPUS": "4,5", "CUDA_VISIBLE_DEVICES": "0,1"}, []Device{{Index: 4}, {Index: 5}}},
		"CUDA by UUID":                        {map[string]string{"CUDA_VISIBLE_DEVICES": "GPU-1f"}, []Device{{Index: -1, UUID: "GPU-1f"}}},
		"CUDA counts from 0 inside the group": {map[string]string{"CUDA_VISIBLE_DEVICES": "0,1"}, nil},
		"no GPUs":                             {nil, nil},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := JobDevices(func(key string) string { return tc.env[key] })
			if diff := cmp.Diff(tc.want, got); diff != "" || err != nil {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func FuzzWords(f *testing.F) {
	for _, s := range []string{
		"ReqNodeNotAvail, UnavailableNodes:n[1-3]", "4:memory:/slurm/uid_1/job_2/step_0", "GPU-1,0-3", "a|b|c",
	} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ParseReason(s, "")
		ParseReason("", s)
		if job, ok := ParseCgroup(s); ok && (job.JobID == 0) == (job.SLUID == "") {
			t.Fatalf("%q gives %+v", s, job)
		}
		devices, _ := ParseDevices(s)
		for _, d := range devices {
			if (d.Index < 0) == (d.UUID == "") {
				t.Fatalf("%q gives %+v", s, d)
			}
		}
		rows, _ := SplitRows(s, "|", 3)
		for _, row := range rows {
			if len(row) != 3 {
				t.Fatalf("%q gives a row of %d", s, len(row))
			}
		}
	})
}
