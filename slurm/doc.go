// SPDX-License-Identifier: Apache-2.0

// Package slurm holds Slurm's own words as plain values: jobs, nodes,
// partitions, requests for GPUs, updates and releases, and the parsers for the
// strings that Slurm writes them in. It does no input or output, reads no clock
// and imports nothing of rifling, so every other package may rest on it.
//
// Names follow slurm.h (TimeLimit, EligibleTime, Nice, GRES, TRES). Units are
// converted once, where the wire is read: durations are time.Duration, instants
// are time.Time (zero means unset), memory is bytes.
package slurm
