// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math"
	"math/rand/v2"
	"time"

	"rifling/sim"
)

// Peer is a published or simple scheduler on package sim's engine: a baseline.
type Peer struct {
	Name, About string
	// Clairvoyant ones read the true run times, which no scheduler has.
	Clairvoyant bool
	// Preemptive ones take GPUs from running jobs, which rifling never does.
	Preemptive bool
	// NeedsEstimate ones order by a predicted run time or, where there is none,
	// by the time limit.
	NeedsEstimate bool
	New           func(o Settings) sim.Scheduler
}

// Settings are what a peer may be told.
type Settings struct {
	Seed uint64
	// RestartCost is what a preempted job's next run holds GPUs for before its
	// work goes on.
	RestartCost time.Duration
	// Patience is how long a job waits for the fewest nodes under the policy
	// delay, from the moment that it could start anywhere; 0: 10 minutes.
	Patience time.Duration
}

// All lists the peers in the order of tables. Where the table says "backfill",
// a job behind the first that does not fit may start when it ends, by its
// limit, before that one can start or keeps off its nodes (EASY).
func All() []Peer {
	queue := func(label string, key keyFunc, place placer) func(Settings) sim.Scheduler {
		return func(Settings) sim.Scheduler { return &queued{name: label, key: key, place: place, backfill: true} }
	}
	preempt := func(label string, key keyFunc, limits []float64) func(Settings) sim.Scheduler {
		return func(o Settings) sim.Scheduler {
			return &preemptive{name: label, key: key, limits: limits, cost: o.RestartCost}
		}
	}
	return []Peer{
		{Name: "fifo", About: "first come, first served; nothing passes the first; fewest nodes",
			New: func(Settings) sim.Scheduler { return &queued{name: "fifo", place: placeFewest} }},
		{Name: "fit-first", About: "by arrival; whatever fits passes; fewest nodes",
			New: func(Settings) sim.Scheduler { return &queued{name: "fit-first", place: placeFewest, skip: true} }},
		{Name: "strict", About: "by arrival with backfill; always waits for the fewest nodes",
			New: queue("strict", nil, placeFewest)},
		{Name: "best-fit", About: "by arrival with backfill; packs, but takes scattered GPUs when nothing packed is free",
			New: queue("best-fit", nil, placeBest)},
		{Name: "spread", About: "by arrival with backfill; the emptiest nodes",
			New: queue("spread", nil, placeSpread)},
		{Name: "random", About: "by arrival with backfill; GPUs anywhere, drawn",
			New: func(o Settings) sim.Scheduler {
				r := rand.New(rand.NewPCG(o.Seed, 2))
				return &queued{name: "random", place: placeRandom(r), backfill: true}
			}},
		{Name: "fgd", About: "by arrival with backfill; the node that adds least to the expected fragments (FGD)",
			New: func(Settings) sim.Scheduler {
				f := &fragments{}
				return &queued{name: "fgd", place: f.place, see: f.see, backfill: true}
			}},
		{Name: "delay", About: "by arrival with backfill; waits a while for the fewest nodes, then as best-fit (delay scheduling)",
			New: func(o Settings) sim.Scheduler {
				patience := o.Patience
				if patience == 0 {
					patience = 10 * time.Minute
				}
				d := &delay{patience: patience, since: map[*sim.JobState]time.Duration{}}
				return &queued{name: "delay", place: d.place, see: d.see, backfill: true}
			}},
		{Name: "sjf", About: "shortest true run time first, with backfill", Clairvoyant: true,
			New: queue("sjf", func(_ *sim.State, j *sim.JobState) float64 { return j.Work.Seconds() }, placeFewest)},
		{Name: "qssf", About: "least predicted GPU time first, with backfill (Helios)", NeedsEstimate: true,
			New: queue("qssf", predictedService, placeFewest)},
		{Name: "f1", About: "F1 by predicted run time, with backfill (Carastan-Santos and de Camargo)", NeedsEstimate: true,
			New: queue("f1", f1, placeFewest)},
		{Name: "wfp3", About: "WFP3 by predicted run time, with backfill (Tang et al.)", NeedsEstimate: true,
			New: queue("wfp3", wfp3, placeFewest)},
		{Name: "uni", About: "UNICEP by predicted run time, with backfill (Tang et al.)", NeedsEstimate: true,
			New: queue("uni", uni, placeFewest)},
		{Name: "srtf", About: "shortest true remaining time first", Clairvoyant: true, Preemptive: true,
			New: preempt("srtf", remaining, nil)},
		{Name: "srsf", About: "shortest true remaining GPU time first", Clairvoyant: true, Preemptive: true,
			New: preempt("srsf", func(st *sim.State, j *sim.JobState) float64 { return remaining(st, j) * float64(j.GPUs) }, nil)},
		{Name: "las", About: "least attained GPU time first, in three queues (Tiresias)", Preemptive: true,
			New: preempt("las", nil, tiresiasLimits)},
	}
}

// Find returns the peer of that name.
func Find(name string) (Peer, bool) {
	for _, p := range All() {
		if p.Name == name {
			return p, true
		}
	}
	return Peer{}, false
}

// keyFunc orders jobs, the smallest first.
type keyFunc func(st *sim.State, j *sim.JobState) float64

// remaining is the work that a job has left, in seconds at the best rate.
func remaining(st *sim.State, j *sim.JobState) float64 {
	left := (j.Work - j.Done).Seconds()
	if j.Status == sim.Running && st.Now() > j.LastAt {
		left -= (st.Now() - j.LastAt).Seconds() * j.Rate
	}
	return left
}

// predicted is the run time in seconds that is expected of a job: the
// estimate, else the limit, else a day.
func predicted(j *sim.JobState) float64 {
	switch {
	case j.Estimate > 0:
		return j.Estimate.Seconds()
	case j.GPUSecondsEstimate != 0 && j.GPUs > 0:
		return j.GPUSecondsEstimate / float64(j.GPUs)
	case j.Bound > 0:
		return j.Bound.Seconds()
	}
	return 24 * 3600
}

func predictedService(_ *sim.State, j *sim.JobState) float64 {
	return predicted(j) * float64(max(1, j.GPUs))
}

// f1, wfp3 and uni are the published formulas. Predictions may be negative;
// they count as a second.
func f1(_ *sim.State, j *sim.JobState) float64 {
	return math.Log10(max(1, predicted(j)))*float64(j.GPUs) + 870*math.Log10(max(0.1, j.Submit.Seconds()))
}

func wfp3(st *sim.State, j *sim.JobState) float64 {
	wait := (st.Now() - j.Submit).Seconds()
	return -math.Pow(wait/max(1, predicted(j)), 3) * float64(j.GPUs)
}

func uni(st *sim.State, j *sim.JobState) float64 {
	wait := (st.Now() - j.Submit).Seconds()
	return -wait / (max(tiny, math.Log2(float64(max(1, j.GPUs)))) * max(1, predicted(j)))
}
