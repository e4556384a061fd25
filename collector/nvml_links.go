// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"math"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// meetNVLink finds the speed of all links together. The per-link calls of
// drivers before 450 are left alone: their counters must first be set up, which
// would change the node.
func (n *NVML) meetNVLink(dev nvml.Device, c *card) {
	c.nvlinkSpeed = 0
	if !n.has["nvmlDeviceGetFieldValues"] {
		c.say("nvlink", false, "the driver's library has no nvmlDeviceGetFieldValues")
		return
	}
	fields := []nvml.FieldValue{
		{FieldId: nvml.FI_DEV_NVLINK_SPEED_MBPS_COMMON},
		{FieldId: nvml.FI_DEV_NVLINK_LINK_COUNT},
	}
	if ret := dev.GetFieldValues(fields); ret != nvml.SUCCESS {
		c.say("nvlink", false, "%s", retText(ret))
		return
	}
	mbps, ok1 := fieldUint(fields[0])
	links, ok2 := fieldUint(fields[1])
	speed := float64(mbps) * float64(links) * 1e6
	switch {
	case !ok1 || !ok2 || speed == 0:
		c.say("nvlink", false, "no active NVLink")
	case speed > fastestLink:
		c.say("nvlink", false, "odd speed: %d links of %d MB/s", links, mbps)
	case !c.asks(nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX) || !c.asks(nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX):
		c.say("nvlink", false, "%d links, but no counters of their data", links)
	default:
		c.nvlinkSpeed = speed
		c.say("nvlink", true, "%d links, %.0f GB/s each way", links, speed/1e9)
	}
}

// nvlink reads the counters of all links together.
func (r *cardReading) nvlink(g *GPU) {
	if r.c.nvlinkSpeed == 0 {
		return
	}
	g.NVLinkSpeed = r.c.nvlinkSpeed
	for id, into := range map[uint32]**reading{
		nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX: &g.NVLinkTx,
		nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX: &g.NVLinkRx,
	} {
		v, ok := r.field(id, "NVLink")
		switch {
		case !ok:
		case v.bytes > math.MaxUint64/1024:
			r.odd["NVLink counter out of range"]++
		default:
			v.bytes *= 1024
			*into = &v
		}
	}
}

// meetPCIe finds the link's speed and what there is to read.
func (n *NVML) meetPCIe(dev nvml.Device, c *card) {
	c.pcieSpeed = n.pcieSpeed(dev)
	why := n.tried("nvmlDeviceGetPcieThroughput", func() nvml.Return {
		_, ret := dev.GetPcieThroughput(nvml.PCIE_UTIL_TX_BYTES)
		return ret
	})
	c.pcieOK = why == ""
	speed := "speed not known"
	if c.pcieSpeed > 0 {
		speed = fmt.Sprintf("%.0f GB/s each way", c.pcieSpeed/1e9)
	}
	counters := c.asks(nvml.FI_DEV_PCIE_COUNT_TX_BYTES) && c.asks(nvml.FI_DEV_PCIE_COUNT_RX_BYTES)
	switch {
	case counters && c.gpm == nil && c.pcieOK:
		c.say("pcie", true, "counters, the throughput of 20 ms until they pass 4 GiB; %s", speed)
	case counters:
		c.say("pcie", true, "counters; %s", speed)
	case c.gpm != nil:
		c.say("pcie", true, "GPM's mean over the interval; %s", speed)
	case c.pcieOK:
		c.say("pcie", true, "throughput of 20 ms; %s", speed)
	default:
		c.say("pcie", false, "%s", why)
	}
}

// pcie reads the counters where they are wide enough, else GPM's mean over the
// interval, else the throughput of 20 ms.
func (r *cardReading) pcie(g *GPU) {
	g.PCIeSpeed = r.c.pcieSpeed
	if r.pcieCounters(g) || r.pcieGPM(g) {
		return
	}
	r.pcieThroughput(g)
}

// pcieCounters reads the byte counters. NVIDIA says that they "can be wrapped";
// the driver's own interface has 32 bits, which a busy link fills several times
// a second, and the rate out of two such readings looks sound and means
// nothing. So they count only once one was seen beyond 32 bits.
func (r *cardReading) pcieCounters(g *GPU) bool {
	tx, ok1 := r.field(nvml.FI_DEV_PCIE_COUNT_TX_BYTES, "PCIe")
	rx, ok2 := r.field(nvml.FI_DEV_PCIE_COUNT_RX_BYTES, "PCIe")
	if !ok1 || !ok2 {
		return false
	}
	r.c.pcieWide = r.c.pcieWide || tx.bytes > math.MaxUint32 || rx.bytes > math.MaxUint32
	if !r.c.pcieWide {
		return false
	}
	g.PCIeTx, g.PCIeRx = &tx, &rx
	return true
}

// pcieGPM takes what GPM says of the interval.
func (r *cardReading) pcieGPM(g *GPU) bool {
	if !r.gpm.pcieOK {
		return false
	}
	return r.pcieRate(g, r.gpm.pcieTx) && r.pcieRate(g, r.gpm.pcieRx)
}

// pcieRate takes a rate in bytes per second if the link can carry it.
func (r *cardReading) pcieRate(g *GPU, rate float64) bool {
	limit := r.c.pcieSpeed
	if limit <= 0 {
		limit = fastestPCIe
	}
	if !(rate >= 0 && rate <= slack*limit) {
		r.odd["PCIe faster than its link"]++
		return false
	}
	g.PCIeRate = max(g.PCIeRate, rate)
	return true
}

// fastestPCIe bounds a link of unknown speed, bytes per second: several times
// what a link of sixteen lanes carries.
const fastestPCIe = 1e12

// pcieThroughput reads only cards in use: each of the two calls waits 20 ms.
func (r *cardReading) pcieThroughput(g *GPU) {
	inUse := len(g.Processes) > 0 || !g.ProcessesKnown && g.Activity > 0
	if !r.c.pcieOK || !inUse {
		return
	}
	for _, counter := range []nvml.PcieUtilCounter{nvml.PCIE_UTIL_TX_BYTES, nvml.PCIE_UTIL_RX_BYTES} {
		kbs, ret := r.dev.GetPcieThroughput(counter)
		if ret != nvml.SUCCESS {
			r.failed("PCIe", ret)
			return
		}
		r.pcieRate(g, float64(kbs)*1000)
	}
}

// pcieSpeed is the widest that the link gets, bytes per second in one
// direction; the present width falls when the card is idle.
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
