// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"slices"

	"rifling/collector"
	"rifling/slurm"
)

// idlePart is a card's idle power as a part of its limit where the site does
// not say: the collector's own guess, docs/design/collector.md.
const idlePart = 0.15

// activity is the best that is known of a GPU.
func (g *gpu) activity(o Options) (float64, collector.Source) {
	if c, ok := g.m[SM]; ok {
		return c.v, collector.SourceGPM
	}
	limit := o.PowerLimit
	if c, ok := g.m[PowerLimit]; ok && limit == 0 {
		limit = c.v
	}
	if c, ok := g.m[Power]; ok && limit > 0 {
		idle := o.PowerIdle
		if idle == 0 {
			idle = idlePart * limit
		}
		if idle < limit {
			return min(1, max(0, (c.v-idle)/(limit-idle))), collector.SourcePower
		}
	}
	if c, ok := g.m[Utilization]; ok {
		return c.v, collector.SourceUtilization
	}
	return 0, collector.SourceNone
}

// busier is the rate of the busier direction.
func (g *gpu) busier(tx, rx Meaning) float64 { return max(g.m[tx].v, g.m[rx].v) }

// sample puts a job's GPUs on a node together. ok is false where one of them
// has a gap: the others' sum would say too little.
func (t *table) sample(n *node, j *slurm.Job, gpus []*gpu) (s collector.Sample, ok bool) {
	if slices.ContainsFunc(gpus, (*gpu).gap) {
		t.left.add("job with a gap in its values", "")
		return s, false
	}
	s = collector.Sample{Node: n.name, JobID: j.ID, GPUs: len(gpus), Source: collector.SourceGPM}
	sum, measured := 0.0, 0
	for _, g := range gpus {
		s.UUIDs = append(s.UUIDs, g.id)
		s.NVLinkRate += g.busier(NVLinkTx, NVLinkRx)
		s.PCIeRate += g.busier(PCIeTx, PCIeRx)
		s.NVLinkSpeed += g.m[NVLinkSpeed].v
		s.PCIeSpeed += g.m[PCIeSpeed].v
		a, source := g.activity(t.opts)
		if source == collector.SourceNone {
			continue
		}
		sum, measured = sum+a, measured+1
		if weaker(source, s.Source) {
			s.Source = source
		}
	}
	if measured == 0 {
		t.left.add("job without an activity", "")
		return s, false
	}
	s.Compute = sum / float64(measured)
	return s, true
}

func weaker(a, b collector.Source) bool {
	rank := []collector.Source{collector.SourceGPM, collector.SourcePower, collector.SourceUtilization}
	return slices.Index(rank, a) > slices.Index(rank, b)
}

// network gives the node's traffic to its jobs that span nodes, by what their
// GPUs move over PCIe where that is known of all of them, else by GPUs: as the
// collector does, but that means over a slot need no smoothing. A port without
// a value leaves the node without traffic: the samples know nothing of it then.
func (t *table) network(n *node, here []collector.Sample) {
	var xmit, rcv, speed float64
	known := false
	for _, p := range n.ports {
		if p.gap {
			return
		}
		if !p.moved {
			continue // not connected
		}
		xmit, rcv, speed, known = xmit+p.m[NetTx], rcv+p.m[NetRx], speed+p.m[NetSpeed], true
	}
	if !known {
		return
	}
	var who []*collector.Sample
	moved, gpus, spanning := 0.0, 0.0, 0
	for _, j := range n.jobs {
		if len(j.Nodes) > 1 {
			spanning++
			gpus += float64(j.NodeGPUs[n.name])
		}
	}
	byPCIe := true
	for i := range here {
		s := &here[i]
		s.NetSpeed = speed
		if len(t.jobs[s.JobID].Nodes) > 1 {
			who = append(who, s)
			moved += s.PCIeRate
			byPCIe = byPCIe && s.PCIeRate > 0
		}
	}
	for _, s := range who {
		s.NetShared = spanning > 1
		switch {
		case spanning == 1:
			s.NetRate = max(xmit, rcv)
		case byPCIe && len(who) == spanning:
			s.NetRate = max(xmit, rcv) * s.PCIeRate / moved
		case gpus > 0:
			s.NetRate = max(xmit, rcv) * min(1, float64(s.GPUs)/gpus)
		default:
			s.NetRate = max(xmit, rcv) / float64(spanning)
		}
	}
}
