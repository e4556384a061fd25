// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"rifling/slurm"
)

// checkpointVersion is raised when a check-point can no longer be read as the
// one before; what it holds is then learnt anew.
const checkpointVersion = 1

type checkpoint struct {
	Version  int
	Now      time.Time
	Grouped  time.Time
	Groups   []Group
	Former   []former
	Auto     autoK
	Families []*family
	Runs     []*run
}

// MarshalJSON writes a check-point of the book, without its options. Intervals
// that still wait for a node's sample are left out.
func (b *Book) MarshalJSON() ([]byte, error) {
	return json.Marshal(checkpoint{
		Version:  checkpointVersion,
		Now:      b.now,
		Grouped:  b.grouped,
		Groups:   b.groups,
		Former:   b.former,
		Auto:     b.auto,
		Families: b.sorted(),
		Runs: slices.SortedFunc(maps.Values(b.runs), func(x, y *run) int {
			return cmp.Compare(x.JobID, y.JobID)
		}),
	})
}

// UnmarshalJSON reads a check-point into a book made by NewBook, whose options
// stay. On an error the book is as it was.
func (b *Book) UnmarshalJSON(data []byte) error {
	var c checkpoint
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("read profile check-point: %w", err)
	}
	if c.Version != checkpointVersion {
		return fmt.Errorf("read profile check-point: version %d, want %d", c.Version, checkpointVersion)
	}
	next := book{
		now: c.Now, groups: c.Groups, grouped: c.Grouped, former: c.Former, auto: c.Auto,
		runs:     make(map[slurm.JobID]*run, len(c.Runs)),
		families: make(map[identity]*family, len(c.Families)),
	}
	for _, f := range c.Families {
		if err := f.check(); err != nil {
			return fmt.Errorf("read profile check-point: %w", err)
		}
		next.families[f.ID] = f
		next.kept += len(f.Times)
	}
	for _, r := range c.Runs {
		if err := r.check(); err != nil {
			return fmt.Errorf("read profile check-point: %w", err)
		}
		next.runs[r.JobID] = r
	}
	b.book, b.lookup = next, lookup{}
	b.forget()
	return nil
}

// check refuses what no book can have written: values that later steps divide
// by or index with.
func (f *family) check() error {
	switch {
	case f == nil:
		return fmt.Errorf("a family is null")
	case f.ID.GPUs < 1:
		return fmt.Errorf("family %s has no GPUs", f.ID)
	case f.CC.Packed.W < 0 || f.CC.Spread.W < 0:
		return fmt.Errorf("family %s has a negative weight", f.ID)
	case slices.ContainsFunc(f.Times, func(t runTime) bool { return t.Runs <= 0 || t.Took < 0 }):
		return fmt.Errorf("family %s has a run time without a weight or a length", f.ID)
	}
	return nil
}

func (r *run) check() error {
	switch {
	case r == nil:
		return fmt.Errorf("a run is null")
	case r.Stride < 1 || r.Width < 0 || r.Seen < 0:
		return fmt.Errorf("run of job %d has a stride of %d, intervals of %v, %d of them", r.JobID, r.Stride, r.Width, r.Seen)
	case r.CC.Packed.W < 0 || r.CC.Spread.W < 0:
		return fmt.Errorf("run of job %d has a negative weight", r.JobID)
	}
	return nil
}
