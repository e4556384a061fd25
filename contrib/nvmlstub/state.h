// SPDX-License-Identifier: Apache-2.0

// What the files of a node say about its GPUs, and which faults they have.

#ifndef NVMLSTUB_STATE_H
#define NVMLSTUB_STATE_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "abi.h"
#include "cards.h"

enum {
	MAX_GPUS = 64,
	MAX_PROCESSES = 16,
	MAX_SLICES = 7,
	STALE_SECONDS = 10, // a GPU's file older than this says nothing of now
};

// device is a card, or a MIG instance of it.
struct device {
	int index;
	int slice; // of the card's instances; -1 for the card
};

struct process {
	unsigned int pid;
	unsigned int busy; // percent of the GPU's time
	int mps;
};

// instance is one line of mig/N.
struct instance {
	unsigned int gi, ci, slices, pid;
	double activity;
};

// state is one GPU's file; an idle GPU keeps its cumulative counters.
struct state {
	const struct card *card;
	char uuid[128];
	struct process processes[MAX_PROCESSES];
	int process_count;
	double activity; // 0..1
	unsigned int milliwatt;
	u64 nvlink_tx_kib, nvlink_rx_kib;
	unsigned int pcie_tx_kbs, pcie_rx_kbs;
	u64 pcie_tx_bytes, pcie_rx_bytes; // 0: no such counters
	u64 energy_mj;                    // 0: no such counter
	u64 power_ns, thermal_ns;         // clocks held down
	long long stamp_us;               // when the counters were written, since 1970
	struct instance instances[MAX_SLICES];
	int instance_count;
};

static struct device devices[MAX_GPUS], slices[MAX_GPUS][MAX_SLICES];
static int device_count;
static int initialized;

static const char *stub_dir(void) {
	const char *dir = getenv("RIFLING_NVML_STUB_DIR");
	return dir != NULL ? dir : "";
}

static void node_path(char *buf, size_t size, const char *sort, int index) {
	snprintf(buf, size, "%s/%s/%d", stub_dir(), sort, index);
}

static long long now_us(void) {
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	return now.tv_sec * 1000000LL + now.tv_nsec / 1000;
}

// find_fault looks for "GROUP=word" or "GPU:GROUP=word" in a list separated by
// commas or line ends, and copies the word.
static int find_fault(const char *all, int gpu, const char *group, char *word, size_t size) {
	char key[64], one[64];
	snprintf(key, sizeof key, "%s=", group);
	snprintf(one, sizeof one, "%d:%s=", gpu, group);
	while (all != NULL && *all != '\0') {
		const char *value = NULL;
		if (strncmp(all, key, strlen(key)) == 0)
			value = all + strlen(key);
		else if (strncmp(all, one, strlen(one)) == 0)
			value = all + strlen(one);
		size_t len = strcspn(all, ",\n");
		if (value != NULL) {
			snprintf(word, size, "%.*s", (int)(all + len - value), value);
			return 1;
		}
		all += len + (all[len] != '\0');
	}
	return 0;
}

// fault_word copies the fault of a group of functions on that GPU, "" for none:
// by RIFLING_NVML_STUB_FAULT or the file fault of the node, which may change at
// any time.
static void fault_word(int gpu, const char *group, char *word, size_t size) {
	char path[4096], text[1024];
	word[0] = '\0';
	if (find_fault(getenv("RIFLING_NVML_STUB_FAULT"), gpu, group, word, size))
		return;
	snprintf(path, sizeof path, "%s/fault", stub_dir());
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return;
	text[fread(text, 1, sizeof text - 1, f)] = '\0';
	fclose(f);
	find_fault(text, gpu, group, word, size);
}

// fault tells whether the group has that fault.
static int fault(int gpu, const char *group, const char *wanted) {
	char word[64];
	fault_word(gpu, group, word, sizeof word);
	return strcmp(word, wanted) == 0;
}

static const struct {
	const char *word;
	nvmlReturn_t result;
} fault_results[] = {
	{"not_supported", ERROR_NOT_SUPPORTED},
	{"lost", ERROR_GPU_IS_LOST},
	{"reset_required", ERROR_RESET_REQUIRED},
	{"uninitialized", ERROR_UNINITIALIZED},
	{"driver_not_loaded", ERROR_DRIVER_NOT_LOADED},
	{"mismatch", ERROR_LIB_RM_VERSION_MISMATCH},
	{"no_permission", ERROR_NO_PERMISSION},
	{"timeout", ERROR_TIMEOUT},
	{"unknown", ERROR_UNKNOWN},
};

// fault_return is the answer that a fault of the group makes, else SUCCESS.
static nvmlReturn_t fault_return(int gpu, const char *group) {
	char word[64];
	fault_word(gpu, group, word, sizeof word);
	for (unsigned int i = 0; i < sizeof fault_results / sizeof fault_results[0]; i++)
		if (strcmp(word, fault_results[i].word) == 0)
			return fault_results[i].result;
	return SUCCESS;
}

static void add_process(struct state *s, unsigned int pid, unsigned int busy, int mps) {
	if (pid == 0 || s->process_count == MAX_PROCESSES)
		return;
	s->processes[s->process_count++] = (struct process){pid, busy, mps};
}

