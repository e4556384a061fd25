// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// Without any one of the functions that are looked up first the process lives,
// says which one is missing, and reads the rest. A call that was not looked up
// would end it.
func TestEachMissingSymbol(t *testing.T) {
	gpmLost := func(g GPU) bool { return g.Source == SourcePower }
	same := func(g GPU) bool { return g.Source == SourceGPM }
	tests := map[string]struct {
		card string
		lost string         // the source that says so
		gpu  func(GPU) bool // of the card's reading
	}{
		"nvmlSystemGetDriverVersion":              {"H100", "", same},
		"nvmlDeviceGetName":                       {"H100", "", func(g GPU) bool { return g.Model == "" && same(g) }},
		"nvmlDeviceGetMinorNumber":                {"H100", "", func(g GPU) bool { return g.Minor == -1 && same(g) }},
		"nvmlDeviceGetComputeRunningProcesses":    {"H100", "processes", func(g GPU) bool { return !g.ProcessesKnown && same(g) }},
		"nvmlDeviceGetMPSComputeRunningProcesses": {"H100", "", func(g GPU) bool { return len(g.Processes) == 1 && same(g) }},
		"nvmlDeviceGetProcessUtilization":         {"H100", "process utilization", same},
		"nvmlDeviceGetUtilizationRates":           {"H100", "utilization", same},
		"nvmlDeviceGetPowerUsage":                 {"A100", "power", func(g GPU) bool { return g.Source == SourceUtilization }},
		"nvmlDeviceGetEnforcedPowerLimit":         {"A100", "power", func(g GPU) bool { return g.Source == SourceUtilization }},
		// The fields tell throttling as well.
		"nvmlDeviceGetViolationStatus":        {"H100", "", func(g GPU) bool { return about(g.Throttled, 0.2) && same(g) }},
		"nvmlDeviceGetFieldValues":            {"H100", "nvlink", func(g GPU) bool { return g.NVLinkTx == nil && g.PCIeTx == nil && g.PCIeRate > 0 && same(g) }},
		"nvmlDeviceGetPcieThroughput":         {"T4", "pcie", func(g GPU) bool { return g.PCIeRate == 0 }},
		"nvmlDeviceGetMaxPcieLinkGeneration":  {"H100", "", func(g GPU) bool { return g.PCIeSpeed == 0 && g.PCIeTx != nil && same(g) }},
		"nvmlDeviceGetMaxPcieLinkWidth":       {"H100", "", func(g GPU) bool { return g.PCIeSpeed == 0 && g.PCIeTx != nil && same(g) }},
		"nvmlDeviceGetMigMode":                {"H100", "", same},
		"nvmlDeviceGetMaxMigDeviceCount":      {"H100", "", same},
		"nvmlDeviceGetMigDeviceHandleByIndex": {"H100", "", same},
		"nvmlDeviceGetAttributes":             {"MIG", "", func(g GPU) bool { return about(g.Part, 1./7) && same(g) }},
		"nvmlDeviceGetGpuInstanceId":          {"MIG", "", func(g GPU) bool { return g.Source == SourceNone && len(g.Processes) == 1 }},
		"nvmlDeviceGetComputeInstanceId":      {"MIG", "", same},
		"nvmlGpmQueryDeviceSupport":           {"H100", "gpm", gpmLost},
		"nvmlGpmSampleAlloc":                  {"H100", "gpm", gpmLost},
		"nvmlGpmSampleFree":                   {"H100", "gpm", gpmLost},
		"nvmlGpmSampleGet":                    {"H100", "gpm", gpmLost},
		"nvmlGpmMigSampleGet":                 {"MIG", "", func(g GPU) bool { return g.Source == SourceNone }},
		"nvmlGpmMetricsGet":                   {"H100", "gpm", gpmLost},
	}
	for _, symbol := range optionalSymbols {
		t.Run(symbol, func(t *testing.T) {
			t.Parallel()
			tc, ok := tests[symbol]
			if !ok {
				t.Fatal("this function is called, and no test says what is lost without it")
			}
			steps := twice(tc.card, 60)
			for _, s := range steps {
				s.Files["mig/0"] = "1 0 3 100 0.8\n"
			}
			got := play(t, standIn(t, newest, symbol), nil, steps...)
			r := got.last(t)
			if !slices.Equal(got.Missing, []string{symbol}) || !strings.Contains(got.source("library").Detail, symbol) {
				t.Errorf("missing %v, library %q", got.Missing, got.source("library").Detail)
			}
			if len(r.GPUs) != 1 || !tc.gpu(r.GPUs[0]) || len(r.Odd) != 0 {
				t.Errorf("GPUs %+v, odd %v", r.GPUs, r.Odd)
			}
			if s := got.source(tc.lost); tc.lost != "" && (s.OK || !strings.Contains(s.Detail, symbol)) {
				t.Errorf("source %+v", s)
			}
		})
	}
	for _, symbol := range requiredSymbols {
		t.Run(symbol, func(t *testing.T) {
			t.Parallel()
			got := play(t, standIn(t, newest, symbol), nil, nodeStep{})
			if !strings.Contains(got.OpenErr, "has no "+symbol) || !strings.Contains(got.Hint, "--nvml-library") {
				t.Errorf("error %q, hint %q", got.OpenErr, got.Hint)
			}
		})
	}
}

