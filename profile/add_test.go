// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/json"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
)

func TestAddRefusesGarbage(t *testing.T) {
	start := t0
	at := start.Add(time.Minute)
	tests := map[string]struct {
		change func(*Sample)
		want   string // reason; empty when taken
	}{
		"a good sample":                    {func(*Sample) {}, ""},
		"a job nobody knows":               {func(s *Sample) { s.JobID = 99 }, RefusedUnknownJob},
		"a job that still waits":           {func(s *Sample) { s.JobID = 2 }, RefusedUnknownJob},
		"a node of another job":            {func(s *Sample) { s.Node = "n8" }, RefusedNode},
		"negative bytes":                   {func(s *Sample) { s.NetRate = -1 }, RefusedNumber},
		"no number":                        {func(s *Sample) { s.Compute = math.NaN() }, RefusedNumber},
		"an infinite speed":                {func(s *Sample) { s.PCIeSpeed = math.Inf(1) }, RefusedNumber},
		"more than all of the time":        {func(s *Sample) { s.Compute = 1.01 }, RefusedCompute},
		"a source of no name":              {func(s *Sample) { s.Source = "" }, RefusedSource},
		"no GPUs":                          {func(s *Sample) { s.GPUs = 0 }, RefusedGPUs},
		"more GPUs than the job has":       {func(s *Sample) { s.GPUs = 5 }, RefusedGPUs},
		"no interval":                      {func(s *Sample) { s.Interval = 0 }, RefusedInterval},
		"an interval of a day":             {func(s *Sample) { s.Interval = 24 * time.Hour }, RefusedInterval},
		"a link three times over":          {func(s *Sample) { s.NVLinkRate = 3 * s.NVLinkSpeed }, RefusedOverSpeed},
		"a full link, read a little late":  {func(s *Sample) { s.NVLinkRate = 1.2 * s.NVLinkSpeed }, ""},
		"a counter that ran over":          {func(s *Sample) { s.PCIeRate = 1.8e19 }, RefusedOverSpeed},
		"the job that had the id before":   {func(s *Sample) { s.At = start.Add(-time.Hour) }, RefusedBeforeStart},
		"a node whose clock is ahead":      {func(s *Sample) { s.At = at.Add(time.Hour) }, RefusedFuture},
		"a little ahead of the last cycle": {func(s *Sample) { s.At = at.Add(tick) }, ""},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			b.Track(snapshot(at, newJob(1).on(start, 4, "n1"), newJob(2)))
			s := Sample{
				JobID: 1, Node: "n1", At: at, Interval: tick, GPUs: 4, Compute: 0.5, Source: SourceGPM,
				NVLinkRate: 1e9, NVLinkSpeed: linkSpeed,
			}
			tt.change(&s)
			want := map[string]int{}
			if tt.want != "" {
				want[tt.want] = 1
			}
			if diff := cmp.Diff(want, b.Add([]Sample{s})); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAddCountsAnIntervalOnce(t *testing.T) {
	b := newBook(t)
	j := newJob(1).on(t0, 4, "n1")
	samples, _ := work{100 * time.Millisecond, 1e8}.run(j, 1)
	b.Track(snapshot(t0.Add(time.Minute), j))
	in := samples(t0.Add(tick))
	if got := b.Add(in); len(got) != 0 {
		t.Fatalf("the first time: refused %v", got)
	}
	if diff := cmp.Diff(map[string]int{RefusedLate: 1}, b.Add(in)); diff != "" {
		t.Errorf("a spool sent twice (-want +got):\n%s", diff)
	}
	if got := b.runs[1].Seen; got != 1 {
		t.Errorf("%d intervals, want 1", got)
	}
}

func TestNodesOfOneJobBelongTogether(t *testing.T) {
	j := newJob(1).on(t0, 2, "n1", "n2")
	sample := func(node string, at time.Time, compute, net float64) Sample {
		return Sample{JobID: 1, Node: node, At: at, Interval: tick, GPUs: 2, Compute: compute,
			Source: SourceGPM, NetRate: net, NetSpeed: nicSpeed}
	}
	at := t0.Add(tick)
	first, second := sample("n1", at, 0.8, 0.1*nicSpeed), sample("n2", at.Add(4*time.Second), 0.4, 0.5*nicSpeed)
	want := math.Log(0.6 / 0.5) // compute by GPUs, communication by the busier node

	t.Run("both in one call", func(t *testing.T) {
		b := newBook(t)
		b.Track(snapshot(at.Add(time.Minute), j))
		b.Add([]Sample{second, first})
		near(t, "log cc", b.runs[1].CC.Spread.Mean, want, 1e-12)
	})
	t.Run("the second a cycle later", func(t *testing.T) {
		b := newBook(t)
		b.Track(snapshot(at, j))
		b.Add([]Sample{first})
		if got := b.runs[1].Seen; got != 0 {
			t.Fatalf("%d intervals before the second node has spoken, want 0", got)
		}
		b.Add([]Sample{second})
		near(t, "log cc", b.runs[1].CC.Spread.Mean, want, 1e-12)
	})
	t.Run("the second never: half of the GPUs must do", func(t *testing.T) {
		b := newBook(t)
		b.Track(snapshot(at, j))
		b.Add([]Sample{first})
		b.Track(snapshot(at.Add(time.Minute), j))
		near(t, "log cc", b.runs[1].CC.Spread.Mean, math.Log(0.8/0.1), 1e-12)
		if diff := cmp.Diff(map[string]int{RefusedLate: 1}, b.Add([]Sample{second})); diff != "" {
			t.Errorf("and it is too late then (-want +got):\n%s", diff)
		}
	})
	t.Run("less than half is nothing", func(t *testing.T) {
		b := newBook(t)
		wide := newJob(1).gpus(8).on(t0, 2, "n1", "n2", "n3", "n4")
		b.Track(snapshot(at, wide))
		b.Add([]Sample{first})
		b.Track(snapshot(at.Add(time.Minute), wide))
		if got := b.runs[1].CC.Spread.W; got != 0 {
			t.Errorf("evidence %v, want none", got)
		}
	})
}

func TestOrderOfSamplesMakesNoDifference(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		jobs := []*job{newJob(1).on(t0, 2, "n1", "n2"), newJob(2).named("bert").on(t0, 4, "n3")}
		var samples []Sample
		for i := 1; i <= 8; i++ {
			for _, j := range jobs {
				w := work{time.Duration(rapid.IntRange(20, 200).Draw(t, "ms")) * time.Millisecond, 1e8}
				s, _ := w.run(j, 1)
				samples = append(samples, s(t0.Add(time.Duration(i)*tick))...)
			}
		}
		samples = append(samples, samples[0], garbage(t))
		predict := func(in []Sample) map[slurm.JobID]Profile {
			b := NewBook(DefaultOptions())
			s := snapshot(t0.Add(10*tick), jobs[0], jobs[1])
			b.Track(s)
			b.Add(in)
			b.Regroup(s.TakenAt)
			return b.Profiles(s)
		}
		if diff := cmp.Diff(predict(samples), predict(rapid.Permutation(samples).Draw(t, "order"))); diff != "" {
			t.Fatalf("predictions differ (-one order +another):\n%s", diff)
		}
	})
}

