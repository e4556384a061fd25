// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"rifling/sim"
	"rifling/slurm"
)

// simulatedPast is a history in which Slurm did just what its model does: jobs
// of the window's days on 4 nodes of 8 GPUs, called gpu01 to gpu04.
func simulatedPast(t *testing.T, jobs int) []slurm.PastJob {
	t.Helper()
	spec := sim.Spec{}
	for _, n := range []string{"gpu01", "gpu02", "gpu03", "gpu04"} {
		spec.Nodes = append(spec.Nodes, sim.NodeSpec{Name: n, GPUs: 8})
	}
	zero := t0.Add(-20 * 24 * time.Hour)
	var out []slurm.PastJob
	e, err := sim.NewEngine(spec, sim.NewSlurm(sim.DefaultSlurm()), whole(sim.Synthetic{Seed: 3, Jobs: jobs, GPUs: 32, Load: 0.95}.Source()),
		func(r *sim.Result) {
			p := slurm.PastJob{
				ID: r.ID, ArrayTaskID: -1, Name: "train", User: r.User, Account: "a", Partition: "gpu", Cluster: "lab",
				State: slurm.State{Base: "COMPLETED"}, Submit: zero.Add(r.Submit), Eligible: zero.Add(r.Submit), Start: zero.Add(r.Start), End: zero.Add(r.End),
				Elapsed: r.End - r.Start, TimeLimit: r.Limit, GPUs: r.GPUs, NodeCount: len(r.Alloc), GPUUtil: -1, GPUMemory: -1,
			}
			for _, a := range r.Alloc {
				p.Nodes = append(p.Nodes, spec.Nodes[a.Node].Name)
			}
			out = append(out, p)
		})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := e.Run(); err != nil {
		t.Fatal(err)
	}
	return out
}

// whole rounds all times to seconds, as accounting has them.
func whole(s sim.Source) sim.Source {
	return func() (sim.Job, bool) {
		j, ok := s()
		j.Submit, j.Work = j.Submit.Truncate(time.Second), j.Work.Truncate(time.Second)+time.Second
		return j, ok
	}
}

// pastSite is an installation that has read the history.
func pastSite(t *testing.T, past []slurm.PastJob) *site {
	t.Helper()
	s := newSite(t)
	w := s.writer()
	defer w.Close()
	if _, _, err := w.PastWriter().SavePast(context.Background(), past, t0.Add(-30*24*time.Hour), t0); err != nil {
		t.Fatal(err)
	}
	return s
}

func backtestJSON(t *testing.T, s *site, args ...string) backtested {
	t.Helper()
	code, out, errs := s.run(append([]string{"backtest", "--json", "-S", "now-30days"}, args...)...)
	if code != exitOK {
		t.Fatalf("exit %d: %s", code, errs)
	}
	var b backtested
	if err := json.Unmarshal([]byte(out), &b); err != nil {
		t.Fatal(err)
	}
	return b
}

// Where Slurm did what its model does, the simulation must say so to the
// second, whether it is told the cluster or finds it in the history.
func TestBacktestOfASimulatedPastIsExact(t *testing.T) {
	s := pastSite(t, simulatedPast(t, 400))
	for name, args := range map[string][]string{"nodes told": {"--nodes", "4x8"}, "nodes found": nil} {
		t.Run(name, func(t *testing.T) {
			b := backtestJSON(t, s, append(args, "-p", "peer:fifo,srtf")...)
			did, says := b.Verdicts[0], b.Verdicts[1]
			if b.Jobs != 400 || did.What != "Slurm did" || did.Wait.Mean < 60 {
				t.Fatalf("%d jobs, %+v: want 400 that waited", b.Jobs, did)
			}
			if says.WaitDiff == nil || says.WaitDiff.Mean != 0 || says.JCTDiff.Low != 0 || says.JCTDiff.High != 0 {
				t.Errorf("simulated Slurm %+v, difference %+v; the real one is the same model", says, says.WaitDiff)
			}
			fifo, srtf := b.Verdicts[2], b.Verdicts[3]
			if !(fifo.WaitDiff.Mean > 0 && srtf.WaitDiff.Mean < 0 && srtf.Clairvoyant && srtf.Preemptive) {
				t.Errorf("fifo %+v, srtf %+v: want the one worse and the other better than Slurm", fifo.WaitDiff, srtf.WaitDiff)
			}
			if d := fifo.WaitDiff; !(d.Low < d.Mean && d.Mean < d.High) {
				t.Errorf("interval %+v does not hold its mean", d)
			}
		})
	}
}

