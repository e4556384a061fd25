// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"slices"

	"rifling/slurm"
)

// part is a job's part of one GPU.
type part struct {
	ref    JobRef
	share  float64 // 0..1, of what the GPU did
	shared bool    // others had a part too: an estimate
}

// sharedWeight is what a sample of a shared GPU counts at most against one of
// a GPU that the job had alone. See docs/design/collector.md.
const sharedWeight = 0.5

// leastWeight keeps a weight above 0, which would mean 1.
const leastWeight = 0.01

// outsideBusy is the part of a GPU's time from which a process of no job takes
// its share: less is a daemon that looks in, as a monitor or MPS's server.
const outsideBusy = 0.05

// owned is what was found of a GPU's jobs.
type owned struct {
	parts []part // in order of job ids
	blind bool   // its processes, or some, cannot be seen
	why   Way    // without parts: why, of its processes
}

// byProcess finds the jobs of a GPU's processes, and the part of each.
func (s *Sampler) byProcess(g *GPU) owned {
	out := owned{blind: !g.ProcessesKnown, why: WayNone}
	var busy []float64 // of each part; outside the jobs, of all such processes
	count := map[slurm.JobID]int{}
	outside, total, known := 0.0, 0.0, true
	for _, p := range g.Processes {
		ref, ok := s.Jobs.Job(p.PID)
		if ok && ref.NodeSure && ref.Node != s.Node {
			s.Odd["process of another Slurm node of this machine"]++
			ok = false
		}
		if !ok {
			out.blind = out.blind || ref.Way == WayHidden || ref.Way == WayClosed
			if ref.Way == WayHidden || ref.Way == WayClosed {
				out.why = ref.Way
			}
			outside += max(0, p.Busy)
			continue
		}
		i := slices.IndexFunc(out.parts, func(o part) bool { return o.ref.ID == ref.ID })
		if i < 0 {
			i = len(out.parts)
			out.parts, busy = append(out.parts, part{ref: ref}), append(busy, 0)
		}
		known = known && p.Busy >= 0
		busy[i] += max(0, p.Busy)
		total += max(0, p.Busy)
		count[ref.ID]++
	}
	if outside < outsideBusy {
		outside = 0
	}
	all := 0
	for _, n := range count {
		all += n
	}
	for i := range out.parts {
		o := &out.parts[i]
		switch {
		case len(out.parts) == 1 && outside == 0:
			o.share = 1
		case known && total > 0:
			o.share, o.shared = busy[i]/(total+outside), true
		default:
			o.share, o.shared = float64(count[o.ref.ID])/float64(all), len(out.parts) > 1
		}
	}
	slices.SortFunc(out.parts, func(a, b part) int { return int(int64(a.ref.ID) - int64(b.ref.ID)) })
	return out
}

// byList finds the job that Slurm gave a GPU to, from the jobs that have
// processes on this node.
func (s *Sampler) byList(g *GPU, jobs []JobRef) owned {
	var out owned
	for _, ref := range jobs {
		if ref.Node != "" && ref.Node != s.Node {
			continue
		}
		// The card's number means none of its instances.
		whole := g.Card == "" && g.Minor >= 0 && slices.Contains(ref.GPUs, g.Minor)
		if whole || slices.Contains(ref.UUIDs, g.UUID) {
			out.parts = append(out.parts, part{ref: ref, share: 1})
		}
	}
	if len(out.parts) > 1 {
		s.Odd["GPU without visible processes in the lists of several jobs"]++
		return owned{blind: true, why: WayHidden}
	}
	return out
}

// busyFrom is the activity from which a GPU whose processes cannot be seen is
// taken to work for someone.
const busyFrom = 0.01

// owners finds the jobs of all GPUs, in their order. Slurm's lists are asked
// for only when a GPU works that no visible process explains.
func (s *Sampler) owners(gpus []GPU) []owned {
	out := make([]owned, len(gpus))
	ask := false
	for i := range gpus {
		g := &gpus[i]
		if g.Card == g.UUID && g.Card != "" { // a card in MIG mode whose instances are not known
			if len(g.Processes) > 0 {
				s.Odd["GPU in MIG mode without instances"]++
			}
			continue
		}
		out[i] = s.byProcess(g)
		ask = ask || len(out[i].parts) == 0 && out[i].blind && (g.Source == SourceNone || g.Activity >= busyFrom)
	}
	if !ask {
		return out
	}
	jobs := s.Jobs.Jobs()
	for i := range gpus {
		if len(out[i].parts) == 0 && out[i].blind {
			why := out[i].why
			out[i] = s.byList(&gpus[i], jobs)
			if len(out[i].parts) == 0 {
				out[i].why = why
				s.Odd["GPU at work for an unknown job"]++
			}
		}
	}
	return out
}

// jobsOf lists the jobs of a GPU, in order.
func jobsOf(o owned) []slurm.JobID {
	var out []slurm.JobID
	for _, p := range o.parts {
		out = append(out, p.ref.ID)
	}
	return out
}
