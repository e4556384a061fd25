// SPDX-License-Identifier: Apache-2.0

// GPM: Hopper and later, drivers since 520. A sample is what happens at that
// moment; two of them give their mean.

#ifndef NVMLSTUB_GPM_H
#define NVMLSTUB_GPM_H

#include "state.h"

#if NVMLSTUB_DRIVER >= 520

static int has_gpm(const struct state *s) {
	const char *on = getenv("RIFLING_NVML_STUB_GPM");
	return s->card->gpm || (on != NULL && strcmp(on, "1") == 0);
}

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, struct gpm_support *support) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "gpm", &s);
	if (ret == SUCCESS)
		support->supported = (unsigned int)has_gpm(&s);
	return ret;
}

nvmlReturn_t nvmlGpmSampleAlloc(struct gpm_sample **sample) {
	*sample = calloc(1, sizeof **sample);
	return *sample != NULL ? SUCCESS : ERROR_MEMORY;
}

nvmlReturn_t nvmlGpmSampleFree(struct gpm_sample *sample) {
	free(sample);
	return SUCCESS;
}

nvmlReturn_t nvmlGpmSampleGet(nvmlDevice_t device, struct gpm_sample *sample) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "gpm", &s);
	if (ret == SUCCESS && !has_gpm(&s))
		ret = ERROR_NOT_SUPPORTED;
	if (ret != SUCCESS)
		return ret;
	sample->activity = s.activity;
	sample->pcie_tx = s.pcie_tx_kbs * 1000.0 / (1 << 20);
	sample->pcie_rx = s.pcie_rx_kbs * 1000.0 / (1 << 20);
	sample->broken = (char)fault(device->index, "gpm", "garbage");
	return SUCCESS;
}

nvmlReturn_t nvmlGpmMigSampleGet(nvmlDevice_t device, unsigned int gi, struct gpm_sample *sample) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "gpm", &s);
	if (ret == SUCCESS && !has_gpm(&s))
		ret = ERROR_NOT_SUPPORTED;
	if (ret != SUCCESS)
		return ret;
	for (int i = 0; i < s.instance_count; i++) {
		if (s.instances[i].gi != gi)
			continue;
		*sample = (struct gpm_sample){s.instances[i].activity, 0, 0, (char)fault(device->index, "gpm", "garbage")};
		return SUCCESS;
	}
	return ERROR_INVALID_ARGUMENT;
}

nvmlReturn_t nvmlGpmMetricsGet(struct gpm_metrics *m) {
	if (m->version != 1 || m->sample1 == NULL || m->sample2 == NULL)
		return ERROR_INVALID_ARGUMENT;
	for (unsigned int i = 0; i < m->count && i < GPM_MAX; i++) {
		struct gpm_metric *out = &m->metrics[i];
		out->result = SUCCESS;
		switch (out->id) {
		case GPM_SM_UTIL:
			out->value = 50 * (m->sample1->activity + m->sample2->activity);
			break;
		case GPM_PCIE_TX:
			out->value = (m->sample1->pcie_tx + m->sample2->pcie_tx) / 2;
			break;
		case GPM_PCIE_RX:
			out->value = (m->sample1->pcie_rx + m->sample2->pcie_rx) / 2;
			break;
		default:
			out->result = ERROR_NOT_SUPPORTED;
		}
		if (m->sample2->broken)
			out->value = -3.4e38;
	}
	return SUCCESS;
}

#endif

#endif
