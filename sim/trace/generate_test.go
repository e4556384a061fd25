// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"compress/gzip"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"rifling/sim"
)

// Whatever is asked for, the jobs are sorted, fit the cluster, have limits
// above their run times, come to the load, and come again for the same seed.
func TestGeneratedJobsAreSound(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		g := Generator{
			Seed: rapid.Uint64().Draw(rt, "seed"), Jobs: rapid.IntRange(2, 400).Draw(rt, "jobs"), GPUs: rapid.IntRange(1, 200).Draw(rt, "gpus"),
			Node: rapid.IntRange(1, 8).Draw(rt, "node"), Load: rapid.Float64Range(0.05, 3).Draw(rt, "load"),
			Arrivals: rapid.SampledFrom([]Arrivals{"", Poisson, Day, AtOnce}).Draw(rt, "arrivals"), Open: rapid.Float64Range(0, 1).Draw(rt, "open"),
			Longest: time.Duration(rapid.IntRange(0, 100).Draw(rt, "longest")) * time.Hour,
		}
		jobs, err := g.Generate()
		if err != nil {
			rt.Fatal(err)
		}
		again, _ := g.Generate()
		if d := cmp.Diff(jobs, again, cmpopts.EquateNaNs()); d != "" {
			rt.Errorf("another time, other jobs: %s", d)
		}
		last := time.Duration(0)
		for i := range jobs {
			j := &jobs[i]
			if what := j.check(Options{Strict: true, MaxGPUs: g.GPUs}); what != "" || j.Submit < last || j.Limit <= j.Duration || j.Nodes > j.GPUs {
				rt.Fatalf("job %d: %s, %+v", i, what, *j)
			}
			last = j.Submit
		}
		if g.Arrivals == AtOnce {
			if last != 0 {
				rt.Errorf("the last comes at %v", last)
			}
			return
		}
		// The day moves the last job by at most a few hours.
		if l := Load(jobs, g.GPUs); g.Arrivals != Day && math.Abs(l/g.Load-1) > 0.02 && last > 10*time.Minute {
			rt.Errorf("load %v, want %v", l, g.Load)
		}
	})
}

func TestGeneratedPartsAreThoseAskedFor(t *testing.T) {
	jobs, err := Generator{Seed: 2, Jobs: 40_000, GPUs: 512, Load: 0.8, Arrivals: Day, Mix: Mix{Comm: 3, Between: 4, Compute: 3}, Open: 0.25}.Generate()
	if err != nil {
		t.Fatal(err)
	}
	class := map[string]int{}
	for i, m := range sim.Models {
		class[m.Name] = i / 3
	}
	var classes [3]float64
	var hours [24]float64
	open, several := 0.0, 0.0
	for _, j := range jobs {
		classes[class[j.Model]] += 1 / float64(len(jobs))
		hours[int(j.Submit.Hours())%24] += 1 / float64(len(jobs))
		if j.GPUs > 1 {
			several++
			if j.Nodes == 0 {
				open++
			}
		}
	}
	for i, want := range []float64{0.3, 0.4, 0.3} {
		if math.Abs(classes[i]-want) > 0.03 {
			t.Errorf("class %d: %.3f of the jobs, want %.2f", i, classes[i], want)
		}
	}
	if math.Abs(open/several-0.25) > 0.03 {
		t.Errorf("%.3f leave their nodes open, want 0.25", open/several)
	}
	amplitude, peak := harmonic(hours[:])
	if math.Abs(amplitude-dayAmplitude) > 0.04 || math.Abs(peak-dayPeak) > 0.6 {
		t.Errorf("the day has amplitude %.3f and its peak at %.2f h, want %.3f and %.2f", amplitude, peak, dayAmplitude, dayPeak)
	}
}

// harmonic is the first one of parts of a whole by the hour.
func harmonic(hours []float64) (amplitude, peak float64) {
	a, b := 0.0, 0.0
	for h, x := range hours {
		at := 2 * math.Pi * (float64(h) + 0.5) / 24
		a, b = a+2*x*math.Cos(at), b+2*x*math.Sin(at)
	}
	return math.Hypot(a, b), math.Mod(math.Atan2(b, a)/(2*math.Pi)*24+24, 24)
}

