// SPDX-License-Identifier: Apache-2.0

// Package collector measures what each job does on a node: how much its GPUs
// compute and how many bytes it moves. On the node a Sampler reads GPUs
// (NVML), network ports (sysfs) and whose processes are on which GPU (procfs),
// and a Pusher sends the samples; beside the daemon a Receiver takes them in.
//
// All rates are of one direction, the busier one, against speeds of one
// direction: links are full duplex and a ring sends as much as it receives.
// See docs/design/collector.md.
package collector
