// SPDX-License-Identifier: Apache-2.0

package profile_test

import (
	"fmt"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// Two minutes of counters of a job that runs across two nodes tell what its
// next run will be like.
func ExampleBook() {
	start := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	running := slurm.Job{
		ID: 7, User: "ann", Account: "vision", Name: "resnet50_seed1", Command: "train.sh", Partition: "gpu",
		State: slurm.State{Base: "RUNNING"}, StartTime: start, TimeLimit: 4 * time.Hour,
		Request: slurm.GPURequest{PerJob: 4}, Nodes: []string{"n1", "n2"}, NodeGPUs: map[string]int{"n1": 2, "n2": 2},
	}
	book := profile.NewBook(profile.DefaultOptions())
	for i := 1; i <= 8; i++ {
		at := start.Add(time.Duration(i) * 15 * time.Second)
		book.Track(&slurm.Snapshot{TakenAt: at, Jobs: []slurm.Job{running}})
		for _, node := range running.Nodes {
			book.Add([]profile.Sample{{
				JobID: 7, Node: node, At: at, Interval: 15 * time.Second, GPUs: 2,
				Compute: 0.3, Source: profile.SourceGPM, NetRate: 3.75e9, NetSpeed: 6.25e9,
			}})
		}
	}
	now := start.Add(2 * time.Minute)
	book.Regroup(now)

	next := slurm.Job{
		ID: 8, User: "ann", Account: "vision", Name: "resnet50_seed2", Command: "train.sh", Partition: "gpu",
		State: slurm.State{Base: "PENDING"}, Request: slurm.GPURequest{PerJob: 4},
	}
	p := book.Profiles(&slurm.Snapshot{TakenAt: now, Jobs: []slurm.Job{next}})[8]
	fmt.Printf("%s: log cc %.2f from %d intervals of its %s, communication-bound: %v\n",
		p.Family, p.LogCC, p.Count, p.Level, p.CommBound)

	npr, _ := book.MeanNPR(7)
	fmt.Printf("job 7 runs at %.2f of its rate without communication between nodes\n", npr)
	// Output:
	// ann/vision/resnet50/train-sh/g4: log cc -0.69 from 8 intervals of its family, communication-bound: true
	// job 7 runs at 0.40 of its rate without communication between nodes
}
