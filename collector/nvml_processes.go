// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"math"
	"slices"

	"github.com/NVIDIA/go-nvml/pkg/nvml"
)

// processes lists who computes on the card, MPS clients too, and how much of
// it each had where several share it.
func (r *cardReading) processes(g *GPU) {
	if !r.c.processesOK {
		return
	}
	procs, ret := r.dev.GetComputeRunningProcesses()
	if ret != nvml.SUCCESS {
		r.failed("GPU processes", ret)
		return
	}
	if r.c.mpsOK {
		clients, ret := r.dev.GetMPSComputeRunningProcesses()
		r.failed("MPS processes", ret)
		procs = append(procs, clients...)
	}
	g.ProcessesKnown = true
	r.addProcesses(g, procs)
	if len(procs) > 1 && r.c.sharesOK {
		r.shares(r.dev, g)
	}
}

// addProcesses adds each sound process once.
func (r *cardReading) addProcesses(g *GPU, procs []nvml.ProcessInfo) {
	for _, p := range procs {
		if p.Pid == 0 || p.Pid > math.MaxInt32 {
			r.odd["GPU process id"]++
			continue
		}
		pid := int(p.Pid)
		if !slices.ContainsFunc(g.Processes, func(q Process) bool { return q.PID == pid }) {
			g.Processes = append(g.Processes, Process{PID: pid, Busy: -1})
		}
	}
}

// shares fills in each process's part of the time since the last reading. NVML
// names only processes that were busy; what it does not name was not. It tells
// whether NVML answered.
func (r *cardReading) shares(dev nvml.Device, g *GPU) bool {
	var since uint64
	if !r.n.last.IsZero() && r.now.After(r.n.last) && r.n.last.UnixMicro() > 0 {
		since = uint64(r.n.last.UnixMicro())
	}
	samples, ret := dev.GetProcessUtilization(since)
	switch ret {
	case nvml.SUCCESS, nvml.ERROR_NOT_FOUND, nvml.ERROR_INSUFFICIENT_SIZE: // the last two: nobody was busy
	default:
		r.failed("process utilization", ret)
		return false
	}
	type sum struct {
		percent float64
		samples int
	}
	sums := map[int]sum{}
	for _, s := range samples {
		if s.Pid == 0 || s.Pid > math.MaxInt32 {
			continue // an empty place in the driver's buffer
		}
		got := sums[int(s.Pid)]
		if s.SmUtil > 100 {
			r.odd["process utilization out of range"]++
			sums[int(s.Pid)] = sum{math.NaN(), got.samples + 1}
			continue
		}
		sums[int(s.Pid)] = sum{got.percent + float64(s.SmUtil), got.samples + 1}
	}
	for i := range g.Processes {
		p := &g.Processes[i]
		p.Busy = 0
		if got, ok := sums[p.PID]; ok {
			p.Busy = got.percent / float64(got.samples) / 100
		}
		if math.IsNaN(p.Busy) {
			p.Busy = -1
		}
	}
	return true
}
