// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"rifling/sim"
)

// A job's cc is its own: the same packed, spread and beside a neighbour. What
// the neighbour costs is in the communication as it ran.
func TestTruthOf(t *testing.T) {
	bert, _ := sim.FindModel("bert")
	packed, spread := map[string]int{"a": 4}, map[string]int{"a": 2, "b": 2}
	speeds := map[string]float64{"a": sim.DefaultNICBytesPerSecond, "b": sim.DefaultNICBytesPerSecond}
	nic := func(sharers int) func(string) (float64, int) {
		return func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, sharers }
	}
	const iterations = 100
	cc := bert.ComputeSeconds / sim.CommSeconds(bert, spread, nic(1))
	for name, tc := range map[string]struct {
		gpus           map[string]int
		rate           float64
		comm, nicBytes float64 // an iteration
	}{
		"packed":             {packed, sim.PackedRate(bert, 4), bert.IntraSeconds, 0},
		"spread":             {spread, sim.Rate(bert, spread, nic(1)), bert.ComputeSeconds / cc, 2 * sim.RingBytes(bert, 4)},
		"beside a neighbour": {spread, sim.Rate(bert, spread, nic(2)), 2 * bert.ComputeSeconds / cc, 2 * sim.RingBytes(bert, 4)},
	} {
		t.Run(name, func(t *testing.T) {
			got := truthOf(bert, tc.gpus, speeds, iterations, iterations/tc.rate)
			near(t, "cc", got.CC, cc, 1e-9)
			near(t, "computing", got.ComputeSeconds, iterations*bert.ComputeSeconds, 1e-9)
			near(t, "communicating as it ran", got.CommSeconds, iterations*tc.comm, 1e-9)
			near(t, "bytes of a GPU", got.GPUBytes, iterations*sim.RingBytes(bert, 4), 1e-9)
			near(t, "bytes of the NIC", got.NICBytes, iterations*tc.nicBytes, 1e-9)
		})
	}
	if got := truthOf(bert, map[string]int{"a": 1}, speeds, 10, 10*bert.ComputeSeconds); got.CC != 0 || got.GPUBytes != 0 || got.ComputeSeconds <= 0 {
		t.Errorf("one GPU has nobody to talk to: %+v", got)
	}
	slow := map[string]float64{"a": sim.DefaultNICBytesPerSecond / 2}
	near(t, "cc on a NIC of half the speed", truthOf(bert, packed, slow, 1, 1).CC, cc/2, 1e-9)
}
