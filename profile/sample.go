// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"slices"
	"time"
)

// Reasons why a sample is refused, as Add counts them.
const (
	RefusedUnknownJob  = "unknown_job"  // no GPU job that Track has seen start
	RefusedNode        = "wrong_node"   // the job does not run there
	RefusedNumber      = "bad_number"   // negative, infinite or not a number; a part of more than 1
	RefusedCompute     = "bad_compute"  // compute activity outside 0..1
	RefusedSource      = "bad_source"   // not one of the sources
	RefusedGPUs        = "bad_gpus"     // none, or more than the job has
	RefusedInterval    = "bad_interval" // not positive, or longer than an hour
	RefusedOverSpeed   = "over_speed"   // more than the link can carry
	RefusedBeforeStart = "before_start" // of an earlier run or job
	RefusedAfterEnd    = "after_end"
	RefusedFuture      = "future" // later than the last snapshot by more than two minutes
	RefusedLate        = "late"   // its interval is settled, or it came twice
)

// fastest is more than any link of one GPU or any node's network carries,
// bytes per second: the bound where no speed is known.
const fastest = 4e12

// refuse returns why a sample of a run must not be counted, or "".
func (b *Book) refuse(s *Sample, r *run) string {
	if why := b.refuseNumbers(s); why != "" {
		return why
	}
	switch {
	case s.GPUs < 1 || s.GPUs > r.GPUs:
		return RefusedGPUs
	case s.Interval <= 0 || s.Interval > time.Hour:
		return RefusedInterval
	case b.tooFast(s):
		return RefusedOverSpeed
	case !slices.Contains(r.Nodes, s.Node):
		return RefusedNode
	case s.At.Before(r.Start):
		return RefusedBeforeStart
	case !r.Ended.IsZero() && s.At.After(r.Ended.Add(s.Interval)):
		return RefusedAfterEnd
	case s.At.After(b.now.Add(2 * time.Minute)):
		return RefusedFuture
	}
	return ""
}

// refuseNumbers looks at what a sample says by itself.
func (b *Book) refuseNumbers(s *Sample) string {
	for _, x := range []float64{
		s.Compute, s.NVLinkRate, s.PCIeRate, s.NetRate, s.NVLinkSpeed, s.PCIeSpeed, s.NetSpeed, s.Weight, s.Throttled,
	} {
		if !finite(x) || x < 0 {
			return RefusedNumber
		}
	}
	switch {
	case s.Weight > 1 || s.Throttled > 1:
		return RefusedNumber
	case s.Compute > 1:
		return RefusedCompute
	case s.Source != SourceGPM && s.Source != SourcePower && s.Source != SourceUtilization:
		return RefusedSource
	}
	return ""
}

// tooFast reports a rate that the link of that speed cannot carry.
func (b *Book) tooFast(s *Sample) bool {
	over := func(rate, speed float64) bool {
		return rate > fastest*float64(s.GPUs) || speed > 0 && rate > b.opts.OverSpeed*speed
	}
	return over(s.NVLinkRate, s.NVLinkSpeed) || over(s.PCIeRate, s.PCIeSpeed) || over(s.NetRate, s.NetSpeed)
}

// observation is what one interval tells of a whole job.
type observation struct {
	at     time.Time
	spread bool
	known  bool // logCC and weight mean something
	logCC  float64
	weight float64 // 1 for good counters, less for weak or estimated ones
	point  point
}

// idleBelow is the compute activity and the communication share below which a
// job does nothing: it loads, waits or has been forgotten.
const idleBelow = 0.01

// observe puts the samples of one interval, one a node, together.
func (b *Book) observe(r *run, parts []Sample) observation {
	sum, share := total(parts), 0.0
	for i := range parts {
		share = max(share, b.share(r, &parts[i], sum.netSeen))
	}
	spread := r.spread()
	now := sum.inside // share of the interval that went to communication as it ran
	if spread {
		share = min(1, share) // a scaled share, of a packed run, may exceed its interval
		now = share
	}
	compute := sum.compute / sum.gpus
	if sum.source == SourceUtilization && r.GPUs > 1 {
		// Collectives count as busy there, so take their time out again.
		compute = max(0, compute-now)
	}
	o := observation{at: sum.at, spread: spread, weight: 1, point: pointOf(r, sum, share)}
	o.known = (r.GPUs == 1 || sum.insideSeen || spread && sum.netSeen) &&
		(compute >= idleBelow || share >= idleBelow)
	if sum.source == SourceUtilization {
		o.weight /= 2
	}
	if spread && (sum.shared || !sum.netSeen) {
		o.weight /= 2
	}
	if sum.gpuShared {
		o.weight /= 2
	}
	// Clocks held down stretch the computing, so such an interval tells less.
	o.weight *= sum.weight * (1 - sum.throttled/2)
	o.logCC = b.logCC(compute, share, r.GPUs)
	return o
}