static void read_number(struct state *s, const char *key, const char *value) {
	const struct {
		const char *key;
		u64 *into;
	} numbers[] = {
		{"nvlink_tx_kib", &s->nvlink_tx_kib}, {"nvlink_rx_kib", &s->nvlink_rx_kib},
		{"pcie_tx_bytes", &s->pcie_tx_bytes}, {"pcie_rx_bytes", &s->pcie_rx_bytes},
		{"energy_mj", &s->energy_mj},         {"power_ns", &s->power_ns},
		{"thermal_ns", &s->thermal_ns},
	};
	for (unsigned int i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
		if (strcmp(key, numbers[i].key) == 0)
			*numbers[i].into = strtoull(value, NULL, 10);
}

static void read_line(struct state *s, const char *key, const char *value, unsigned int second) {
	if (strcmp(key, "card") == 0)
		s->card = card_named(value);
	else if (strcmp(key, "uuid") == 0)
		snprintf(s->uuid, sizeof s->uuid, "%s", value);
	else if (strcmp(key, "pid") == 0)
		add_process(s, (unsigned int)strtoul(value, NULL, 10), 101, 0); // as busy as the GPU
	else if (strcmp(key, "proc") == 0 || strcmp(key, "mps") == 0)
		add_process(s, (unsigned int)strtoul(value, NULL, 10), second, key[0] == 'm');
	else if (strcmp(key, "activity") == 0)
		s->activity = strtod(value, NULL);
	else if (strcmp(key, "milliwatt") == 0)
		s->milliwatt = (unsigned int)strtoul(value, NULL, 10);
	else if (strcmp(key, "pcie_tx_kbs") == 0)
		s->pcie_tx_kbs = (unsigned int)strtoul(value, NULL, 10);
	else if (strcmp(key, "pcie_rx_kbs") == 0)
		s->pcie_rx_kbs = (unsigned int)strtoul(value, NULL, 10);
	else if (strcmp(key, "stamp_us") == 0)
		s->stamp_us = strtoll(value, NULL, 10);
	else
		read_number(s, key, value);
}

static void read_instances(struct state *s, int index) {
	char path[4096], line[256];
	node_path(path, sizeof path, "mig", index);
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return;
	while (s->instance_count < MAX_SLICES && fgets(line, sizeof line, f) != NULL) {
		struct instance *i = &s->instances[s->instance_count];
		if (sscanf(line, "%u %u %u %u %lf", &i->gi, &i->ci, &i->slices, &i->pid, &i->activity) == 5)
			s->instance_count++;
	}
	fclose(f);
}

// read_state reads a device's card. It fails when the GPU is gone.
static nvmlReturn_t read_state(nvmlDevice_t d, struct state *s) {
	if (!initialized)
		return ERROR_UNINITIALIZED;
	if (d == NULL || d->index >= device_count)
		return ERROR_INVALID_ARGUMENT;
	nvmlReturn_t gone = fault_return(d->index, "card");
	if (gone != SUCCESS)
		return gone;

	memset(s, 0, sizeof *s);
	s->card = card_named(getenv("RIFLING_NVML_STUB_CARD"));
	char path[4096], line[256], key[64], value[128];
	node_path(path, sizeof path, "gpu", d->index);
	FILE *f = fopen(path, "r");
	if (f == NULL)
		return ERROR_GPU_IS_LOST;
	while (fgets(line, sizeof line, f) != NULL) {
		unsigned int second = 0;
		if (sscanf(line, "%63s %127s %u", key, value, &second) >= 2)
			read_line(s, key, value, second);
	}
	fclose(f);

	int stale = now_us() - s->stamp_us > STALE_SECONDS * 1000000LL;
	if (stale) { // its writer died: the counters stand still from here on
		s->process_count = 0;
		s->stamp_us = now_us();
	}
	if (s->process_count == 0) {
		s->activity = 0;
		s->pcie_tx_kbs = s->pcie_rx_kbs = 0;
		s->milliwatt = s->card->idle_milliwatt;
	} else if (s->card->own_power || s->milliwatt == 0) {
		unsigned int range = s->card->limit_milliwatt - s->card->idle_milliwatt;
		s->milliwatt = s->card->idle_milliwatt + (unsigned int)(s->activity * range);
	}
	if (s->card->mig == 2)
		read_instances(s, d->index);
	return SUCCESS;
}

// read_group reads a card's state unless the group has a fault, or the device
// is a MIG instance, which most groups do not know.
static nvmlReturn_t read_group(nvmlDevice_t d, const char *group, struct state *s) {
	if (d == NULL)
		return ERROR_INVALID_ARGUMENT;
	nvmlReturn_t ret = fault_return(d->index, group);
	if (ret == SUCCESS)
		ret = read_state(d, s);
	if (ret == SUCCESS && d->slice >= 0)
		ret = ERROR_NOT_SUPPORTED;
	return ret;
}

static nvmlReturn_t copy_out(char *out, unsigned int size, const char *text) {
	if (size <= strlen(text))
		return ERROR_INSUFFICIENT_SIZE;
	strcpy(out, text);
	return SUCCESS;
}

#endif
