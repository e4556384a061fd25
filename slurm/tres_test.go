// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestParseTRES(t *testing.T) {
	cases := map[string]struct {
		in       string
		want     TRES
		gpus     int
		rejected []string
	}{
		"empty":                           {in: "", want: TRES{}},
		"a node without GPUs":             {in: "cpu=96,mem=515000M,billing=96", want: TRES{"cpu": 96, "mem": 515000 << 20, "billing": 96}},
		"memory with a fraction":          {in: "mem=1.50T", want: TRES{"mem": 3 << 39}},
		"memory without a suffix is MiB":  {in: "mem=100", want: TRES{"mem": 100 << 20}},
		"total and type are the same":     {in: "node=1,gres/gpu=4,gres/gpu:l40s=4", want: TRES{"node": 1, "gres/gpu": 4, "gres/gpu:l40s": 4}, gpus: 4},
		"types without a total":           {in: "gres/gpu:l40s=1,gres/gpu:h100=2", want: TRES{"gres/gpu:l40s": 1, "gres/gpu:h100": 2}, gpus: 3},
		"shards and utilization":          {in: "gres/shard=8,gres/gpuutil=97,gres/gpumem=1K", want: TRES{"gres/shard": 8, "gres/gpuutil": 97, "gres/gpumem": 1024}},
		"usage: CPU time in seconds":      {in: "cpu=00:01:30,fs/disk=2081", want: TRES{"cpu": 90, "fs/disk": 2081}},
		"unset energy is left out":        {in: "cpu=1,energy=18446744073709551614", want: TRES{"cpu": 1}},
		"unlimited and minus are as well": {in: "cpu=-1,node=18446744073709551615,mem=-2", want: TRES{}},
		"a bad part, the rest kept":       {in: "cpu=8,gres/gpu=x,mem=1G", want: TRES{"cpu": 8, "mem": 1 << 30}, rejected: []string{"gres/gpu=x"}},
		"named twice, the first kept":     {in: "gres/gpu=1,gres/gpu=2", want: TRES{"gres/gpu": 1}, gpus: 1, rejected: []string{"gres/gpu=2"}},
		"no count":                        {in: "cpu,gres/gpu=1", want: TRES{"gres/gpu": 1}, gpus: 1, rejected: []string{"cpu"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseTRES(tc.in)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ParseTRES(%q) (-want +got):\n%s", tc.in, diff)
			}
			if got.GPUs() != tc.gpus {
				t.Errorf("GPUs() = %d, want %d", got.GPUs(), tc.gpus)
			}
			if diff := cmp.Diff(tc.rejected, rejected(err)); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestMaxUsageTakesRealStepsOnly(t *testing.T) {
	got := MaxUsage([]StepUsage{
		{"", TRES{"gres/gpuutil": 900}},
		{"extern", TRES{"gres/gpuutil": 0, "vmem": 7}},
		{"batch", TRES{"gres/gpuutil": 0, "gres/gpumem": 10}},
		{"0", TRES{"gres/gpuutil": 55, "gres/gpumem": 4}},
		{"1", TRES{"gres/gpuutil": 30}},
	})
	if diff := cmp.Diff(TRES{"gres/gpuutil": 55, "gres/gpumem": 10}, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseMemory(t *testing.T) {
	for in, want := range map[string]int64{
		"0": 0, "1": 1 << 20, "3G": 3 << 30, "512k": 512 << 10, "2P": 2 << 50, "0.5G": 1 << 29, " 7M ": 7 << 20,
	} {
		if got, err := ParseMemory(in); err != nil || got != want {
			t.Errorf("ParseMemory(%q) = %d, %v; want %d", in, got, err, want)
		}
	}
	for _, in := range []string{"", "G", "-1G", "1.G", "1..5G", "4Gc", "1 G", "99999999999999999P", "8E1", "Nan"} {
		if got, err := ParseMemory(in); err == nil {
			t.Errorf("ParseMemory(%q) = %d, want an error", in, got)
		}
	}
}

func TestParseReqMem(t *testing.T) {
	for in, want := range map[string]struct {
		bytes int64
		per   string
	}{
		"2Gn": {2 << 30, "node"}, "100Mc": {100 << 20, "cpu"}, "64G": {64 << 30, ""}, "0n": {0, "node"},
	} {
		bytes, per, err := ParseReqMem(in)
		if err != nil || bytes != want.bytes || per != want.per {
			t.Errorf("ParseReqMem(%q) = %d, %q, %v; want %+v", in, bytes, per, err, want)
		}
	}
	if _, _, err := ParseReqMem("2Gx"); err == nil {
		t.Error("a letter that is neither n nor c was let pass")
	}
}

func FuzzParseTRES(f *testing.F) {
	for _, s := range []string{"cpu=8,mem=1.5G,gres/gpu:l40s=2", "cpu=1-00:00:01", "energy=-2"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		tres, _ := ParseTRES(s)
		var sum int64
		for name, n := range tres {
			if n < 0 {
				t.Fatalf("%q: %s = %d", s, name, n)
			}
			sum = addCounts(sum, n)
		}
		if g := tres.GPUs(); g < 0 || int64(g) > sum {
			t.Fatalf("%q: %d GPUs", s, g)
		}
	})
}

func FuzzParseMemory(f *testing.F) {
	f.Add("1.50T")
	f.Add("16000Mn")
	f.Fuzz(func(t *testing.T, s string) {
		if n, err := ParseMemory(s); n < 0 || err != nil && n != 0 {
			t.Fatalf("%q: %d, %v", s, n, err)
		}
		if n, _, err := ParseReqMem(s); n < 0 || err != nil && n != 0 {
			t.Fatalf("%q: %d, %v", s, n, err)
		}
	})
}
