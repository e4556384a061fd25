// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
	"time"

	"rifling/contrib/labrun"
	"rifling/profile"
	"rifling/sim"
	"rifling/slurm"
	"rifling/store"
)

// Bounds of the estimates against the truth.
const (
	aloneCC  = 0.10 // of cc, nobody else on the job's nodes
	sharedCC = 0.20 // of cc, others on the job's nodes
	anyNPR   = 0.10 // of NPR
)

// measured is one job of the test: what it is, where it runs, and what came out.
type measured struct {
	what, model string
	gpus        []int // on each node of the first that it runs on
	first       int   // index of its first node
	others      int   // jobs on its NICs that contend with it
	shared      bool  // its nodes are

	id    string
	truth *labrun.Result
	got   profile.Profile
}

// phaseSeconds is how long the jobs of a phase run, real time: at a sample a
// second enough that start and end weigh little.
const phaseSeconds = 20

// submit starts the job with as many iterations as fill a phase.
func (m *measured) submit(t *testing.T) {
	t.Helper()
	model, ok := sim.FindModel(m.model)
	if !ok {
		t.Fatalf("no model %q", m.model)
	}
	nodes, byNode, total := theLab.NodeNames()[m.first:m.first+len(m.gpus)], map[string]int{}, 0
	for i, n := range nodes {
		byNode[n] = m.gpus[i]
		total += m.gpus[i]
	}
	rate := sim.Rate(model, byNode, func(string) (float64, int) { return sim.DefaultNICBytesPerSecond, 1 + m.others })
	script := fmt.Sprintf("#!/bin/bash\nsrun --ntasks-per-node=1 emujob --model %s --iterations %.0f\n",
		m.model, math.Ceil(rate*phaseSeconds*compression))
	// A name without "e2e-" keeps these families apart from other tests'.
	m.id = submit(t, "alice", script, "--job-name=measured-"+m.model, "--time=20", "--output=emujob-%j.out",
		"--nodes="+strconv.Itoa(len(nodes)), "--nodelist="+strings.Join(nodes, ","), "--gres=gpu:"+strconv.Itoa(m.gpus[0]))
}

// What collectors and daemon make of counters agrees with what the emulated
// jobs say of themselves.
func TestProfileAgainstTheTruth(t *testing.T) {
	if len(theLab.NodeNames()) < 8 {
		t.Skipf("needs a lab of 8 nodes, this one has %d", len(theLab.NodeNames()))
	}
	d := daemon(t, labrun.DaemonOptions{Mode: "observe"})
	collectors, err := theLab.StartCollectors(within(t, 40*time.Second), d, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := collectors.Stop(); err != nil {
			t.Error(err)
		}
	})
	time.Sleep(3 * time.Second) // the nodes are seen idle first, as real ones are

	const comm, between, compute = "bert", "resnet50", "deepspeech2-large"
	packed, spread, one := []int{4}, []int{2, 2}, []int{1}
	// Each family is seen packed first: that is its best rate.
	phases := [][]*measured{
		{
			{what: "packed", model: comm, gpus: packed, first: 0},
			{what: "packed", model: between, gpus: packed, first: 1},
			{what: "packed", model: compute, gpus: packed, first: 2},
			{what: "one GPU", model: between, gpus: one, first: 3},
		},
		{
			{what: "spread", model: comm, gpus: spread, first: 0},
			{what: "spread", model: between, gpus: spread, first: 2},
			{what: "spread", model: compute, gpus: spread, first: 4},
			{what: "spread beside its like", model: comm, gpus: spread, first: 6, others: 1, shared: true},
			{what: "spread beside its like", model: comm, gpus: spread, first: 6, others: 1, shared: true},
		},
		{
			{what: "spread beside comm", model: between, gpus: spread, first: 0, others: 1, shared: true},
			{what: "spread beside between", model: comm, gpus: spread, first: 0, others: 1, shared: true},
			{what: "spread beside comm", model: compute, gpus: spread, first: 2, others: 1, shared: true},
			{what: "spread beside compute", model: comm, gpus: spread, first: 2, others: 1, shared: true},
			{what: "spread beside packed", model: between, gpus: spread, first: 4, shared: true},
			{what: "packed beside spread", model: comm, gpus: packed, first: 4, shared: true},
			{what: "packed beside packed", model: between, gpus: packed, first: 6, shared: true},
			{what: "packed beside packed", model: compute, gpus: packed, first: 6, shared: true},
			{what: "one GPU again", model: between, gpus: one, first: 7},
		},
	}
	var all []*measured
	for _, jobs := range phases {
		for _, m := range jobs {
			m.submit(t)
		}
		for _, m := range jobs {
			m.truth = result(t, "alice", m.id)
		}
		all = append(all, jobs...)
	}
	time.Sleep(2 * time.Second) // the last cycle with them
	estimates(t, d, all)
	compare(t, all)
}