// What was submitted before the window is simulated, but not judged. With all
// of the past as warm-up, the window comes out to the second.
func TestBacktestWindow(t *testing.T) {
	past := simulatedPast(t, 400)
	s := pastSite(t, past)
	since := past[200].Submit
	want, running := 0, 0
	for i := range past {
		switch p := &past[i]; {
		case !p.Submit.Before(since):
			want++
		case !p.End.Before(since):
			running++
		}
	}
	b := backtestJSON(t, s, "-S", since.Format(time.RFC3339), "-p", "peer:strict", "--warm-up", "40-0")
	if b.Jobs != want || b.Others != len(past)-want {
		t.Errorf("%d jobs and %d others, want %d and %d", b.Jobs, b.Others, want, len(past)-want)
	}
	if off := b.Verdicts[1].WaitDiff; off.Low != 0 || off.High != 0 {
		t.Errorf("simulated wait is off by %+v s", off)
	}
	// Without, those that held GPUs or waited are still there.
	b = backtestJSON(t, s, "-S", since.Format(time.RFC3339), "-p", "peer:strict", "--warm-up", "0s")
	if b.Jobs != want || b.Others != running || running == 0 {
		t.Errorf("%d jobs and %d others, want %d and %d", b.Jobs, b.Others, want, running)
	}
	if did, off := b.Verdicts[0].Wait.Mean, b.Verdicts[1].WaitDiff.Mean; off > 0.25*did || off < -0.25*did {
		t.Errorf("simulated wait is off by %v of %v s", off, did)
	}
}

func TestBacktestSaysWhatIsMissing(t *testing.T) {
	past := simulatedPast(t, 60)
	odd := past[0]
	odd.ID, odd.Start, odd.Elapsed, odd.Nodes, odd.State = 9001, time.Time{}, 0, nil, slurm.State{Base: "CANCELLED"}
	cpu := past[0]
	cpu.ID, cpu.GPUs = 9002, 0
	s := pastSite(t, append(past, odd, cpu))
	for name, tc := range map[string]struct {
		args []string
		code int
		want []string
	}{
		"what was left out": {nil, exitOK, []string{"1 run never started", "1 run without GPUs", "60 submitted in it", "Slurm did", "Slurm, simulated", "+0 % off the real one"}},
		"an empty window":   {[]string{"-S", "now-400days", "-E", "now-399days"}, exitFailed, []string{"no GPU job", "hint: rifling history status"}},
		"a wrong range":     {[]string{"-S", "now", "-E", "now-1day"}, exitUsage, []string{"is empty"}},
		"a wrong policy":    {[]string{"-p", "best"}, exitUsage, []string{`no policy "best"`, "--list"}},
		"too small":         {[]string{"--nodes", "1x1", "-E", "now"}, exitOK, []string{"this cluster cannot run"}},
		"wrong blocks":      {[]string{"--blocks", "weeks"}, exitUsage, []string{"use days or jobs"}},
	} {
		t.Run(name, func(t *testing.T) {
			code, out, errs := s.run(append([]string{"backtest", "-p", "peer:strict"}, tc.args...)...)
			if code != tc.code {
				t.Errorf("exit %d, want %d", code, tc.code)
			}
			for _, w := range tc.want {
				if !strings.Contains(out+errs, w) {
					t.Errorf("says nothing of %q:\n%s%s", w, out, errs)
				}
			}
		})
	}
}
