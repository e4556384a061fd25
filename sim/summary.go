// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"maps"
	"slices"
	"time"
)

// slowdownFloor is the run time, in seconds, below which a job's slowdown is
// bounded: a job of one second that waits a minute is not 60 times worse off.
const slowdownFloor = 10

// Collector turns results into a Summary. Its memory grows by a few numbers a
// job. The zero value is ready.
type Collector struct {
	jct, wait, slowdown []float64
	byUser              map[string]*userMean
	gpuSeconds, useful  float64
	first, last         time.Duration
	outcomes            [4]int
	restarts, preempted int
}

type userMean struct {
	n   int
	sum float64
}

// Add takes one result in. It is a Sink.
func (c *Collector) Add(r *Result) {
	c.outcomes[r.Outcome]++
	if r.Outcome == Impossible {
		return
	}
	if len(c.jct) == 0 {
		c.first = r.Submit
		c.byUser = map[string]*userMean{}
	}
	c.first, c.last = min(c.first, r.Submit), max(c.last, r.End)
	jct, wait, ran := r.JCT().Seconds(), r.Wait().Seconds(), r.Ran.Seconds()
	slow := max(1, jct/max(ran, slowdownFloor))
	c.jct, c.wait, c.slowdown = append(c.jct, jct), append(c.wait, wait), append(c.slowdown, slow)
	c.gpuSeconds += ran * float64(r.GPUs)
	c.useful += ran * float64(r.GPUs) * r.NPR
	c.restarts += r.Restarts
	c.preempted += r.Preempted
	u := c.byUser[r.User]
	if u == nil {
		u = &userMean{}
		c.byUser[r.User] = u
	}
	u.n++
	u.sum += slow
}

// Summary is what tables show of one run. Times are in seconds.
type Summary struct {
	Jobs, Impossible, TimedOut, Failed int
	MeanJCT, MedianJCT, P95JCT, P99JCT float64
	MeanWait, MedianWait, P95Wait      float64 // queueing delay
	Makespan                           float64 // first submission to last end
	// ANPR is the mean normalized processing rate, weighted by GPU time.
	ANPR float64
	// Utilization is the GPU time held by jobs over that of the cluster from
	// the first submission to the last end.
	Utilization float64
	// Fragmentation is the part of the GPU time that was free while jobs
	// waited which lay on partly taken nodes; 0 when none was free then.
	Fragmentation float64
	Slowdown      float64 // mean bounded slowdown
	// Fairness is Jain's index over the users' mean bounded slowdowns: 1 when
	// all fare alike, 1/n when one of n bears all.
	Fairness            float64
	Restarts, Preempted int
	// JCTs are the completion times, ascending, for plots of distributions.
	JCTs []float64
}

// Summary computes the figures. totalGPUs is the cluster's size, st what the
// engine counted.
func (c *Collector) Summary(totalGPUs int, st Stats) Summary {
	n := len(c.jct)
	s := Summary{
		Jobs: n, Impossible: c.outcomes[Impossible], TimedOut: c.outcomes[TimedOut], Failed: c.outcomes[Failed],
		Restarts: c.restarts, Preempted: c.preempted,
	}
	if n == 0 {
		return s
	}
	s.MeanJCT, s.MeanWait, s.Slowdown = mean(c.jct), mean(c.wait), mean(c.slowdown)
	slices.Sort(c.jct)
	slices.Sort(c.wait)
	s.MedianJCT, s.P95JCT, s.P99JCT = quantile(c.jct, 0.5), quantile(c.jct, 0.95), quantile(c.jct, 0.99)
	s.MedianWait, s.P95Wait = quantile(c.wait, 0.5), quantile(c.wait, 0.95)
	s.Makespan = (c.last - c.first).Seconds()
	if c.gpuSeconds > 0 {
		s.ANPR = c.useful / c.gpuSeconds
	}
	if s.Makespan > 0 {
		s.Utilization = c.gpuSeconds / (float64(totalGPUs) * s.Makespan)
	}
	if st.Idle > 0 {
		s.Fragmentation = st.Scattered / st.Idle
	}
	s.Fairness = c.jain()
	s.JCTs = slices.Clone(c.jct)
	return s
}

func (c *Collector) jain() float64 {
	sum, square := 0.0, 0.0
	for _, name := range slices.SortedFunc(maps.Keys(c.byUser), cmp.Compare[string]) {
		m := c.byUser[name].sum / float64(c.byUser[name].n)
		sum += m
		square += m * m
	}
	return sum * sum / (float64(len(c.byUser)) * square)
}

func mean(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// quantile of ascending values, between neighbours in proportion.
func quantile(v []float64, q float64) float64 {
	at := q * float64(len(v)-1)
	i := int(at)
	if i+1 >= len(v) {
		return v[len(v)-1]
	}
	return v[i] + (at-float64(i))*(v[i+1]-v[i])
}
