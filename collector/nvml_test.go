// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"
	"github.com/google/go-cmp/cmp"

	"rifling/slurm"
)

// TestMain lets a test run this binary as a process with a library of its own:
// NVML is one per process.
func TestMain(m *testing.M) {
	if lib := os.Getenv("COLLECTOR_TEST_LIBRARY"); lib != "" {
		readLibrary(lib)
		return
	}
	os.Exit(m.Run())
}

// libraryReading is what the process prints.
type libraryReading struct {
	GPUs    []GPU
	NVLink  []uint64 // sent, by GPU
	Odd     Odd
	Missing []string
	Err     string
}

func readLibrary(path string) {
	var out libraryReading
	n, err := OpenNVML(nvml.New(nvml.WithLibraryPath(path)))
	if err == nil {
		out.Odd, out.Missing = Odd{}, n.Missing()
		now := time.Now()
		_, _ = n.Read(now, Odd{}) // GPM needs two
		out.GPUs, err = n.Read(now.Add(time.Second), out.Odd)
		for i := range out.GPUs {
			if tx := out.GPUs[i].NVLinkTx; tx != nil {
				out.NVLink = append(out.NVLink, tx.bytes)
			}
		}
		err = errors.Join(err, n.Close())
	}
	if err != nil {
		out.Err = err.Error()
	}
	_ = json.NewEncoder(os.Stdout).Encode(out)
}

// standIn builds contrib/nvmlstub.
func standIn(t *testing.T, flags ...string) string {
	t.Helper()
	if _, err := exec.LookPath("gcc"); err != nil {
		t.Skip("no gcc to build the stand-in NVML with")
	}
	lib := filepath.Join(t.TempDir(), "libnvidia-ml.so.1")
	args := append([]string{"-shared", "-fPIC", "-o", lib, "../contrib/nvmlstub/nvmlstub.c"}, flags...)
	if out, err := exec.Command("gcc", args...).CombinedOutput(); err != nil {
		t.Fatalf("gcc: %v\n%s", err, out)
	}
	return lib
}

func gpuFile(uuid string, pid int, activity float64, age time.Duration) string {
	return fmt.Sprintf("uuid %s\npid %d\nactivity %.3f\nmilliwatt %d\nnvlink_tx_kib 1000\nnvlink_rx_kib 2000\n"+
		"pcie_tx_kbs 500\npcie_rx_kbs 700\nstamp_us %d\n",
		uuid, pid, activity, 60000+int(activity*340000), time.Now().Add(-age).UnixMicro())
}

// A whole library, through the real binding: the stand-in, well and failing.
func TestReadThroughALibrary(t *testing.T) {
	lib, old := standIn(t), standIn(t, "-DNVMLSTUB_OLD")
	dir := tree(t, map[string]string{
		"gpu/0": gpuFile("GPU-a", 4711, 0.8, 0),
		"gpu/1": gpuFile("GPU-b", 0, 0, time.Hour),
	})
	for name, tc := range map[string]struct {
		lib    string
		env    []string
		source Source
		act    float64
		nvlink []uint64
		odd    []string // parts of what must be counted
	}{
		"power where there is no GPM": {lib, nil, SourcePower, 0.8, []uint64{1024e3, 1024e3}, nil},
		"GPM where there is":          {lib, []string{"RIFLING_NVML_STUB_GPM=1"}, SourceGPM, 0.8, []uint64{1024e3, 1024e3}, nil},
		"garbage from GPM falls back": {
			lib, []string{"RIFLING_NVML_STUB_GPM=1", "RIFLING_NVML_STUB_FAULT=gpm=garbage"}, SourcePower, 0.8,
			[]uint64{1024e3, 1024e3}, []string{"GPM out of range"}},
		"no power falls back to utilization": {
			lib, []string{"RIFLING_NVML_STUB_FAULT=power=not_supported"}, SourceUtilization, 1, []uint64{1024e3, 1024e3}, nil},
		"garbage everywhere is nothing, and no crash": {
			lib, []string{"RIFLING_NVML_STUB_FAULT=power=garbage,util=garbage,nvlink=garbage,pcie=garbage"}, SourceNone, 0, nil,
			[]string{"power out of range", "utilization out of range", "NVLink counter out of range", "PCIe faster than its link"}},
		"NVLink not supported": {
			lib, []string{"RIFLING_NVML_STUB_FAULT=nvlink=not_supported"}, SourcePower, 0.8, nil, nil},
		"an old library lacks symbols": {old, []string{"RIFLING_NVML_STUB_GPM=1"}, SourcePower, 0.8, nil, nil},
	} {
		t.Run(name, func(t *testing.T) {
			got := inProcess(t, tc.lib, append(tc.env, "RIFLING_NVML_STUB_DIR="+dir))
			if got.Err != "" || len(got.GPUs) != 2 {
				t.Fatalf("reading %+v", got)
			}
			g := got.GPUs[0]
			if g.UUID != "GPU-a" || g.Source != tc.source || math.Abs(g.Activity-tc.act) > 0.01 {
				t.Errorf("GPU %+v, want activity %v by %q", g, tc.act, tc.source)
			}
			if diff := cmp.Diff([]Process{{PID: 4711, Busy: -1}}, g.Processes); diff != "" {
				t.Errorf("processes (-want +got)\n%s", diff)
			}
			if idle := got.GPUs[1]; len(idle.Processes) != 0 || idle.Activity > 0.01 {
				t.Errorf("idle GPU %+v", idle)
			}
			if diff := cmp.Diff(tc.nvlink, got.NVLink); diff != "" {
				t.Errorf("NVLink bytes (-want +got)\n%s", diff)
			}
			for _, what := range tc.odd {
				if got.Odd[what] == 0 {
					t.Errorf("%q was not counted: %v", what, got.Odd)
				}
			}
			if wantMissing := tc.lib == old; wantMissing != (len(got.Missing) > 0) {
				t.Errorf("missing symbols %v", got.Missing)
			}
		})
	}
}

