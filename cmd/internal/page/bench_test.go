// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"testing"

	"rifling/profile"
	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

// BenchmarkPages is the time of one look at 1,000 nodes and 10,000 jobs, of
// which 7,000 wait.
func BenchmarkPages(b *testing.B) {
	s := newSite(b, Options{})
	build := slurmtest.Snapshot().Nodes("gpu[0001-1000]", 8)
	profiles := map[slurm.JobID]profile.Profile{}
	for i := range 10_000 {
		j := slurmtest.Job(slurm.JobID(i + 1)).User(fmt.Sprintf("user%02d", i%60)).GPUs(1 + i%8).Priority(int64(20_000 - i))
		if i < 3000 {
			j.GPUs(2).Running(fmt.Sprintf("gpu%04d", i/3+1))
		}
		build.Jobs(j)
		profiles[slurm.JobID(i+1)] = profile.Profile{Group: i % 3}
	}
	v := &View{Published: slurmtest.Now, Mode: "steer", Snapshot: build.Obj(), Profiles: profiles,
		Groups: []profile.Group{{Index: 0}, {Index: 1, Center: 1}, {Index: 2, Center: 2}}}
	s.Publish(v)
	for _, path := range []string{"/", "/cluster", "/cluster?view=table", "/queue", "/queue?user=user07&sort=gpus&page=2", "/queue?state=running", "/decisions"} {
		b.Run(path, func(b *testing.B) {
			for b.Loop() {
				s.get(path)
			}
		})
	}
	b.Run("first look at a cycle", func(b *testing.B) {
		for b.Loop() {
			s.Publish(&View{Published: v.Published, Mode: v.Mode, Snapshot: v.Snapshot, Profiles: v.Profiles, Groups: v.Groups})
			s.get("/queue")
		}
	})
}
