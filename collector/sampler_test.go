// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
)

var start = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

func at(seconds float64) time.Time {
	return start.Add(time.Duration(seconds * float64(time.Second)))
}

func TestMeter(t *testing.T) {
	for name, tc := range map[string]struct {
		readings []reading
		speed    float64
		want     []float64 // rates; -1 for none
		odd      Odd
	}{
		"steady traffic": {
			[]reading{{1000, at(0)}, {3000, at(2)}, {3000, at(4)}}, 1e4, []float64{-1, 1000, 0}, Odd{}},
		"the counter's own stamps count, not ours": {
			[]reading{{0, at(0)}, {900, at(0.9)}}, 1e4, []float64{-1, 1000}, Odd{}},
		"a reset gives no rate and starts anew": {
			[]reading{{5000, at(0)}, {100, at(1)}, {300, at(2)}}, 1e4, []float64{-1, -1, 200}, Odd{"x counter went back": 1}},
		"faster than the link is garbage": {
			[]reading{{0, at(0)}, {1 << 60, at(1)}, {1<<60 + 10, at(2)}}, 1e4, []float64{-1, -1, 10},
			Odd{"x counter faster than its link": 1}},
		"garbage shows without a known speed too": {
			[]reading{{0, at(0)}, {math.MaxUint64, at(1)}}, 0, []float64{-1, -1}, Odd{"x counter faster than its link": 1}},
		"read again before it was updated": {
			[]reading{{0, at(0)}, {0, at(0)}, {500, at(1)}}, 1e4, []float64{-1, -1, 500}, Odd{}},
		"changed without a new stamp": {
			[]reading{{0, at(0)}, {7, at(0)}}, 1e4, []float64{-1, -1}, Odd{"x counter without a new time stamp": 1}},
	} {
		t.Run(name, func(t *testing.T) {
			var m meter
			odd, got := Odd{}, []float64{}
			for _, r := range tc.readings {
				v, ok := m.rate(r, tc.speed, "x", odd)
				if !ok {
					v = -1
				}
				got = append(got, v)
			}
			if diff := cmp.Diff(tc.want, got) + cmp.Diff(tc.odd, odd); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Whatever a counter does, a rate that comes out is one that the link can carry.
func TestMeterNeverBelievesTheImpossible(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var m meter
		speed := rapid.Float64Range(0, 1e12).Draw(t, "speed")
		limit := speed
		if limit == 0 {
			limit = fastestLink
		}
		now := start
		for range rapid.IntRange(1, 20).Draw(t, "readings") {
			now = now.Add(time.Duration(rapid.Int64Range(-1e9, 1e10).Draw(t, "dt")))
			v, ok := m.rate(reading{rapid.Uint64().Draw(t, "bytes"), now}, speed, "x", Odd{})
			if ok && !(v >= 0 && v <= slack*limit) {
				t.Fatalf("rate %v on a link of %v", v, limit)
			}
		}
	})
}

// node is a fake node: GPUs, ports and whose processes are whose.
type node struct {
	gpus  []GPU
	ports []Port
	jobs  map[int]JobRef
	err   error

	listed []JobRef // the jobs with processes here, as Slurm's lists have them
	asked  int      // how often they were asked for
}

func (n *node) Read(time.Time, Odd) ([]GPU, error) { return n.gpus, n.err }
func (n *node) Close() error                       { return nil }
func (n *node) Job(pid int) (JobRef, bool) {
	if r, ok := n.jobs[pid]; ok {
		return r, true
	}
	if pid >= hiddenPIDs {
		return JobRef{Way: WayHidden}, false
	}
	return JobRef{Way: WayNone}, false
}

// hiddenPIDs and those above are of processes that cannot be seen.
const hiddenPIDs = 70

func (n *node) Next()          {}
func (n *node) Jobs() []JobRef { n.asked++; return n.listed }

type ports struct{ *node }

func (p ports) Read(Odd) ([]Port, error) { return p.ports, nil }

func (n *node) sampler() *Sampler {
	return &Sampler{Node: "gpu01", Boot: "b", GPUs: n, Net: ports{n}, Jobs: n}
}

// gpu is one with a process of its own number as pid.
func gpu(uuid string, pid int, activity float64) GPU {
	return GPU{UUID: uuid, Minor: -1, Part: 1, Processes: []Process{{PID: pid, Busy: -1}}, ProcessesKnown: true,
		Activity: activity, Source: SourcePower, Throttled: -1}
}

// port has moved that many bytes out, and half of them in.
func port(xmit uint64, when time.Time) Port {
	return Port{Name: "mlx5_0/1", Up: true, Used: true, Xmit: reading{xmit, when}, Rcv: reading{xmit / 2, when}, Speed: 1e9}
}

func sample(t *testing.T, s *Sampler, now time.Time) []Sample {
	t.Helper()
	out, err := s.Sample(now)
	if err != nil {
		t.Fatal(err)
	}
	for i := range out {
		if err := out[i].Validate(); err != nil {
			t.Errorf("sample %+v: %v", out[i], err)
		}
	}
	return out
}

func TestSampleOfOneJob(t *testing.T) {
	n := &node{jobs: map[int]JobRef{1: {ID: 17, Nodes: 2}, 2: {ID: 17, Nodes: 2}}}
	s := n.sampler()
	read := func(sec float64, nvlink, net uint64) []Sample {
		n.gpus = []GPU{gpu("a", 1, 0.4), gpu("b", 2, 0.6), {UUID: "c", Part: 1, ProcessesKnown: true, Throttled: -1}}
		for i := range n.gpus {
			n.gpus[i].NVLinkTx = &reading{nvlink, at(sec)}
			n.gpus[i].NVLinkRx = &reading{nvlink / 4, at(sec)}
			n.gpus[i].NVLinkSpeed = 100
		}
		n.ports = []Port{port(net, at(sec))}
		return sample(t, s, at(sec))
	}
	if got := read(0, 1000, 0); len(got) != 0 {
		t.Errorf("the first reading gave %+v", got)
	}
	got := read(10, 1500, 4e9)
	want := []Sample{{
		Node: "gpu01", Boot: "b", Seq: 1, JobID: 17, At: at(10), Interval: 10 * time.Second,
		GPUs: 2, UUIDs: []string{"a", "b"}, Compute: 0.5, Source: SourcePower,
		NVLinkRate: 100, NVLinkSpeed: 200, NetRate: 4e8, NetSpeed: 1e9,
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

// net sets a node's jobs by GPUs and node counts and returns who is given how
// much of 100 MB/s, and whether as an estimate.
func TestWhoseTrafficItIs(t *testing.T) {
	type share struct {
		Rate   float64
		Shared bool
	}
	for name, tc := range map[string]struct {
		jobs map[int]JobRef // by process; one GPU each
		want map[slurm.JobID]share
	}{
		"the only job that spans nodes has all of it": {
			map[int]JobRef{1: {ID: 10, Nodes: 2}, 2: {ID: 11, Nodes: 1}}, map[slurm.JobID]share{10: {1e8, false}, 11: {0, false}}},
		"two that span nodes share by GPUs": {
			map[int]JobRef{1: {ID: 10, Nodes: 2}, 2: {ID: 10, Nodes: 2}, 3: {ID: 10, Nodes: 2}, 4: {ID: 11, Nodes: 4}},
			map[slurm.JobID]share{10: {0.75e8, true}, 11: {0.25e8, true}}},
		"a job in one node only moves nothing outside": {
			map[int]JobRef{1: {ID: 10, Nodes: 1}}, map[slurm.JobID]share{10: {0, false}}},
		"of unknown size, it may be its traffic": {
			map[int]JobRef{1: {ID: 10, Nodes: 0}, 2: {ID: 11, Nodes: 1}}, map[slurm.JobID]share{10: {1e8, false}, 11: {0, false}}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{jobs: tc.jobs}
			for pid := range tc.jobs {
				n.gpus = append(n.gpus, gpu(string(rune('a'+pid)), pid, 1))
			}
			s := n.sampler()
			n.ports = []Port{port(0, at(0))}
			sample(t, s, at(0))
			n.ports = []Port{port(1e9, at(10))}
			got := map[slurm.JobID]share{}
			for _, x := range sample(t, s, at(10)) {
				got[x.JobID] = share{x.NetRate, x.NetShared}
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

func TestWhatASampleLeavesOut(t *testing.T) {
	mig := gpu("a", 1, 1)
	mig.Card = "a"
	blind := gpu("a", 1, 0)
	blind.Source = SourceNone
	joined := gpu("a", 1, 1)
	joined.Processes = []Process{{PID: 1, Busy: 0.5}, {PID: 2, Busy: 0.5}}
	for name, tc := range map[string]struct {
		before, after GPU
		samples       int
		odd           Odd
	}{
		"a job that came during the interval":    {gpu("a", 9, 0), gpu("a", 1, 1), 0, Odd{}},
		"a GPU that changed hands":               {gpu("a", 2, 0), gpu("a", 1, 1), 0, Odd{}},
		"a second job that came to the GPU":      {gpu("a", 1, 0), joined, 0, Odd{"GPU shared by other jobs than before": 1}},
		"a second job that left the GPU":         {joined, gpu("a", 1, 0), 0, Odd{"GPU shared by other jobs than before": 1}},
		"a card in MIG mode, not its instances":  {mig, mig, 0, Odd{"GPU in MIG mode without instances": 2}},
		"a process outside Slurm":                {gpu("a", 9, 1), gpu("a", 9, 1), 0, Odd{}},
		"a process of another node's slurmd":     {gpu("a", 3, 1), gpu("a", 3, 1), 0, Odd{"process of another Slurm node of this machine": 2}},
		"an unknown activity, but not the bytes": {blind, blind, 1, Odd{}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{jobs: map[int]JobRef{1: {ID: 10, Nodes: 1}, 2: {ID: 11, Nodes: 1},
				3: {ID: 12, Node: "gpu02", NodeSure: true}}, gpus: []GPU{tc.before}}
			s := n.sampler()
			sample(t, s, at(0))
			n.gpus = []GPU{tc.after}
			got := sample(t, s, at(10))
			if len(got) != tc.samples {
				t.Errorf("samples %+v, want %d", got, tc.samples)
			}
			for _, x := range got {
				if x.Source != SourceNone {
					t.Errorf("source %q of an activity that nobody read", x.Source)
				}
			}
			if diff := cmp.Diff(tc.odd, s.Odd); diff != "" {
				t.Errorf("odd (-want +got)\n%s", diff)
			}
		})
	}
}

func TestNodeWithoutNetworkCounters(t *testing.T) {
	n := &node{jobs: map[int]JobRef{1: {ID: 10, Nodes: 2}}, gpus: []GPU{gpu("a", 1, 1)}}
	s := n.sampler()
	sample(t, s, at(0))
	got := sample(t, s, at(10))
	if len(got) != 1 || got[0].NetSpeed != 0 || got[0].NetRate != 0 {
		t.Errorf("samples %+v, want one that knows nothing of the network", got)
	}
}

func TestReadFailureIsOneError(t *testing.T) {
	n := &node{err: errors.New("driver gone")}
	if _, err := n.sampler().Sample(at(0)); !errors.Is(err, n.err) {
		t.Errorf("error %v", err)
	}
}
