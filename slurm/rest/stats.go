// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"maps"
	"time"

	"rifling/slurm"
)

// Stats counts what the client did since it was made.
type Stats struct {
	Requests  int            // HTTP requests sent, retries included
	Posts     int            // of these, changes sent to jobs
	Retries   int            // requests sent again after a failure
	BytesIn   int64          // bodies received, bytes
	BytesOut  int64          // bodies sent, bytes
	NoChange  int            // lists that slurmctld said were unchanged
	FullReads int            // lists that were read whole
	Errors    map[string]int // failed requests by kind: "auth", "busy", ...
	Latency   time.Duration  // of the last request, body included
	Reconnect int            // times that the version had to be found again
	// NewerRelease is set when Slurm is newer than the versions that this
	// program knows, so that the caller can warn once.
	NewerRelease bool
}

// Stats returns a copy of the counters.
func (c *Client) Stats() Stats {
	c.mu.Lock()
	defer c.mu.Unlock()
	s := c.stats
	s.Errors = maps.Clone(s.Errors)
	return s
}

// count changes the counters under the lock.
func (c *Client) count(f func(*Stats)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	f(&c.stats)
}

var kinds = []struct {
	err  error
	name string
}{
	{slurm.ErrAuth, "auth"},
	{slurm.ErrGone, "gone"},
	{slurm.ErrStarted, "started"},
	{slurm.ErrHeld, "held"},
	{slurm.ErrDenied, "denied"},
	{slurm.ErrBusy, "busy"},
	{slurm.ErrUnknownVersion, "version"},
	{slurm.ErrRejected, "rejected"},
	{slurm.ErrUnreachable, "unreachable"},
	{slurm.ErrUnsafe, "unsafe"},
}

// Kind names the sentinel of package slurm that err wraps in one word, for
// counters and labels; "other" for none, "" for nil.
func Kind(err error) string {
	if err == nil {
		return ""
	}
	for _, k := range kinds {
		if errors.Is(err, k.err) {
			return k.name
		}
	}
	return "other"
}