func garbage(t *rapid.T) Sample {
	f := rapid.OneOf(rapid.Float64(), rapid.SampledFrom([]float64{math.NaN(), math.Inf(1), math.Inf(-1), 0, -0.5, 0.5, 1, 1e9, math.MaxFloat64}))
	return Sample{
		JobID: slurm.JobID(rapid.IntRange(0, 4).Draw(t, "job")),
		Node:  rapid.SampledFrom([]string{"", "n1", "n2", "n3"}).Draw(t, "node"),
		At:    t0.Add(time.Duration(rapid.Int64Range(-1e12, 1e12).Draw(t, "at"))),
		// Any interval that Go can hold, often a usual one.
		Interval:   rapid.OneOf(rapid.Just(tick), rapid.Custom(func(t *rapid.T) time.Duration { return time.Duration(rapid.Int64().Draw(t, "d")) })).Draw(t, "interval"),
		GPUs:       rapid.OneOf(rapid.IntRange(-1, 5), rapid.Int()).Draw(t, "gpus"),
		Compute:    f.Draw(t, "compute"),
		Source:     rapid.SampledFrom([]Source{"", "x", SourceGPM, SourcePower, SourceUtilization}).Draw(t, "source"),
		NVLinkRate: f.Draw(t, "nvlink"), NVLinkSpeed: f.Draw(t, "nvlink speed"),
		PCIeRate: f.Draw(t, "pcie"), PCIeSpeed: f.Draw(t, "pcie speed"),
		NetRate: f.Draw(t, "net"), NetSpeed: f.Draw(t, "net speed"),
		NetShared: rapid.Bool().Draw(t, "shared"),
	}
}

