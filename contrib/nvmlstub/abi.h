// SPDX-License-Identifier: Apache-2.0

// The parts of NVIDIA's published interface (nvml.h) that the stand-in plays.

#ifndef NVMLSTUB_ABI_H
#define NVMLSTUB_ABI_H

// The driver whose symbols and fields the library has: 384 (before field
// values), 418 (before MIG), 470 (before GPM), 535 (before PCIe counters), 580,
// or 700 for one that has dropped what CUDA 13 calls deprecated.
#ifndef NVMLSTUB_DRIVER
#define NVMLSTUB_DRIVER 580
#endif

typedef unsigned long long u64;
typedef struct device *nvmlDevice_t;
typedef int nvmlReturn_t;

enum {
	SUCCESS = 0,
	ERROR_UNINITIALIZED = 1,
	ERROR_INVALID_ARGUMENT = 2,
	ERROR_NOT_SUPPORTED = 3,
	ERROR_NO_PERMISSION = 4,
	ERROR_NOT_FOUND = 6,
	ERROR_INSUFFICIENT_SIZE = 7,
	ERROR_DRIVER_NOT_LOADED = 9,
	ERROR_TIMEOUT = 10,
	ERROR_GPU_IS_LOST = 15,
	ERROR_RESET_REQUIRED = 16,
	ERROR_LIB_RM_VERSION_MISMATCH = 18,
	ERROR_MEMORY = 20,
	ERROR_UNKNOWN = 999,
};

enum {
	FI_POWER_POLICY = 74, // ns, as all that count throttling
	FI_THERMAL_POLICY = 75,
	FI_ENERGY = 83, // mJ
	FI_NVLINK_SPEED_MBPS = 90,
	FI_NVLINK_COUNT = 91,
	FI_NVLINK_TX = 138, // KiB
	FI_NVLINK_RX = 139,
	FI_PCIE_TX = 197, // bytes
	FI_PCIE_RX = 198,
	FI_SW_THERMAL = 269,
	VALUE_UINT = 1,
	VALUE_ULL = 3,
};

struct field_value {
	unsigned int field, scope;
	long long timestamp, latency_us;
	int value_type;
	nvmlReturn_t result;
	union {
		unsigned int ui;
		u64 ull;
	} value;
};

struct utilization {
	unsigned int gpu, memory; // percent
};

struct violation {
	u64 reference_us, violation_ns;
};

struct process_info_v1 {
	unsigned int pid;
	u64 used_memory;
};

struct process_info {
	unsigned int pid;
	u64 used_memory;
	unsigned int gpu_instance, compute_instance;
};

struct process_sample {
	unsigned int pid;
	u64 timestamp_us;
	unsigned int sm, mem, enc, dec; // percent
};

struct attributes {
	unsigned int multiprocessors, copy_engines, decoders, encoders, jpegs, ofas;
	unsigned int gpu_slices, compute_slices;
	u64 memory_mib;
};

enum {
	GPM_SM_UTIL = 2,
	GPM_PCIE_TX = 20, // MiB/s
	GPM_PCIE_RX = 21,
	GPM_MAX = 477,
};

struct gpm_sample {
	double activity, pcie_tx, pcie_rx; // 0..1, MiB/s
	char broken;
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

#endif
