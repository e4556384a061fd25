// SPDX-License-Identifier: Apache-2.0

// Package peer holds published schedulers, so that rifling is measured beside
// them on the same work. It has them twice.
//
// The replays (Replay, Queue, Sequence, Inflate) repeat the published
// simulators with their semantics, each peculiarity an option with a name, so
// that their printed figures come out again. See docs/design/peers.md.
//
// The schedulers of All are the same policies on package sim's engine, where
// restarts cost time and placement costs speed: the baselines.
package peer
