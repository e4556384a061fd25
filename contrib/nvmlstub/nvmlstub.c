// SPDX-License-Identifier: Apache-2.0

// A stand-in for libnvidia-ml.so.1 that answers from files, for machines
// without a GPU. It has the functions that rifling-collector calls and no
// others. See README.md for the files and the variables.
//
// The types follow NVIDIA's published interface (nvml.h); only those that are
// used are declared here.

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>

enum {
	SUCCESS = 0,
	ERROR_UNINITIALIZED = 1,
	ERROR_INVALID_ARGUMENT = 2,
	ERROR_NOT_SUPPORTED = 3,
	ERROR_INSUFFICIENT_SIZE = 7,
	ERROR_MEMORY = 20,
	ERROR_GPU_IS_LOST = 15,
};

enum {
	MAX_GPUS = 64,
	STALE_SECONDS = 10, // a GPU's file older than this says nothing of now
	IDLE_MILLIWATT = 60000,
	LIMIT_MILLIWATT = 400000,
	NVLINKS = 12,             // 12 links of 25 GB/s in each direction, as an A100 has
	NVLINK_MBPS = 25000,
};

typedef struct device *nvmlDevice_t;
typedef int nvmlReturn_t;

struct device {
	int index;
};

// state is one GPU's file; an idle GPU keeps its cumulative counters.
struct state {
	char uuid[128];
	unsigned int pid;
	double activity; // 0..1
	unsigned int milliwatt;
	unsigned long long nvlink_tx_kib, nvlink_rx_kib;
	unsigned int pcie_tx_kbs, pcie_rx_kbs;
	long long stamp_us; // when the counters were written, since 1970
};

static struct device devices[MAX_GPUS];
static int device_count;
static int initialized;

static const char *stub_dir(void) {
	const char *dir = getenv("RIFLING_NVML_STUB_DIR");
	return dir != NULL ? dir : "";
}

static void gpu_path(char *buf, size_t size, int index) {
	snprintf(buf, size, "%s/gpu/%d", stub_dir(), index);
}

// fault tells how RIFLING_NVML_STUB_FAULT ("power=not_supported,gpm=garbage")
// wants a group of functions to behave: 0 well, 'n' not supported, 'g' garbage,
// 'l' GPU lost.
static int fault(const char *group) {
	const char *all = getenv("RIFLING_NVML_STUB_FAULT");
	size_t len = strlen(group);
	while (all != NULL && *all != '\0') {
		if (strncmp(all, group, len) == 0 && all[len] == '=')
			return all[len + 1];
		all = strchr(all, ',');
		if (all != NULL)
			all++;
	}
	return 0;
}

static nvmlReturn_t fault_return(const char *group) {
	switch (fault(group)) {
	case 'n':
		return ERROR_NOT_SUPPORTED;
	case 'l':
		return ERROR_GPU_IS_LOST;
	}
	return SUCCESS;
}

static void read_line(struct state *s, const char *key, const char *value) {
	if (strcmp(key, "uuid") == 0)
		snprintf(s->uuid, sizeof s->uuid, "%s", value);
	else if (strcmp(key, "pid") == 0)
		s->pid = (unsigned int)strtoul(value, NULL, 10);
	else if (strcmp(key, "activity") == 0)
		s->activity = strtod(value, NULL);
	else if (strcmp(key, "milliwatt") == 0)
		s->milliwatt = (unsigned int)strtoul(value, NULL, 10);
	else if (strcmp(key, "nvlink_tx_kib") == 0)
		s->nvlink_tx_kib = strtoull(value, NULL, 10);
	else if (strcmp(key, "nvlink_rx_kib") == 0)
		s->nvlink_rx_kib = strtoull(value, NULL, 10);
	else if (strcmp(key, "pcie_tx_kbs") == 0)
		s->pcie_tx_kbs = (unsigned int)strtoul(value, NULL, 10);
	else if (strcmp(key, "pcie_rx_kbs") == 0)
		s->pcie_rx_kbs = (unsigned int)strtoul(value, NULL, 10);
	else if (strcmp(key, "stamp_us") == 0)
		s->stamp_us = strtoll(value, NULL, 10);
}

// idle is what a GPU shows that no job uses.
static void idle(struct state *s) {
	s->pid = 0;
	s->activity = 0;
	s->milliwatt = IDLE_MILLIWATT;
	s->pcie_tx_kbs = s->pcie_rx_kbs = 0;
}

