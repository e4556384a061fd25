// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"rifling/store"
)

// How often old samples become means, and how long the store is left to others
// between two steps of that.
const (
	tidyEvery = time.Minute
	tidyPause = 50 * time.Millisecond
)

// tidy turns old samples into means until ctx ends, beside the cycles.
func (d *daemon) tidy(ctx context.Context) {
	ages := store.SampleAges{Raw: d.conf.Samples.Raw, FiveMinutes: d.conf.Samples.FiveMinutes}
	if d.conf.Retention > 0 {
		ages.Raw, ages.FiveMinutes = min(ages.Raw, d.conf.Retention), min(ages.FiveMinutes, d.conf.Retention)
	}
	tick := time.NewTicker(tidyEvery)
	defer tick.Stop()
	failing := false
	for {
		folded, err := d.store.FoldSamples(ctx, ages, tidyPause)
		switch {
		case ctx.Err() != nil:
			return
		case err != nil && !failing:
			d.log.Warn("old samples could not be folded into means, the next minute tries again", "err", err)
		case folded.Raw+folded.Fine > 0:
			d.log.Debug("old samples became means", "samples", folded.Raw, "means", folded.Fine)
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}