// Whatever comes in, nothing panics, every sample is taken or counted, and
// what comes out is within its bounds and survives a check-point.
func TestGarbageNeverBreaksTheBook(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(DefaultOptions())
		now := t0
		var s *slurm.Snapshot
		for range rapid.IntRange(1, 6).Draw(t, "cycles") {
			now = now.Add(time.Duration(rapid.IntRange(0, 600).Draw(t, "s")) * time.Second)
			s = snapshot(now, drawJobs(t)...)
			b.Track(s)
			in := rapid.SliceOfN(rapid.Custom(garbage), 0, 30).Draw(t, "samples")
			refused := 0
			for _, n := range b.Add(in) {
				refused += n
			}
			if refused > len(in) {
				t.Fatalf("%d refused of %d", refused, len(in))
			}
			b.Regroup(now)
		}
		checkBounds(t, b, s)

		data, err := json.Marshal(b)
		if err != nil {
			t.Fatal(err)
		}
		again := NewBook(DefaultOptions())
		if err := json.Unmarshal(data, again); err != nil {
			t.Fatalf("read back: %v\n%s", err, data)
		}
		if diff := cmp.Diff(b.Profiles(s), again.Profiles(s)); diff != "" {
			t.Fatalf("profiles (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(b.Members(), again.Members()); diff != "" {
			t.Fatalf("members (-before +after):\n%s", diff)
		}
	})
}

func drawJobs(t *rapid.T) []*job {
	var out []*job
	for id := slurm.JobID(1); id <= 3; id++ {
		j := newJob(id).of(rapid.SampledFrom([]string{"ann", "bob"}).Draw(t, "user"))
		j.gpus(rapid.SampledFrom([]int{0, 1, 4}).Draw(t, "gpus"))
		j.TimeLimit = time.Duration(rapid.IntRange(0, 600).Draw(t, "limit")) * time.Second
		state := rapid.SampledFrom([]string{"", "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "TIMEOUT", "FAILED", "??"}).Draw(t, "state")
		if state != "PENDING" {
			nodes := rapid.SampledFrom([][]string{{"n1"}, {"n1", "n2"}, nil}).Draw(t, "nodes")
			j.on(t0.Add(time.Duration(rapid.IntRange(-300, 300).Draw(t, "start"))*time.Second), 1, nodes...)
			j.EndTime = t0.Add(time.Duration(rapid.IntRange(-300, 900).Draw(t, "end")) * time.Second)
		}
		j.State.Base = state
		out = append(out, j)
	}
	return out
}

func checkBounds(t *rapid.T, b *Book, s *slurm.Snapshot) {
	top := math.Log(DefaultOptions().MaxCC)
	for id, p := range b.Profiles(s) {
		j := s.Job(id)
		switch {
		case !(math.Abs(p.LogCC) <= top+1e-9), !(p.Var >= 0), p.Count < 0:
			t.Fatalf("log cc of %+v", p)
		case !(p.NPR >= 0 && p.NPR <= 1):
			t.Fatalf("NPR of %+v", p)
		case p.RunTime < 0, j.TimeLimit > 0 && p.RunTime > j.TimeLimit:
			t.Fatalf("run time %v, limit %v", p.RunTime, j.TimeLimit)
		case p.Group < GroupUnknown || p.Group >= len(b.Groups()):
			t.Fatalf("group %d of %d", p.Group, len(b.Groups()))
		}
		if npr, _ := b.MeanNPR(id); !(npr >= 0 && npr <= 1) {
			t.Fatalf("mean NPR %v", npr)
		}
	}
	if anpr, gpus := b.ANPR(s); !(anpr >= 0 && anpr <= 1) || gpus < 0 {
		t.Fatalf("ANPR %v of %d GPUs", anpr, gpus)
	}
}