// The symbol sets and fields of drivers between 2017 and now, and of one to
// come, on the same card: each reads what its time had.
func TestOldDrivers(t *testing.T) {
	for _, tc := range []struct {
		driver   int
		source   Source
		nvlink   bool
		counters bool // of PCIe
		mps      bool
		missing  []string // some of what must be missing
	}{
		{384, SourcePower, false, false, false, []string{"nvmlDeviceGetFieldValues", "nvmlDeviceGetMigMode", "nvmlGpmMetricsGet"}},
		{418, SourcePower, false, false, false, []string{"nvmlDeviceGetMPSComputeRunningProcesses", "nvmlDeviceGetMigMode", "nvmlGpmMetricsGet"}},
		{470, SourcePower, true, false, true, []string{"nvmlGpmQueryDeviceSupport", "nvmlGpmMigSampleGet"}},
		{535, SourceGPM, true, false, true, nil},
		{580, SourceGPM, true, true, true, nil},
		{700, SourceGPM, true, true, true, []string{"nvmlDeviceGetViolationStatus"}},
	} {
		t.Run(standInName(tc.driver), func(t *testing.T) {
			t.Parallel()
			steps := twice("H100", 300)
			for _, s := range steps {
				s.Files["gpu/0"] = strings.ReplaceAll(s.Files["gpu/0"], "pid 4711\n", "pid 4711\nproc 4712 10\nmps 4713 20\n")
			}
			got := play(t, standIn(t, tc.driver), nil, steps...)
			r := got.last(t)
			if len(r.GPUs) != 1 || len(r.Odd) > 0 {
				t.Fatalf("GPUs %+v, odd %v", r.GPUs, r.Odd)
			}
			g := r.GPUs[0]
			if g.Source != tc.source || (g.NVLinkTx != nil) != tc.nvlink || (g.PCIeTx != nil) != tc.counters || !about(g.Throttled, 0.2) {
				t.Errorf("GPU %+v", g)
			}
			if !tc.counters && !about(g.PCIeRate, 0.7e9) {
				t.Errorf("PCIe rate %v", g.PCIeRate)
			}
			want := 2
			if tc.mps {
				want = 3
			}
			if len(g.Processes) != want || !about(g.Processes[1].Busy, 0.1) {
				t.Errorf("processes %+v", g.Processes)
			}
			for _, symbol := range tc.missing {
				if !slices.Contains(got.Missing, symbol) {
					t.Errorf("%s is not missing: %v", symbol, got.Missing)
				}
			}
			if len(tc.missing) == 0 && len(got.Missing) > 0 {
				t.Errorf("missing %v", got.Missing)
			}
		})
	}
}

func standInName(driver int) string {
	return map[int]string{384: "384 before field values", 418: "418 before MIG", 470: "470 before GPM", 535: "535 before PCIe counters",
		580: "580", 700: "700 without what is deprecated"}[driver]
}

// A file that is no library, and a library that is not NVIDIA's.
func TestNotALibrary(t *testing.T) {
	text := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	if err := os.WriteFile(text, []byte("not a library\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{text: text, "libc.so.6": "has no nvmlInit"} {
		got := play(t, path, nil, nodeStep{})
		if !strings.HasPrefix(got.OpenErr, ErrNoNVML.Error()) || !strings.Contains(got.OpenErr, want) {
			t.Errorf("%s: %q", path, got.OpenErr)
		}
	}
}