func TestMix(t *testing.T) {
	for text, want := range map[string]Mix{
		"none": {None: true}, "comm=1": {Comm: 1}, "comm=0.3,between=0.4, compute=0.3": {Comm: 0.3, Between: 0.4, Compute: 0.3},
	} {
		if got, err := ParseMix(text); err != nil || got != want {
			t.Errorf("%s: %+v, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "comm", "comm=-1", "fast=1", "comm=0", "comm=NaN", "comm=Inf"} {
		if got, err := ParseMix(text); err == nil {
			t.Errorf("%q is read as %+v", text, got)
		}
	}
	if m, err := (Mix{None: true}).Draw(rand.New(rand.NewPCG(1, 1))); m != nil || err != nil {
		t.Errorf("none draws %v, %v", m, err)
	}
}

func TestGeneratorRefuses(t *testing.T) {
	for name, g := range map[string]Generator{
		"no jobs": {GPUs: 8, Load: 1}, "no GPUs": {Jobs: 5, Load: 1}, "no load": {Jobs: 5, GPUs: 8}, "odd arrivals": {Jobs: 5, GPUs: 8, Load: 1, Arrivals: "never"},
		"odd part": {Jobs: 5, GPUs: 8, Load: 1, Open: 2}, "too short": {Jobs: 5, GPUs: 8, Load: 1, Longest: time.Second}, "NaN": {Jobs: 5, GPUs: 8, Load: math.NaN()},
	} {
		if _, err := g.Generate(); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
}

// shared opens one of the traces at hand.
func shared(t *testing.T, pattern string) []string {
	t.Helper()
	root := os.Getenv("RIFLING_SHARED")
	if root == "" {
		root = "../../../shared"
	}
	files, _ := filepath.Glob(filepath.Join(root, "traces", pattern))
	if len(files) == 0 {
		t.Skipf("no traces at %s: set RIFLING_SHARED", root)
	}
	return files
}

func all(t *testing.T, path string) []Job {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	jobs, _, err := ReadAll(bufio.NewReader(f), "", Options{})
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

// The numbers of the generator are those of the traces that it names.
func TestGeneratorIsFitted(t *testing.T) {
	near := func(what string, got, want, within float64) {
		t.Helper()
		if math.Abs(got-want) > within {
			t.Errorf("%s is %.4f, the generator has %.4f", what, got, want)
		}
	}
	var ln [2][]float64
	size, hours, n := map[int]float64{}, make([]float64, 24), 0.0
	for _, path := range shared(t, "philly_vc/*.csv") {
		for _, j := range all(t, path) {
			n++
			size[j.GPUs]++
			hours[int(j.Submit.Hours())%24]++
			k := min(1, j.GPUs-1)
			ln[k] = append(ln[k], math.Log(j.Duration.Seconds()))
		}
	}
	for _, s := range sizes {
		near("part of a size", size[s.gpus]/n, s.part, 1e-4)
	}
	for k := range ln {
		mean, sd := meanSD(ln[k])
		near("mean of the logarithm", mean, lnRun[k][0], 0.01)
		near("its deviation", sd, lnRun[k][1], 0.01)
	}
	for h := range hours {
		hours[h] /= n
	}
	amplitude, peak := harmonic(hours)
	near("amplitude of the day", amplitude, dayAmplitude, 1e-3)
	near("hour of its peak", peak, dayPeak, 0.01)
}

// Limits are as loose as in RICC.
func TestLimitsAreFitted(t *testing.T) {
	var ln []float64
	f, err := os.Open(shared(t, "ricc/RICC-2010-2.swf.gz")[0])
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	jobs, _, err := ReadAll(z, SWF, Options{Successful: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, j := range jobs {
		if j.Duration > time.Minute && j.Limit >= j.Duration {
			ln = append(ln, math.Log(j.Limit.Seconds()/j.Duration.Seconds()))
		}
	}
	mean, sd := meanSD(ln)
	if math.Abs(mean-lnSlack[0]) > 0.01 || math.Abs(sd-lnSlack[1]) > 0.01 {
		t.Errorf("logarithm of limit over run time is %.3f with deviation %.3f, the generator has %v", mean, sd, lnSlack)
	}
}

func meanSD(v []float64) (mean, sd float64) {
	for _, x := range v {
		mean += x / float64(len(v))
	}
	for _, x := range v {
		sd += (x - mean) * (x - mean) / float64(len(v))
	}
	return mean, math.Sqrt(sd)
}
