// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// about tells whether two numbers are the same but for rounding.
func about(a, b float64) bool { return math.Abs(a-b) <= 1e-3*max(1, math.Abs(a), math.Abs(b)) }

// Power counts above idle, for which 15 % of the limit stand until it was seen.
func TestCards(t *testing.T) {
	for name, tc := range map[string]struct {
		env      []string
		card     string
		watts    float64
		model    string
		source   Source
		activity float64
		nvlink   float64 // bytes per second sent
		speed    float64 // of NVLink
		pcie     float64 // by counters
		pcieRate float64 // without them
		throttle float64
		procs    bool
		absent   []string // sources that it does not have
	}{
		"what emulated jobs write": {
			card: "emulated", watts: 300, model: "Emulated GPU", source: SourcePower, activity: 240. / 340, nvlink: 1.024e9, speed: 300e9,
			pcieRate: 0.7e9, throttle: 0.2, procs: true, absent: []string{"gpm", "mig"}},
		"the same with GPM": {
			env: []string{"RIFLING_NVML_STUB_GPM=1"}, card: "emulated", watts: 300, model: "Emulated GPU", source: SourceGPM, activity: 0.5,
			nvlink: 1.024e9, speed: 300e9, pcieRate: 0.7e9, throttle: 0.2, procs: true, absent: []string{"mig"}},
		"T4: no NVLink, no GPM": {
			card: "T4", watts: 40, model: "Tesla T4", source: SourcePower, activity: (40 - 10.5) / (70 - 10.5), pcieRate: 0.7e9, throttle: 0.2, procs: true,
			absent: []string{"gpm", "nvlink", "mig"}},
		"A100: NVLink, PCIe counters, energy": {
			card: "A100", watts: 300, model: "NVIDIA A100-SXM4-80GB", source: SourcePower, activity: 240. / 340, nvlink: 1.024e9, speed: 300e9,
			pcie: 2e9, throttle: 0.2, procs: true, absent: []string{"gpm"}},
		"H100: GPM too": {
			card: "H100", watts: 300, model: "NVIDIA H100 80GB HBM3", source: SourceGPM, activity: 0.5, nvlink: 1.024e9, speed: 18 * 26.562e9,
			pcie: 2e9, throttle: 0.2, procs: true},
		"vGPU: utilization and nothing else": {
			card: "vGPU", watts: 10, model: "GRID T4-8C", source: SourceUtilization, activity: 1, throttle: -1,
			absent: []string{"gpm", "power", "nvlink", "pcie", "processes", "process utilization", "throttling", "mig"}},
	} {
		t.Run(name, func(t *testing.T) {
			got := play(t, standIn(t, newest), tc.env, twice(tc.card, tc.watts)...)
			r := got.last(t)
			if len(r.GPUs) != 1 || len(r.Odd) != 0 || len(got.Missing) != 0 {
				t.Fatalf("GPUs %+v, odd %v, missing %v", r.GPUs, r.Odd, got.Missing)
			}
			g := r.GPUs[0]
			if g.Model != tc.model || g.Minor != 0 || g.Card != "" || g.Part != 1 || g.Source != tc.source {
				t.Errorf("GPU %+v", g)
			}
			for what, v := range map[string][2]float64{
				"activity": {g.Activity, tc.activity}, "NVLink speed": {g.NVLinkSpeed, tc.speed}, "throttled": {g.Throttled, tc.throttle},
				"NVLink rate": {r.Rates["GPU-a nvlink tx"], tc.nvlink}, "PCIe rate by counters": {r.Rates["GPU-a pcie tx"], tc.pcie},
				"PCIe rate": {g.PCIeRate, tc.pcieRate},
			} {
				if !about(v[0], v[1]) {
					t.Errorf("%s %v, want %v", what, v[0], v[1])
				}
			}
			if g.ProcessesKnown != tc.procs || tc.procs && !cmp.Equal(g.Processes, []Process{{4711, -1}}) {
				t.Errorf("processes %+v, known %v", g.Processes, g.ProcessesKnown)
			}
			for _, name := range []string{"gpm", "power", "nvlink", "pcie", "processes", "process utilization", "throttling", "utilization", "mig"} {
				want := true
				for _, a := range tc.absent {
					want = want && a != name
				}
				if s := got.source(name); s.OK != want || s.Detail == "" {
					t.Errorf("source %s: %+v, want %v", name, s, want)
				}
			}
		})
	}
}

