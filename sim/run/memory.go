// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"time"

	"rifling/cycle"
	"rifling/policy"
	"rifling/profile"
)

// memory is a cycle.Recorder that keeps next to nothing: a simulation's history
// is its results, and what a policy learned stays in the policy.
type memory struct {
	cycles   int64
	deadline time.Time // the next one of a waiting job's decision; zero for none
	policy   policy.Policy
}

// Owners has none: a simulation begins with a clean Slurm.
func (m *memory) Owners(context.Context) ([]policy.Owner, error) { return nil, nil }

// Begin looks for the next deadline.
func (m *memory) Begin(_ context.Context, r policy.Record) (int64, error) {
	m.cycles++
	m.deadline = time.Time{}
	for i := range r.Plan.Decisions {
		d := r.Plan.Decisions[i].Deadline
		if d.After(r.At) && (m.deadline.IsZero() || d.Before(m.deadline)) {
			m.deadline = d
		}
	}
	return m.cycles, nil
}

// End keeps nothing.
func (m *memory) End(context.Context, int64, []policy.Result, time.Duration) error { return nil }

// SaveEpisodes keeps nothing.
func (m *memory) SaveEpisodes(context.Context, []policy.Episode) error { return nil }

// SaveGroups keeps nothing.
func (m *memory) SaveGroups(context.Context, time.Time, []profile.Group) error { return nil }

// SaveTable keeps nothing.
func (m *memory) SaveTable(context.Context, time.Time, []policy.QEntry) error { return nil }

// SaveState keeps nothing.
func (m *memory) SaveState(context.Context, string, []byte) error { return nil }

// LoadState has nothing.
func (m *memory) LoadState(context.Context, string) ([]byte, error) { return nil, nil }

// LoadTable gives a learner back what it has learned before.
func (m *memory) LoadTable(context.Context) ([]policy.QEntry, error) {
	if l, ok := m.policy.(policy.Learner); ok {
		return l.Entries(), nil
	}
	return nil, nil
}

// deadlines is a recorder that the memory looks over the shoulder of.
type deadlines struct {
	cycle.Recorder
	memory *memory
}

// Begin looks for the next deadline, and keeps the record.
func (d *deadlines) Begin(ctx context.Context, r policy.Record) (int64, error) {
	if _, err := d.memory.Begin(ctx, r); err != nil {
		return 0, err
	}
	return d.Recorder.Begin(ctx, r)
}
