// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"testing"
	"time"

	"rifling/slurm"
)

// A book as full as it gets, and a long queue: one cycle's work.
func BenchmarkCycle(b *testing.B) {
	book := newBook(b)
	var history []slurm.Job
	for f := range book.opts.MaxFamilies {
		for r := range keepTimes {
			j := newJob(slurm.JobID(f*keepTimes + r + 1)).of(fmt.Sprintf("user%d", f%200)).named(fmt.Sprintf("work%d", f))
			j.on(t0.Add(time.Duration(r)*time.Hour), 4, "n1").ended("COMPLETED", time.Duration(r+1)*time.Minute)
			history = append(history, j.Job)
		}
	}
	book.History(history)
	var queue []*job
	for i := range 5000 {
		queue = append(queue, newJob(slurm.JobID(i+1)).of(fmt.Sprintf("user%d", i%250)).named(fmt.Sprintf("work%d", i)))
	}
	s := snapshot(t0.Add(50*time.Hour), queue...)
	for b.Loop() {
		book.Track(s)
		if got := len(book.Profiles(s)); got != len(queue) {
			b.Fatalf("%d profiles", got)
		}
	}
}

// Regrouping with as many families as are kept.
func BenchmarkRegroup(b *testing.B) {
	var points []weighted
	for i := range DefaultOptions().MaxFamilies {
		points = append(points, weighted{float64(i*7919%2003) / 300, float64(1 + i%50)})
	}
	for b.Loop() {
		group(points, 3, 0.25)
	}
}
