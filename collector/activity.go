// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// activity takes the best source that answers sensibly: GPM, power,
// utilization. All are read as far as they keep a state.
func (r *cardReading) activity(g *GPU) {
	busy := len(g.Processes) > 0 || !g.ProcessesKnown
	power, powerOK := r.power(busy)
	if r.c.gpm != nil {
		take := func(sample nvml.GpmSample) nvml.Return { return r.dev.GpmSampleGet(sample) }
		r.gpm = r.readGPM(r.c.gpm, take, "GPM")
	}
	switch {
	case r.gpm.ok:
		g.Activity, g.Source = r.gpm.sm, SourceGPM
	case powerOK:
		g.Activity, g.Source = power, SourcePower
	case r.c.utilizationOK:
		r.utilization(g)
	}
}

func (r *cardReading) utilization(g *GPU) {
	u, ret := r.dev.GetUtilizationRates()
	switch {
	case ret != nvml.SUCCESS:
		r.failed("utilization", ret)
	case u.Gpu > 100:
		r.odd["utilization out of range"]++
	default:
		g.Activity, g.Source = float64(u.Gpu)/100, SourceUtilization
	}
}

// idlePart is a card's idle power as a part of its limit until it has been
// seen idle. Data centre cards lie between a tenth and a fifth.
const idlePart = 0.15

// power is power above idle over the range from idle to the limit: spinning in
// a collective draws little of it. It learns what idle is while nobody is busy.
func (r *cardReading) power(busy bool) (float64, bool) {
	if !r.c.powerOK {
		return 0, false
	}
	mw, ret := r.dev.GetEnforcedPowerLimit()
	if ret != nvml.SUCCESS || mw == 0 {
		r.failed("power limit", ret)
		return 0, false
	}
	limit := float64(mw) / 1000
	watts, ok := r.watts(limit)
	if !ok {
		return 0, false
	}
	c := r.c
	if !busy && watts > 0 && watts < limit/2 && (c.idle == 0 || watts < c.idle) {
		c.idle = watts
	}
	idle := c.idle
	if idle == 0 || idle >= limit {
		idle = idlePart * limit
	}
	return min(1, max(0, (watts-idle)/(limit-idle))), true
}

// overLimit is how far above its limit a card may draw and be believed.
const overLimit = 1.5

// watts is the mean since the last reading out of the energy counter, or where
// there is none the power at this moment.
func (r *cardReading) watts(limit float64) (float64, bool) {
	if v, ok := r.field(nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION, "energy"); ok {
		if mw, ok := r.c.energy.rate(v, overLimit/slack*limit*1000, "energy", r.odd); ok {
			return mw / 1000, true
		}
	}
	mw, ret := r.dev.GetPowerUsage()
	if ret != nvml.SUCCESS {
		r.failed("power", ret)
		return 0, false
	}
	watts := float64(mw) / 1000
	if watts > overLimit*limit {
		r.odd["power out of range"]++
		return 0, false
	}
	return watts, true
}

// gpmPair are the two samples that GPM compares.
type gpmPair struct {
	old, new nvml.GpmSample
	taken    bool
	at       time.Time
}

// gpmApart is the least time between two samples that GPM needs.
const gpmApart = 100 * time.Millisecond

// gpmMetrics is what GPM says of the time between two readings.
type gpmMetrics struct {
	ok             bool
	sm             float64 // 0..1
	pcieOK         bool
	pcieTx, pcieRx float64 // bytes per second
}

// meetGPM says why the card has no GPM, "" when it has.
func (n *NVML) meetGPM(dev nvml.Device, c *card) string {
	for _, name := range []string{"nvmlGpmSampleAlloc", "nvmlGpmSampleFree", "nvmlGpmSampleGet", "nvmlGpmMetricsGet"} {
		if !n.has[name] {
			return "the driver's library has no " + name
		}
	}
	supported := false
	why := n.tried("nvmlGpmQueryDeviceSupport", func() nvml.Return {
		s, ret := dev.GpmQueryDeviceSupport()
		supported = s.IsSupportedDevice != 0
		return ret
	})
	switch {
	case why != "":
		return why
	case !supported:
		return "the card has none: it comes with Hopper"
	case c.gpm == nil:
		c.gpm = n.allocGPM()
	}
	if c.gpm == nil {
		return "no memory for its samples"
	}
	return ""
}

// allocGPM returns nil when there is no memory.
func (n *NVML) allocGPM() *gpmPair {
	a, ret := n.lib.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		return nil
	}
	b, ret := n.lib.GpmSampleAlloc()
	if ret != nvml.SUCCESS {
		_ = a.Free()
		return nil
	}
	return &gpmPair{old: a, new: b}
}

func (p *gpmPair) free() {
	if p != nil {
		_, _ = p.old.Free(), p.new.Free()
	}
}

// readGPM takes a sample and compares it with the last. The first one gives
// nothing, nor does one too soon after the last. MIG is known to give garbage:
// only 0 to 100 is taken.
func (r *cardReading) readGPM(p *gpmPair, take func(nvml.GpmSample) nvml.Return, name string) (out gpmMetrics) {
	if p == nil || p.taken && r.now.Sub(p.at) < gpmApart && r.now.After(p.at) {
		return out
	}
	if ret := take(p.new); ret != nvml.SUCCESS {
		r.failed(name, ret)
		p.taken = false
		return out
	}
	before, first := p.old, !p.taken
	p.old, p.new, p.taken, p.at = p.new, before, true, r.now
	if first {
		return out
	}
	m := &nvml.GpmMetricsGetType{NumMetrics: 3, Sample1: before, Sample2: p.old}
	for i, id := range []nvml.GpmMetricId{nvml.GPM_METRIC_SM_UTIL, nvml.GPM_METRIC_PCIE_TX_PER_SEC, nvml.GPM_METRIC_PCIE_RX_PER_SEC} {
		m.Metrics[i].MetricId = uint32(id)
	}
	if ret := r.n.lib.GpmMetricsGet(m); ret != nvml.SUCCESS {
		r.failed(name, ret)
		return out
	}
	there := func(i int) bool { return nvml.Return(m.Metrics[i].NvmlReturn) == nvml.SUCCESS }
	if v := m.Metrics[0].Value; there(0) && v >= 0 && v <= 100 {
		out.ok, out.sm = true, v/100
	} else {
		r.odd[name+" out of range"]++
	}
	const mib = 1 << 20
	out.pcieOK = there(1) && there(2)
	out.pcieTx, out.pcieRx = m.Metrics[1].Value*mib, m.Metrics[2].Value*mib
	return out
}
