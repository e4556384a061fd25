// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"rifling/profile"
	"rifling/sim/trace"
	"rifling/slurm"
)

// runTimeBatch is how long jobs wait for the next cycle of prediction: those
// submitted within it are predicted from what had ended when the first came.
const runTimeBatch = 10 * time.Minute

// timeQuantiles are those of profile.Profile: RunTimeLow, RunTime, RunTimeHigh.
var timeQuantiles = [3]float64{0.1, 0.5, 0.9}

// traceRun is one job of a trace.
type traceRun struct {
	slurm.PastJob
	key [2]string // user, and the name or, where the trace has none, the size
}

// predictor answers for a batch of jobs, of which it is told nothing but what
// a user says at submission, and learns from ended ones.
type predictor interface {
	predict(now time.Time, batch []traceRun) [][3]time.Duration
	learn(ended []traceRun)
}

// runTimes compares predictions on each real trace with users: learned on the
// first half, tested on the later.
func runTimes(ctx context.Context, out io.Writer) error {
	traces, err := tracesWithUsers(filepath.Join(sharedDir(), "traces"))
	if err != nil {
		return err
	}
	if len(traces) == 0 {
		fmt.Fprintln(out, "skipped: no trace with users and time limits; set RIFLING_SHARED to the folder that holds traces/")
		return nil
	}
	for _, name := range slices.Sorted(mapKeys(traces)) {
		if err := runTimesOf(ctx, out, name, traces[name]); err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
	}
	return nil
}

