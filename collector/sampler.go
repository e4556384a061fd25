// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"rifling/slurm"
)

// Sampler turns two readings of a node into one sample per job. It is not safe
// for concurrent use. Set the exported fields before the first call.
type Sampler struct {
	Node string
	Boot string // see Sample
	GPUs GPUSource
	Net  NetSource
	Jobs JobSource

	// Odd counts what was left out since the sampler was made.
	Odd Odd

	seq     uint64
	last    time.Time
	jobs    map[string][]slurm.JobID // by UUID, at the last reading
	meters  map[string]*meter
	changes map[string]int64    // of the ports' links, by name
	used    map[string]bool     // ports that counted at the last reading
	spans   map[slurm.JobID]int // nodes of each job, 0 unknown, at the last reading
	split   netSplit
	view    View
}

// gpuLinks is what one GPU's links did, in the busier direction.
type gpuLinks struct {
	nvlink, pcie           float64
	nvlinkKnown, pcieKnown bool
	// stalled tells that a counter is there and gave no rate this time: it
	// showed nothing new, or went back.
	stalled bool
}

// Sample reads the node and returns what each job did since the last call; the
// first call returns none. A GPU counts for a job that had it at both ends of
// the interval, so a job's first part of an interval is left out.
//
// The interval is by now's monotonic clock where it has one, so that a step of
// the node's clock does not change it.
func (s *Sampler) Sample(now time.Time) ([]Sample, error) {
	s.init()
	gpus, err := s.GPUs.Read(now, s.Odd)
	if err != nil {
		return nil, fmt.Errorf("read GPUs of %s: %w", s.Node, err)
	}
	net, err := s.readNetwork()
	if err != nil {
		return nil, fmt.Errorf("read network of %s: %w", s.Node, err)
	}
	interval, first := now.Sub(s.last), s.last.IsZero()
	if !first && stepped(interval, now.Round(0).Sub(s.last.Round(0))) {
		s.Odd["the node's clock was set"]++ // no rate goes by it
	}
	uses, turnover := s.use(gpus)
	s.view.Ports = net.ports
	s.last = now
	if first || interval <= 0 {
		return nil, nil
	}
	if interval > maxInterval {
		s.Odd["interval too long"]++ // the node slept, or the collector was stopped
		return nil, nil
	}
	for _, u := range uses {
		u.finish()
	}
	if net.known {
		s.split.share(uses, net.rate)
	}
	out := make([]Sample, 0, len(uses))
	for _, u := range uses {
		if net.known && turnover && u.ref.Nodes != 1 {
			// What of the node's bytes were the other's nobody can tell.
			s.Odd["job left out of an interval: another that spans nodes came or went"]++
			continue
		}
		if u.stalled {
			// Without its links' bytes a job would seem to stand still, or only
			// to compute. The next rate covers this interval too.
			s.Odd["job left out of an interval: a link's counter gave no rate"]++
			continue
		}
		x := u.sample
		s.seq++
		x.Node, x.Boot, x.Seq = s.Node, s.Boot, s.seq
		x.At, x.Interval = now.Round(0), interval
		x.NetSpeed = net.speed
		out = append(out, x)
	}
	return out, nil
}

func (s *Sampler) init() {
	if s.Odd == nil {
		s.Odd = Odd{}
	}
	if s.meters == nil {
		s.meters, s.changes = map[string]*meter{}, map[string]int64{}
	}
	s.Jobs.Next()
}

// step is how far wall clock and monotonic clock may differ over an interval:
// what a time daemon slews in an hour is a tenth of that.
const step = 2 * time.Second

// stepped reports whether the wall clock was set during an interval.
func stepped(monotonic, wall time.Duration) bool {
	return (wall - monotonic).Abs() > step
}

// use groups the GPUs by job, in order of job ids. turnover tells that a job
// which may span nodes came or went since the last reading.
func (s *Sampler) use(gpus []GPU) (uses []*jobUse, turnover bool) {
	found := s.owners(gpus)
	now := make(map[string][]slurm.JobID, len(gpus))
	byJob, spans := map[slurm.JobID]*jobUse{}, map[slurm.JobID]int{}
	s.view = View{GPUs: make([]GPUView, len(gpus))}
	for i := range gpus {
		g := &gpus[i]
		l := s.linkRates(g) // in any case, so that the meters keep up
		s.view.GPUs[i] = viewGPU(g, found[i], l)
		now[g.UUID] = jobsOf(found[i])
		for _, p := range found[i].parts {
			spans[p.ref.ID] = p.ref.Nodes
		}
		if before := s.jobs[g.UUID]; !slices.Equal(now[g.UUID], before) {
			if len(before) > 1 || len(before) == 1 && len(now[g.UUID]) > 1 {
				s.Odd["GPU shared by other jobs than before"]++
			}
			continue
		}
		for _, p := range found[i].parts {
			u := byJob[p.ref.ID]
			if u == nil {
				u = &jobUse{ref: p.ref, sample: Sample{JobID: p.ref.ID, Source: SourceGPM}}
				byJob[p.ref.ID] = u
			}
			u.add(g, p, l)
		}
	}
	s.view.Ways = countWays(s.view.GPUs)
	turnover = turned(s.spans, spans)
	s.jobs, s.spans = now, spans
	uses = slices.Collect(maps.Values(byJob))
	slices.SortFunc(uses, func(a, b *jobUse) int { return int(int64(a.ref.ID) - int64(b.ref.ID)) })
	return uses, turnover
}

// turned reports whether a job that may span nodes is in one of the two only.
func turned(before, now map[slurm.JobID]int) bool {
	missing := func(in, other map[slurm.JobID]int) bool {
		for id, nodes := range in {
			if _, there := other[id]; !there && nodes != 1 {
				return true
			}
		}
		return false
	}
	return missing(before, now) || missing(now, before)
}

// linkRates are the GPU's rates in the busier direction, from counters where
// there are any.
func (s *Sampler) linkRates(g *GPU) (l gpuLinks) {
	l.nvlink, l.nvlinkKnown = s.busier(g.UUID+"/nvlink/", "NVLink", g.NVLinkTx, g.NVLinkRx, g.NVLinkSpeed)
	l.stalled = !l.nvlinkKnown && (g.NVLinkTx != nil || g.NVLinkRx != nil)
	if g.PCIeTx == nil && g.PCIeRx == nil {
		l.pcie, l.pcieKnown = g.PCIeRate, true
		return l
	}
	l.pcie, l.pcieKnown = s.busier(g.UUID+"/pcie/", "PCIe", g.PCIeTx, g.PCIeRx, g.PCIeSpeed)
	l.stalled = l.stalled || !l.pcieKnown
	return l
}

// busier is the rate of the busier direction of those that are known.
func (s *Sampler) busier(key, name string, tx, rx *reading, speed float64) (rate float64, known bool) {
	for dir, r := range map[string]*reading{"tx": tx, "rx": rx} {
		if r == nil {
			continue
		}
		if v, ok := s.meter(key+dir).rate(*r, speed, name, s.Odd); ok {
			rate, known = max(rate, v), true
		}
	}
	return rate, known
}

func (s *Sampler) meter(key string) *meter {
	m := s.meters[key]
	if m == nil {
		m = &meter{}
		s.meters[key] = m
	}
	return m
}
