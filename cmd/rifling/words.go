// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"rifling/cmd/internal/config"
	"rifling/cmd/internal/explain"
	"rifling/cmd/internal/wording"
	"rifling/slurm"
	"rifling/store"
)

// stateWords writes a state's code as words.
func stateWords(state string) string { return wording.State(state) }

// count writes "1 GPU", "8 GPUs".
func count(n int, one, many string) string { return wording.Count(n, one, many) }

// about writes a duration for sentences: "45 s", "12 min", "3 h 20 min", "2 d 4 h".
func about(d time.Duration) string { return wording.About(d) }

// outcomeWords says what was written and what became of it.
func outcomeWords(c store.Change) string { return wording.Outcome(c) }

// updateWords writes an update as assignments.
func updateWords(u slurm.Update) string { return wording.Update(u) }

// staleAfter is the age of the last cycle from which the daemon counts as away.
func staleAfter(cfg *config.Config) time.Duration { return explain.StaleAfter(cfg.Interval) }

// lastBeat is when the daemon was last alive, by its host's clock.
func lastBeat(c *store.Cycle) time.Time { return explain.Heartbeat(c) }
