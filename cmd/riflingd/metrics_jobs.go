// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"rifling/cycle"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// waiting measures the age of the queue.
func (m *metrics) waiting(s *slurm.Snapshot) {
	var ages []time.Duration
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if !j.Pending() || !j.WantsGPU() {
			continue
		}
		from := j.EligibleTime
		if from.IsZero() {
			from = j.SubmitTime
		}
		if age := s.TakenAt.Sub(from); age >= 0 { // else it may not start yet
			ages = append(ages, age)
		}
	}
	slices.Sort(ages)
	at := func(q float64) float64 {
		if len(ages) == 0 {
			return 0
		}
		return ages[max(0, int(math.Ceil(q*float64(len(ages))))-1)].Seconds()
	}
	m.queueAge.WithLabelValues("median").Set(at(0.5))
	m.queueAge.WithLabelValues("p95").Set(at(0.95))
	m.queueAge.WithLabelValues("max").Set(at(1))
}

// learning is what the learner took in and holds.
type learning struct {
	learned prometheus.Counter
	rewards prometheus.Histogram
	cells   *prometheus.GaugeVec
	visits  prometheus.Gauge
}

func newLearning(mk maker) learning {
	return learning{
		learned: mk.counter("episodes_learned_total", "Runs that taught the learner."),
		rewards: mk.histogram("episode_reward", "Rewards of the runs that taught the learner; nearer to 0 is better.",
			[]float64{-2, -1, -.5, -.2, -.1, -.05, -.02, -.01, 0, .05}),
		cells:  mk.gauges("qtable_cells", "Cells of the learner's table: visited, or known from the rule alone.", "state"),
		visits: mk.gauge("qtable_visits", "Visits of all cells of the learner's table."),
	}
}

func (m *learning) observe(rep *cycle.Report, p policy.Policy) {
	m.learned.Add(float64(rep.Learned))
	for _, r := range rep.Rewards {
		m.rewards.Observe(r)
	}
	learner, ok := p.(policy.Learner)
	if !ok {
		return
	}
	visits, visited, prior := 0, 0, 0
	for _, e := range learner.Entries() {
		visits += e.Visits
		if e.Visits > 0 {
			visited++
		} else {
			prior++
		}
	}
	m.visits.Set(float64(visits))
	m.cells.WithLabelValues("visited").Set(float64(visited))
	m.cells.WithLabelValues("prior").Set(float64(prior))
}

// profiling is what is known of jobs.
type profiling struct {
	samples  prometheus.Counter
	rejected *prometheus.CounterVec
	lastIn   prometheus.Gauge
	profiled *prometheus.GaugeVec

	groupRatio    *prometheus.GaugeVec
	groupFamilies *prometheus.GaugeVec
	groupJobs     *prometheus.GaugeVec
	groupGPUs     *prometheus.GaugeVec
}

func newProfiling(mk maker) profiling {
	return profiling{
		samples:  mk.counter("samples_total", "Counter samples that profiles were made of."),
		rejected: mk.counters("samples_rejected_total", "Counter samples refused, by reason.", "reason"),
		lastIn:   mk.gauge("profile_last_sample_timestamp_seconds", "Slurm's time of the last cycle that took in counters; 0: none since the start."),
		profiled: mk.gauges("profiled_jobs", "GPU jobs, pending and running, by how near the evidence of their profile is.", "level"),

		groupRatio:    mk.gauges("group_ratio", "Centre of a group: seconds of computing for each of communication.", "group"),
		groupFamilies: mk.gauges("group_families", "Families of jobs in a group.", "group"),
		groupJobs:     mk.gauges("group_jobs", "GPU jobs of a group.", "group", "state"),
		groupGPUs:     mk.gauges("group_gpus", "GPUs that running jobs of a group hold.", "group"),
	}
}

// levels are all that a profile may rest on.
var levels = []profile.Level{
	profile.LevelJob, profile.LevelFamily, profile.LevelName, profile.LevelUser, profile.LevelClass, profile.LevelCluster, profile.LevelNone,
}

func (m *profiling) observe(rep *cycle.Report, groups []profile.Group) {
	m.samples.Add(float64(rep.Samples))
	for why, n := range rep.Rejected {
		m.rejected.WithLabelValues(why).Add(float64(n))
	}
	if rep.Samples > 0 {
		m.lastIn.Set(float64(rep.At.Unix()))
	}
	at := map[profile.Level]int{}
	type key struct {
		group int
		state string
	}
	jobs, gpus := map[key]int{}, map[int]int{}
	for i := range rep.Snapshot.Jobs {
		j := &rep.Snapshot.Jobs[i]
		p, ok := rep.Profiles[j.ID]
		switch {
		case !ok:
		case j.Pending():
			jobs[key{p.Group, "pending"}]++
		case j.Running():
			jobs[key{p.Group, "running"}]++
			gpus[p.Group] += j.Total()
		default:
			ok = false
		}
		if ok {
			at[p.Level]++
		}
	}
	for _, l := range levels {
		m.profiled.WithLabelValues(string(l)).Set(float64(at[l]))
	}
	for _, g := range []*prometheus.GaugeVec{m.groupRatio, m.groupFamilies, m.groupJobs, m.groupGPUs} {
		g.Reset()
	}
	show := func(group int) {
		name := groupLabel(group)
		for _, state := range []string{"pending", "running"} {
			m.groupJobs.WithLabelValues(name, state).Set(float64(jobs[key{group, state}]))
		}
		m.groupGPUs.WithLabelValues(name).Set(float64(gpus[group]))
	}
	for _, g := range groups {
		m.groupRatio.WithLabelValues(groupLabel(g.Index)).Set(math.Exp(g.Center))
		m.groupFamilies.WithLabelValues(groupLabel(g.Index)).Set(float64(g.Members))
		show(g.Index)
	}
	show(profile.GroupUnknown)
}

func groupLabel(group int) string {
	if group == profile.GroupUnknown {
		return "unknown"
	}
	return strconv.Itoa(group)
}