func mapKeys[K comparable, V any](m map[K]V) func(func(K) bool) {
	return func(yield func(K) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

func runTimesOf(ctx context.Context, out io.Writer, name string, runs []traceRun) error {
	half := len(runs) / 2
	window := map[int]int{}
	for _, fields := range []int{2, 1} {
		window[fields] = tuneWindow(runs[:half], fields)
	}
	fmt.Fprintf(out, "run times on %s: %d jobs of %d users, learned on the first %d, tested on the rest\n",
		name, len(runs), users(runs), half)
	fmt.Fprintf(out, "pinball loss in seconds: mean over the quantiles 0.1, 0.5, 0.9, and at 0.5 alone; Spearman of the median\n")
	fmt.Fprintf(out, "%-28s %26s   %26s\n", "", "frozen at the half", "learning on")
	fmt.Fprintf(out, "%-28s %8s %8s %8s   %8s %8s %8s\n", "prediction", "pinball", "at 0.5", "rank", "pinball", "at 0.5", "rank")
	rows := []struct {
		name string
		make func() predictor
	}{
		{"time limit", func() predictor { return limitOnly{} }},
		{fmt.Sprintf("user median, newest %d", window[1]), func() predictor { return newMedians(1, window[1]) }},
		{fmt.Sprintf("user+name median, newest %d", window[2]), func() predictor { return newMedians(2, window[2]) }},
		{"rifling", func() predictor { return newOurs() }},
	}
	scores := make([][2]score, len(rows))
	for i, r := range rows {
		for online := range 2 {
			s, err := replay(ctx, r.make(), runs, half, online == 1)
			if err != nil {
				return err
			}
			scores[i][online] = s
		}
		f, o := scores[i][0], scores[i][1]
		fmt.Fprintf(out, "%-28s %8.0f %8.0f %8.3f   %8.0f %8.0f %8.3f\n", r.name,
			f.pinball, f.median, f.rank, o.pinball, o.median, o.rank)
	}
	ours, rest := scores[len(rows)-1], scores[:len(rows)-1]
	for online, how := range []string{"frozen", "online"} {
		pinball, median, rank := math.Inf(1), math.Inf(1), math.Inf(-1)
		for _, s := range rest {
			pinball, median, rank = min(pinball, s[online].pinball), min(median, s[online].median), max(rank, s[online].rank)
		}
		o := ours[online]
		fmt.Fprintf(out, "bar: runtime-pinball-%s value=%.0fs target=<%.0fs %s\n", how, o.pinball, pinball, verdict(o.pinball < pinball))
		fmt.Fprintf(out, "bar: runtime-median-%s value=%.0fs target=<%.0fs %s\n", how, o.median, median, verdict(o.median < median))
		fmt.Fprintf(out, "bar: runtime-rank-%s value=%.3f target=>%.3f %s\n", how, o.rank, rank, verdict(o.rank > rank))
	}
	return nil
}

// score is how good predictions were.
type score struct {
	pinball, median float64 // seconds
	rank            float64
}

// replay walks through the runs in the order of submission and scores the
// predictions from the given one on. A run teaches once it has ended; with
// online false none that ends after that point does.
func replay(ctx context.Context, p predictor, runs []traceRun, from int, online bool) (score, error) {
	ends := slices.Clone(runs)
	slices.SortStableFunc(ends, func(a, b traceRun) int { return a.End.Compare(b.End) })
	var s score
	var predicted, took []float64
	for i := 0; i < len(runs); {
		if err := ctx.Err(); err != nil {
			return s, err
		}
		first := runs[i].Submit
		n := i
		for n < len(runs) && runs[n].Submit.Sub(first) < runTimeBatch && (n < from) == (i < from) {
			n++
		}
		ended, _ := slices.BinarySearchFunc(ends, first, func(r traceRun, t time.Time) int {
			return cmp.Or(r.End.Compare(t), -1) // what ends at that instant has ended
		})
		if online || i <= from {
			p.learn(ends[:ended])
			ends = ends[ended:]
		}
		if i >= from {
			for k, q := range p.predict(first, runs[i:n]) {
				t := runs[i+k].Elapsed.Seconds()
				for m, at := range timeQuantiles {
					loss := pinball(t-q[m].Seconds(), at)
					s.pinball += loss / float64(len(timeQuantiles))
					if at == 0.5 {
						s.median += loss
					}
				}
				predicted, took = append(predicted, q[1].Seconds()), append(took, t)
			}
		}
		i = n
	}
	s.pinball /= float64(len(took))
	s.median /= float64(len(took))
	s.rank = spearman(predicted, took)
	return s, nil
}

// pinball is the loss of a prediction of the quantile q that was off by d,
// what was less what was predicted.
func pinball(d, q float64) float64 { return max(q*d, (q-1)*d) }

func spearman(x, y []float64) float64 { return pearson(rankOf(x), rankOf(y)) }

// ours is the profile book of the daemon.
type ours struct{ book *profile.Book }

func newOurs() ours { return ours{profile.NewBook(profile.DefaultOptions())} }

func (o ours) learn(ended []traceRun) {
	past := make([]slurm.PastJob, len(ended))
	for i := range ended {
		past[i] = ended[i].PastJob
	}
	o.book.LearnPast(past)
}

func (o ours) predict(now time.Time, batch []traceRun) [][3]time.Duration {
	s := &slurm.Snapshot{TakenAt: now}
	for i := range batch {
		r := &batch[i]
		s.Jobs = append(s.Jobs, slurm.Job{
			ID: r.ID, Name: r.Name, User: r.User, Account: r.Account, State: slurm.State{Base: "PENDING"},
			SubmitTime: r.Submit, TimeLimit: r.TimeLimit, Unlimited: r.Unlimited, MinNodes: 1,
			Request: slurm.GPURequest{PerJob: r.GPUs},
		})
	}
	o.book.Track(&slurm.Snapshot{TakenAt: now})
	known := o.book.Profiles(s)
	out := make([][3]time.Duration, len(batch))
	for i := range batch {
		p := known[batch[i].ID]
		out[i] = [3]time.Duration{p.RunTimeLow, p.RunTime, p.RunTimeHigh}
		if p.RunTimeLevel == profile.LevelNone {
			out[i] = limitOnly{}.predict(now, batch[i:i+1])[0]
		}
	}
	return out
}

// limitOnly takes the user's time limit for the run time.
type limitOnly struct{}

func (limitOnly) learn([]traceRun) {}

func (limitOnly) predict(_ time.Time, batch []traceRun) [][3]time.Duration {
	out := make([][3]time.Duration, len(batch))
	for i := range batch {
		l := batch[i].TimeLimit
		out[i] = [3]time.Duration{l, l, l}
	}
	return out
}

// medians takes the quantiles of the newest runs of the same user and name, or
// of the same user; of somebody unknown, those of all; never above the limit.
type medians struct {
	fields, window int
	runs           map[[2]string][]time.Duration
}

func newMedians(fields, window int) *medians {
	return &medians{fields, window, map[[2]string][]time.Duration{}}
}

// keys are the keys of a run, nearest first.
func (m *medians) keys(r *traceRun) [][2]string {
	user := [2]string{r.key[0]}
	if m.fields == 1 {
		return [][2]string{user, {}}
	}
	return [][2]string{r.key, user, {}}
}

func (m *medians) learn(ended []traceRun) {
	for i := range ended {
		if r := &ended[i]; r.State.Base != "FAILED" {
			for _, k := range m.keys(r) {
				m.runs[k] = append(m.runs[k], min(r.Elapsed, r.TimeLimit))
				if n := len(m.runs[k]); n >= 2*m.window {
					m.runs[k] = slices.Clone(m.runs[k][n-m.window:])
				}
			}
		}
	}
}

func (m *medians) predict(_ time.Time, batch []traceRun) [][3]time.Duration {
	out := limitOnly{}.predict(time.Time{}, batch)
	sorted := map[[2]string][]time.Duration{}
	for i := range batch {
		for _, k := range m.keys(&batch[i]) {
			t, ok := sorted[k]
			if !ok {
				t = m.runs[k][max(0, len(m.runs[k])-m.window):]
				t = slices.Sorted(slices.Values(t))
				sorted[k] = t
			}
			if len(t) == 0 {
				continue
			}
			for n, q := range timeQuantiles {
				at := int(math.Ceil(q*float64(len(t)))) - 1
				out[i][n] = min(t[max(0, at)], batch[i].TimeLimit)
			}
			break
		}
	}
	return out
}

// tuneWindow chooses how many of the newest runs the medians take, by the
// pinball loss on the later half of what is given.
func tuneWindow(runs []traceRun, fields int) int {
	best, least := 0, math.Inf(1)
	for _, w := range []int{8, 32, 128, 512, 2048, 8192} {
		s, err := replay(context.Background(), newMedians(fields, w), runs, len(runs)/2, true)
		if err == nil && s.pinball < least {
			best, least = w, s.pinball
		}
	}
	return best
}

func users(runs []traceRun) int {
	seen := map[string]bool{}
	for i := range runs {
		seen[runs[i].User] = true
	}
	return len(seen)
}

// tracesWithUsers reads every trace under dir that names two users or more and
// their time limits.
func tracesWithUsers(dir string) (map[string][]traceRun, error) {
	out := map[string][]traceRun{}
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		runs, err := readRuns(path)
		if errors.Is(err, trace.ErrFormat) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		if users(runs) > 1 {
			out[strings.TrimPrefix(path, dir+string(filepath.Separator))] = runs
		}
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return out, err
}

func readRuns(path string) ([]traceRun, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	r, err := trace.NewReader(f, "", trace.Options{})
	if err != nil {
		return nil, err
	}
	zero := time.Unix(1e9, 0).UTC()
	var runs []traceRun
	for {
		j, err := r.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if j.User == "" || j.Limit <= 0 || j.GPUs < 1 {
			continue
		}
		p := traceRun{PastJob: slurm.PastJob{
			ID: slurm.JobID(len(runs) + 1), User: j.User, Account: j.Group, Name: j.Name, GPUs: j.GPUs,
			Submit: zero.Add(j.Submit), TimeLimit: j.Limit, Elapsed: j.Duration, State: slurm.State{Base: "COMPLETED"},
		}, key: [2]string{j.User, j.Name}}
		if j.Name == "" {
			p.key[1] = fmt.Sprint(j.GPUs)
		}
		p.Start = p.Submit.Add(max(0, j.Wait))
		p.End = p.Start.Add(j.Duration)
		switch {
		case j.Duration >= j.Limit:
			p.State.Base = "TIMEOUT"
		case !j.Completed:
			p.State.Base = "FAILED"
		}
		runs = append(runs, p)
	}
	slices.SortStableFunc(runs, func(a, b traceRun) int { return a.Submit.Compare(b.Submit) })
	return runs, nil
}
