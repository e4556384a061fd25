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
	Mark     int64 // of the last counter that the book has
}

// Checkpoint keeps what was learned, so that a restart goes on from there.
func (l *Loop) Checkpoint(ctx context.Context, at time.Time) error {
	if learner, ok := l.Policy.(policy.Learner); ok {
		if err := l.Recorder.SaveTable(ctx, at, learner.Entries()); err != nil {
			return fmt.Errorf("check-point the table: %w", err)
		}
	}
	// The book goes first: after a crash in between, counters come to it a
	// second time, which it notices; the other way round they would be lost.
	for _, part := range []struct {
		name string
		v    any
	}{
		{stateBook, l.Book},
		{stateLoop, loopState{Heads: l.heads, Episodes: l.episodes, LastAt: l.lastAt, Mark: l.mark}},
	} {
		blob, err := json.Marshal(part.v)
		if err != nil {
			return fmt.Errorf("check-point %s: %w", part.name, err)
		}
		if err := l.Recorder.SaveState(ctx, part.name, blob); err != nil {
			return fmt.Errorf("check-point %s: %w", part.name, err)
		}
	}
	return l.keepFallback(ctx)
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
	l.lastAt, l.mark = st.LastAt, st.Mark
	if st.Heads != nil {
		l.heads = st.Heads
	}
	maps.DeleteFunc(st.Episodes, func(_ slurm.JobID, e *episode) bool { return e == nil })
	if st.Episodes != nil {
		l.episodes = st.Episodes
	}
	return l.restoreFallback(ctx)
}

func sortedKeys[K cmp.Ordered, V any](m map[K]V) []K { return slices.Sorted(maps.Keys(m)) }
