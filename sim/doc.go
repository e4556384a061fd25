// SPDX-License-Identifier: Apache-2.0

// Package sim holds the speed model: how fast a training job runs on a
// placement, alone and beside others. The emulated jobs of the lab run by it.
// See docs/design/speed-model.md.
package sim
