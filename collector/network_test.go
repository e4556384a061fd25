// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// moved is a port that has moved so many bytes out, and none in.
func moved(name string, bytes uint64, sec float64) Port {
	return Port{Name: name, Kind: InfiniBand, Up: true, Used: true, Changes: -1, Speed: 1e9,
		Xmit: reading{bytes, at(sec)}, Rcv: reading{0, at(sec)}}
}

// What a node knows of its network after each of several readings, 10 s apart.
func TestWhatIsKnownOfTheNetwork(t *testing.T) {
	type known struct {
		Rate, Speed float64
		Known       bool
	}
	with := func(p Port, f func(*Port)) Port { f(&p); return p }
	unused := func(p Port) Port { return with(p, func(p *Port) { p.Used = false }) }
	down := func(name string) Port { return Port{Name: name, Kind: InfiniBand, Changes: -1} }
	face := func(bytes uint64, sec float64) Port {
		return with(moved("eth0", bytes, sec), func(p *Port) { p.Kind, p.Twin = Ethernet, "r/1" })
	}
	const gb = 1e9
	for name, tc := range map[string]struct {
		readings [][]Port
		want     []known // of each reading but the first
		odd      Odd
	}{
		"all ports that count, added up": {
			[][]Port{{moved("a", 0, 0), moved("b", 0, 0), unused(moved("c", 0, 0))}, {moved("a", gb, 10), moved("b", 2*gb, 10), unused(moved("c", 9*gb, 10))}},
			[]known{{3e8, 2e9, true}}, Odd{}},
		"by the counter's own time, not ours": {
			[][]Port{{moved("a", 0, 0)}, {moved("a", gb, 5)}}, []known{{2e8, 1e9, true}}, Odd{}},
		"a port that lost its link leaves an interval unknown, then counts no more": {
			[][]Port{{moved("a", 0, 0), moved("b", 0, 0)}, {moved("a", gb, 10), down("b")}, {moved("a", 2*gb, 20), down("b")}},
			[]known{{}, {1e8, 1e9, true}}, Odd{"network port lost": 1}},
		"a port that is gone, as when its driver is loaded anew": {
			[][]Port{{moved("a", gb, 0)}, {}, {moved("a", 0, 20)}, {moved("a", gb, 30)}},
			[]known{{}, {}, {1e8, 1e9, true}}, Odd{"network port lost": 1, "network counter went back": 1}},
		"a port that comes back has no rate at first": {
			[][]Port{{moved("a", 0, 0), down("b")}, {moved("a", gb, 10), moved("b", 5*gb, 10)}, {moved("a", 2*gb, 20), moved("b", 6*gb, 20)}},
			[]known{{}, {2e8, 2e9, true}}, Odd{}},
		"a link that flapped within an interval": {
			[][]Port{{with(moved("a", 0, 0), func(p *Port) { p.Changes = 1 })}, {with(moved("a", gb, 10), func(p *Port) { p.Changes = 3 })}},
			[]known{{1e8, 1e9, true}}, Odd{"network port flapped": 1}},
		"a counter of 32 bits that wrapped": {
			[][]Port{{moved("a", math.MaxUint32-5, 0)}, {moved("a", 100, 10)}, {moved("a", 1100, 20)}},
			[]known{{}, {100, 1e9, true}}, Odd{"network counter went back": 1}},
		"a counter that jumped": {
			[][]Port{{moved("a", 0, 0)}, {moved("a", 1<<60, 10)}, {moved("a", 1<<60+1000, 20)}},
			[]known{{}, {100, 1e9, true}}, Odd{"network counter faster than its link": 1}},
		"an unknown speed leaves the rate": {
			[][]Port{{with(moved("a", 0, 0), func(p *Port) { p.Speed = 0 }), moved("b", 0, 0)}, {with(moved("a", gb, 10), func(p *Port) { p.Speed = 0 }), moved("b", 0, 10)}},
			[]known{{1e8, 0, true}}, Odd{}},
		"TCP over a RoCE port shows at its interface": {
			[][]Port{{moved("r/1", 0, 0), face(0, 0)}, {moved("r/1", 1000, 10), face(gb, 10)}}, []known{{1e8, 1e9, true}}, Odd{}},
		"RDMA shows at the port, and both count once": {
			[][]Port{{moved("r/1", 0, 0), face(0, 0)}, {moved("r/1", gb, 10), face(gb/2, 10)}}, []known{{1e8, 1e9, true}}, Odd{}},
		"nothing that counts": {[][]Port{{unused(moved("a", 0, 0))}, {unused(moved("a", gb, 10))}}, []known{{}}, Odd{}},
	} {
		t.Run(name, func(t *testing.T) {
			n := &node{}
			s := n.sampler()
			s.init()
			var got []known
			for i, ports := range tc.readings {
				n.ports = ports
				net, err := s.readNetwork()
				if err != nil {
					t.Fatal(err)
				}
				if i > 0 {
					got = append(got, known{net.rate, net.speed, net.known})
				}
			}
			if diff := cmp.Diff(tc.want, got, near) + cmp.Diff(tc.odd, s.Odd); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
		})
	}
}

