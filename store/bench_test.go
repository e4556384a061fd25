// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// A queue of 3,000 jobs, all of them decided on: the worst that a poll of a
// large site brings. Measured 2026-12-01 on a busy 2-core machine: see
// docs/design/store.md.
func BenchmarkBegin3000Jobs(b *testing.B) {
	s, err := Open(b.TempDir()+"/rifling.db", Options{})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	r := record(t0)
	r.Profiles = map[slurm.JobID]profile.Profile{}
	for id := slurm.JobID(1); id <= 3000; id++ {
		r.Jobs = append(r.Jobs, pendingJob(id))
		r.Profiles[id] = knownProfile(id)
		r.Plan.Decisions = append(r.Plan.Decisions, packed(id, "gpu01", "gpu03"))
	}
	r.Changes = []policy.Change{exclude(1, "gpu02")}
	for b.Loop() {
		r.At = r.At.Add(15 * time.Second)
		n, err := s.Begin(context.Background(), r)
		if err != nil {
			b.Fatal(err)
		}
		if err := s.End(context.Background(), n, nil, time.Second); err != nil {
			b.Fatal(err)
		}
	}
}
