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

	seq    uint64
	last   time.Time
	owners map[string]slurm.JobID // by UUID, at the last reading
	meters map[string]*meter
	split  netSplit
}

// jobUse is what a job's GPUs on this node did, added up.
type jobUse struct {
	ref      JobRef
	sample   Sample
	activity float64
	measured int // GPUs whose activity is known
}

// Sample reads the node and returns what each job did since the last call; the
// first call returns none. A GPU counts for a job that had it at both ends of
// the interval, so a job's first part of an interval is left out.
func (s *Sampler) Sample(now time.Time) ([]Sample, error) {
	if s.Odd == nil {
		s.Odd = Odd{}
	}
	if s.meters == nil {
		s.meters = map[string]*meter{}
	}
	gpus, err := s.GPUs.Read(now, s.Odd)
	if err != nil {
		return nil, fmt.Errorf("read GPUs of %s: %w", s.Node, err)
	}
	netRate, netSpeed, netOK, err := s.network()
	if err != nil {
		return nil, fmt.Errorf("read network of %s: %w", s.Node, err)
	}

	uses, owners := s.use(gpus)
	interval, first := now.Sub(s.last), s.last.IsZero()
	s.last, s.owners = now, owners
	if first || interval <= 0 {
		return nil, nil
	}
	if netOK {
		s.split.share(uses, netRate)
	}
	out := make([]Sample, 0, len(uses))
	for _, u := range uses {
		if u.measured > 0 {
			u.sample.Compute = u.activity / float64(u.measured)
		} else {
			u.sample.Source = SourceNone
		}
		s.seq++
		u.sample.Node, u.sample.Boot, u.sample.Seq = s.Node, s.Boot, s.seq
		u.sample.At, u.sample.Interval = now, interval
		u.sample.NetSpeed = netSpeed
		out = append(out, u.sample)
	}
	return out, nil
}

// use groups the GPUs by job, in order of job ids, and tells whose each is.
func (s *Sampler) use(gpus []GPU) ([]*jobUse, map[string]slurm.JobID) {
	owners := map[string]slurm.JobID{}
	byJob := map[slurm.JobID]*jobUse{}
	for i := range gpus {
		g := &gpus[i]
		nvlink := s.nvlinkRate(g) // in any case, so that the meters keep up
		ref, ok := s.owner(g)
		if !ok {
			continue
		}
		owners[g.UUID] = ref.ID
		if s.owners[g.UUID] != ref.ID {
			continue
		}
		u := byJob[ref.ID]
		if u == nil {
			u = &jobUse{ref: ref, sample: Sample{JobID: ref.ID, Source: SourceGPM}}
			byJob[ref.ID] = u
		}
		u.add(g, nvlink)
	}
	out := slices.Collect(maps.Values(byJob))
	slices.SortFunc(out, func(a, b *jobUse) int { return int(int64(a.ref.ID) - int64(b.ref.ID)) })
	return out, owners
}

// owner returns the one job that the GPU's processes belong to. A GPU that
// several jobs share, or that is cut up by MIG, cannot be told apart by its
// counters.
func (s *Sampler) owner(g *GPU) (JobRef, bool) {
	var ref JobRef
	for _, p := range g.Processes {
		r, ok := s.Jobs.Job(p.PID)
		if !ok {
			continue
		}
		if ref.ID != 0 && ref.ID != r.ID {
			s.Odd["GPU shared by several jobs"]++
			return JobRef{}, false
		}
		ref = r
	}
	if ref.ID != 0 && g.Card != "" {
		s.Odd["GPU in MIG mode"]++
		return JobRef{}, false
	}
	return ref, ref.ID != 0
}

func (u *jobUse) add(g *GPU, nvlink float64) {
	u.sample.GPUs++
	u.sample.UUIDs = append(u.sample.UUIDs, g.UUID)
	u.sample.NVLinkRate += nvlink
	u.sample.NVLinkSpeed += g.NVLinkSpeed
	u.sample.PCIeRate += g.PCIeRate
	u.sample.PCIeSpeed += g.PCIeSpeed
	if g.Source == SourceNone {
		return
	}
	u.measured++
	u.activity += g.Activity
	if g.Source.weakness() > u.sample.Source.weakness() {
		u.sample.Source = g.Source
	}
}

// nvlinkRate is the GPU's rate in the busier direction.
func (s *Sampler) nvlinkRate(g *GPU) float64 {
	var rate float64
	for dir, r := range map[string]*reading{"tx": g.NVLinkTx, "rx": g.NVLinkRx} {
		if r == nil {
			continue
		}
		v, _ := s.meter(g.UUID+"/"+dir).rate(*r, g.NVLinkSpeed, "NVLink", s.Odd)
		rate = max(rate, v)
	}
	return rate
}

// network is the node's rate in the busier direction over all ports, and what
// they carry. A port without a rate leaves the node without one.
func (s *Sampler) network() (rate, speed float64, ok bool, err error) {
	ports, err := s.Net.Read(s.Odd)
	if err != nil {
		return 0, 0, false, err
	}
	var xmit, rcv float64
	ok = len(ports) > 0
	for _, p := range ports {
		x, ok1 := s.meter(p.Name+"/xmit").rate(p.Xmit, p.Speed, "network", s.Odd)
		r, ok2 := s.meter(p.Name+"/rcv").rate(p.Rcv, p.Speed, "network", s.Odd)
		xmit, rcv, ok = xmit+x, rcv+r, ok && ok1 && ok2
		speed += p.Speed
	}
	if !ok {
		return 0, 0, false, nil // speed 0: this sample knows nothing of the network
	}
	return max(xmit, rcv), speed, true, nil
}

func (s *Sampler) meter(key string) *meter {
	m := s.meters[key]
	if m == nil {
		m = &meter{}
		s.meters[key] = m
	}
	return m
}
