// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"encoding/binary"
	"math"
	"slices"
	"time"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// allLinks as the scope of a field sums it over the card's NVLinks.
const allLinks = math.MaxUint32

// counterFields are the counters read by field, with their scope.
var counterFields = []nvml.FieldValue{
	{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_TX, ScopeId: allLinks}, // KiB
	{FieldId: nvml.FI_DEV_NVLINK_THROUGHPUT_DATA_RX, ScopeId: allLinks},
	{FieldId: nvml.FI_DEV_PCIE_COUNT_TX_BYTES},
	{FieldId: nvml.FI_DEV_PCIE_COUNT_RX_BYTES},
	{FieldId: nvml.FI_DEV_TOTAL_ENERGY_CONSUMPTION}, // mJ
	{FieldId: nvml.FI_DEV_PERF_POLICY_POWER},        // ns, as those below
	{FieldId: nvml.FI_DEV_PERF_POLICY_THERMAL},
	{FieldId: nvml.FI_DEV_CLOCKS_EVENT_REASON_SW_THERM_SLOWDOWN},
	{FieldId: nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_THERM_SLOWDOWN},
	{FieldId: nvml.FI_DEV_CLOCKS_EVENT_REASON_HW_POWER_BRAKE_SLOWDOWN},
}

// meetFields finds the counters that the card and its driver know.
func (n *NVML) meetFields(dev nvml.Device, c *card) {
	c.ask = nil
	if c.stamps == nil {
		c.stamps, c.throttle = map[uint32]stamped{}, map[uint32]*meter{}
	}
	if !n.has["nvmlDeviceGetFieldValues"] {
		return
	}
	fields := slices.Clone(counterFields)
	if dev.GetFieldValues(fields) != nvml.SUCCESS {
		return
	}
	for i, f := range fields {
		if _, ok := fieldUint(f); ok {
			c.ask = append(c.ask, counterFields[i])
		}
	}
}

// asks tells whether the card has that field.
func (c *card) asks(id uint32) bool {
	return slices.ContainsFunc(c.ask, func(f nvml.FieldValue) bool { return f.FieldId == id })
}

// fields reads all that the card has in one call.
func (r *cardReading) fields() {
	if len(r.c.ask) == 0 {
		return
	}
	values := slices.Clone(r.c.ask)
	if ret := r.dev.GetFieldValues(values); ret != nvml.SUCCESS {
		r.failed("field values", ret)
		return
	}
	r.got = make(map[uint32]nvml.FieldValue, len(values))
	for _, f := range values {
		r.got[f.FieldId] = f
	}
}

// field returns a counter in its own unit and when it was right. One that the
// card has but does not tell this time is counted under that name.
func (r *cardReading) field(id uint32, name string) (reading, bool) {
	f, asked := r.got[id]
	if !asked {
		return reading{}, false
	}
	v, ok := fieldUint(f)
	if !ok {
		r.failed(name, nvml.Return(f.NvmlReturn))
		if nvml.Return(f.NvmlReturn) == nvml.SUCCESS || nvml.Return(f.NvmlReturn) == nvml.ERROR_NOT_SUPPORTED {
			r.odd[name+" counter without a value"]++
		}
		return reading{}, false
	}
	at, ok := r.stamp(id, f.Timestamp, name)
	return reading{bytes: v, at: at}, ok
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

// stamped is a time stamp as it was read and what it was taken for.
type stamped struct {
	micro int64
	at    time.Time
}

// How far a time stamp may lie from the time of the reading. NVML renews its
// counters every second or so; what is older no longer tells of now, and what
// lies ahead comes from another clock.
const (
	stampOld   = time.Minute
	stampAhead = 2 * time.Second
)

// stamp turns a counter's time stamp, microseconds since 1970 by the node's
// clock, into a time of our own. It goes by the stamp's age, so that a step of
// the node's clock between two readings, which moves stamps and our clock
// alike, does not stretch the time between them. 0 stands for now.
func (r *cardReading) stamp(id uint32, micro int64, name string) (time.Time, bool) {
	if micro == 0 {
		return r.now, true
	}
	return r.stampAt(id, micro, r.now, name)
}

// stampAt is stamp by a clock that shows wall.
func (r *cardReading) stampAt(id uint32, micro int64, wall time.Time, name string) (time.Time, bool) {
	if last := r.c.stamps[id]; last.micro == micro {
		return last.at, r.now.Sub(last.at) <= stampOld || r.oddStamp(name)
	}
	age := wall.Sub(time.UnixMicro(micro)) // by the wall clock: a stamp has no other
	if age > stampOld || age < -stampAhead {
		return time.Time{}, r.oddStamp(name)
	}
	at := r.now.Add(-age)
	r.c.stamps[id] = stamped{micro, at}
	return at, true
}

// oddStamp counts a time stamp that cannot be right.
func (r *cardReading) oddStamp(name string) bool {
	r.odd[name+" time stamp"]++
	return false
}
