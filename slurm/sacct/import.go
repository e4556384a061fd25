// SPDX-License-Identifier: Apache-2.0

package sacct

import (
	"context"
	"errors"
	"fmt"
	"time"

	"rifling/slurm"
)

// Source gives the runs that waited or ran within a range of time.
type Source interface {
	PastJobs(ctx context.Context, from, to time.Time, sink slurm.PastSink) error
}

// Keeper stores runs. SavePast is one transaction: it stores the runs, each
// once however often it comes, and notes the range that has now been read
// whole, if there is one (to is after from). It returns how many runs were new
// and how many had changed.
type Keeper interface {
	SavePast(ctx context.Context, runs []slurm.PastJob, from, to time.Time) (fresh, changed int, err error)
}

const (
	// Settle is how long before the moment of reading accounting may still
	// change: slurmctld hands over ends late when slurmdbd was away. That part
	// of a range is never taken as read.
	Settle = 24 * time.Hour

	firstWindow = 24 * time.Hour
	minWindow   = 10 * time.Minute
	maxWindow   = 31 * 24 * time.Hour
	chunk       = 4000 // runs of one transaction
)

// Span is a range of time, from inclusive.
type Span struct{ From, To time.Time }

// Import reads a range of accounting window by window.
type Import struct {
	Source Source
	Keeper Keeper
	From   time.Time
	To     time.Time
	Known  []Span // read whole by earlier imports; left out
	// Rows is how many runs a window should have; 0 means 20,000. A window
	// that has more is no harm: it is stored in parts.
	Rows int
	// Now is the host's clock.
	Now func() time.Time
	// Progress is told after each transaction; nil for nobody.
	Progress func(Summary)
}

// Summary is how far an import has come.
type Summary struct {
	Rows, New, Changed int           // runs read, those not known before, those that had changed
	Windows            int           // read whole
	Done, Whole        time.Duration // of the range of time to read
	Odd                map[string]int
	Where              map[string]string // the first place of each
}

// Run reads what is not known of the range yet, oldest first. Whatever ends it
// (an error, a signal, kill -9), the next call goes on where it stopped: a
// window counts as read in the transaction that stores the last of it.
func (im *Import) Run(ctx context.Context) (Summary, error) {
	s := Summary{Odd: map[string]int{}, Where: map[string]string{}}
	todo := subtract(Span{im.From, im.To}, im.Known)
	for _, t := range todo {
		s.Whole += t.To.Sub(t.From)
	}
	width := firstWindow
	for _, t := range todo {
		for at := t.From; at.Before(t.To); {
			w := Span{at, at.Add(width)}
			if w.To.After(t.To) {
				w.To = t.To
			}
			before := s.Rows
			err := im.window(ctx, w, &s)
			if tooWide(ctx, err) && w.To.Sub(w.From) > minWindow {
				width = max(minWindow, w.To.Sub(w.From)/4)
				continue
			}
			if err != nil {
				return s, fmt.Errorf("accounting of %s to %s: %w", stamp(w.From), stamp(w.To), err)
			}
			s.Windows++
			s.Done += w.To.Sub(w.From)
			im.tell(s)
			width = im.next(w.To.Sub(w.From), s.Rows-before)
			at = w.To
		}
	}
	return s, nil
}

// window reads one window and stores it.
func (im *Import) window(ctx context.Context, w Span, s *Summary) error {
	read := w
	if last := im.Now().Add(-Settle); read.To.After(last) {
		read.To = last
	}
	var runs []slurm.PastJob
	save := func(from, to time.Time) error {
		fresh, changed, err := im.Keeper.SavePast(ctx, runs, from, to)
		s.Rows, s.New, s.Changed = s.Rows+len(runs), s.New+fresh, s.Changed+changed
		runs = runs[:0]
		return err
	}
	err := im.Source.PastJobs(ctx, w.From, w.To, slurm.PastSink{
		Run: func(j *slurm.PastJob) error {
			runs = append(runs, *j)
			if len(runs) < chunk {
				return nil
			}
			err := save(time.Time{}, time.Time{})
			im.tell(*s)
			return err
		},
		Odd: s.odd,
	})
	if err != nil {
		return err
	}
	if !read.From.Before(read.To) {
		return save(time.Time{}, time.Time{})
	}
	return save(read.From, read.To)
}

// ReadAll stores the runs of a reading that has no windows, such as a file.
func ReadAll(ctx context.Context, k Keeper, read func(slurm.PastSink) error, progress func(Summary)) (Summary, error) {
	im := Import{Source: source(func(sink slurm.PastSink) error { return read(sink) }), Keeper: k, Progress: progress, Now: time.Now}
	s := Summary{Odd: map[string]int{}, Where: map[string]string{}}
	err := im.window(ctx, Span{}, &s)
	return s, err
}

type source func(slurm.PastSink) error

// PastJobs reads all there is.
func (f source) PastJobs(_ context.Context, _, _ time.Time, sink slurm.PastSink) error {
	return f(sink)
}

func (s *Summary) odd(reason, where string) {
	if s.Odd[reason]++; s.Odd[reason] == 1 {
		s.Where[reason] = where
	}
}

func (im *Import) tell(s Summary) {
	if im.Progress != nil {
		im.Progress(s)
	}
}

// next is the width of the window after one that had so many rows.
func (im *Import) next(width time.Duration, rows int) time.Duration {
	want := im.Rows
	if want <= 0 {
		want = 20_000
	}
	factor := 4.0
	if rows > 0 {
		factor = min(4, max(0.25, float64(want)/float64(rows)))
	}
	return min(maxWindow, max(minWindow, time.Duration(float64(width)*factor)))
}

// tooWide reports whether a narrower window may help.
func tooWide(ctx context.Context, err error) bool {
	return errors.Is(err, slurm.ErrTooWide) && ctx.Err() == nil
}

// subtract returns what is left of the span without the others, in order.
func subtract(s Span, others []Span) []Span {
	left := []Span{s}
	for _, o := range others {
		if !o.From.Before(o.To) {
			continue
		}
		var next []Span
		for _, l := range left {
			if !o.From.Before(l.To) || !l.From.Before(o.To) {
				next = append(next, l)
				continue
			}
			if l.From.Before(o.From) {
				next = append(next, Span{l.From, o.From})
			}
			if o.To.Before(l.To) {
				next = append(next, Span{o.To, l.To})
			}
		}
		left = next
	}
	if len(left) == 1 && !left[0].From.Before(left[0].To) {
		return nil
	}
	return left
}

func stamp(t time.Time) string { return t.Format("2006-01-02T15:04:05") }