func TestMIGInstancesAreGPUs(t *testing.T) {
	node := func(card string) []nodeStep {
		steps := twice(card, 300)
		for _, s := range steps {
			s.Files["mig/0"] = "1 0 3 100 0.8\n2 0 2 200 0.4\n5 0 1 0 0\n"
		}
		return steps
	}
	want := func(source Source, act ...float64) []GPU {
		g := func(uuid string, part, activity float64, pids ...int) GPU {
			out := GPU{UUID: uuid, Model: "NVIDIA H100 80GB HBM3", Card: "GPU-a", Part: part, ProcessesKnown: true, Activity: activity,
				Source: source, Throttled: 0.2}
			for _, pid := range pids {
				out.Processes = append(out.Processes, Process{pid, -1})
			}
			return out
		}
		return []GPU{g("MIG-GPU-a-1-0", 3./7, act[0], 100), g("MIG-GPU-a-2-0", 2./7, act[1], 200), g("MIG-GPU-a-5-0", 1./7, act[2])}
	}
	equal := cmp.Comparer(about)
	t.Run("GPM of each instance", func(t *testing.T) {
		got := play(t, standIn(t, newest), nil, node("MIG")...)
		r := got.last(t)
		if diff := cmp.Diff(want(SourceGPM, 0.8, 0.4, 0), r.GPUs, equal, cmp.AllowUnexported(reading{})); diff != "" || len(r.Odd) > 0 {
			t.Errorf("odd %v (-want +got)\n%s", r.Odd, diff)
		}
		for name, want := range map[string]string{"mig": "on, 3 instances", "power": "not known by instance", "gpm": "SM activity"} {
			if s := got.source(name); !strings.Contains(s.Detail, want) {
				t.Errorf("source %+v", s)
			}
		}
	})
	t.Run("garbage from GPM is counted and nothing is made of it", func(t *testing.T) {
		r := play(t, standIn(t, newest), []string{"RIFLING_NVML_STUB_FAULT=gpm=garbage"}, node("MIG")...).last(t)
		if r.Odd["MIG GPM out of range"] != 3 || len(r.GPUs) != 3 {
			t.Fatalf("odd %v, GPUs %+v", r.Odd, r.GPUs)
		}
		for _, g := range r.GPUs {
			if g.Source != SourceNone || g.Activity != 0 {
				t.Errorf("activity %v by %q", g.Activity, g.Source)
			}
		}
	})
	t.Run("without GPM the processes' use counts where NVML tells it", func(t *testing.T) {
		r := play(t, standIn(t, newest), []string{"RIFLING_NVML_STUB_FAULT=procutil=mig"}, node("A100-MIG")...).last(t)
		if len(r.GPUs) != 3 || r.GPUs[0].Source != SourceUtilization || !about(r.GPUs[0].Activity, 0.8) || r.GPUs[2].Source != SourceNone {
			t.Errorf("GPUs %+v", r.GPUs)
		}
	})
	t.Run("without either there is none", func(t *testing.T) {
		r := play(t, standIn(t, newest), nil, node("A100-MIG")...).last(t)
		if len(r.GPUs) != 3 || r.GPUs[0].Source != SourceNone || len(r.GPUs[0].Processes) != 1 || len(r.Odd) > 0 {
			t.Errorf("GPUs %+v, odd %v", r.GPUs, r.Odd)
		}
	})
	t.Run("instances that do not list processes: the card's list names them", func(t *testing.T) {
		r := play(t, standIn(t, newest), []string{"RIFLING_NVML_STUB_FAULT=migprocs=not_supported"}, node("MIG")...).last(t)
		if diff := cmp.Diff(want(SourceGPM, 0.8, 0.4, 0), r.GPUs, equal); diff != "" {
			t.Errorf("(-want +got)\n%s", diff)
		}
	})
	t.Run("impossible slices count as equal parts", func(t *testing.T) {
		r := play(t, standIn(t, newest), []string{"RIFLING_NVML_STUB_FAULT=mig=garbage"}, node("MIG")...).last(t)
		if len(r.GPUs) != 3 || !about(r.GPUs[0].Part, 1./7) || r.Odd["MIG slices out of range"] != 3 {
			t.Errorf("GPUs %+v, odd %v", r.GPUs, r.Odd)
		}
	})
	t.Run("two compute instances of one GPU instance: GPM cannot tell them apart", func(t *testing.T) {
		steps := node("MIG")
		for _, s := range steps {
			s.Files["mig/0"] = "1 0 1 100 0.8\n1 1 2 200 0.8\n"
		}
		r := play(t, standIn(t, newest), nil, steps...).last(t)
		if len(r.GPUs) != 2 || r.GPUs[0].Source != SourceNone || !about(r.GPUs[1].Part, 2./7) {
			t.Errorf("GPUs %+v", r.GPUs)
		}
	})
	t.Run("cut anew while we read", func(t *testing.T) {
		steps := append(node("MIG"), nodeStep{30, map[string]string{"mig/0": "9 0 7 300 0.6\n", "gpu/0": gpuText("GPU-a", "MIG", 0, "")}},
			nodeStep{45, map[string]string{"gpu/0": gpuText("GPU-a", "A100", 5, "")}})
		got := play(t, standIn(t, newest), nil, steps...)
		if g := got.Readings[2].GPUs; len(g) != 1 || g[0].UUID != "MIG-GPU-a-9-0" || g[0].Part != 1 {
			t.Errorf("after it was cut anew: %+v", g)
		}
		if g := got.last(t).GPUs; len(g) != 1 || g[0].UUID != "GPU-a" || g[0].Card != "" {
			t.Errorf("after MIG was turned off: %+v", g)
		}
		if s := got.source("power"); !s.OK {
			t.Errorf("after MIG was turned off: %+v", s)
		}
	})
}

