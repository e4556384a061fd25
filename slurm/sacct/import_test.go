// SPDX-License-Identifier: Apache-2.0

package sacct

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rifling/slurm"
)

// database is an accounting database that behaves like slurmdbd: it gives what
// was eligible before the end of a window and had not ended before its start.
type database struct {
	runs    []slurm.PastJob
	now     time.Time
	most    time.Duration // wider ranges are refused; 0: none is
	dieAt   int           // of this many more runs; 0: it lives
	windows []Span
}

var errDied = errors.New("killed")

func (d *database) PastJobs(_ context.Context, from, to time.Time, sink slurm.PastSink) error {
	d.windows = append(d.windows, Span{from, to})
	if d.most > 0 && to.Sub(from) > d.most {
		return fmt.Errorf("slurmdbd: %w", slurm.ErrTooWide)
	}
	for _, j := range d.runs {
		if j.Submit.After(d.now) || !j.Eligible.Before(to) || j.Final() && !j.End.After(d.now) && j.End.Before(from) {
			continue
		}
		if j.End.After(d.now) {
			j.End, j.State.Base = time.Time{}, "RUNNING"
		}
		if d.dieAt > 0 {
			if d.dieAt--; d.dieAt == 0 {
				return errDied
			}
		}
		if err := sink.Run(&j); err != nil {
			return err
		}
	}
	return nil
}

// shelf keeps runs in memory; a transaction that fails leaves nothing.
type shelf struct {
	runs  map[string]slurm.PastJob
	spans []Span
	dieAt int // before this transaction
}

func key(j *slurm.PastJob) string { return fmt.Sprint(j.Cluster, j.ID, j.Submit.Unix()) }

func (s *shelf) SavePast(_ context.Context, runs []slurm.PastJob, from, to time.Time) (fresh, changed int, err error) {
	if s.dieAt > 0 {
		if s.dieAt--; s.dieAt == 0 {
			return 0, 0, errDied
		}
	}
	for i := range runs {
		old, ok := s.runs[key(&runs[i])]
		switch {
		case !ok:
			fresh++
		case !old.End.Equal(runs[i].End):
			changed++
		}
		s.runs[key(&runs[i])] = runs[i]
	}
	if from.Before(to) {
		s.spans = append(s.spans, Span{from, to})
	}
	return fresh, changed, nil
}

func TestImportLosesAndDoublesNothing(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		begin := noon
		whole := 60 * 24 * time.Hour
		var runs []slurm.PastJob
		for i := range rapid.IntRange(0, 60).Draw(rt, "runs") {
			j := trained(slurm.JobID(i + 1))
			j.Submit = begin.Add(time.Duration(rapid.Int64Range(0, int64(whole)).Draw(rt, "submit"))).Truncate(time.Second)
			j.Eligible = j.Submit
			j.Start = j.Submit.Add(time.Hour)
			j.End = j.Start.Add(time.Duration(rapid.Int64Range(1, int64(20*24*time.Hour)).Draw(rt, "took"))).Truncate(time.Second)
			runs = append(runs, j)
		}
		d := &database{runs: runs, now: begin.Add(whole / 2), most: time.Duration(rapid.IntRange(0, 4).Draw(rt, "most")) * 24 * time.Hour}
		s := &shelf{runs: map[string]slurm.PastJob{}}
		importAll := func() (Summary, error) {
			im := Import{
				Source: d, Keeper: s, From: begin, To: d.now, Known: s.spans,
				Rows: rapid.IntRange(1, 50).Draw(rt, "rows"), Now: func() time.Time { return d.now },
			}
			return im.Run(context.Background())
		}
		// It is killed again and again, while time goes on.
		for range rapid.IntRange(0, 6).Draw(rt, "deaths") {
			d.dieAt, s.dieAt = rapid.IntRange(0, 30).Draw(rt, "read"), rapid.IntRange(0, 5).Draw(rt, "saved")
			if _, err := importAll(); err != nil && !errors.Is(err, errDied) {
				rt.Fatal(err)
			}
			d.now = d.now.Add(time.Duration(rapid.IntRange(0, 100).Draw(rt, "hours")) * time.Hour)
		}
		d.dieAt, s.dieAt = 0, 0
		d.now = begin.Add(whole + 30*24*time.Hour)
		if _, err := importAll(); err != nil {
			rt.Fatal(err)
		}
		if len(s.runs) != len(runs) {
			rt.Fatalf("%d runs are stored of %d", len(s.runs), len(runs))
		}
		for i := range runs {
			if got := s.runs[key(&runs[i])]; !got.End.Equal(runs[i].End) || got.State.Base != "COMPLETED" {
				rt.Fatalf("run %d: stored as %s, ended %s, in truth %s", runs[i].ID, got.State.Base, got.End, runs[i].End)
			}
		}
		d.windows = nil
		again, err := importAll()
		if err != nil || again.New != 0 || again.Changed != 0 {
			rt.Fatalf("a repeated import: %v, %+v", err, again)
		}
		for _, w := range d.windows {
			if w.From.Before(d.now.Add(-Settle)) {
				rt.Fatalf("a repeated import read from %s on, though all but the last day was known", w.From)
			}
		}
	})
}

func TestWindowsFollowTheRows(t *testing.T) {
	// Two busy months among quiet ones.
	d := &database{now: noon.Add(200 * 24 * time.Hour)}
	for i := range 8640 {
		j := trained(slurm.JobID(i + 1))
		j.Submit = noon.Add(100*24*time.Hour + time.Duration(i)*10*time.Minute)
		j.Eligible, j.Start, j.End = j.Submit, j.Submit, j.Submit.Add(time.Minute)
		d.runs = append(d.runs, j)
	}
	s := &shelf{runs: map[string]slurm.PastJob{}}
	im := Import{Source: d, Keeper: s, From: noon, To: d.now, Rows: 1000, Now: func() time.Time { return d.now }}
	sum, err := im.Run(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	if sum.New != 8640 || sum.Done != sum.Whole || sum.Done != 200*24*time.Hour {
		t.Errorf("%+v", sum)
	}
	if sum.Windows < 10 || sum.Windows > 25 {
		t.Errorf("%d windows for 200 days", sum.Windows)
	}
	wide := 0
	for _, w := range d.windows { // 144 runs a day
		if w.From.After(noon.Add(100*24*time.Hour)) && w.To.Before(noon.Add(160*24*time.Hour)) && w.To.Sub(w.From) > 10*24*time.Hour {
			wide++
		}
	}
	if wide > 1 {
		t.Errorf("%d windows of the busy months are far wider than 1,000 runs", wide)
	}
}

func TestSubtract(t *testing.T) {
	at := func(h int) time.Time { return noon.Add(time.Duration(h) * time.Hour) }
	rapid.Check(t, func(rt *rapid.T) {
		var others []Span
		for range rapid.IntRange(0, 5).Draw(rt, "others") {
			others = append(others, Span{at(rapid.IntRange(0, 20).Draw(rt, "from")), at(rapid.IntRange(0, 20).Draw(rt, "to"))})
		}
		left := subtract(Span{at(3), at(15)}, others)
		for h := range 20 {
			mid := at(h).Add(30 * time.Minute)
			within := func(spans []Span) (n int) {
				for _, s := range spans {
					if s.From.Before(mid) && mid.Before(s.To) {
						n++
					}
				}
				return n
			}
			want := 0
			if h >= 3 && h < 15 && within(others) == 0 {
				want = 1
			}
			if within(left) != want {
				rt.Fatalf("hour %d is %d times in %v, want %d", h, within(left), left, want)
			}
		}
	})
}
