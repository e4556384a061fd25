// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"rifling/policy"
	"rifling/slurm"
)

// The names under which a loop keeps its state.
const (
	stateBook = "book"
	stateLoop = "loop"
)

type loopState struct {
	Heads    map[slurm.JobID]time.Time
	Episodes map[slurm.JobID]*episode
	LastAt   time.Time
}

// Checkpoint keeps what was learned, so that a restart goes on from there.
func (l *Loop) Checkpoint(ctx context.Context, at time.Time) error {
	if learner, ok := l.Policy.(policy.Learner); ok {
		if err := l.Recorder.SaveTable(ctx, at, learner.Entries()); err != nil {
			return fmt.Errorf("check-point the table: %w", err)
		}
	}
	for name, v := range map[string]any{
		stateBook: l.Book,
		stateLoop: loopState{Heads: l.heads, Episodes: l.episodes, LastAt: l.lastAt},
	} {
		blob, err := json.Marshal(v)
		if err != nil {
			return fmt.Errorf("check-point %s: %w", name, err)
		}
		if err := l.Recorder.SaveState(ctx, name, blob); err != nil {
			return fmt.Errorf("check-point %s: %w", name, err)
		}
	}
	return nil
}

// restore reads the last check-point. A part that cannot be read, e.g. of an
// older version, is left out with a line in the log: learning starts anew, and
// that does no job harm.
func (l *Loop) restore(ctx context.Context) error {
	if learner, ok := l.Policy.(policy.Learner); ok {
		entries, err := l.Recorder.LoadTable(ctx)
		if err != nil {
			return fmt.Errorf("restore the table: %w", err)
		}
		learner.Restore(entries)
	}
	var st loopState
	for name, into := range map[string]any{stateBook: l.Book, stateLoop: &st} {
		blob, err := l.Recorder.LoadState(ctx, name)
		if err != nil {
			return fmt.Errorf("restore %s: %w", name, err)
		}
		if blob == nil {
			continue
		}
		if err := json.Unmarshal(blob, into); err != nil {
			l.Log.Warn("check-point cannot be read, starting that part anew", "part", name, "err", err)
		}
	}
	l.lastAt = st.LastAt
	if st.Heads != nil {
		l.heads = st.Heads
	}
	maps.DeleteFunc(st.Episodes, func(_ slurm.JobID, e *episode) bool { return e == nil })
	if st.Episodes != nil {
		l.episodes = st.Episodes
	}
	return nil
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
