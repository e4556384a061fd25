// SPDX-License-Identifier: Apache-2.0

// The cards that the stand-in plays.

#ifndef NVMLSTUB_CARDS_H
#define NVMLSTUB_CARDS_H

#include <string.h>

struct card {
	const char *word; // for RIFLING_NVML_STUB_CARD and the key card
	const char *name;
	unsigned int nvlinks, nvlink_mbps;
	unsigned int pcie_generation;
	unsigned int idle_milliwatt, limit_milliwatt; // limit 0: no power readings
	int gpm;
	int pcie_counters;
	int mig;       // 0 not capable, 1 off, 2 on
	int processes; // whether they can be listed
	int own_power; // power follows from the activity, not from the file
};

// The first is played when none is named: what contrib/emujob writes for, with
// the links of an A100.
static const struct card cards[] = {
	{"emulated", "Emulated GPU", 12, 25000, 4, 60000, 400000, 0, 0, 0, 1, 0},
	{"T4", "Tesla T4", 0, 0, 3, 10000, 70000, 0, 0, 0, 1, 1},
	{"A100", "NVIDIA A100-SXM4-80GB", 12, 25000, 4, 55000, 400000, 0, 1, 1, 1, 1},
	{"H100", "NVIDIA H100 80GB HBM3", 18, 26562, 5, 70000, 700000, 1, 1, 1, 1, 1},
	{"MIG", "NVIDIA H100 80GB HBM3", 18, 26562, 5, 70000, 700000, 1, 1, 2, 1, 1},
	{"A100-MIG", "NVIDIA A100-SXM4-80GB", 12, 25000, 4, 55000, 400000, 0, 1, 2, 1, 1},
	{"vGPU", "GRID T4-8C", 0, 0, 0, 0, 0, 0, 0, 0, 0, 1},
};

static const struct card *card_named(const char *word) {
	for (unsigned int i = 0; word != NULL && i < sizeof cards / sizeof cards[0]; i++)
		if (strcmp(cards[i].word, word) == 0)
			return &cards[i];
	return &cards[0];
}

#endif
