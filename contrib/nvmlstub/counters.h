// SPDX-License-Identifier: Apache-2.0

// Cumulative counters, by field and by violation, and what can be wrong with
// them.

#ifndef NVMLSTUB_COUNTERS_H
#define NVMLSTUB_COUNTERS_H

#include "state.h"

enum { COUNTERS = 10 };

// first is what a counter first showed.
static struct {
	long long stamp;
	u64 value;
} first[MAX_GPUS][COUNTERS];

// spoil does to a counter, one of COUNTERS, what the group's fault says. Faults
// that come with time show once the GPU's file has been written anew.
static u64 spoil(nvmlDevice_t d, const struct state *s, const char *group, int counter, u64 value) {
	if (first[d->index][counter].stamp == 0) {
		first[d->index][counter].stamp = s->stamp_us;
		first[d->index][counter].value = value;
	}
	int later = s->stamp_us != first[d->index][counter].stamp;
	if (fault(d->index, group, "garbage"))
		return ~value;
	if (fault(d->index, group, "wrap")) // 32 bits wide, and nearly full when first seen
		return (value - first[d->index][counter].value + 0x100000000ull - 2000) & 0xFFFFFFFFull;
	if (fault(d->index, group, "reset") && later)
		return (value - first[d->index][counter].value) / 2;
	if (fault(d->index, group, "jump") && later)
		return value + (1ull << 50);
	return value;
}

// spoil_stamp does the same to a time stamp, in microseconds since 1970.
static long long spoil_stamp(nvmlDevice_t d, const char *group, long long stamp) {
	static long long stuck[MAX_GPUS];
	if (fault(d->index, group, "stuck")) {
		if (stuck[d->index] == 0)
			stuck[d->index] = stamp;
		return stuck[d->index];
	}
	if (fault(d->index, group, "step")) // another clock, an hour ahead
		return stamp + 3600 * 1000000LL;
	return stamp;
}

#if NVMLSTUB_DRIVER >= 390

static int field_there(const struct state *s, unsigned int field) {
	switch (field) {
	case FI_NVLINK_SPEED_MBPS:
	case FI_NVLINK_COUNT:
		return s->card->nvlinks > 0;
	case FI_NVLINK_TX:
	case FI_NVLINK_RX:
		return s->card->nvlinks > 0 && NVMLSTUB_DRIVER >= 450;
	case FI_PCIE_TX:
	case FI_PCIE_RX:
		return s->card->pcie_counters && s->pcie_tx_bytes > 0 && NVMLSTUB_DRIVER >= 555;
	case FI_ENERGY:
		return s->energy_mj > 0;
	case FI_POWER_POLICY:
	case FI_THERMAL_POLICY:
		return s->card->limit_milliwatt > 0;
	case FI_SW_THERMAL:
		return s->card->limit_milliwatt > 0 && NVMLSTUB_DRIVER >= 575;
	}
	return 0;
}

static const char *field_group(unsigned int field) {
	switch (field) {
	case FI_PCIE_TX:
	case FI_PCIE_RX:
		return "pciecount";
	case FI_ENERGY:
		return "energy";
	case FI_POWER_POLICY:
	case FI_THERMAL_POLICY:
	case FI_SW_THERMAL:
		return "throttle";
	}
	return "nvlink";
}

static const unsigned int counter_fields[] = {
	FI_NVLINK_TX, FI_NVLINK_RX, FI_PCIE_TX, FI_PCIE_RX, FI_ENERGY, FI_POWER_POLICY, FI_THERMAL_POLICY, FI_SW_THERMAL,
};

static u64 field_counter(nvmlDevice_t d, const struct state *s, unsigned int field) {
	const u64 values[] = {
		s->nvlink_tx_kib, s->nvlink_rx_kib, s->pcie_tx_bytes, s->pcie_rx_bytes,
		s->energy_mj, s->power_ns, s->thermal_ns, s->thermal_ns,
	};
	for (int i = 0; i < (int)(sizeof values / sizeof values[0]); i++)
		if (counter_fields[i] == field)
			return spoil(d, s, field_group(field), i, values[i]);
	return 0;
}

static void field(nvmlDevice_t d, const struct state *s, struct field_value *v) {
	const char *group = field_group(v->field);
	v->result = fault_return(d->index, group);
	if (v->result == SUCCESS && !field_there(s, v->field))
		v->result = ERROR_NOT_SUPPORTED;
	v->latency_us = 0;
	v->timestamp = spoil_stamp(d, group, s->stamp_us);
	switch (v->field) {
	case FI_NVLINK_SPEED_MBPS:
	case FI_NVLINK_COUNT:
		v->value_type = VALUE_UINT;
		v->value.ui = v->field == FI_NVLINK_COUNT ? s->card->nvlinks : s->card->nvlink_mbps;
		return;
	}
	v->value_type = VALUE_ULL;
	v->value.ull = field_counter(d, s, v->field);
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct field_value *values) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "fields", &s);
	if (ret != SUCCESS)
		return ret;
	for (int i = 0; i < count; i++)
		field(device, &s, &values[i]);
	return SUCCESS;
}

#endif

#if NVMLSTUB_DRIVER < 700

// policy: 0 power, 1 thermal.
nvmlReturn_t nvmlDeviceGetViolationStatus(nvmlDevice_t device, int policy, struct violation *v) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "throttle", &s);
	if (ret == SUCCESS && (policy > 1 || s.card->limit_milliwatt == 0))
		ret = ERROR_NOT_SUPPORTED;
	if (ret != SUCCESS)
		return ret;
	v->reference_us = (u64)spoil_stamp(device, "throttle", s.stamp_us);
	v->violation_ns = spoil(device, &s, "throttle", 8 + policy, policy == 0 ? s.power_ns : s.thermal_ns);
	return SUCCESS;
}

#endif

#endif
