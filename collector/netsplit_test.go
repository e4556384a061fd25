// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"rifling/slurm"
)

func use(id, nodes, gpus int, pcie, speed float64) *jobUse {
	return &jobUse{
		ref:    JobRef{ID: slurm.JobID(id), Nodes: nodes},
		sample: Sample{JobID: slurm.JobID(id), GPUs: gpus, PCIeRate: pcie, PCIeSpeed: speed},
	}
}

func TestNetSplit(t *testing.T) {
	for name, tc := range map[string]struct {
		uses []*jobUse
		want []float64
	}{
		"one that spans nodes has it all":           {[]*jobUse{use(1, 2, 2, 1, 10), use(2, 1, 6, 9, 10)}, []float64{8, 0}},
		"by PCIe, whatever the GPUs":                {[]*jobUse{use(1, 2, 2, 3, 10), use(2, 3, 6, 1, 10)}, []float64{6, 2}},
		"by GPUs where one has no PCIe":             {[]*jobUse{use(1, 2, 2, 3, 10), use(2, 3, 6, 0, 0)}, []float64{2, 6}},
		"by GPUs where nothing moves":               {[]*jobUse{use(1, 2, 2, 0, 10), use(2, 3, 6, 0, 10)}, []float64{2, 6}},
		"one that moves nothing sends nothing":      {[]*jobUse{use(1, 2, 2, 0, 10), use(2, 3, 6, 1, 10)}, []float64{0, 8}},
		"unknown sizes count when none spans nodes": {[]*jobUse{use(1, 0, 2, 1, 10), use(2, 1, 4, 1, 10), use(3, 0, 2, 1, 10)}, []float64{4, 0, 4}},
		"jobs of this node alone send nothing":      {[]*jobUse{use(1, 1, 2, 1, 10), use(2, 1, 4, 1, 10)}, []float64{0, 0}},
	} {
		t.Run(name, func(t *testing.T) {
			var n netSplit
			n.share(tc.uses, 8)
			shares := 0
			for _, w := range tc.want {
				if w > 0 {
					shares++
				}
			}
			for i, u := range tc.uses {
				if got := u.sample.NetRate; math.Abs(got-tc.want[i]) > 1e-9 {
					t.Errorf("job %d has %v of 8, want %v", i+1, got, tc.want[i])
				}
				if u.sample.NetShared && u.ref.Nodes == 1 || !u.sample.NetShared && shares > 1 && tc.want[i] > 0 {
					t.Errorf("job %d: marked as shared: %v", i+1, u.sample.NetShared)
				}
			}
		})
	}
}

// A card without counters shows 20 ms of an interval: bursts in turn, here.
func TestNetSplitIsSmooth(t *testing.T) {
	var n netSplit
	var last []*jobUse
	for i := range 40 {
		last = []*jobUse{use(1, 2, 4, 6*float64(i%2), 10), use(2, 2, 4, 1, 10)}
		n.share(last, 8)
	}
	if got := last[0].sample.NetRate; math.Abs(got/6-1) > 0.1 {
		t.Errorf("the job that moves three times as much has %v of 8, want about 6", got)
	}
	n.share([]*jobUse{use(3, 2, 4, 1, 10)}, 8)
	if len(n.pcie) != 0 {
		t.Errorf("jobs that are gone are remembered: %v", n.pcie)
	}
}

// Whatever is measured, what is given out is what was there.
func TestNetSplitLosesNothing(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var n netSplit
		for range rapid.IntRange(1, 5).Draw(t, "readings") {
			var uses []*jobUse
			spans := false
			for id := range rapid.IntRange(1, 5).Draw(t, "jobs") {
				u := use(id+1, rapid.IntRange(0, 3).Draw(t, "nodes"), rapid.IntRange(1, 8).Draw(t, "gpus"),
					rapid.Float64Range(0, 1e12).Draw(t, "rate"), rapid.Float64Range(0, 1e11).Draw(t, "speed"))
				spans = spans || u.ref.Nodes != 1
				uses = append(uses, u)
			}
			n.share(uses, 1e9)
			sum := 0.0
			for _, u := range uses {
				if !(u.sample.NetRate >= 0) {
					t.Fatalf("job %d has %v", u.ref.ID, u.sample.NetRate)
				}
				sum += u.sample.NetRate
			}
			if spans && math.Abs(sum-1e9) > 1 {
				t.Fatalf("%v of 1e9 given out", sum)
			}
		}
	})
}
