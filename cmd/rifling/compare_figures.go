// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"

	"rifling/sim"
	"rifling/sim/run"
)

// figures are those of one run. Times in seconds.
type figures struct {
	Jobs       int     `json:"jobs"`
	Impossible int     `json:"impossible"`
	TimedOut   int     `json:"timed_out"`
	Failed     int     `json:"failed"`
	MeanJCT    float64 `json:"jct_mean_s"`
	MedianJCT  float64 `json:"jct_median_s"`
	P95JCT     float64 `json:"jct_p95_s"`
	P99JCT     float64 `json:"jct_p99_s"`
	MeanWait   float64 `json:"wait_mean_s"`
	MedianWait float64 `json:"wait_median_s"`
	P95Wait    float64 `json:"wait_p95_s"`
	Slowdown   float64 `json:"bounded_slowdown"`
	Makespan   float64 `json:"makespan_s"`

	Utilization   float64  `json:"utilization"`
	ANPR          float64  `json:"anpr"`
	Fragmentation float64  `json:"fragmentation"`
	Fairness      *float64 `json:"fairness"` // nil: fewer than two users

	Preempted int `json:"preemptions"`
	Cycles    int `json:"cycles"`
	Writes    int `json:"changes"`
	Refused   int `json:"refused"`
}

func figuresOf(s sim.Summary, r run.Report) figures {
	fair := s.Fairness
	return figures{
		Jobs: s.Jobs, Impossible: s.Impossible, TimedOut: s.TimedOut, Failed: s.Failed,
		MeanJCT: s.MeanJCT, MedianJCT: s.MedianJCT, P95JCT: s.P95JCT, P99JCT: s.P99JCT,
		MeanWait: s.MeanWait, MedianWait: s.MedianWait, P95Wait: s.P95Wait, Slowdown: s.Slowdown, Makespan: s.Makespan,
		Utilization: s.Utilization, ANPR: s.ANPR, Fragmentation: s.Fragmentation, Fairness: &fair,
		Preempted: s.Preempted, Cycles: r.Cycles, Writes: r.Writes, Refused: r.Failed,
	}
}

// spread is a mean over seeds with its standard error.
type spread struct {
	Mean float64 `json:"mean"`
	SE   float64 `json:"se"`
	N    int     `json:"n"`
}

// spreadOf returns the mean and the standard error of the mean; the error of
// one value is not known and reads 0.
func spreadOf(v []float64) spread {
	s := spread{N: len(v)}
	for _, x := range v {
		s.Mean += x / float64(len(v))
	}
	if len(v) < 2 {
		return s
	}
	sum := 0.0
	for _, x := range v {
		sum += (x - s.Mean) * (x - s.Mean)
	}
	s.SE = math.Sqrt(sum / float64(len(v)-1) / float64(len(v)))
	return s
}
