// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"
	"time"
)

// Taken tells what came of the samples of another source.
type Taken struct {
	Accepted   int            // new, and kept
	Duplicates int            // came before
	Covered    int            // of nodes whose collector says the same, and better
	Rejected   map[string]int // left out, by what was wrong with them
}

// Add takes samples that do not come from a collector over the network but from
// another source beside the daemon. They are kept and counted as those of
// collectors are, each once by its node, boot and number. Those of a node whose
// own collector sent something not longer than hold before now are left out, so
// that nothing counts twice.
func (r *Receiver) Add(samples []Sample, hold time.Duration) (Taken, error) {
	own := map[string]bool{}
	for i := range samples {
		own[samples[i].Boot] = true
	}
	heard := r.heard(own)
	since := r.opts.Now().Add(-hold)
	rest := slices.DeleteFunc(slices.Clone(samples), func(s Sample) bool { return heard[s.Node].After(since) })
	t := Taken{Covered: len(samples) - len(rest)}
	if len(rest) == 0 {
		return t, nil
	}
	a, err := r.take(&Batch{Version: BatchVersion, Samples: rest})
	if err != nil {
		return t, err
	}
	t.Accepted, t.Duplicates, t.Rejected = a.Accepted, a.Duplicates, a.Reasons
	return t, nil
}

// heard returns the time of each node's newest sample of other runs than those.
func (r *Receiver) heard(own map[string]bool) map[string]time.Time {
	r.commit <- struct{}{}
	defer func() { <-r.commit }()
	out := make(map[string]time.Time, len(r.known))
	for node, s := range r.known {
		for _, run := range s.Runs {
			if !own[run.Boot] && run.At.After(out[node]) {
				out[node] = run.At
			}
		}
	}
	return out
}
