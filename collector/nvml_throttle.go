// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// throttlePolicies are the violations that count as throttling: time below the
// clocks asked for because of power or heat.
var throttlePolicies = []nvml.PerfPolicyType{nvml.PERF_POLICY_POWER, nvml.PERF_POLICY_THERMAL}

// throttleFields tell the same on drivers that no longer have violations.
var throttleFields = []uint32{
	nvml.FI_DEV_PERF_POLICY_POWER,
	nvml.FI_DEV_PERF_POLICY_THERMAL,
	nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN,
	nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN,
	nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN,
}

func (n *NVML) meetThrottle(dev nvml.Device, c *card) {
	why := n.tried("nvmlDeviceGetViolationStatus", func() nvml.Return {
		_, ret := dev.GetViolationStatus(nvml.PERF_POLICY_POWER)
		return ret
	})
	c.violationsOK = why == ""
	for _, id := range throttleFields {
		if why != "" && c.asks(id) {
			why = ""
		}
	}
	c.note("throttling", why, "time that power or heat held the clocks down")
}

// throttled is the part of the time since the last reading in which power or
// heat held the clocks down, -1 when not known. Both are counters of
// nanoseconds, so nothing between two readings is missed, unlike with the
// reasons that hold at one moment. Where both held, the longer counts: they may
// have held at the same time.
func (r *cardReading) throttled() float64 {
	if r.c.violationsOK {
		return r.violations()
	}
	share := -1.0
	for _, id := range throttleFields {
		if v, ok := r.field(id, "throttling"); ok {
			share = max(share, r.throttleShare(id, v))
		}
	}
	return share
}

func (r *cardReading) violations() float64 {
	share := -1.0
	for _, policy := range throttlePolicies {
		v, ret := r.dev.GetViolationStatus(policy)
		if ret != nvml.SUCCESS {
			r.failed("throttling", ret)
			continue
		}
		// Ids of policies and of fields share a map; policies lie below all
		// fields that are asked for.
		id := uint32(policy)
		at, ok := r.stamp(id, int64(v.ReferenceTime), "throttling") //nolint:gosec // beyond the range it is an odd stamp
		if ok {
			share = max(share, r.throttleShare(id, reading{bytes: v.ViolationTime, at: at}))
		}
	}
	return share
}

// throttleShare turns nanoseconds into a part of the time, -1 when not known.
func (r *cardReading) throttleShare(id uint32, v reading) float64 {
	m := r.c.throttle[id]
	if m == nil {
		m = &meter{}
		r.c.throttle[id] = m
	}
	const second = 1e9 // ns: a counter cannot move faster than time
	ns, ok := m.rate(v, second, "throttling", r.odd)
	if !ok {
		return -1
	}
	return min(1, ns/second)
}
