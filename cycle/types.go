// SPDX-License-Identifier: Apache-2.0

// Package cycle is the loop: poll, profile, group, learn, decide, plan, apply,
// record. Once is the only scheduler there is: the daemon, a dry run, a
// simulation and a back-test all call it, with other collaborators.
package cycle

import (
	"context"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// Cluster is what the loop needs of Slurm: slurm/rest in production, a
// simulated cluster elsewhere.
type Cluster interface {
	// Snapshot returns the cluster as it is. It never returns an empty queue
	// for an answer that said "no change".
	Snapshot(ctx context.Context) (*slurm.Snapshot, error)
	// Job reads one job afresh.
	Job(ctx context.Context, id slurm.JobID) (slurm.Job, error)
	// Update writes. Errors wrap the sentinels of package slurm.
	Update(ctx context.Context, u slurm.Update) error
}

// Telemetry hands over the counters that came in.
type Telemetry interface {
	// Since returns those that came in after the one of a mark, which an
	// earlier call gave or which is 0.
	Since(ctx context.Context, mark int64) (Counters, error)
}

// Counters are a part of what came in.
type Counters struct {
	Samples []profile.Sample
	Mark    int64     // of the last of them
	More    bool      // more came in after it
	Now     time.Time // by the clock that the samples' times are read from
	// Kept says that the history has them already, and has those after a mark
	// again after a restart: a cycle need not record them.
	Kept bool
}

// Recorder keeps the history. Begin is one transaction and happens before the
// first write to Slurm.
type Recorder interface {
	Owners(ctx context.Context) ([]policy.Owner, error)
	Begin(ctx context.Context, r policy.Record) (cycle int64, err error)
	End(ctx context.Context, cycle int64, results []policy.Result, took time.Duration) error
	SaveEpisodes(ctx context.Context, eps []policy.Episode) error
	SaveGroups(ctx context.Context, at time.Time, groups []profile.Group) error
	SaveTable(ctx context.Context, at time.Time, entries []policy.QEntry) error
	// SaveState keeps a named blob (the profile book, epsilon, heads), LoadState
	// returns nil when there is none.
	SaveState(ctx context.Context, name string, blob []byte) error
	LoadState(ctx context.Context, name string) ([]byte, error)
	LoadTable(ctx context.Context) ([]policy.QEntry, error)
}
