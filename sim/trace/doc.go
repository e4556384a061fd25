// SPDX-License-Identifier: Apache-2.0

// Package trace reads workloads: what jobs a cluster got, when, how large and
// how long. Each row becomes a Job; rows that cannot be right are counted and
// named by their line, and refused altogether when Options.Strict is set.
//
// A Reader streams, so that the memory that it needs does not grow with the
// trace. It opens no files: callers hand in a stream (and Plain undoes gzip).
package trace
