// SPDX-License-Identifier: Apache-2.0

package run

import (
	"context"
	"math"
	"math/rand/v2"
	"time"

	"rifling/cycle"
	"rifling/profile"
	"rifling/sim"
)

// mostSamples is how many intervals of a job one drain tells at most: after a
// long time without a cycle the older ones would say the same.
const mostSamples = 4

// telemetry is the collectors of a simulated cluster: the speed model's own
// computing and traffic, as counters would show them. Jobs without a model, and
// of one GPU, whose group needs no counters, have none.
type telemetry struct {
	cluster *cluster
	every   time.Duration // length of a sample
	noise   float64
	rand    *rand.Rand
	last    time.Duration
}

// Since returns the samples of the time since the last call.
func (t *telemetry) Since(_ context.Context, mark int64) (cycle.Counters, error) {
	st := t.cluster.st
	now := st.Now()
	var out []profile.Sample
	for j := range st.Running() {
		compute, bytes := st.Traffic(j)
		if j.Model == nil || compute == 0 {
			continue
		}
		since := max(t.last, j.Start)
		for k := range min(mostSamples, int((now-since)/t.every)) {
			for _, a := range j.Alloc {
				out = append(out, t.sample(j, a, now-time.Duration(k)*t.every, compute, bytes))
			}
		}
	}
	t.last = now
	return cycle.Counters{Samples: out, Mark: mark + int64(len(out)), Now: t.cluster.at(now), Kept: true}, nil
}

func (t *telemetry) sample(j *sim.JobState, a sim.Alloc, at time.Duration, compute, bytes float64) profile.Sample {
	spec := &t.cluster.cfg.Spec.Nodes[a.Node]
	gpus := float64(a.GPUs)
	s := profile.Sample{
		JobID: j.ID, Node: spec.Name, At: t.cluster.at(at), Interval: t.every, GPUs: int(a.GPUs),
		Compute: min(1, compute*t.wrong()), Source: profile.SourceGPM,
	}
	inside := 0.0 // what the links inside the node carry at most, by GPU
	if m := j.Model; m.IntraSeconds > 0 {
		inside = sim.RingBytes(*m, j.GPUs) / m.IntraSeconds
	}
	if a.GPUs > 1 || len(j.Alloc) == 1 {
		s.NVLinkSpeed = inside * gpus
		s.NVLinkRate = min(bytes*gpus*t.wrong(), s.NVLinkSpeed)
	}
	s.NetSpeed = spec.NICSpeed
	if s.NetSpeed == 0 {
		s.NetSpeed = sim.DefaultNICBytesPerSecond
	}
	if len(j.Alloc) > 1 {
		s.NetRate = min(bytes*gpus*t.wrong(), s.NetSpeed)
		s.NetShared = t.cluster.st.Shares(int(a.Node))
	}
	return s
}

// wrong is the factor by which a counter errs.
func (t *telemetry) wrong() float64 {
	if t.noise <= 0 {
		return 1
	}
	return math.Exp(t.noise * t.rand.NormFloat64())
}
