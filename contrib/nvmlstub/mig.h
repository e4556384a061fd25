// SPDX-License-Identifier: Apache-2.0

// MIG: cards cut into instances, drivers since 450.

#ifndef NVMLSTUB_MIG_H
#define NVMLSTUB_MIG_H

#include "state.h"

#if NVMLSTUB_DRIVER >= 450

// read_instance reads the state of a MIG instance's card; *out is the instance.
static nvmlReturn_t read_instance(nvmlDevice_t d, struct state *s, struct instance **out) {
	nvmlReturn_t ret = read_state(d, s);
	if (ret != SUCCESS)
		return ret;
	if (d->slice < 0)
		return ERROR_NOT_SUPPORTED;
	if (d->slice >= s->instance_count)
		return ERROR_NOT_FOUND;
	*out = &s->instances[d->slice];
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "mig", &s);
	if (ret == SUCCESS && s.card->mig == 0)
		ret = ERROR_NOT_SUPPORTED;
	if (ret == SUCCESS)
		*current = *pending = s.card->mig == 2;
	return ret;
}

nvmlReturn_t nvmlDeviceGetMaxMigDeviceCount(nvmlDevice_t device, unsigned int *count) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "mig", &s);
	if (ret == SUCCESS)
		*count = s.card->mig == 2 ? MAX_SLICES : 0;
	return ret;
}

nvmlReturn_t nvmlDeviceGetMigDeviceHandleByIndex(nvmlDevice_t device, unsigned int index, nvmlDevice_t *mig) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "mig", &s);
	if (ret == SUCCESS && index >= (unsigned int)s.instance_count)
		ret = ERROR_NOT_FOUND;
	if (ret == SUCCESS)
		*mig = &slices[device->index][index];
	return ret;
}

nvmlReturn_t nvmlDeviceGetAttributes_v2(nvmlDevice_t device, struct attributes *a) {
	struct state s;
	struct instance *i;
	nvmlReturn_t ret = read_instance(device, &s, &i);
	if (ret != SUCCESS)
		return ret;
	memset(a, 0, sizeof *a);
	a->gpu_slices = a->compute_slices = fault(device->index, "mig", "garbage") ? 0xFFFFFFFF : i->slices;
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetGpuInstanceId(nvmlDevice_t device, unsigned int *id) {
	struct state s;
	struct instance *i;
	nvmlReturn_t ret = read_instance(device, &s, &i);
	if (ret == SUCCESS)
		*id = i->gi;
	return ret;
}

nvmlReturn_t nvmlDeviceGetComputeInstanceId(nvmlDevice_t device, unsigned int *id) {
	struct state s;
	struct instance *i;
	nvmlReturn_t ret = read_instance(device, &s, &i);
	if (ret == SUCCESS)
		*id = i->ci;
	return ret;
}

#endif

#endif
