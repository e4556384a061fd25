// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"math"
	"strings"
	"testing"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
	"github.com/NVIDIA/go-nvml/pkg/nvml/mock"

	"rifling/slurm"
)

func TestNoLibraryIsOneClearError(t *testing.T) {
	const path = "/nonexistent/libnvidia-ml.so.1"
	_, opened := OpenNVML(nvml.New(nvml.WithLibraryPath(path)))
	_, loaded := LoadNVML(path)
	for _, err := range []error{opened, loaded} {
		if !errors.Is(err, ErrNoNVML) || !strings.Contains(slurm.HintOf(err), "--nvml-library") {
			t.Errorf("error %v, hint %q", err, slurm.HintOf(err))
		}
	}
	if !strings.Contains(loaded.Error(), path) {
		t.Errorf("error %v does not name the file", loaded)
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
