// SPDX-License-Identifier: Apache-2.0

package collector

import "slices"

// jobUse is what a job's GPUs on this node did, added up.
type jobUse struct {
	ref    JobRef
	sample Sample

	activity  float64
	measured  int     // GPUs whose activity is known
	throttled float64 // over the GPUs where it is known
	tempered  int     // how many these are
	weight    float64 // over all GPUs
	parts     float64 // whole cards' worth of GPU
	models    []string

	nvlink, pcie linkUse
	stalled      bool // of one GPU: see gpuLinks
}

// linkUse adds up one kind of link over a job's GPUs.
type linkUse struct {
	rate, speed float64
	unknown     bool // of one GPU the rate is not known, so the sum is not
}

func (l *linkUse) add(rate, speed float64, known bool) {
	l.rate, l.speed = l.rate+rate, l.speed+speed
	l.unknown = l.unknown || !known
}

// sum is the rate and what the links carry; both 0 when it is not known.
func (l *linkUse) sum() (rate, speed float64) {
	if l.unknown {
		return 0, 0
	}
	return l.rate, l.speed
}

// add adds the job's part of one GPU.
func (u *jobUse) add(g *GPU, p part, links gpuLinks) {
	u.sample.GPUs++
	u.sample.UUIDs = append(u.sample.UUIDs, g.UUID)
	u.parts += p.share * g.Part
	u.weight++
	if p.shared {
		u.weight += sharedWeight*p.share - 1
		u.sample.GPUShared = true
	}
	if !slices.Contains(u.models, g.Model) {
		u.models = append(u.models, g.Model)
	}
	if g.Throttled >= 0 {
		u.throttled += g.Throttled
		u.tempered++
	}
	u.stalled = u.stalled || links.stalled && g.Card == ""
	if g.Card == "" { // an instance's bytes are in its card's counters, with the others'
		u.nvlink.add(p.share*links.nvlink, g.NVLinkSpeed, links.nvlinkKnown || g.NVLinkSpeed == 0)
		u.pcie.add(p.share*links.pcie, g.PCIeSpeed, links.pcieKnown)
	}
	if g.Source == SourceNone {
		return
	}
	u.measured++
	u.activity += p.share * g.Activity
	if g.Source.weakness() > u.sample.Source.weakness() {
		u.sample.Source = g.Source
	}
}

// cards is how many whole cards' worth of GPU the job has here.
func (u *jobUse) cards() float64 {
	if u.parts > 0 {
		return u.parts
	}
	return float64(u.sample.GPUs)
}

// finish writes what was added up into the sample.
func (u *jobUse) finish() {
	s := &u.sample
	if u.measured > 0 {
		s.Compute = min(1, u.activity/float64(u.measured))
	} else {
		s.Source = SourceNone
	}
	if u.tempered > 0 {
		s.Throttled = u.throttled / float64(u.tempered)
	}
	if len(u.models) == 1 {
		s.Model = u.models[0]
	}
	if s.GPUShared {
		s.Weight = max(leastWeight, min(sharedWeight, u.weight/float64(s.GPUs)))
	}
	s.NVLinkRate, s.NVLinkSpeed = u.nvlink.sum()
	s.PCIeRate, s.PCIeSpeed = u.pcie.sum()
}
