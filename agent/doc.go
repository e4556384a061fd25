// SPDX-License-Identifier: Apache-2.0

// Package agent holds the learners. It knows no Slurm: states, actions,
// rewards and features are numbers and plain strings. It is pure: random
// numbers come from a source passed in, time passes as durations.
package agent