func inProcess(t *testing.T, lib string, env []string) libraryReading {
	t.Helper()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(append(os.Environ(), env...), "COLLECTOR_TEST_LIBRARY="+lib)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("reader: %v\n%s", err, out)
	}
	var got libraryReading
	if err := json.Unmarshal(out, &got); err != nil {
		t.Fatalf("reader said %q: %v", out, err)
	}
	return got
}

func TestNoLibraryIsOneClearError(t *testing.T) {
	_, err := OpenNVML(nvml.New(nvml.WithLibraryPath("/nonexistent/libnvidia-ml.so.1")))
	if !errors.Is(err, ErrNoNVML) || !strings.Contains(slurm.HintOf(err), "--nvml-library") {
		t.Errorf("error %v, hint %q", err, slurm.HintOf(err))
	}
}

// mockLib is a library with one card; dev says how it answers.
func mockLib(dev *mock.Device) *mock.Interface {
	return &mock.Interface{
		InitFunc:                   func() nvml.Return { return nvml.SUCCESS },
		SystemGetDriverVersionFunc: func() (string, nvml.Return) { return "550.1", nvml.SUCCESS },
		ExtensionsFunc: func() nvml.ExtendedInterface {
			return &mock.ExtendedInterface{LookupSymbolFunc: func(name string) error {
				switch name {
				case "nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetPowerUsage", "nvmlDeviceGetEnforcedPowerLimit":
					return nil
				}
				return errors.New("not mocked")
			}}
		},
		DeviceGetCountFunc:         func() (int, nvml.Return) { return 1, nvml.SUCCESS },
		DeviceGetHandleByIndexFunc: func(int) (nvml.Device, nvml.Return) { return dev, nvml.SUCCESS },
	}
}

// cardOf is a device that draws that much of 400 W and has nothing else.
func cardOf(watts *float64, pids *[]nvml.ProcessInfo) *mock.Device {
	none := nvml.ERROR_NOT_SUPPORTED
	return &mock.Device{
		GetUUIDFunc:                    func() (string, nvml.Return) { return "GPU-a", nvml.SUCCESS },
		GetEnforcedPowerLimitFunc:      func() (uint32, nvml.Return) { return 400000, nvml.SUCCESS },
		GetPowerUsageFunc:              func() (uint32, nvml.Return) { return uint32(*watts * 1000), nvml.SUCCESS },
		GetComputeRunningProcessesFunc: func() ([]nvml.ProcessInfo, nvml.Return) { return *pids, nvml.SUCCESS },
		GpmQueryDeviceSupportFunc:      func() (nvml.GpmSupport, nvml.Return) { return nvml.GpmSupport{}, none },
		GetFieldValuesFunc:             func([]nvml.FieldValue) nvml.Return { return none },
		GetMigModeFunc:                 func() (int, int, nvml.Return) { return 0, 0, none },
		GetMaxPcieLinkGenerationFunc:   func() (int, nvml.Return) { return 0, none },
		GetMaxPcieLinkWidthFunc:        func() (int, nvml.Return) { return 0, none },
		GetPcieThroughputFunc:          func(nvml.PcieUtilCounter) (uint32, nvml.Return) { return 0, none },
	}
}

func TestPowerLearnsWhatIdleIs(t *testing.T) {
	var watts float64
	var pids []nvml.ProcessInfo
	n, err := OpenNVML(mockLib(cardOf(&watts, &pids)))
	if err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct {
		story string
		watts float64
		busy  bool
		want  float64
	}{
		{"before it was ever idle, 15 % of the limit counts as idle", 230, true, 0.5},
		{"idle", 80, false, 0},
		{"after that, what was seen counts", 240, true, 0.5},
		{"less than idle is nothing", 70, true, 0},
		{"more than the limit is all", 420, true, 1},
	} {
		watts, pids = step.watts, nil
		if step.busy {
			pids = []nvml.ProcessInfo{{Pid: 1}}
		}
		got, err := n.Read(start, Odd{})
		if err != nil || len(got) != 1 {
			t.Fatalf("%s: %v, %v", step.story, got, err)
		}
		if math.Abs(got[0].Activity-step.want) > 1e-9 || got[0].Source != SourcePower {
			t.Errorf("%s: activity %v by %q, want %v", step.story, got[0].Activity, got[0].Source, step.want)
		}
	}
}

func TestLostGPULeavesTheOthers(t *testing.T) {
	watts, pids := 100.0, []nvml.ProcessInfo(nil)
	lib := mockLib(cardOf(&watts, &pids))
	good := lib.DeviceGetHandleByIndexFunc
	lib.DeviceGetCountFunc = func() (int, nvml.Return) { return 2, nvml.SUCCESS }
	lib.DeviceGetHandleByIndexFunc = func(i int) (nvml.Device, nvml.Return) {
		if i == 0 {
			return nil, nvml.ERROR_GPU_IS_LOST
		}
		return good(i)
	}
	n, err := OpenNVML(lib)
	if err != nil {
		t.Fatal(err)
	}
	odd := Odd{}
	got, err := n.Read(start, odd)
	if err != nil || len(got) != 1 || len(odd) != 1 {
		t.Errorf("read %+v, %v, odd %v", got, err, odd)
	}
}
