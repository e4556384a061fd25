// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"rifling/slurm"
)

// ErrNoNVML is the answer of a node without a usable NVML library.
var ErrNoNVML = errors.New("no usable NVML library")

// NVML reads GPUs through NVIDIA's management library. The library is one per
// process. What a GPU or a driver does not have is found out once and left out.
type NVML struct {
	lib    nvml.Interface
	has    map[string]bool // symbols; calling one that is missing ends the process
	driver string
	gpus   map[string]*nvmlGPU // by UUID
}

// nvmlGPU is what is kept of a GPU between readings.
type nvmlGPU struct {
	nvlinkSpeed float64
	pcieSpeed   float64
	limit       float64 // W; 0 unknown
	idle        float64 // W, the least seen without a process; 0 not seen yet
	gpm         nvml.GpmSample
	gpmNext     nvml.GpmSample
	gpmTaken    bool
}

// symbols that older libraries lack, and what is lost without them.
var optionalSymbols = []string{
	"nvmlDeviceGetFieldValues",
	"nvmlDeviceGetEnforcedPowerLimit",
	"nvmlDeviceGetPcieThroughput",
	"nvmlDeviceGetMaxPcieLinkGeneration",
	"nvmlDeviceGetMaxPcieLinkWidth",
	"nvmlDeviceGetMigMode",
	"nvmlGpmQueryDeviceSupport",
	"nvmlGpmSampleAlloc",
	"nvmlGpmSampleFree",
	"nvmlGpmSampleGet",
	"nvmlGpmMetricsGet",
}

// OpenNVML loads and initializes lib, made by nvml.New. The error wraps
// ErrNoNVML where there is no library or no driver.
func OpenNVML(lib nvml.Interface) (*NVML, error) {
	if ret := lib.Init(); ret != nvml.SUCCESS {
		return nil, slurm.WithHint(fmt.Errorf("%w: %s", ErrNoNVML, retText(ret)),
			"install the NVIDIA driver, or name its libnvidia-ml.so.1 with --nvml-library")
	}
	n := &NVML{lib: lib, has: map[string]bool{}, gpus: map[string]*nvmlGPU{}}
	for _, name := range optionalSymbols {
		n.has[name] = lib.Extensions().LookupSymbol(name) == nil
	}
	n.driver, _ = lib.SystemGetDriverVersion()
	return n, nil
}

// Driver returns the driver's version, as it calls itself.
func (n *NVML) Driver() string { return n.driver }

// Missing lists the optional functions that the library lacks.
func (n *NVML) Missing() []string {
	var out []string
	for _, name := range optionalSymbols {
		if !n.has[name] {
			out = append(out, name)
		}
	}
	return out
}

// Close frees what was allocated and shuts the library down.
func (n *NVML) Close() error {
	for _, g := range n.gpus {
		for _, s := range []nvml.GpmSample{g.gpm, g.gpmNext} {
			if s != nil {
				_ = s.Free()
			}
		}
	}
	if ret := n.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut NVML down: %s", retText(ret))
	}
	return nil
}

// Read implements GPUSource. A GPU that has fallen off the bus is left out.
func (n *NVML) Read(now time.Time, odd Odd) ([]GPU, error) {
	count, ret := n.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return nil, fmt.Errorf("count GPUs: %s", retText(ret))
	}
	var out []GPU
	for i := range count {
		dev, ret := n.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			odd["GPU lost"]++
			continue
		}
		uuid, ret := dev.GetUUID()
		if ret != nvml.SUCCESS {
			odd["GPU lost"]++
			continue
		}
		known := n.gpus[uuid]
		if known == nil {
			known = n.meet(dev)
			n.gpus[uuid] = known
		}
		g := GPU{UUID: uuid, Index: i, Minor: -1, Part: 1, Throttled: -1, NVLinkSpeed: known.nvlinkSpeed, PCIeSpeed: known.pcieSpeed}
		n.readProcesses(dev, &g, odd)
		n.readNVLink(dev, &g, now, odd)
		n.readPCIe(dev, &g, odd)
		n.readActivity(dev, known, &g, odd)
		out = append(out, g)
	}
	return out, nil
}

// meet asks once for what does not change.
func (n *NVML) meet(dev nvml.Device) *nvmlGPU {
	g := &nvmlGPU{nvlinkSpeed: n.nvlinkSpeed(dev), pcieSpeed: n.pcieSpeed(dev)}
	if n.has["nvmlDeviceGetEnforcedPowerLimit"] {
		if mw, ret := dev.GetEnforcedPowerLimit(); ret == nvml.SUCCESS {
			g.limit = float64(mw) / 1000
		}
	}
	if n.has["nvmlGpmQueryDeviceSupport"] && n.has["nvmlGpmSampleAlloc"] && n.has["nvmlGpmSampleFree"] &&
		n.has["nvmlGpmSampleGet"] && n.has["nvmlGpmMetricsGet"] {
		if s, ret := dev.GpmQueryDeviceSupport(); ret == nvml.SUCCESS && s.IsSupportedDevice != 0 {
			g.gpm, g.gpmNext = n.allocGPM()
		}
	}
	return g
}

func (n *NVML) allocGPM() (a, b nvml.GpmSample) {
	a, ret1 := n.lib.GpmSampleAlloc()
	b, ret2 := n.lib.GpmSampleAlloc()
	if ret1 == nvml.SUCCESS && ret2 == nvml.SUCCESS {
		return a, b
	}
	if ret1 == nvml.SUCCESS {
		_ = a.Free()
	}
	if ret2 == nvml.SUCCESS {
		_ = b.Free()
	}
	return nil, nil
}

