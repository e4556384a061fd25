// SPDX-License-Identifier: Apache-2.0

// Package prom reads what a site's own exporters measured on GPU nodes from
// Prometheus and makes samples of it as a collector on the nodes would send
// them, marked with where they come from and with less weight.
//
// A Source reads whole slots of time, all nodes and jobs at once, one query a
// metric. What it returns of a slot depends on Prometheus' data and Slurm's
// record alone, so a slot that is read twice gives the same samples with the
// same numbers. See docs/design/sources.md.
package prom
