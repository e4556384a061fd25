// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"testing"
)

// A counter that shows nothing new, or went back, is not one that moves
// nothing: the job has no sample then, and the next rate covers both intervals.
func TestStalledCounterGivesNoSample(t *testing.T) {
	counter := func(bytes uint64, when float64) *reading { return &reading{bytes: bytes, at: at(when)} }
	n := &node{jobs: map[int]JobRef{10: {ID: 7, Nodes: 1}}}
	s := n.sampler()
	for i, step := range []struct {
		nvlink *reading
		want   float64 // rate; -1: no sample
	}{
		{counter(0, 0), -1},
		{counter(100, 1), 100},
		{counter(100, 1), -1}, // read again before it was updated
		{counter(500, 3), 200},
		{counter(10, 4), -1}, // reset
		{counter(60, 5), 50},
		{nil, 0}, // the card has none: the job is known by what else there is
	} {
		g := gpu("a", 10, 0.5)
		g.NVLinkTx, g.NVLinkSpeed = step.nvlink, 1000
		n.gpus = []GPU{g}
		got := sample(t, s, at(float64(i)))
		switch {
		case step.want < 0 && len(got) > 0:
			t.Errorf("reading %d: %+v, want no sample", i, got[0])
		case step.want >= 0 && (len(got) != 1 || got[0].NVLinkRate != step.want):
			t.Errorf("reading %d: %+v, want NVLink %v", i, got, step.want)
		}
	}
	if s.Odd["job left out of an interval: a link's counter gave no rate"] != 2 {
		t.Errorf("counted: %v", s.Odd)
	}
}
