// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/dl"
	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"rifling/slurm"
)

// ErrNoNVML is the answer of a node without a usable NVML library or driver.
var ErrNoNVML = errors.New("no usable NVML library")

// ErrDriverReplaced is the answer when the driver was replaced by another
// release under the running program. The library of the old one cannot be
// exchanged within the process: end and start again.
var ErrDriverReplaced = errors.New("the NVIDIA driver was replaced")

// NVML reads GPUs through NVIDIA's management library. The library is one per
// process. What a card or a driver does not have is found out once and left
// out. It is not safe for concurrent use.
type NVML struct {
	lib    nvml.Interface
	has    map[string]bool // symbols; calling one that is missing ends the process
	driver string
	down   bool // shut down, or never came up again
	cards  map[string]*card
	order  []string  // UUIDs as they were met
	last   time.Time // of the reading before
}

// requiredSymbols are called unasked. Every driver since 2012 has them; a file
// without them is something else.
var requiredSymbols = []string{
	"nvmlInit", "nvmlShutdown", "nvmlErrorString", "nvmlDeviceGetCount", "nvmlDeviceGetHandleByIndex", "nvmlDeviceGetUUID",
}

// optionalSymbols are looked up first. Those with versions count when any of
// them is there.
var optionalSymbols = []string{
	"nvmlSystemGetDriverVersion",
	"nvmlDeviceGetName",
	"nvmlDeviceGetMinorNumber",
	"nvmlDeviceGetComputeRunningProcesses",
	"nvmlDeviceGetMPSComputeRunningProcesses",
	"nvmlDeviceGetProcessUtilization",
	"nvmlDeviceGetUtilizationRates",
	"nvmlDeviceGetPowerUsage",
	"nvmlDeviceGetEnforcedPowerLimit",
	"nvmlDeviceGetViolationStatus",
	"nvmlDeviceGetFieldValues",
	"nvmlDeviceGetPcieThroughput",
	"nvmlDeviceGetMaxPcieLinkGeneration",
	"nvmlDeviceGetMaxPcieLinkWidth",
	"nvmlDeviceGetMigMode",
	"nvmlDeviceGetMaxMigDeviceCount",
	"nvmlDeviceGetMigDeviceHandleByIndex",
	"nvmlDeviceGetAttributes",
	"nvmlDeviceGetGpuInstanceId",
	"nvmlDeviceGetComputeInstanceId",
	"nvmlGpmQueryDeviceSupport",
	"nvmlGpmSampleAlloc",
	"nvmlGpmSampleFree",
	"nvmlGpmSampleGet",
	"nvmlGpmMigSampleGet",
	"nvmlGpmMetricsGet",
}

// symbolThere tells whether the symbol or a later version of it is there.
func symbolThere(lookup func(string) error, name string) bool {
	return slices.ContainsFunc([]string{"", "_v2", "_v3"}, func(version string) bool { return lookup(name+version) == nil })
}

const libraryHint = "install the NVIDIA driver, or name its libnvidia-ml.so.1 with --nvml-library"

// LoadNVML loads the library at path, "" for where the system has it, and looks
// first whether it is one: a call into a file that lacks nvmlInit would end the
// process. Errors wrap ErrNoNVML.
func LoadNVML(path string) (*NVML, error) {
	if path == "" {
		path = "libnvidia-ml.so.1"
	}
	file := dl.New(path, dl.RTLD_LAZY|dl.RTLD_LOCAL)
	if err := file.Open(); err != nil {
		return nil, slurm.WithHint(fmt.Errorf("%w: %w", ErrNoNVML, err), libraryHint)
	}
	for _, name := range requiredSymbols {
		if !symbolThere(file.Lookup, name) {
			return nil, slurm.WithHint(fmt.Errorf("%w: %s has no %s", ErrNoNVML, path, name), libraryHint)
		}
	}
	// It stays open: closing it here would only load it twice.
	return OpenNVML(nvml.New(nvml.WithLibraryPath(path)))
}

// OpenNVML initializes lib, made by nvml.New, and tries every source of every
// card once. The error wraps ErrNoNVML where there is no library or no driver.
// LoadNVML is safer with files that may not be NVIDIA's library.
func OpenNVML(lib nvml.Interface) (*NVML, error) {
	n := &NVML{lib: lib, has: map[string]bool{}, cards: map[string]*card{}}
	if err := n.init(); err != nil {
		return nil, err
	}
	for _, name := range optionalSymbols {
		n.has[name] = symbolThere(lib.Extensions().LookupSymbol, name)
	}
	if n.has["nvmlSystemGetDriverVersion"] {
		n.driver, _ = lib.SystemGetDriverVersion()
	}
	n.meetAll()
	return n, nil
}

