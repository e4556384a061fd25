// SPDX-License-Identifier: Apache-2.0

package run

import (
	"testing"
	"time"

	"rifling/policy"
	"rifling/sim"
	"rifling/slurm"
)

// looking changes nothing and keeps the first run time that it was told of.
type looking struct{ told time.Duration }

func (l *looking) Decide(in policy.Input) policy.Plan {
	for _, p := range in.Profiles {
		if l.told == 0 {
			l.told = p.RunTime
		}
	}
	return policy.Plan{At: in.Snapshot.TakenAt}
}

func TestPastTellsRunTimes(t *testing.T) {
	jobs := []sim.Job{{
		Name: "train", User: "u", Account: "a", Work: time.Hour, Limit: 10 * time.Hour, Model: &sim.Models[0],
		Request: sim.Request{GPUs: 2, MaxNodes: 1},
	}}
	zero := Default(nodes(1)).Zero
	var past []slurm.PastJob
	for i := range 5 {
		start := zero.Add(-time.Duration(i+2) * 24 * time.Hour)
		past = append(past, slurm.PastJob{
			ID: slurm.JobID(1000 + i), Name: "train", User: "u", Account: "a", State: slurm.State{Base: "COMPLETED"},
			Submit: start, Start: start, End: start.Add(50 * time.Minute), Elapsed: 50 * time.Minute,
			TimeLimit: 10 * time.Hour, GPUs: 2,
		})
	}
	told := func(past []slurm.PastJob) time.Duration {
		l := &looking{}
		cfg := Default(nodes(1))
		cfg.Policy, cfg.Past = l, past
		if _, err := Run(t.Context(), cfg, List(jobs), nil); err != nil {
			t.Fatal(err)
		}
		return l.told
	}
	if got := told(past); got < 45*time.Minute || got > 55*time.Minute {
		t.Errorf("with accounting: %v, want about 50m", got)
	}
	if got := told(nil); got > 45*time.Minute && got < 55*time.Minute {
		t.Errorf("without: %v, which nothing can have told", got)
	}
}
