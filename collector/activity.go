// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// readActivity takes the best source that answers sensibly: GPM, power,
// utilization.
func (n *NVML) readActivity(dev nvml.Device, known *nvmlGPU, g *GPU, odd Odd) {
	power, powerOK := n.power(dev, known, len(g.Processes) > 0, odd)
	if v, ok := n.gpmActivity(dev, known, odd); ok {
		g.Activity, g.Source = v, SourceGPM
		return
	}
	if powerOK {
		g.Activity, g.Source = power, SourcePower
		return
	}
	u, ret := dev.GetUtilizationRates()
	switch {
	case ret == nvml.SUCCESS && u.Gpu <= 100:
		g.Activity, g.Source = float64(u.Gpu)/100, SourceUtilization
	case ret == nvml.SUCCESS:
		odd["utilization out of range"]++
	case ret != nvml.ERROR_NOT_SUPPORTED:
		odd["utilization: "+retText(ret)]++
	}
}

// idlePart is a card's idle power as a part of its limit until it has been
// seen idle. Data centre cards lie between a tenth and a fifth.
const idlePart = 0.15

// power is power above idle over the range from idle to the limit: spinning in
// a collective draws little of it. It learns what idle is.
func (n *NVML) power(dev nvml.Device, known *nvmlGPU, busy bool, odd Odd) (float64, bool) {
	mw, ret := dev.GetPowerUsage()
	if ret != nvml.SUCCESS {
		if ret != nvml.ERROR_NOT_SUPPORTED {
			odd["power: "+retText(ret)]++
		}
		return 0, false
	}
	watts := float64(mw) / 1000
	if known.limit <= 0 {
		return 0, false
	}
	if watts > 1.5*known.limit {
		odd["power out of range"]++
		return 0, false
	}
	if !busy && watts > 0 && watts < known.limit/2 && (known.idle == 0 || watts < known.idle) {
		known.idle = watts
	}
	idle := known.idle
	if idle == 0 {
		idle = idlePart * known.limit
	}
	return min(1, max(0, (watts-idle)/(known.limit-idle))), true
}

// gpmActivity is SM activity between this reading and the last one. The first
// reading gives none; so do readings less than GPM's own 100 ms apart, which
// the sampler's interval rules out.
func (n *NVML) gpmActivity(dev nvml.Device, known *nvmlGPU, odd Odd) (float64, bool) {
	if known.gpm == nil {
		return 0, false
	}
	if ret := dev.GpmSampleGet(known.gpmNext); ret != nvml.SUCCESS {
		odd["GPM: "+retText(ret)]++
		known.gpmTaken = false
		return 0, false
	}
	before, first := known.gpm, !known.gpmTaken
	known.gpm, known.gpmNext, known.gpmTaken = known.gpmNext, before, true
	if first {
		return 0, false
	}
	m := &nvml.GpmMetricsGetType{NumMetrics: 1, Sample1: before, Sample2: known.gpm}
	m.Metrics[0].MetricId = uint32(nvml.GPM_METRIC_SM_UTIL)
	if ret := n.lib.GpmMetricsGet(m); ret != nvml.SUCCESS {
		odd["GPM: "+retText(ret)]++
		return 0, false
	}
	v := m.Metrics[0].Value
	if nvml.Return(m.Metrics[0].NvmlReturn) != nvml.SUCCESS || !(v >= 0 && v <= 100) {
		odd["GPM out of range"]++ // seen under MIG
		return 0, false
	}
	return v / 100, true
}
