// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"strings"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// SourceStatus says of one source of readings whether it is there.
type SourceStatus struct {
	Card   string // UUID; "" for the library itself
	Index  int    // NVML's index of the card; -1 for the library itself
	Name   string // "library", "gpm", "power", "nvlink", …
	OK     bool
	Detail string // what it gives, or why it is not there
}

// card is what is kept of one card between readings.
type card struct {
	uuid, model string
	index       int
	minor       int // -1 unknown
	met         time.Time
	status      []SourceStatus

	ask         []nvml.FieldValue // fields that it has, to be asked for in one call
	stamps      map[uint32]stamped
	nvlinkSpeed float64 // bytes per second in one direction, all links; 0 none
	pcieSpeed   float64
	pcieWide    bool // the PCIe counters were seen beyond 32 bits

	processesOK, mpsOK, sharesOK bool
	utilizationOK                bool
	powerOK, violationsOK        bool
	pcieOK                       bool
	idle                         float64 // W, the least seen without a process; 0 not seen yet
	energy                       meter   // mJ
	throttle                     map[uint32]*meter
	gpm                          *gpmPair // nil without GPM
	mig                          bool     // on when the card was met
	instances                    map[string]*instance
}

// Sources tells what each card has to read, as found when it was met: the
// library first, then the cards in NVML's order.
func (n *NVML) Sources() []SourceStatus {
	library := SourceStatus{Index: -1, Name: "library", OK: true, Detail: "driver " + n.driver}
	if missing := n.Missing(); len(missing) > 0 {
		library.Detail += ", without " + strings.Join(missing, ", ")
	}
	out := []SourceStatus{library}
	if len(n.order) == 0 {
		out = append(out, SourceStatus{Index: -1, Name: "cards", Detail: "the driver shows no GPU"})
	}
	for _, uuid := range n.order {
		out = append(out, n.cards[uuid].status...)
	}
	return out
}

// meetAll tries what each card has. One that does not answer is met when it
// does.
func (n *NVML) meetAll() {
	count, ret := n.lib.DeviceGetCount()
	if ret != nvml.SUCCESS {
		return
	}
	for i := range count {
		_, _, _ = n.find(i, time.Time{})
	}
}

// say notes what became of a source.
func (c *card) say(name string, ok bool, format string, args ...any) {
	c.status = append(c.status, SourceStatus{Card: c.uuid, Index: c.index, Name: name, OK: ok, Detail: fmt.Sprintf(format, args...)})
}

// meet tries every source once. What was learned before stays.
func (n *NVML) meet(dev nvml.Device, c *card, index int) {
	c.index, c.minor, c.status = index, -1, nil
	if n.has["nvmlDeviceGetName"] {
		c.model, _ = dev.GetName()
	}
	if n.has["nvmlDeviceGetMinorNumber"] {
		if minor, ret := dev.GetMinorNumber(); ret == nvml.SUCCESS {
			c.minor = minor
		}
	}
	if c.minor >= 0 {
		c.say("card", true, "%s, /dev/nvidia%d", c.model, c.minor)
	} else {
		c.say("card", true, "%s, device number not known", c.model)
	}
	n.meetFields(dev, c)
	n.meetMIG(dev, c)
	n.meetProcesses(dev, c)
	c.note("gpm", n.meetGPM(dev, c), "SM activity over the interval")
	if c.mig {
		for _, name := range []string{"power", "utilization", "nvlink", "pcie"} {
			c.say(name, false, "the card's, not known by instance")
		}
	} else {
		n.meetPower(dev, c)
		n.meetNVLink(dev, c)
		n.meetPCIe(dev, c)
	}
	n.meetThrottle(dev, c)
}

// tried says what a source answered: "" when it is there.
func (n *NVML) tried(symbol string, call func() nvml.Return) string {
	if !n.has[symbol] {
		return "the driver's library has no " + symbol
	}
	if ret := call(); ret != nvml.SUCCESS {
		return strings.ToLower(retText(ret))
	}
	return ""
}

// note says of a source that was tried what it gives or why it is not there.
func (c *card) note(name, why, gives string) bool {
	if why != "" {
		c.say(name, false, "%s", why)
		return false
	}
	c.say(name, true, "%s", gives)
	return true
}

func (n *NVML) meetProcesses(dev nvml.Device, c *card) {
	why := n.tried("nvmlDeviceGetComputeRunningProcesses", func() nvml.Return {
		_, ret := dev.GetComputeRunningProcesses()
		return ret
	})
	c.processesOK = c.note("processes", why, "GPUs are matched to jobs by their processes")
	c.mpsOK = n.tried("nvmlDeviceGetMPSComputeRunningProcesses", func() nvml.Return {
		_, ret := dev.GetMPSComputeRunningProcesses()
		return ret
	}) == ""
	why = n.tried("nvmlDeviceGetProcessUtilization", func() nvml.Return {
		_, ret := dev.GetProcessUtilization(0)
		if ret == nvml.ERROR_NOT_FOUND || ret == nvml.ERROR_INSUFFICIENT_SIZE {
			return nvml.SUCCESS // nothing has run
		}
		return ret
	})
	c.sharesOK = c.note("process utilization", why, "jobs that share the card are told apart")
}

// meetPower looks for power and utilization, by which activity is known where
// there is no GPM.
func (n *NVML) meetPower(dev nvml.Device, c *card) {
	var mw uint32
	why := n.tried("nvmlDeviceGetPowerUsage", func() (ret nvml.Return) {
		_, ret = dev.GetPowerUsage()
		return ret
	})
	if why == "" {
		why = n.tried("nvmlDeviceGetEnforcedPowerLimit", func() (ret nvml.Return) {
			mw, ret = dev.GetEnforcedPowerLimit()
			return ret
		})
	}
	how := "at the end of the interval"
	if c.asks(nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION) {
		how = "mean over the interval"
	}
	c.powerOK = c.note("power", why, fmt.Sprintf("above idle, limit %d W, %s", mw/1000, how))
	why = n.tried("nvmlDeviceGetUtilizationRates", func() nvml.Return {
		_, ret := dev.GetUtilizationRates()
		return ret
	})
	c.utilizationOK = c.note("utilization", why, "weak: it counts collectives as busy")
}