// estimates reads what the daemon's database says of the jobs.
func estimates(t *testing.T, d *labrun.Daemon, all []*measured) {
	t.Helper()
	st, err := store.OpenReadOnly(d.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	var ids []slurm.JobID
	for _, m := range all {
		ids = append(ids, slurm.JobID(m.truth.Job))
	}
	jobs, err := st.Jobs(within(t, 10*time.Second), store.Filter{Jobs: ids})
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range all {
		for i := range jobs {
			if uint32(jobs[i].ID) == m.truth.Job {
				m.got = jobs[i].Profile
			}
		}
	}
}

// compare prints the errors job by job and fails on those beyond their bounds.
func compare(t *testing.T, all []*measured) {
	t.Helper()
	var b strings.Builder
	tw := tabwriter.NewWriter(&b, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "job\tmodel\tshape\tas it is\tcc true\tas it ran\testimate\terror\tsamples\tNPR true\testimate\terror\tsamples")
	worst := map[string]float64{}
	for _, m := range all {
		r := m.truth
		fmt.Fprintf(tw, "%s\t%s\t%s\t%s\t%s\t", m.id, m.model, r.Shape, m.what, ccText(r))
		cc, npr := "-", "-"
		if want := trueCC(r); m.got.Level != profile.LevelJob {
			t.Errorf("job %s (%s, %s): cc is of level %q, not measured", m.id, m.model, m.what, m.got.Level)
		} else {
			got := math.Exp(m.got.LogCC)
			cc = fmt.Sprintf("%.3f\t%s", got, m.check(t, worst, "cc", got, want))
		}
		switch {
		case m.got.NPRCount > 0:
			npr = fmt.Sprintf("%.3f\t%s", m.got.NPR, m.check(t, worst, "NPR", m.got.NPR, r.NPR))
		case m.what != "one GPU": // its first run has nothing to be measured by
			t.Errorf("job %s (%s, %s): no NPR", m.id, m.model, m.what)
		}
		fmt.Fprintf(tw, "%s\t%d\t%.3f\t%s\t%d\n", cc, m.got.Count, r.NPR, npr, m.got.NPRCount)
	}
	_ = tw.Flush() // a strings.Builder does not fail
	t.Logf("Slurm %s, estimates against the truth:\n%s", theLab.Release, b.String())
	for _, what := range []string{"cc alone", "cc shared", "NPR alone", "NPR shared"} {
		t.Logf("greatest error of %s: %.1f %%", what, 100*worst[what])
	}
}

// trueCC is the job's cc within the bound of cc, which is that of a job that
// does not communicate.
func trueCC(r *labrun.Result) float64 {
	most := profile.DefaultOptions().MaxCC
	if r.CC == 0 {
		return most
	}
	return min(r.CC, most)
}

func ccText(r *labrun.Result) string {
	if r.CC == 0 {
		return "none\t-"
	}
	return fmt.Sprintf("%.3f\t%.3f", r.CC, r.ComputeSeconds/r.CommSeconds)
}

// check returns the error as text and notes the greatest.
func (m *measured) check(t *testing.T, worst map[string]float64, what string, got, want float64) string {
	t.Helper()
	bound, where := anyNPR, "alone"
	if m.shared {
		where = "shared"
	}
	if what == "cc" {
		bound = aloneCC
		if m.shared {
			bound = sharedCC
		}
	}
	e := got/want - 1
	worst[what+" "+where] = max(worst[what+" "+where], math.Abs(e))
	if !(math.Abs(e) <= bound) {
		t.Errorf("job %s (%s, %s): %s %.3f is %.1f %% from the true %.3f, more than %.0f %%",
			m.id, m.model, m.what, what, got, 100*e, want, 100*bound)
	}
	return fmt.Sprintf("%+.1f %%", 100*e)
}