// Whatever the ports do, what is said to be known can be carried by the links.
func TestNetworkNeverPassesItsLinks(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := &node{}
		s := n.sampler()
		s.init()
		now := 0.0
		for range rapid.IntRange(1, 8).Draw(t, "readings") {
			now += rapid.Float64Range(0, 20).Draw(t, "seconds")
			n.ports = nil
			for _, name := range []string{"a/1", "b/1", "c"} {
				if !rapid.Bool().Draw(t, "there") {
					continue
				}
				p := moved(name, rapid.Uint64Range(0, 1e11).Draw(t, "bytes"), now)
				p.Up, p.Used = rapid.Bool().Draw(t, "up"), true
				p.Used = p.Up && rapid.Bool().Draw(t, "used")
				if name == "c" && rapid.Bool().Draw(t, "face") {
					p.Twin = "a/1"
				}
				n.ports = append(n.ports, p)
			}
			net, err := s.readNetwork()
			if err != nil {
				t.Fatal(err)
			}
			if net.known && !(net.rate >= 0 && net.rate <= slack*net.speed) || !net.known && (net.rate != 0 || net.speed != 0) {
				t.Fatalf("%+v", net)
			}
		}
	})
}

func TestStepOfTheClock(t *testing.T) {
	for name, tc := range map[string]struct {
		monotonic, wall time.Duration
		want            bool
	}{
		"steady":          {15 * time.Second, 15 * time.Second, false},
		"slewed":          {15 * time.Second, 15*time.Second + 8*time.Millisecond, false},
		"set back":        {15 * time.Second, -time.Hour, true},
		"set forward":     {15 * time.Second, time.Hour, true},
		"a leap second":   {15 * time.Second, 14 * time.Second, false},
		"the node slept":  {15 * time.Second, 8 * time.Hour, true},
		"summer time lie": {15 * time.Second, time.Hour + 15*time.Second, true},
	} {
		if got := stepped(tc.monotonic, tc.wall); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// The interval goes by the monotonic clock: a wall clock that is set makes no
// sample longer, and none impossible.
func TestIntervalIsMonotonic(t *testing.T) {
	n := &node{jobs: map[int]JobRef{1: {ID: 10, Nodes: 1}}, gpus: []GPU{gpu("a", 1, 1)}}
	s := n.sampler()
	now := time.Now()
	sample(t, s, now)
	got := sample(t, s, now.Add(10*time.Second))
	if len(got) != 1 || got[0].Interval != 10*time.Second || got[0].At != got[0].At.Round(0) {
		t.Errorf("samples %+v", got)
	}
	// As after hours of sleep, or a process that was stopped.
	if got := sample(t, s, now.Add(5*time.Hour)); len(got) != 0 || s.Odd["interval too long"] != 1 {
		t.Errorf("samples %+v over hours, odd %v", got, s.Odd)
	}
}

func TestMarksOfASample(t *testing.T) {
	good := Sample{Node: "n", Boot: "b", Seq: 1, JobID: 1, GPUs: 1, Interval: time.Second, At: start, Source: SourceGPM}
	for name, tc := range map[string]struct {
		change func(*Sample)
		ok     bool
	}{
		"none":                  {func(*Sample) {}, true},
		"all that is allowed":   {func(s *Sample) { s.Origin, s.Weight, s.Throttled, s.Model = OriginSacct, 1, 1, "H100" }, true},
		"an unknown origin":     {func(s *Sample) { s.Origin = "rumour" }, false},
		"too heavy":             {func(s *Sample) { s.Weight = 1.1 }, false},
		"a negative weight":     {func(s *Sample) { s.Weight = -0.1 }, false},
		"no weight at all":      {func(s *Sample) { s.Weight = math.NaN() }, false},
		"throttled beyond all":  {func(s *Sample) { s.Throttled = 2 }, false},
		"throttled by nothing":  {func(s *Sample) { s.Throttled = -1 }, false},
		"throttled, not number": {func(s *Sample) { s.Throttled = math.NaN() }, false},
		"a model without end":   {func(s *Sample) { s.Model = string(make([]byte, 300)) }, false},
	} {
		s := good
		tc.change(&s)
		if err := s.Validate(); (err == nil) != tc.ok {
			t.Errorf("%s: %v", name, err)
		}
	}
}
