// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"rifling/slurm"
)

var near = cmpopts.EquateApprox(1e-9, 1e-9)

// shared is a GPU with these processes.
func shared(uuid string, activity float64, procs ...Process) GPU {
	g := gpu(uuid, 0, activity)
	g.Processes = procs
	return g
}

func TestWhoHasWhatOfAGPU(t *testing.T) {
	type share struct {
		Share  float64
		Shared bool
	}
	jobs := map[int]JobRef{1: {ID: 10}, 2: {ID: 10}, 3: {ID: 11}, 4: {ID: 12, Node: "gpu02", NodeSure: true}}
	for name, tc := range map[string]struct {
		procs []Process
		want  map[slurm.JobID]share
	}{
		"a job alone has all, whatever its processes": {[]Process{{1, 0.2}, {2, 0}}, map[slurm.JobID]share{10: {1, false}}},
		"two share by how busy they are":              {[]Process{{1, 0.6}, {3, 0.2}}, map[slurm.JobID]share{10: {0.75, true}, 11: {0.25, true}}},
		"else by processes":                           {[]Process{{1, -1}, {2, 0.9}, {3, 0.2}}, map[slurm.JobID]share{10: {2.0 / 3, true}, 11: {1.0 / 3, true}}},
		"by processes while none is busy":             {[]Process{{1, 0}, {3, 0}}, map[slurm.JobID]share{10: {0.5, true}, 11: {0.5, true}}},
		"someone outside Slurm computes there too":    {[]Process{{1, 0.4}, {9, 0.1}}, map[slurm.JobID]share{10: {0.8, true}}},
		"a monitor looks in":                          {[]Process{{1, 0.4}, {9, 0.01}}, map[slurm.JobID]share{10: {1, false}}},
		"an outsider of whom nothing is known":        {[]Process{{1, -1}, {9, -1}}, map[slurm.JobID]share{10: {1, false}}},
		"a job of another slurmd is an outsider":      {[]Process{{1, 0.3}, {4, 0.3}}, map[slurm.JobID]share{10: {0.5, true}}},
		"nobody's":                                    {[]Process{{9, 0.5}}, map[slurm.JobID]share{}},
	} {
		t.Run(name, func(t *testing.T) {
			s := (&node{jobs: jobs}).sampler()
			s.init()
			g := shared("a", 1, tc.procs...)
			got := map[slurm.JobID]share{}
			for _, p := range s.byProcess(&g).parts {
				got[p.ref.ID] = share{p.share, p.shared}
			}
			if diff := cmp.Diff(tc.want, got, near); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// What the jobs of a GPU are given is never more than there was, and all of it
// when nobody else computed there.
func TestSharesAddUp(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &node{jobs: map[int]JobRef{}}
		var procs []Process
		busyOutside := 0.0
		for pid := 1; pid <= rapid.IntRange(1, 12).Draw(t, "processes"); pid++ {
			busy := rapid.SampledFrom([]float64{-1, 0, 0.01, 0.5, 1}).Draw(t, "busy")
			procs = append(procs, Process{pid, busy})
			if job := rapid.IntRange(0, 4).Draw(t, "job"); job > 0 {
				n.jobs[pid] = JobRef{ID: slurm.JobID(job)}
			} else {
				busyOutside += max(0, busy)
			}
		}
		s := n.sampler()
		s.init()
		g := shared("a", 1, procs...)
		sum := 0.0
		parts := s.byProcess(&g).parts
		for _, p := range parts {
			if !(p.share >= 0 && p.share <= 1) || p.share < 1 && !p.shared || p.shared && len(parts) == 1 && busyOutside == 0 {
				t.Fatalf("part %+v", p)
			}
			sum += p.share
		}
		if sum > 1+1e-9 || len(parts) > 0 && busyOutside == 0 && math.Abs(sum-1) > 1e-9 {
			t.Fatalf("the parts %+v add up to %v", parts, sum)
		}
	})
}

// Two jobs on one card: each has its part of what the card did and moved, and
// weighs the less the less of the card it had.
func TestSamplesOfASharedGPU(t *testing.T) {
	n := &node{jobs: map[int]JobRef{1: {ID: 10, Nodes: 1}, 2: {ID: 11, Nodes: 1}}}
	s := n.sampler()
	read := func(sec float64, nvlink uint64) []Sample {
		card := shared("a", 0.8, Process{1, 0.6}, Process{2, 0.2})
		card.NVLinkTx, card.NVLinkSpeed = &reading{nvlink, at(sec)}, 1000
		card.PCIeRate, card.PCIeSpeed, card.Model, card.Throttled = 40, 100, "H100", 0.5
		own := gpu("b", 2, 0.4)
		own.NVLinkTx, own.NVLinkSpeed = &reading{0, at(sec)}, 1000
		own.PCIeSpeed, own.Model = 100, "H100"
		n.gpus = []GPU{card, own}
		return sample(t, s, at(sec))
	}
	read(0, 0)
	got := read(10, 4000)
	want := []Sample{
		{JobID: 10, GPUs: 1, UUIDs: []string{"a"}, Compute: 0.6, Source: SourcePower, NVLinkRate: 300, NVLinkSpeed: 1000,
			PCIeRate: 30, PCIeSpeed: 100, Model: "H100", Throttled: 0.5, GPUShared: true, Weight: 0.375},
		{JobID: 11, GPUs: 2, UUIDs: []string{"a", "b"}, Compute: 0.3, Source: SourcePower, NVLinkRate: 100, NVLinkSpeed: 2000,
			PCIeRate: 10, PCIeSpeed: 200, Model: "H100", Throttled: 0.5, GPUShared: true, Weight: 0.5},
	}
	ignore := cmpopts.IgnoreFields(Sample{}, "Node", "Boot", "Seq", "At", "Interval")
	if diff := cmp.Diff(want, got, ignore, near); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestSampleOfMIGInstances(t *testing.T) {
	n := &node{jobs: map[int]JobRef{1: {ID: 10, Nodes: 1}, 2: {ID: 11, Nodes: 1}}}
	s := n.sampler()
	for _, sec := range []float64{0, 10} {
		a, b := gpu("MIG-a", 1, 0.5), gpu("MIG-b", 2, 0.1)
		for _, g := range []*GPU{&a, &b} {
			g.Card, g.Part, g.PCIeRate, g.PCIeSpeed, g.NVLinkSpeed = "GPU-card", 0.5, 70, 100, 1000
			g.NVLinkTx = &reading{uint64(sec) * 500, at(sec)}
		}
		n.gpus = []GPU{a, b}
		got := sample(t, s, at(sec))
		if sec == 0 {
			continue
		}
		if len(got) != 2 || got[0].Compute != 0.5 || got[1].Compute != 0.1 {
			t.Errorf("samples %+v, want two with an activity each", got)
		}
		for _, x := range got {
			if x.NVLinkRate+x.NVLinkSpeed+x.PCIeRate+x.PCIeSpeed != 0 || x.GPUShared {
				t.Errorf("sample %+v claims the card's bytes for an instance, or to share it", x)
			}
		}
	}
}

// Slurm's list tells whose a GPU is whose processes cannot be seen, and is not
// asked for otherwise.
func TestGPUsByList(t *testing.T) {
	blind := func(uuid string, minor int, activity float64) GPU {
		g := shared(uuid, activity)
		g.Minor, g.ProcessesKnown = minor, false
		return g
	}
	foreign := func(uuid string, minor int) GPU {
		g := shared(uuid, 0.5, Process{hiddenPIDs, -1})
		g.Minor = minor
		return g
	}
	listed := []JobRef{{ID: 10, Way: WayList, GPUs: []int{0, 1}}, {ID: 11, Way: WayList, GPUs: []int{1, 3}, UUIDs: []string{"MIG-x"}},
		{ID: 12, Way: WayList, GPUs: []int{2}, Node: "gpu02"}}
	instance := blind("MIG-x", 0, 0.5)
	instance.Card = "GPU-card"
	other := blind("MIG-y", 0, 0.5)
	other.Card = "GPU-card"
	for name, tc := range map[string]struct {
		gpus  []GPU
		want  map[string]slurm.JobID
		asked int
		odd   Odd
	}{
		"seen, so not asked for": {[]GPU{gpu("a", 1, 1)}, map[string]slurm.JobID{"a": 9}, 0, Odd{}},
		"idle and known to be":   {[]GPU{shared("a", 0)}, map[string]slurm.JobID{}, 0, Odd{}},
		"a vGPU at work, and an idle one beside it": {[]GPU{blind("a", 0, 0.5), blind("b", 3, 0)},
			map[string]slurm.JobID{"a": 10, "b": 11}, 1, Odd{}},
		"idle vGPUs only":                          {[]GPU{blind("a", 0, 0)}, map[string]slurm.JobID{}, 0, Odd{}},
		"processes of another name space":          {[]GPU{foreign("a", 3)}, map[string]slurm.JobID{"a": 11}, 1, Odd{}},
		"in the lists of two":                      {[]GPU{blind("a", 1, 0.5)}, map[string]slurm.JobID{}, 1, Odd{"GPU without visible processes in the lists of several jobs": 1, "GPU at work for an unknown job": 1}},
		"of another node of the machine, in none":  {[]GPU{blind("a", 2, 0.5)}, map[string]slurm.JobID{}, 1, Odd{"GPU at work for an unknown job": 1}},
		"a number that is not known is in no list": {[]GPU{blind("a", -1, 0.5)}, map[string]slurm.JobID{}, 1, Odd{"GPU at work for an unknown job": 1}},
		"an instance by its UUID, not its card's number": {[]GPU{instance, other},
			map[string]slurm.JobID{"MIG-x": 11}, 1, Odd{"GPU at work for an unknown job": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{jobs: map[int]JobRef{1: {ID: 9, Way: WayCgroup}}, listed: listed, gpus: tc.gpus}
			s := n.sampler()
			sample(t, s, at(0))
			got := map[string]slurm.JobID{}
			for _, v := range s.View().GPUs {
				for _, j := range v.Jobs {
					got[v.UUID] = j.ID
				}
			}
			if diff := cmp.Diff(tc.want, got) + cmp.Diff(tc.odd, s.Odd); diff != "" || n.asked != tc.asked {
				t.Errorf("asked %d times, want %d (-want +got)\n%s", n.asked, tc.asked, diff)
			}
		})
	}
}
