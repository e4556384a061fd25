// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
)

// past is a run of newJob's work as accounting has it.
func past(id slurm.JobID, submit time.Time, took time.Duration) slurm.PastJob {
	return slurm.PastJob{
		ID: id, Name: "resnet50", User: "ann", Account: "vision", Command: "sbatch -p gpu --gpus=4 /home/ann/train.sh --lr 0.1",
		State: slurm.State{Base: "COMPLETED"}, Submit: submit, Start: submit, End: submit.Add(took), Elapsed: took,
		TimeLimit: 4 * time.Hour, GPUs: 4, GPUType: "a100", GPUUtil: -1, GPUMemory: -1,
	}
}

func TestScriptOf(t *testing.T) {
	tests := map[string]string{
		"":                            "",
		"/home/ann/train.sh --lr 0.1": "train.sh",
		"sbatch train.sh 3":           "train.sh",
		"/usr/bin/sbatch -p gpu -n4 -N 2 train.sh":                  "train.sh",
		"sbatch --gres gpu:4 --exclusive --mem=4G run/train.sh a b": "train.sh",
		"sbatch -H -W train.sh":                                     "train.sh",
		"sbatch --wrap=hostname":                                    "",
		"sbatch --gres":                                             "",
		"srun --mpi=pmix ./a.out":                                   "a.out",
	}
	for in, want := range tests {
		if got := scriptOf(in); got != want {
			t.Errorf("scriptOf(%q) = %q, want %q", in, got, want)
		}
	}
}

func TestAccountingTeachesRunTimes(t *testing.T) {
	with := func(p slurm.PastJob, change func(*slurm.PastJob)) slurm.PastJob { change(&p); return p }
	long := past(1, t0, time.Hour)
	tests := map[string]struct {
		p    slurm.PastJob
		want time.Duration
	}{
		"it ran to its end":                   {long, time.Hour},
		"it ran to its limit, and a bit more": {with(past(1, t0, 4*time.Hour+30*time.Second), func(p *slurm.PastJob) { p.State.Base = "TIMEOUT" }), 4 * time.Hour},
		"it failed":                           {with(long, func(p *slurm.PastJob) { p.State.Base = "FAILED" }), 0},
		"it was cancelled":                    {with(long, func(p *slurm.PastJob) { p.State.Base = "CANCELLED" }), 0},
		"it was suspended":                    {with(long, func(p *slurm.PastJob) { p.Suspended = time.Minute }), 0},
		"it runs":                             {with(long, func(p *slurm.PastJob) { p.End, p.State.Base = time.Time{}, "RUNNING" }), 0},
		"it never started":                    {with(long, func(p *slurm.PastJob) { p.Start = time.Time{} }), 0},
		"it had no GPU":                       {with(long, func(p *slurm.PastJob) { p.GPUs = 0 }), 0},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.LearnPast([]slurm.PastJob{tt.p})
			now := t0.Add(10 * time.Hour)
			b.Track(snapshot(now))
			if p := b.Profiles(snapshot(now, newJob(9)))[9]; p.RunTime != tt.want {
				t.Errorf("run time %v at %q, want %v", p.RunTime, p.RunTimeLevel, tt.want)
			}
		})
	}
}

func TestAccountingIsLearnedOnce(t *testing.T) {
	b := newBook(t)
	var rows []slurm.PastJob
	for i := range 3 * keepTimes {
		rows = append(rows, past(slurm.JobID(i+1), t0.Add(time.Duration(i)*time.Minute), time.Duration(1+i%50)*time.Minute))
	}
	rows = append(rows, past(1, t0.Add(90*24*time.Hour), time.Hour)) // requeued: another run of the same job
	slices.SortFunc(rows, func(a, b slurm.PastJob) int { return a.End.Compare(b.End) })
	b.LearnPast(rows)
	first, err := json.Marshal(b.sorted())
	if err != nil {
		t.Fatal(err)
	}
	b.LearnPast(rows)
	b.LearnPast(rows[100:200])
	if again, _ := json.Marshal(b.sorted()); string(again) != string(first) {
		t.Error("reading the same accounting again changed what was learned")
	}
	// slurmctld still has the last one.
	j := newJob(1).on(t0.Add(90*24*time.Hour), 4, "n1").ended("COMPLETED", time.Hour)
	n := len(b.sorted()[0].Times)
	b.Track(snapshot(j.EndTime, j))
	if got := len(b.sorted()[0].Times); got != n {
		t.Errorf("%d run times, want %d: a run counts twice", got, n)
	}
}

// However many runs a family has, it keeps few of them, and its quantiles stay.
func TestThinnedRunTimesKeepTheirQuantiles(t *testing.T) {
	b := newBook(t)
	b.opts.HalfLife = 200 * 365 * 24 * time.Hour // no run ages
	rng := rand.New(rand.NewPCG(1, 2))
	var all []float64
	var rows []slurm.PastJob
	for i := range 20000 {
		took := time.Duration(math.Exp(6+1.5*rng.NormFloat64())) * time.Second
		took = min(took, 4*time.Hour)
		all = append(all, took.Seconds())
		// One a day, so that each is a session of its own.
		rows = append(rows, past(slurm.JobID(i+1), t0.Add(time.Duration(i)*24*time.Hour), took))
	}
	b.LearnPast(rows)
	now := rows[len(rows)-1].End
	b.Track(snapshot(now))
	p := b.Profiles(snapshot(now, newJob(99999)))[99999]
	slices.Sort(all)
	for q, got := range map[float64]time.Duration{lowTime: p.RunTimeLow, 0.5: p.RunTime, highTime: p.RunTimeHigh} {
		want := all[int(q*float64(len(all)))]
		if r := got.Seconds() / want; r < 0.8 || r > 1.25 {
			t.Errorf("quantile %.1f is %v, want %.0f s", q, got, want)
		}
	}
	if n := len(b.sorted()[0].Times); n > keepTimes {
		t.Errorf("%d run times kept, want at most %d", n, keepTimes)
	}
}

