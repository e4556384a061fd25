// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"testing"
)

// thousand is a cluster of 1,000 nodes with 8 GPUs, 16 under a switch.
func thousand() Spec {
	var s Spec
	for i := range 1000 {
		s.Nodes = append(s.Nodes, NodeSpec{Name: fmt.Sprintf("gpu%04d", i), GPUs: 8, CPUs: 64, Leaf: fmt.Sprint(i / 16)})
	}
	return s
}

// BenchmarkEngine runs 20,000 jobs a round; events are submissions and ends.
func BenchmarkEngine(b *testing.B) {
	for _, c := range []struct {
		name  string
		load  float64
		sched func() Scheduler
	}{
		{"fifo", 0.8, func() Scheduler { return &Ordered{Label: "fifo", Place: PlaceAnywhere} }},
		{"slurm", 0.8, func() Scheduler { return NewSlurm(DefaultSlurm()) }},
		{"slurm-full", 1.2, func() Scheduler { return NewSlurm(DefaultSlurm()) }},
	} {
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			events := 0
			for b.Loop() {
				e, err := NewEngine(thousand(), c.sched(), Synthetic{Seed: 7, Jobs: 20000, GPUs: 8000, Load: c.load}.Source(), nil)
				if err != nil {
					b.Fatal(err)
				}
				st, err := e.Run()
				if err != nil {
					b.Fatal(err)
				}
				events += st.Events
			}
			b.ReportMetric(float64(events)/b.Elapsed().Seconds(), "events/s")
		})
	}
}
