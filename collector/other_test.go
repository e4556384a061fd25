// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"testing"
	"time"
)

// Another source's samples count once each, and not where the node's own
// collector speaks.
func TestAddLeavesTheCollectorsNodes(t *testing.T) {
	now := start
	r := NewReceiver(ReceiverOptions{Now: func() time.Time { return now }, Secret: func() (string, error) { return "s", nil }})
	of := func(node, boot string, seq uint64) Sample {
		return Sample{Node: node, Boot: boot, Seq: seq, JobID: 7, At: now, Interval: time.Second, GPUs: 1, Source: SourceGPM}
	}
	add := func(want Taken, samples ...Sample) {
		t.Helper()
		got, err := r.Add(samples, 10*time.Minute)
		if err != nil {
			t.Fatal(err)
		}
		if got.Accepted != want.Accepted || got.Duplicates != want.Duplicates || got.Covered != want.Covered {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
	if _, err := r.take(&Batch{Samples: []Sample{of("a", "run", 1)}}); err != nil { // its collector
		t.Fatal(err)
	}
	add(Taken{Accepted: 1, Covered: 1}, of("a", "prometheus", 1), of("b", "prometheus", 1))
	add(Taken{Duplicates: 1, Covered: 1}, of("a", "prometheus", 1), of("b", "prometheus", 1))
	now = now.Add(11 * time.Minute) // the collector of a has fallen silent
	add(Taken{Accepted: 2}, of("a", "prometheus", 2), of("b", "prometheus", 2))
	if got := len(r.Drain()); got != 4 {
		t.Errorf("%d samples are kept, want 4", got)
	}

	bad := of("b", "prometheus", 3)
	bad.Compute = 2
	got, err := r.Add([]Sample{bad}, time.Minute)
	if err != nil || got.Rejected["bad activity"] != 1 {
		t.Errorf("%+v, error %v", got, err)
	}
}