static nvmlReturn_t read_state(nvmlDevice_t d, struct state *s) {
	if (!initialized)
		return ERROR_UNINITIALIZED;
	if (d == NULL || d < devices || d >= devices + device_count)
		return ERROR_INVALID_ARGUMENT;

	memset(s, 0, sizeof *s);
	idle(s);
	char path[4096], line[256], key[64], value[128];
	gpu_path(path, sizeof path, d->index);
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return ERROR_GPU_IS_LOST;
	while (fgets(line, sizeof line, f) != NULL)
		if (sscanf(line, "%63s %127s", key, value) == 2)
			read_line(s, key, value);
	fclose(f);

	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	long long now_us = now.tv_sec * 1000000LL + now.tv_nsec / 1000;
	if (now_us - s->stamp_us > STALE_SECONDS * 1000000LL) {
		idle(s); // its writer died: the counters stand still from here on
		s->stamp_us = now_us;
	}
	return SUCCESS;
}

nvmlReturn_t nvmlInit_v2(void) {
	char path[4096];
	struct stat st;
	device_count = 0;
	while (device_count < MAX_GPUS) {
		gpu_path(path, sizeof path, device_count);
		if (stat(path, &st) != 0)
			break;
		devices[device_count].index = device_count;
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
	case ERROR_NOT_SUPPORTED:
		return "Not Supported";
	case ERROR_GPU_IS_LOST:
		return "GPU is lost";
	}
	return "Stand-in error";
}

static nvmlReturn_t copy_out(char *out, unsigned int size, const char *text) {
	if (size <= strlen(text))
		return ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return SUCCESS;
}

nvmlReturn_t nvmlSystemGetDriverVersion(char *version, unsigned int length) {
	return copy_out(version, length, "535.0-standin");
}

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned int *count) {
	if (!initialized)
		return ERROR_UNINITIALIZED;
	*count = (unsigned int)device_count;
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned int index, nvmlDevice_t *device) {
	if (!initialized)
		return ERROR_UNINITIALIZED;
	if (index >= (unsigned int)device_count)
		return ERROR_INVALID_ARGUMENT;
	*device = &devices[index];
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char *name, unsigned int length) {
	(void)device;
	return copy_out(name, length, "Emulated GPU");
}

nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char *uuid, unsigned int length) {
	struct state s;
	nvmlReturn_t ret = read_state(device, &s);
	return ret != SUCCESS ? ret : copy_out(uuid, length, s.uuid);
}

nvmlReturn_t nvmlDeviceGetMinorNumber(nvmlDevice_t device, unsigned int *minor) {
	*minor = (unsigned int)device->index;
	return SUCCESS;
}

nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned int *current, unsigned int *pending) {
	(void)device;
	if (fault("mig") == 'o') { // mig=on
		*current = *pending = 1;
		return SUCCESS;
	}
	*current = *pending = 0;
	return ERROR_NOT_SUPPORTED;
}

nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned int *milliwatt) {
	struct state s;
	nvmlReturn_t ret = fault_return("power");
	if (ret == SUCCESS)
		ret = read_state(device, &s);
	if (ret == SUCCESS)
		*milliwatt = fault("power") == 'g' ? 4294967295u : s.milliwatt;
	return ret;
}

static nvmlReturn_t power_limit(unsigned int *milliwatt) {
	*milliwatt = LIMIT_MILLIWATT;
	return fault_return("power");
}

nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned int *milliwatt) {
	(void)device;
	return power_limit(milliwatt);
}

nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned int *milliwatt) {
	(void)device;
	return power_limit(milliwatt);
}

struct utilization {
	unsigned int gpu, memory; // percent
};

// Like the real one it counts collectives as busy: a GPU with a process shows
// 100 whatever it does.
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, struct utilization *u) {
	struct state s;
	nvmlReturn_t ret = fault_return("util");
	if (ret == SUCCESS)
		ret = read_state(device, &s);
	if (ret == SUCCESS) {
		u->gpu = fault("util") == 'g' ? 4294967295u : (s.pid != 0 ? 100 : 0);
		u->memory = (unsigned int)(s.activity * 50);
	}
	return ret;
}

