// SPDX-License-Identifier: Apache-2.0

// A stand-in for libnvidia-ml.so.1 that answers from files, for machines
// without a GPU. It has the functions that rifling-collector calls and no
// others. See README.md for the files and the variables. This file takes in the
// others: one call of gcc builds the library.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "abi.h"
#include "cards.h"
#include "counters.h"
#include "gpm.h"
#include "mig.h"
#include "processes.h"
#include "state.h"

#define TEXT(x) #x
#define NUMBER(x) TEXT(x)

nvmlReturn_t nvmlInit_v2(void) {
	char path[4096];
	struct stat st;
	nvmlReturn_t ret = fault_return(-1, "init");
	if (ret != SUCCESS)
		return ret;
	device_count = 0;
	while (device_count < MAX_GPUS) {
		node_path(path, sizeof path, "gpu", device_count);
		if (stat(path, &st) != 0)
			break;
		devices[device_count].index = device_count;
		devices[device_count].slice = -1;
		for (int i = 0; i < MAX_SLICES; i++) {
			slices[device_count][i].index = device_count;
			slices[device_count][i].slice = i;
		}
		device_count++;
	}
	initialized = 1;
	return SUCCESS;
}

nvmlReturn_t nvmlShutdown(void) {
	if (!initialized)
		return ERROR_UNINITIALIZED;
	initialized = 0;
	return SUCCESS;
}

const char *nvmlErrorString(nvmlReturn_t result) {
	switch (result) {
	case SUCCESS:
		return "Success";
	case ERROR_UNINITIALIZED:
		return "Uninitialized";
	case ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case ERROR_NO_PERMISSION:
		return "Insufficient Permissions";
	case ERROR_NOT_FOUND:
		return "Not Found";
	case ERROR_DRIVER_NOT_LOADED:
		return "Driver Not Loaded";
	case ERROR_TIMEOUT:
		return "Timeout";
	case ERROR_GPU_IS_LOST:
		return "GPU is lost";
	case ERROR_RESET_REQUIRED:
		return "GPU requires reset";
	case ERROR_LIB_RM_VERSION_MISMATCH:
		return "Driver/library version mismatch";
	}
	return "Unknown Error";
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	return copy_out(version, length, NUMBER(NVMLSTUB_DRIVER) ".0-standin");
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
	nvmlReturn_t ret = fault_return(-1, "count");
	if (ret == ERROR_UNINITIALIZED)
		initialized = 0; // the driver was unloaded
	if (!initialized)
		return ERROR_UNINITIALIZED;
	*count = (unsigned int)device_count;
	return ret;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
	if (!initialized)
		return ERROR_UNINITIALIZED;
	if (index >= (unsigned int)device_count)
		return ERROR_INVALID_ARGUMENT;
	*device = &devices[index];
	return fault_return((int)index, "handle");
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "name", &s);
	return ret != SUCCESS ? ret : copy_out(name, length, s.card->name);
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
	struct state s;
	char text[192];
	nvmlReturn_t ret = read_state(device, &s);
	if (ret != SUCCESS)
		return ret;
	if (device->slice < 0)
		return copy_out(uuid, length, s.uuid);
	if (device->slice >= s.instance_count)
		return ERROR_NOT_FOUND;
	const struct instance *i = &s.instances[device->slice];
	snprintf(text, sizeof text, "MIG-%s-%u-%u", s.uuid, i->gi, i->ci);
	return copy_out(uuid, length, text);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "minor", &s);
	if (ret == SUCCESS)
		*minor = (unsigned int)device->index;
	return ret;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatt) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "power", &s);
	if (ret == SUCCESS && s.card->limit_milliwatt == 0)
		ret = ERROR_NOT_SUPPORTED;
	if (ret == SUCCESS)
		*milliwatt = fault(device->index, "power", "garbage") ? 0xFFFFFFFF : s.milliwatt;
	return ret;
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatt) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "power", &s);
	if (ret == SUCCESS && s.card->limit_milliwatt == 0)
		ret = ERROR_NOT_SUPPORTED;
	if (ret == SUCCESS)
		*milliwatt = s.card->limit_milliwatt;
	return ret;
}

// Like the real one it counts collectives as busy: a GPU with a process shows
// 100 whatever it does.
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization *u) {
	struct state s;
	nvmlReturn_t ret = read_group(device, "util", &s);
	if (ret == SUCCESS && s.card->mig == 2)
		ret = ERROR_NOT_SUPPORTED;
	if (ret != SUCCESS)
		return ret;
	u->gpu = fault(device->index, "util", "garbage") ? 0xFFFFFFFF : (s.process_count > 0 ? 100 : 0);
	u->memory = (unsigned int)(s.activity * 50);
	return SUCCESS;
}

// pcie reads a card that shows its link.
static nvmlReturn_t pcie(nvmlDevice_t device, struct state *s) {
	nvmlReturn_t ret = read_group(device, "pcie", s);
	return ret == SUCCESS && s->card->pcie_generation == 0 ? ERROR_NOT_SUPPORTED : ret;
}

// counter: 0 is sent by the GPU, 1 received.
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *kbs) {
	struct state s;
	nvmlReturn_t ret = pcie(device, &s);
	if (ret == SUCCESS)
		*kbs = fault(device->index, "pcie", "garbage") ? 0xFFFFFFFF : (counter == 0 ? s.pcie_tx_kbs : s.pcie_rx_kbs);
	return ret;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation) {
	struct state s;
	nvmlReturn_t ret = pcie(device, &s);
	if (ret == SUCCESS)
		*generation = s.card->pcie_generation;
	return ret;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width) {
	struct state s;
	nvmlReturn_t ret = pcie(device, &s);
	if (ret == SUCCESS)
		*width = 16;
	return ret;
}