// Whatever comes, room is bounded and the quantiles are in order and below the
// limit.
func TestRunTimesAreBoundedAndInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(DefaultOptions())
		limits := rapid.SliceOfN(rapid.IntRange(1, 500), 1, 400).Draw(t, "limits")
		at := t0
		for i, l := range limits {
			at = at.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "gap")) * time.Second)
			p := past(slurm.JobID(i+1), at, time.Duration(1+i*7919%600)*time.Minute)
			p.TimeLimit = time.Duration(l) * time.Hour
			b.LearnPast([]slurm.PastJob{p})
		}
		for _, f := range b.families {
			if len(f.Times) > keepTimes {
				t.Fatalf("%d run times", len(f.Times))
			}
			for i, x := range f.Times {
				if x.Runs <= 0 || x.Took <= 0 || i > 0 && x.Ended.Before(f.Times[i-1].Ended) {
					t.Fatalf("run time %d: %+v", i, x)
				}
			}
		}
		now := at.Add(time.Hour)
		b.Track(snapshot(now))
		j := newJob(99999)
		j.TimeLimit = time.Duration(rapid.IntRange(1, 600).Draw(t, "limit")) * time.Minute
		if rapid.Bool().Draw(t, "running") {
			j.on(now.Add(-time.Duration(rapid.IntRange(0, 100).Draw(t, "elapsed"))*time.Minute), 4, "n1")
		}
		p := b.Profiles(snapshot(now, j))[99999]
		if p.RunTimeLow > p.RunTime || p.RunTime > p.RunTimeHigh || p.RunTimeHigh > j.TimeLimit || p.RunTime <= 0 {
			t.Fatalf("%v, %v, %v with a limit of %v", p.RunTimeLow, p.RunTime, p.RunTimeHigh, j.TimeLimit)
		}
	})
}

func TestASessionIsNoCrowd(t *testing.T) {
	b := newBook(t)
	var rows []slurm.PastJob
	for i := range 10 { // a run of two hours on each of ten days
		rows = append(rows, past(slurm.JobID(i+1), t0.Add(time.Duration(i)*24*time.Hour), 2*time.Hour))
	}
	for i := range 36 { // and one morning with 36 of a minute
		rows = append(rows, past(slurm.JobID(i+100), t0.Add(10*24*time.Hour), time.Minute+time.Duration(i)))
	}
	b.LearnPast(rows)
	now := t0.Add(11 * 24 * time.Hour)
	b.Track(snapshot(now))
	if p := b.Profiles(snapshot(now, newJob(999)))[999]; p.RunTime != 2*time.Hour || p.RunTimeLow > 2*time.Minute {
		t.Errorf("%v, %v; want the usual 2h, a minute at the least", p.RunTimeLow, p.RunTime)
	}
}

func TestTheLimitTellsWorkApart(t *testing.T) {
	b := newBook(t)
	var rows []slurm.PastJob
	for i := range 40 {
		p := past(slurm.JobID(i+1), t0.Add(time.Duration(i)*24*time.Hour), 10*time.Minute)
		if i%2 == 0 {
			p = past(p.ID, p.Submit, 3*time.Hour)
			p.TimeLimit = 24 * time.Hour
		}
		rows = append(rows, p)
	}
	b.LearnPast(rows)
	now := t0.Add(41 * 24 * time.Hour)
	b.Track(snapshot(now))
	short, long := newJob(100), newJob(101)
	long.TimeLimit = 24 * time.Hour
	got := b.Profiles(snapshot(now, short, long))
	if got[100].RunTime != 10*time.Minute || got[101].RunTime != 3*time.Hour {
		t.Errorf("%v and %v, want 10m and 3h", got[100].RunTime, got[101].RunTime)
	}
}

func TestRunTimesAsJSON(t *testing.T) {
	want := runTime{7, time.Hour, 2 * time.Hour, t0, t0.Add(time.Hour), 2.5, true}
	data, err := json.Marshal(want)
	if err != nil {
		t.Fatal(err)
	}
	var got, old runTime
	if err := json.Unmarshal(data, &got); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
	if err := json.Unmarshal([]byte(`{"JobID":7,"Took":3600000000000,"Ended":"2026-03-01T13:00:00Z"}`), &old); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(runTime{JobID: 7, Took: time.Hour, Ended: t0.Add(time.Hour), Runs: 1}, old); d != "" {
		t.Errorf("of an earlier check-point (-want +got):\n%s", d)
	}
}

func BenchmarkLearnPast(b *testing.B) {
	rows := make([]slurm.PastJob, 100000)
	for i := range rows {
		rows[i] = past(slurm.JobID(i+1), t0.Add(time.Duration(i)*10*time.Second), time.Duration(1+i*7919%600)*time.Minute)
		rows[i].User, rows[i].Name = fmt.Sprint("user", i%150), fmt.Sprint("work", i%900)
	}
	for b.Loop() {
		newBook(b).LearnPast(rows)
	}
	b.ReportMetric(float64(len(rows)*b.N)/b.Elapsed().Seconds(), "rows/s")
}
