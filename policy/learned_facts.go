// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"math"
	"slices"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// queueFacts is what all jobs of the queue share.
func (b *board) queueFacts(jobs []*slurm.Job) QueueFacts {
	all := float64(max(1, b.gpus))
	f := QueueFacts{Pressure: float64(b.want) / all}
	for _, j := range jobs {
		f.Backlog += float64(j.Total()) * runOf(j, b.in.Profiles[j.ID]).Seconds() / all
	}
	free, whole := 0, 0
	for name, n := range b.node {
		if n.Usable() {
			free += b.free[name]
			if b.free[name] == n.GPUs {
				whole += n.GPUs
			}
		}
	}
	if free > 0 {
		f.Broken = float64(free-whole) / float64(free)
	}
	return f
}

// orderFacts is what is known of one job. Where it fits is worked out only for
// a net that wants to know.
func (b *board) orderFacts(j *slurm.Job, queue QueueFacts, inputs []string) OrderFacts {
	p, now := b.in.Profiles[j.ID], b.in.Snapshot.TakenAt
	f := OrderFacts{
		Run: p.RunTime.Seconds(), RunLow: p.RunTimeLow.Seconds(), RunHigh: p.RunTimeHigh.Seconds(),
		Limit: j.TimeLimit.Seconds(), GPUs: j.Total(), Nodes: max(1, j.MinNodes), Age: now.Sub(eligibleSince(j)).Seconds(),
		Use: b.use(j.User), CommBound: p.CommBound, ComputeBound: p.ComputeBound, Queue: queue,
	}
	f.RunMean = logNormalMean(f.Run, f.RunLow, f.RunHigh)
	if slices.Contains(inputs, "fits") || slices.Contains(inputs, "log_ready") || slices.Contains(inputs, "log_nodes") {
		if t, ok := b.fit(j); ok {
			f.Nodes, f.Fits = t.need, t.slurmFit(t.all) != nil
			if nodes, at := t.soonest(t.all); !f.Fits && nodes != nil && at != never {
				f.Ready = at.Sub(now).Seconds()
			}
		}
	}
	return f
}

// logNormalMean is the mean of a log-normal distribution with this median and
// these 0.1- and 0.9-quantiles; the median where they say nothing.
func logNormalMean(median, low, high float64) float64 {
	if !(low > 0 && high > low) {
		return median
	}
	sd := math.Log(high/low) / 2.563
	return min(median*math.Exp(sd*sd/2), max(median, high))
}

// use is the GPU seconds that the user's running jobs have had, over the mean
// of the users who have any.
func (b *board) use(user string) float64 {
	if b.uses == nil {
		b.uses = map[string]float64{}
		sum := 0.0
		for i := range b.in.Snapshot.Jobs {
			if j := &b.in.Snapshot.Jobs[i]; j.Running() && j.WantsGPU() && !j.StartTime.IsZero() {
				had := float64(j.Total()) * max(0, b.in.Snapshot.TakenAt.Sub(j.StartTime).Seconds())
				b.uses[j.User] += had
				sum += had
			}
		}
		if sum > 0 {
			mean := sum / float64(len(b.uses))
			for u := range b.uses {
				b.uses[u] /= mean
			}
		}
	}
	return b.uses[user]
}

// placeInputs are the values of PlaceInputs for one offer, all finite.
func (f *fit) placeInputs(p profile.Profile, x Features, o offer) []float64 {
	total := float64(max(1, x.Total))
	left, broken, contention := 0, 0, 0
	var last time.Time
	for name, gpus := range o.shape {
		n := f.b.node[name]
		rest := f.b.free[name] - gpus
		left += rest
		if f.b.free[name] == n.GPUs && rest > 0 {
			broken += rest
		}
		for _, j := range f.b.runs[name] {
			if f.b.in.Profiles[j.ID].CommBound {
				contention += gpusOn(j, name)
			}
			if end := f.b.ends[j.ID]; end.After(last) {
				last = end
			}
		}
	}
	run := max(x.Run, x.Mean, time.Minute).Seconds()
	pressure := math.Log1p(float64(f.b.want) / float64(max(1, f.b.gpus)))
	wait := 0.0
	if o.action == Wait {
		wait = math.Log1p(max(0, x.Waited.Seconds()) / run)
	}
	unsure := 0.0
	if p.RunTimeLow > 0 && p.RunTimeHigh > p.RunTimeLow {
		unsure = math.Log(float64(p.RunTimeHigh) / float64(p.RunTimeLow))
	}
	release := 0.0
	if !last.IsZero() && !o.ready.After(last) {
		release = math.Log1p(max(0, last.Sub(f.b.in.Snapshot.TakenAt).Seconds()) / run)
	}
	extra := 0.0
	if x.Nodes > 0 {
		extra = math.Log(float64(x.Nodes) / float64(max(1, x.Need)))
	}
	return []float64{
		flag(x.CommBound), flag(x.ComputeBound), flag(o.action == Wait), flag(o.action == Leave), flag(o.action == Even),
		extra, float64(max(0, x.Leaves-1)), flag(x.Busy), float64(contention) / total, float64(broken) / total,
		float64(left) / total, release, wait, wait * pressure, math.Log2(total), pressure, unsure,
	}
}
