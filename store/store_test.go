// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"path/filepath"
	"testing"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// t0 is slurmctld's clock at the first cycle of the tests.
var t0 = time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC)

// hostNow is the daemon host's clock, which need not agree.
var hostNow = time.Date(2026, 12, 1, 5, 0, 7, 0, time.UTC)

func testPath(t *testing.T) string {
	t.Helper()
	return filepath.Join(t.TempDir(), "rifling.db")
}

func openTest(t *testing.T, path string) *Store {
	t.Helper()
	s, err := Open(path, Options{Now: func() time.Time { return hostNow }})
	if err != nil {
		t.Fatalf("open: %v (hint: %s)", err, slurm.HintOf(err))
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func begin(t *testing.T, s *Store, r policy.Record) int64 {
	t.Helper()
	n, err := s.Begin(context.Background(), r)
	if err != nil {
		t.Fatalf("begin: %v", err)
	}
	return n
}

func end(t *testing.T, s *Store, cycle int64, results ...policy.Result) {
	t.Helper()
	if err := s.End(context.Background(), cycle, results, 120*time.Millisecond); err != nil {
		t.Fatalf("end: %v", err)
	}
}

// pendingJob waits since five minutes before t0.
func pendingJob(id slurm.JobID) slurm.Job {
	return slurm.Job{
		ID: id, Name: "train", User: "ada", Account: "lab", Partition: "gpu,long", QOS: "normal",
		State: slurm.State{Base: "PENDING"}, Reason: "Resources", ArrayTaskID: -1,
		SubmitTime: t0.Add(-5 * time.Minute), EligibleTime: t0.Add(-5 * time.Minute),
		StartTime: t0.Add(time.Hour), TimeLimit: 4 * time.Hour, Priority: 4000,
		MinNodes: 1, Request: slurm.GPURequest{PerJob: 8, Type: "a100"},
	}
}

func runningJob(id slurm.JobID, nodes ...string) slurm.Job {
	j := pendingJob(id)
	j.State, j.Reason = slurm.State{Base: "RUNNING"}, "None"
	j.StartTime, j.EndTime = t0.Add(-2*time.Minute), t0.Add(4*time.Hour)
	j.Nodes, j.MinNodes = nodes, len(nodes)
	return j
}

func endedJob(id slurm.JobID, run time.Duration, nodes ...string) slurm.Job {
	j := runningJob(id, nodes...)
	j.State = slurm.State{Base: "COMPLETED"}
	j.EndTime = j.StartTime.Add(run)
	return j
}

func packed(id slurm.JobID, nodes ...string) policy.Decision {
	return policy.Decision{
		JobID: id, Action: policy.Pack, State: "g0 n1 open one nic0 q2", Candidates: nodes, Target: nodes[:1],
		Reason: "the job is communication-bound (group 0); packing on 1 node is valued highest", Value: -0.02,
		Considered: []policy.Option{
			{Action: policy.Leave, Shape: "2 nodes", Value: -0.4, Visits: 3},
			{Action: policy.Pack, Nodes: nodes, Shape: "1 node", Value: -0.02, Visits: 12},
			{Action: policy.Wait, Value: -0.1, Note: "gpu03 is expected to be free in 20m"},
		},
	}
}

func exclude(id slurm.JobID, nodes ...string) policy.Change {
	offset := int64(300)
	return policy.Change{
		Kind: policy.KindSet, Why: "pack on gpu01",
		Update: slurm.Update{JobID: id, ExcludedNodes: &nodes, SiteFactor: &offset},
		Owner: policy.Owner{JobID: id, UserExclude: []string{}, SetExclude: nodes, SetSiteFactor: &offset,
			SetAt: t0, ExpiresAt: t0.Add(10 * time.Minute)},
	}
}

func record(at time.Time, jobs ...slurm.Job) policy.Record {
	return policy.Record{
		At: at, Mode: "steer", Seed: 1 << 63, Jobs: jobs, Plan: policy.Plan{Policy: "rifling", At: at},
		GPUs: 64, GPUsUsed: 40, ANPR: 0.875, ANPRGPUs: 24, Odd: map[string]int{"job without id": 2},
	}
}

func knownProfile(id slurm.JobID) profile.Profile {
	return profile.Profile{
		JobID: id, Family: "ada/lab/train/8", GPUs: 8, LogCC: -0.7, Count: 40, Var: 0.02, Level: profile.LevelFamily,
		Group: 0, CommBound: true, RunTime: 90 * time.Minute, RunTimeLevel: profile.LevelFamily,
	}
}
