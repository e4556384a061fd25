// SPDX-License-Identifier: Apache-2.0

package main

import (
	"reflect"
	"testing"
	"time"
)

// A list depends on its seed only, fits its cluster, and offers the load that
// was asked for.
func TestMakeList(t *testing.T) {
	o := listOptions{jobs: 320, nodes: 8, gpus: 8, load: 1.1, mean: 10 * time.Minute, partitions: true}
	jobs := makeList(1, o)
	if !reflect.DeepEqual(jobs, makeList(1, o)) {
		t.Fatal("the same seed gave another list")
	}
	if reflect.DeepEqual(jobs, makeList(2, o)) {
		t.Fatal("another seed gave the same list")
	}
	gpuSeconds, short := 0.0, 0
	for i, j := range jobs {
		if j.gpus < 1 || j.gpus > 32 || j.duration < 20*time.Second || j.limit < j.duration+time.Minute && j.partition == "gpu" {
			t.Errorf("job %d cannot run to its end: %+v", i, j)
		}
		if i > 0 && j.submit < jobs[i-1].submit {
			t.Errorf("job %d comes before the one above it", i)
		}
		if j.partition == "short" {
			short++
			if j.limit > time.Hour || j.duration > j.limit-time.Minute {
				t.Errorf("job %d does not fit the partition short: %+v", i, j)
			}
		}
		gpuSeconds += float64(j.gpus) * j.duration.Seconds()
	}
	load := gpuSeconds / 64 / jobs[len(jobs)-1].submit.Seconds()
	if load < 0.9 || load > 1.4 {
		t.Errorf("load %.2f, want about 1.1", load)
	}
	if short < 50 {
		t.Errorf("%d jobs in the partition short, want a part of them", short)
	}
}