func (n *NVML) readProcesses(dev nvml.Device, g *GPU, odd Odd) {
	if n.has["nvmlDeviceGetMigMode"] {
		mode, _, ret := dev.GetMigMode()
		if ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE {
			g.Card = g.UUID
		}
	}
	procs, ret := dev.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		odd["GPU processes: "+retText(ret)]++
		return
	}
	g.ProcessesKnown = true
	for _, p := range procs {
		if p.Pid == 0 || p.Pid > math.MaxInt32 {
			odd["GPU process id"]++
			continue
		}
		g.Processes = append(g.Processes, Process{PID: int(p.Pid), Busy: -1})
	}
}

// allLinks as the scope of a field sums it over the GPU's NVLinks.
const allLinks = math.MaxUint32

func (n *NVML) readNVLink(dev nvml.Device, g *GPU, now time.Time, odd Odd) {
	if g.NVLinkSpeed == 0 || !n.has["nvmlDeviceGetFieldValues"] {
		return
	}
	fields := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ScopeId: allLinks},
		{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ScopeId: allLinks},
	}
	if ret := dev.GetFieldValues(fields); ret != nvml.SUCCESS {
		odd["NVLink: "+retText(ret)]++
		return
	}
	for i, into := range []**reading{&g.NVLinkTx, &g.NVLinkRx} {
		kib, ok := fieldUint(fields[i])
		if !ok || kib > math.MaxUint64/1024 {
			odd["NVLink counter"]++
			continue
		}
		at := now
		if fields[i].Timestamp > 0 {
			at = time.UnixMicro(fields[i].Timestamp)
		}
		*into = &reading{bytes: kib * 1024, at: at}
	}
}

// nvlinkSpeed is all links together, bytes per second in one direction.
func (n *NVML) nvlinkSpeed(dev nvml.Device) float64 {
	if !n.has["nvmlDeviceGetFieldValues"] {
		return 0
	}
	fields := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON},
		{FieldId: nvml.FI_DEV_NVLINK_LINK_COUNT},
	}
	if dev.GetFieldValues(fields) != nvml.SUCCESS {
		return 0
	}
	mbps, ok1 := fieldUint(fields[0])
	links, ok2 := fieldUint(fields[1])
	if speed := float64(mbps) * float64(links) * 1e6; ok1 && ok2 && speed <= fastestLink {
		return speed
	}
	return 0
}

// fieldUint reads a field's value where NVML says that it is there.
func fieldUint(f nvml.FieldValue) (uint64, bool) {
	if nvml.Return(f.NvmlReturn) != nvml.SUCCESS {
		return 0, false
	}
	switch nvml.ValueType(f.ValueType) {
	case nvml.VALUE_TYPE_UNSIGNED_INT:
		return uint64(binary.NativeEndian.Uint32(f.Value[:4])), true
	case nvml.VALUE_TYPE_UNSIGNED_LONG, nvml.VALUE_TYPE_UNSIGNED_LONG_LONG:
		return binary.NativeEndian.Uint64(f.Value[:]), true
	}
	return 0, false
}

// readPCIe reads only GPUs in use: each call takes 20 ms on real cards.
func (n *NVML) readPCIe(dev nvml.Device, g *GPU, odd Odd) {
	if len(g.Processes) == 0 || !n.has["nvmlDeviceGetPcieThroughput"] {
		return
	}
	for _, counter := range []nvml.PcieUtilCounter{nvml.PCIE_UTIL_TX_BYTES, nvml.PCIE_UTIL_RX_BYTES} {
		kbs, ret := dev.GetPcieThroughput(counter)
		if ret != nvml.SUCCESS {
			if ret != nvml.ERROR_NOT_SUPPORTED {
				odd["PCIe: "+retText(ret)]++
			}
			return
		}
		rate := float64(kbs) * 1000
		if limit := g.PCIeSpeed; limit > 0 && rate > slack*limit || rate > fastestLink/10 {
			odd["PCIe faster than its link"]++
			continue
		}
		g.PCIeRate = max(g.PCIeRate, rate)
	}
}

// pcieSpeed is the widest that the link gets, bytes per second in one
// direction; the present width falls when the GPU is idle.
func (n *NVML) pcieSpeed(dev nvml.Device) float64 {
	if !n.has["nvmlDeviceGetMaxPcieLinkGeneration"] || !n.has["nvmlDeviceGetMaxPcieLinkWidth"] {
		return 0
	}
	gen, ret1 := dev.GetMaxPcieLinkGeneration()
	width, ret2 := dev.GetMaxPcieLinkWidth()
	if ret1 != nvml.SUCCESS || ret2 != nvml.SUCCESS || gen < 1 || gen >= len(pcieLane) || width < 1 || width > 32 {
		return 0
	}
	return pcieLane[gen] * float64(width)
}

// pcieLane is bytes per second of one lane in one direction, by generation.
var pcieLane = []float64{0, 0.25e9, 0.5e9, 0.985e9, 1.969e9, 3.938e9, 7.563e9}

func retText(ret nvml.Return) string {
	if text := nvml.ErrorString(ret); text != "" {
		return text
	}
	return fmt.Sprintf("NVML error %d", int(ret))
}