// counter: 0 is sent by the GPU, 1 received.
nvmlReturn_t nvmlDeviceGetPcieThroughput(nvmlDevice_t device, unsigned int counter, unsigned int *kbs) {
	struct state s;
	nvmlReturn_t ret = fault_return("pcie");
	if (ret == SUCCESS)
		ret = read_state(device, &s);
	if (ret == SUCCESS)
		*kbs = fault("pcie") == 'g' ? 4294967295u : (counter == 0 ? s.pcie_tx_kbs : s.pcie_rx_kbs);
	return ret;
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkGeneration(nvmlDevice_t device, unsigned int *generation) {
	(void)device;
	*generation = 4;
	return fault_return("pcie");
}

nvmlReturn_t nvmlDeviceGetMaxPcieLinkWidth(nvmlDevice_t device, unsigned int *width) {
	(void)device;
	*width = 16;
	return fault_return("pcie");
}

struct process_info {
	unsigned int pid;
	unsigned long long used_memory;
	unsigned int gpu_instance, compute_instance;
};

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned int *count, struct process_info *infos) {
	struct state s;
	nvmlReturn_t ret = fault_return("procs");
	if (ret == SUCCESS)
		ret = read_state(device, &s);
	if (ret != SUCCESS)
		return ret;
	unsigned int have = s.pid != 0 ? 1 : 0, room = *count;
	*count = have;
	if (room < have)
		return ERROR_INSUFFICIENT_SIZE;
	if (have != 0) {
		memset(&infos[0], 0, sizeof infos[0]);
		infos[0].pid = fault("procs") == 'g' ? 4294967295u : s.pid;
		infos[0].gpu_instance = infos[0].compute_instance = 0xFFFFFFFFu;
	}
	return SUCCESS;
}

// Built with -DNVMLSTUB_OLD the library lacks what old drivers lack: a program
// that calls these without looking them up first ends there.
#ifndef NVMLSTUB_OLD

enum {
	FI_NVLINK_SPEED_MBPS = 90,
	FI_NVLINK_COUNT = 91,
	FI_NVLINK_TX = 138,
	FI_NVLINK_RX = 139,
	VALUE_UINT = 1,
	VALUE_ULL = 3,
	GPM_SM_UTIL = 2,
	GPM_MAX = 477,
};

struct field_value {
	unsigned int field, scope;
	long long timestamp, latency_us;
	int value_type;
	nvmlReturn_t result;
	union {
		unsigned int ui;
		unsigned long long ull;
	} value;
};

static void field(const struct state *s, struct field_value *v) {
	v->result = fault_return("nvlink");
	v->timestamp = s->stamp_us;
	v->latency_us = 0;
	v->value_type = VALUE_ULL;
	switch (v->field) {
	case FI_NVLINK_SPEED_MBPS:
		v->value_type = VALUE_UINT;
		v->value.ui = NVLINK_MBPS;
		return;
	case FI_NVLINK_COUNT:
		v->value_type = VALUE_UINT;
		v->value.ui = NVLINKS;
		return;
	case FI_NVLINK_TX:
		v->value.ull = s->nvlink_tx_kib;
		break;
	case FI_NVLINK_RX:
		v->value.ull = s->nvlink_rx_kib;
		break;
	default:
		v->result = ERROR_NOT_SUPPORTED;
	}
	if (fault("nvlink") == 'g')
		v->value.ull = 0xFFFFFFFFFFFFFFFFull - v->value.ull;
}

nvmlReturn_t nvmlDeviceGetFieldValues(nvmlDevice_t device, int count, struct field_value *values) {
	struct state s;
	nvmlReturn_t ret = read_state(device, &s);
	for (int i = 0; ret == SUCCESS && i < count; i++)
		field(&s, &values[i]);
	return ret;
}

// GPM exists from Hopper on. The stand-in has it when RIFLING_NVML_STUB_GPM is
// 1; a sample then is the activity at that moment.
struct gpm_sample {
	double activity;
};

struct gpm_metric {
	unsigned int id;
	nvmlReturn_t result;
	double value;
	char *short_name, *long_name, *unit;
};

struct gpm_metrics {
	unsigned int version, count;
	struct gpm_sample *sample1, *sample2;
	struct gpm_metric metrics[GPM_MAX];
};

struct gpm_support {
	unsigned int version, supported;
};

nvmlReturn_t nvmlGpmQueryDeviceSupport(nvmlDevice_t device, struct gpm_support *support) {
	(void)device;
	const char *on = getenv("RIFLING_NVML_STUB_GPM");
	support->supported = on != NULL && strcmp(on, "1") == 0;
	return SUCCESS;
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
	nvmlReturn_t ret = fault_return("gpm");
	if (ret == SUCCESS)
		ret = read_state(device, &s);
	if (ret == SUCCESS)
		sample->activity = s.activity;
	return ret;
}

nvmlReturn_t nvmlGpmMetricsGet(struct gpm_metrics *m) {
	for (unsigned int i = 0; i < m->count && i < GPM_MAX; i++) {
		struct gpm_metric *out = &m->metrics[i];
		out->result = out->id == GPM_SM_UTIL ? SUCCESS : ERROR_NOT_SUPPORTED;
		out->value = 50 * (m->sample1->activity + m->sample2->activity);
		if (fault("gpm") == 'g')
			out->value = -3.4e38;
	}
	return SUCCESS;
}

#endif // NVMLSTUB_OLD
