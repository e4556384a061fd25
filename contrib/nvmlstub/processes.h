// SPDX-License-Identifier: Apache-2.0

// Who computes on a GPU: the lists, in each version that drivers have had, and
// the processes' use of it.

#ifndef NVMLSTUB_PROCESSES_H
#define NVMLSTUB_PROCESSES_H

#include "state.h"

enum { NO_INSTANCE = 0xFFFFFFFF };

// list fills in the processes of a device, of MPS clients or of all others. On
// a card in MIG mode these are those of its instances, with their numbers.
static nvmlReturn_t list(nvmlDevice_t d, int mps, unsigned int *count, struct process_info *out) {
	struct state s;
	struct process_info found[MAX_PROCESSES + MAX_SLICES];
	unsigned int have = 0;
	if (d == NULL || count == NULL)
		return ERROR_INVALID_ARGUMENT;
	nvmlReturn_t ret = fault_return(d->index, d->slice >= 0 ? "migprocs" : "procs");
	if (ret == SUCCESS)
		ret = read_state(d, &s);
	if (ret == SUCCESS && !s.card->processes)
		ret = ERROR_NOT_SUPPORTED;
	if (ret != SUCCESS)
		return ret;
	for (int i = 0; i < s.process_count && s.card->mig != 2; i++)
		if (s.processes[i].mps == mps)
			found[have++] = (struct process_info){s.processes[i].pid, 0, NO_INSTANCE, NO_INSTANCE};
	for (int i = 0; i < s.instance_count && !mps; i++)
		if (s.instances[i].pid != 0 && (d->slice < 0 || d->slice == i))
			found[have++] = (struct process_info){s.instances[i].pid, 0, s.instances[i].gi, s.instances[i].ci};
	if (have > 0 && fault(d->index, "procs", "garbage"))
		found[0].pid = 0xFFFFFFFF;
	unsigned int room = *count;
	*count = have;
	if (room < have)
		return ERROR_INSUFFICIENT_SIZE;
	if (have > 0)
		memcpy(out, found, have * sizeof *out);
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned int *count, struct process_info_v1 *infos) {
	struct process_info found[MAX_PROCESSES + MAX_SLICES];
	if (count == NULL)
		return ERROR_INVALID_ARGUMENT;
	unsigned int room = *count, have = MAX_PROCESSES + MAX_SLICES;
	nvmlReturn_t ret = list(device, 0, &have, found);
	if (ret != SUCCESS)
		return ret;
	*count = have;
	if (room < have)
		return ERROR_INSUFFICIENT_SIZE;
	for (unsigned int i = 0; i < have; i++)
		infos[i] = (struct process_info_v1){found[i].pid, found[i].used_memory};
	return SUCCESS;
}

#if NVMLSTUB_DRIVER >= 450

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, struct process_info *infos) {
	return list(device, 0, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v2(nvmlDevice_t device, unsigned int *count, struct process_info *infos) {
	return list(device, 1, count, infos);
}

#endif

#if NVMLSTUB_DRIVER >= 510

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, struct process_info *infos) {
	return list(device, 0, count, infos);
}

nvmlReturn_t nvmlDeviceGetMPSComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, struct process_info *infos) {
	return list(device, 1, count, infos);
}

#endif

// nvmlDeviceGetProcessUtilization names only processes that were busy, and only
// in samples newer than last_us. MIG knows it only with the fault procutil=mig.
nvmlReturn_t nvmlDeviceGetProcessUtilization(nvmlDevice_t device, struct process_sample *samples, unsigned int *count, u64 last_us) {
	struct state s;
	struct process_sample found[MAX_PROCESSES];
	unsigned int have = 0;
	if (device == NULL || count == NULL)
		return ERROR_INVALID_ARGUMENT;
	nvmlReturn_t ret = fault_return(device->index, "procutil");
	if (ret == SUCCESS)
		ret = read_state(device, &s);
	if (ret == SUCCESS && (!s.card->processes || (s.card->mig == 2 && !fault(device->index, "procutil", "mig"))))
		ret = ERROR_NOT_SUPPORTED;
	if (ret != SUCCESS)
		return ret;
	for (int i = 0; i < s.process_count && s.card->mig != 2; i++) {
		unsigned int busy = s.processes[i].busy > 100 ? (unsigned int)(s.activity * 100) : s.processes[i].busy;
		if (busy > 0)
			found[have++] = (struct process_sample){s.processes[i].pid, (u64)s.stamp_us, busy, 0, 0, 0};
	}
	if (device->slice >= 0 && device->slice < s.instance_count) {
		struct instance *i = &s.instances[device->slice];
		found[have++] = (struct process_sample){i->pid, (u64)s.stamp_us, (unsigned int)(i->activity * 100), 0, 0, 0};
	}
	if (have > 0 && fault(device->index, "procutil", "garbage"))
		found[0].sm = 0xFFFFFFFF;
	if (have == 0 || (u64)s.stamp_us <= last_us)
		return ERROR_NOT_FOUND;
	unsigned int room = *count;
	*count = have;
	if (samples == NULL || room < have)
		return ERROR_INSUFFICIENT_SIZE;
	memcpy(samples, found, have * sizeof *found);
	return SUCCESS;
}

#endif