func (n *NVML) init() error {
	ret := n.lib.Init()
	n.down = ret != nvml.SUCCESS
	if !n.down {
		return nil
	}
	hint := libraryHint
	kind := ErrNoNVML
	switch ret {
	case nvml.ERROR_DRIVER_NOT_LOADED:
		hint = "load the NVIDIA driver: nvidia-smi tells what is wrong"
	case nvml.ERROR_NO_PERMISSION:
		hint = "the collector's user needs to read and write /dev/nvidiactl and /dev/nvidia[0-9]*"
	case nvml.ERROR_LIB_RM_VERSION_MISMATCH:
		hint = "the loaded driver and its library are of different releases: load the new driver (or reboot) and restart rifling-collector"
		kind = errors.Join(ErrNoNVML, ErrDriverReplaced)
	}
	return slurm.WithHint(fmt.Errorf("%w: %s", kind, retText(ret)), "%s", hint)
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
	n.forget()
	if n.down {
		return nil
	}
	n.down = true
	if ret := n.lib.Shutdown(); ret != nvml.SUCCESS {
		return fmt.Errorf("shut NVML down: %s", retText(ret))
	}
	return nil
}

// forget drops what is known of the cards.
func (n *NVML) forget() {
	for _, c := range n.cards {
		c.gpm.free()
		for _, i := range c.instances {
			i.gpm.free()
		}
	}
	n.cards, n.order = map[string]*card{}, nil
}

// Read implements GPUSource. A card that has fallen off the bus is left out
// and counted; the others go on. When the driver was unloaded the library is
// initialized again, now or at a later reading. The monotonic part of now, if
// it has one, is what rates are measured by.
func (n *NVML) Read(now time.Time, odd Odd) ([]GPU, error) {
	count, err := n.count(odd)
	if err != nil {
		return nil, err
	}
	var out []GPU
	for i := range count {
		gpus, ret := n.readCard(i, now, odd)
		if ret != nvml.SUCCESS {
			odd["GPU lost: "+retText(ret)]++
			continue
		}
		out = append(out, gpus...)
	}
	n.last = now
	return out, nil
}

// count counts the cards, after a new start of the library where it needs one.
func (n *NVML) count(odd Odd) (int, error) {
	if !n.down {
		count, ret := n.lib.DeviceGetCount()
		if ret == nvml.SUCCESS {
			return count, nil
		}
		odd["NVML started anew: "+retText(ret)]++
		n.forget()
		_ = n.lib.Shutdown() // it says that it is not initialized, or ends what is left
	}
	if err := n.init(); err != nil {
		return 0, err
	}
	if n.has["nvmlSystemGetDriverVersion"] {
		n.driver, _ = n.lib.SystemGetDriverVersion()
	}
	count, ret := n.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return 0, fmt.Errorf("count GPUs: %s", retText(ret))
	}
	return count, nil
}

// readCard reads the card with that index. The answer is one GPU, or one for
// each MIG instance.
func (n *NVML) readCard(index int, now time.Time, odd Odd) ([]GPU, nvml.Return) {
	c, dev, ret := n.find(index, now)
	if ret != nvml.SUCCESS {
		return nil, ret
	}
	if mig := n.migOn(dev); mig != c.mig {
		n.meet(dev, c, index) // it was turned on or off
	}
	r := &cardReading{n: n, c: c, dev: dev, now: now, odd: odd}
	r.fields()
	throttled := r.throttled()
	if c.mig {
		gpus := r.instances(throttled)
		return gpus, r.lost
	}
	g := GPU{UUID: c.uuid, Model: c.model, Index: index, Minor: c.minor, Part: 1, Throttled: throttled}
	r.processes(&g)
	r.activity(&g)
	r.nvlink(&g)
	r.pcie(&g)
	return []GPU{g}, r.lost
}

// find returns the card with that index and what is known of it.
func (n *NVML) find(index int, now time.Time) (*card, nvml.Device, nvml.Return) {
	dev, ret := n.lib.DeviceGetHandleByIndex(index)
	if ret != nvml.SUCCESS {
		return nil, nil, ret
	}
	uuid, ret := dev.GetUUID()
	if ret != nvml.SUCCESS {
		return nil, nil, ret
	}
	c := n.cards[uuid]
	switch {
	case c == nil:
		c = &card{uuid: uuid, met: now, instances: map[string]*instance{}}
		n.cards[uuid], n.order = c, append(n.order, uuid)
		n.meet(dev, c, index)
	case c.met.IsZero():
		c.met = now // met when the library was opened
	case now.Sub(c.met) > meetAgain:
		c.met = now
		n.meet(dev, c, index)
	}
	return c, dev, nvml.SUCCESS
}

// meetAgain is how often a card is asked anew for what it has: NVLinks come up
// only when the fabric manager has started, which may be after us.
const meetAgain = 10 * time.Minute

// cardReading is the reading of one card at one time.
type cardReading struct {
	n    *NVML
	c    *card
	dev  nvml.Device
	now  time.Time
	odd  Odd
	got  map[uint32]nvml.FieldValue
	gpm  gpmMetrics
	lost nvml.Return // SUCCESS while the card answers
}

// failed counts a call that failed for another reason than that the card does
// not have it, and notes when the card is gone.
func (r *cardReading) failed(what string, ret nvml.Return) {
	switch ret {
	case nvml.SUCCESS, nvml.ERROR_NOT_SUPPORTED:
	case nvml.ERROR_GPU_IS_LOST, nvml.ERROR_RESET_REQUIRED:
		r.lost = ret // counted once for the card
	default:
		r.odd[what+": "+retText(ret)]++
	}
}

func retText(ret nvml.Return) string {
	if text := nvml.ErrorString(ret); text != "" {
		return text
	}
	return fmt.Sprintf("NVML error %d", int(ret))
}
