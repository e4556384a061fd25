// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"strings"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// instance is what is kept of a MIG instance between readings.
type instance struct {
	gpm *gpmPair
}

// slice is one MIG instance as NVML shows it now.
type slice struct {
	dev    nvml.Device
	uuid   string
	gi, ci int // -1 unknown
	part   float64
}

func (n *NVML) migOn(dev nvml.Device) bool {
	if !n.has["nvmlDeviceGetMigMode"] || !n.has["nvmlDeviceGetMaxMigDeviceCount"] || !n.has["nvmlDeviceGetMigDeviceHandleByIndex"] {
		return false
	}
	mode, _, ret := dev.GetMigMode()
	return ret == nvml.SUCCESS && mode == nvml.DEVICE_MIG_ENABLE
}

// meetMIG says nothing of cards that cannot be cut up.
func (n *NVML) meetMIG(dev nvml.Device, c *card) {
	why := n.tried("nvmlDeviceGetMigMode", func() nvml.Return {
		_, _, ret := dev.GetMigMode()
		return ret
	})
	c.mig = why == "" && n.migOn(dev)
	switch {
	case why != "":
	case c.mig:
		c.say("mig", true, "on, %d instances, each a GPU of its own", len(n.slices(dev, Odd{})))
	default:
		c.say("mig", true, "off")
	}
}

// slices lists the instances of a card in MIG mode. Those that NVML does not
// tell the UUID of are counted in odd.
func (n *NVML) slices(dev nvml.Device, odd Odd) []slice {
	places, ret := dev.GetMaxMigDeviceCount()
	if ret != nvml.SUCCESS || places < 1 || places > maxSlices {
		return nil
	}
	var out []slice
	for i := range places {
		mig, ret := dev.GetMigDeviceHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // no instance in this place
		}
		s := slice{dev: mig, gi: -1, ci: -1}
		if s.uuid, ret = mig.GetUUID(); ret != nvml.SUCCESS || !strings.HasPrefix(s.uuid, "MIG") {
			odd["MIG instance without a UUID"]++
			continue
		}
		if n.has["nvmlDeviceGetGpuInstanceId"] {
			if id, ret := mig.GetGpuInstanceId(); ret == nvml.SUCCESS {
				s.gi = id
			}
		}
		if n.has["nvmlDeviceGetComputeInstanceId"] {
			if id, ret := mig.GetComputeInstanceId(); ret == nvml.SUCCESS {
				s.ci = id
			}
		}
		s.part = n.part(mig, places, odd)
		out = append(out, s)
	}
	return out
}

// maxSlices is more than any card can be cut into.
const maxSlices = 64

// part is the instance's part of the card's compute slices. A card has as many
// of them as instances of the smallest kind fit on it: 7, or 4 on an A30.
// Where the driver does not tell, instances count as equal parts.
func (n *NVML) part(mig nvml.Device, places int, odd Odd) float64 {
	if n.has["nvmlDeviceGetAttributes"] {
		a, ret := mig.GetAttributes()
		has := a.ComputeInstanceSliceCount
		if ret == nvml.SUCCESS && has >= 1 && int64(has) <= int64(places) {
			return float64(has) / float64(places)
		}
		if ret == nvml.SUCCESS {
			odd["MIG slices out of range"]++
		}
	}
	return 1 / float64(places)
}

// instances reads each MIG instance as a GPU of its own. NVLink is off in MIG
// mode, and power and PCIe are the card's: an instance's part of them is not
// known.
func (r *cardReading) instances(throttled float64) []GPU {
	slices := r.n.slices(r.dev, r.odd)
	perGI := map[int]int{}
	for _, s := range slices {
		perGI[s.gi]++
	}
	var out []GPU
	seen := map[string]bool{}
	for _, s := range slices {
		g := GPU{UUID: s.uuid, Model: r.c.model, Index: r.c.index, Minor: r.c.minor, Card: r.c.uuid, Part: s.part, Throttled: throttled}
		r.instanceProcesses(s, &g)
		r.instanceActivity(s, perGI[s.gi] == 1, &g)
		out, seen[s.uuid] = append(out, g), true
	}
	for uuid, known := range r.c.instances {
		if !seen[uuid] { // taken down
			known.gpm.free()
			delete(r.c.instances, uuid)
		}
	}
	return out
}

// instanceProcesses asks the instance, and where it does not answer the card,
// whose list names each process's instance.
func (r *cardReading) instanceProcesses(s slice, g *GPU) {
	if !r.n.has["nvmlDeviceGetComputeRunningProcesses"] {
		return
	}
	procs, ret := s.dev.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS && s.gi >= 0 && r.c.processesOK {
		var all []nvml.ProcessInfo
		if all, ret = r.dev.GetComputeRunningProcesses(); ret == nvml.SUCCESS {
			for _, p := range all {
				if p.GpuInstanceId == uint32(s.gi) && (s.ci < 0 || p.ComputeInstanceId == uint32(s.ci)) {
					procs = append(procs, p)
				}
			}
		}
	}
	if ret != nvml.SUCCESS {
		r.failed("MIG processes", ret)
		return
	}
	g.ProcessesKnown = true
	r.addProcesses(g, procs)
}

// instanceActivity takes GPM's SM activity of the GPU instance, if the compute
// instance has it for itself, else what the processes used.
func (r *cardReading) instanceActivity(s slice, alone bool, g *GPU) {
	if r.c.gpm != nil && alone && s.gi >= 0 && r.n.has["nvmlGpmMigSampleGet"] {
		known := r.c.instances[s.uuid]
		if known == nil {
			known = &instance{gpm: r.n.allocGPM()}
			r.c.instances[s.uuid] = known
		}
		take := func(sample nvml.GpmSample) nvml.Return { return r.dev.GpmMigSampleGet(s.gi, sample) }
		if m := r.readGPM(known.gpm, take, "MIG GPM"); m.ok {
			g.Activity, g.Source = m.sm, SourceGPM
			return
		}
	}
	if !r.n.has["nvmlDeviceGetProcessUtilization"] || len(g.Processes) == 0 || !r.shares(s.dev, g) {
		return
	}
	for _, p := range g.Processes {
		if p.Busy < 0 {
			g.Activity, g.Source = 0, SourceNone
			return
		}
		g.Activity += p.Busy
	}
	g.Activity, g.Source = min(1, g.Activity), SourceUtilization
}