// share returns the communication time over the length of the interval, as a
// run across nodes has it or would have it.
func (b *Book) share(r *run, s *Sample, netSeen bool) float64 {
	speed := s.NetSpeed
	if speed == 0 {
		speed = b.opts.SpreadNetSpeed
	}
	if r.spread() && netSeen {
		return max(s.NetRate/speed, over(s.NVLinkRate, s.NVLinkSpeed), over(s.PCIeRate, s.PCIeSpeed))
	}
	// A ring all-reduce moves 2(K-1)/K of the gradients a GPU wherever the GPUs
	// are. What a GPU moves inside the node would, in a run across nodes, pass
	// the NIC of its node, and so would that of the job's other GPUs there: all
	// that are there now, or half the job were it split over two nodes.
	together := float64(s.GPUs)
	if !r.spread() {
		together = math.Ceil(float64(r.GPUs) / 2)
	}
	return insideRate(s) / float64(s.GPUs) * together / speed
}

// insideRate is what the job's GPUs move among themselves inside the node.
func insideRate(s *Sample) float64 {
	if hasNVLink(s) {
		return s.NVLinkRate
	}
	return s.PCIeRate
}

func hasNVLink(s *Sample) bool { return s.NVLinkRate > 0 || s.NVLinkSpeed > 0 }

// over is rate / speed, 0 where the speed is not known.
func over(rate, speed float64) float64 {
	if speed == 0 {
		return 0
	}
	return rate / speed
}

// logCC is the logarithm of compute over communication, within the bounds.
func (b *Book) logCC(compute, share float64, gpus int) float64 {
	top := math.Log(b.opts.MaxCC)
	if gpus == 1 || share <= 0 {
		return top
	}
	if compute <= 0 {
		return -top
	}
	return min(top, max(-top, math.Log(compute/share)))
}

// sums are the samples of an interval added up over the job's nodes.
type sums struct {
	at                time.Time
	source            Source
	gpus, compute     float64 // compute: times GPUs
	nvlink, pcie, net float64 // bytes per second
	inside            float64 // greatest share of a node's own links, 0..1
	weight            float64 // least of the samples', 0..1
	throttled         float64 // greatest of the samples', 0..1
	// Which links were measured at all, and whether network or GPUs were shared.
	netSeen, nvlinkSeen, insideSeen, shared, gpuShared bool
}

func total(parts []Sample) sums {
	t := sums{weight: 1}
	for i := range parts {
		s := &parts[i]
		if s.At.After(t.at) {
			t.at = s.At
		}
		if weaker(s.Source, t.source) {
			t.source = s.Source
		}
		g := float64(s.GPUs)
		t.gpus += g
		t.compute += g * s.Compute
		t.nvlink += s.NVLinkRate
		t.pcie += s.PCIeRate
		t.net += s.NetRate
		inside := over(s.PCIeRate, s.PCIeSpeed)
		if hasNVLink(s) {
			inside = over(s.NVLinkRate, s.NVLinkSpeed)
		}
		t.inside = min(1, max(t.inside, inside))
		t.netSeen = t.netSeen || s.NetRate > 0 || s.NetSpeed > 0
		t.nvlinkSeen = t.nvlinkSeen || hasNVLink(s)
		t.insideSeen = t.insideSeen || hasNVLink(s) || s.PCIeRate > 0 || s.PCIeSpeed > 0
		t.shared = t.shared || s.NetShared
		t.gpuShared = t.gpuShared || s.GPUShared
		t.throttled = max(t.throttled, s.Throttled)
		if s.Weight > 0 {
			t.weight = min(t.weight, s.Weight)
		}
	}
	return t
}

// weaker reports whether a is a weaker source than b; any is weaker than none.
func weaker(a, b Source) bool {
	rank := map[Source]int{SourceGPM: 1, SourcePower: 2, SourceUtilization: 3}
	return rank[a] > rank[b]
}