func TestSharedCard(t *testing.T) {
	share := func(lines string) []nodeStep {
		text := "card A100\nuuid GPU-a\nactivity 0.9\n" + lines + "stamp_us STAMP\n"
		return []nodeStep{{0, map[string]string{"gpu/0": text}}, {15, map[string]string{"gpu/0": text}}}
	}
	for name, tc := range map[string]struct {
		lines, fault string
		want         []Process
		odd          string
	}{
		"time slicing":     {"proc 10 60\nproc 20 30\n", "", []Process{{10, 0.6}, {20, 0.3}}, ""},
		"MPS clients":      {"mps 10 25\nmps 20 50\n", "", []Process{{10, 0.25}, {20, 0.5}}, ""},
		"both sorts":       {"proc 10 25\nmps 20 50\n", "", []Process{{10, 0.25}, {20, 0.5}}, ""},
		"one only waits":   {"proc 10 60\nproc 20 0\n", "", []Process{{10, 0.6}, {20, 0}}, ""},
		"nobody was busy":  {"proc 10 0\nproc 20 0\n", "", []Process{{10, 0}, {20, 0}}, ""},
		"alone: not asked": {"proc 10 60\n", "", []Process{{10, -1}}, ""},
		"not supported":    {"proc 10 60\nproc 20 30\n", "procutil=not_supported", []Process{{10, -1}, {20, -1}}, ""},
		"garbage":          {"proc 10 60\nproc 20 30\n", "procutil=garbage", []Process{{10, -1}, {20, 0.3}}, "process utilization out of range"},
		"odd process ids":  {"proc 10 60\nproc 20 30\n", "procs=garbage", []Process{{20, 0.3}}, "GPU process id"},
	} {
		t.Run(name, func(t *testing.T) {
			r := play(t, standIn(t, newest), []string{"RIFLING_NVML_STUB_FAULT=" + tc.fault}, share(tc.lines)...).last(t)
			if len(r.GPUs) != 1 || r.counted() != tc.odd {
				t.Fatalf("GPUs %+v, odd %v", r.GPUs, r.Odd)
			}
			if diff := cmp.Diff(tc.want, r.GPUs[0].Processes); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}
