// SPDX-License-Identifier: Apache-2.0

package collector

import "rifling/slurm"

// netSplit divides a node's network traffic among its jobs. The zero value is
// ready.
type netSplit struct {
	pcie map[slurm.JobID]pcieMean // of the jobs that shared at the last reading
}

// pcieMean is a job's PCIe rate, smoothed: a card without PCIe counters shows
// 20 ms of each interval, within one phase of an iteration or another.
type pcieMean struct {
	rate     float64
	readings float64
}

// smoothing is how many readings a pcieMean goes back, about.
const smoothing = 8

// share gives the node's traffic to the jobs that span several nodes; one that
// is known to run here only moves nothing outside. When no job is known to span
// nodes, those of unknown size share. What several share is an estimate, and
// marked: it is divided by what their GPUs move over PCIe, for what goes to the
// network passes there, else by GPUs. Two jobs of one size may differ in what
// they send a hundred times.
func (n *netSplit) share(uses []*jobUse, rate float64) {
	who := spanning(uses, func(nodes int) bool { return nodes > 1 })
	if len(who) == 0 {
		who = spanning(uses, func(nodes int) bool { return nodes == 0 })
	}
	if len(who) == 1 {
		who[0].sample.NetRate = rate
	}
	if len(who) < 2 {
		n.pcie = nil
		return
	}
	parts := n.parts(who)
	for i, u := range who {
		u.sample.NetRate, u.sample.NetShared = rate*parts[i], true
	}
}

func spanning(uses []*jobUse, want func(nodes int) bool) (out []*jobUse) {
	for _, u := range uses {
		if want(u.ref.Nodes) {
			out = append(out, u)
		}
	}
	return out
}

// parts returns what part of the traffic is whose; they add up to 1.
func (n *netSplit) parts(who []*jobUse) []float64 {
	before := n.pcie
	n.pcie = make(map[slurm.JobID]pcieMean, len(who))
	byPCIe, byGPUs := make([]float64, len(who)), make([]float64, len(who))
	moved, gpus, known := 0.0, 0.0, true
	for i, u := range who {
		m := before[u.ref.ID]
		m.readings = min(m.readings+1, smoothing)
		m.rate += (u.sample.PCIeRate - m.rate) / m.readings
		n.pcie[u.ref.ID] = m
		byPCIe[i], byGPUs[i] = m.rate, u.cards()
		moved, gpus = moved+byPCIe[i], gpus+byGPUs[i]
		known = known && (u.sample.PCIeSpeed > 0 || m.rate > 0)
	}
	parts, whole := byGPUs, gpus
	if known && moved > 0 {
		parts, whole = byPCIe, moved
	}
	for i := range parts {
		parts[i] /= whole
	}
	return parts
}
