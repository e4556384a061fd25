// SPDX-License-Identifier: Apache-2.0

// Package sim is a simulated cluster: an engine that moves from event to event,
// schedulers that run on it, among them a model of Slurm's own, and the speed
// model, which tells how fast a training job runs on a placement, alone and
// beside others. The emulated jobs of the lab run by the same speed model.
// See docs/design/simulator.md and docs/design/speed-model.md.
package sim
