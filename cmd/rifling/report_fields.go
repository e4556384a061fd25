// SPDX-License-Identifier: Apache-2.0

package main

import (
	"math"
	"strings"
	"time"

	"rifling/report"
	"rifling/store"
)

// reportFormat are the columns behind those of the split.
const reportFormat = "jobs,started,gpuhours,used,waitmean,waitmedian,wait95,jctmean,slowdown,anpr,decided,steered"

// keyNames are the columns of a split.
var keyNames = map[string]string{
	"user": "User", "account": "Account", "partition": "Partition", "qos": "QOS",
	"gpu": "GPUType", "group": "Group", "action": "Action", "day": "Day",
}

// secs is a duration of a figure.
func secs(s float64) time.Duration { return time.Duration(math.Round(s)) * time.Second }

// reportFields are the columns of a report: those of the split first.
func reportFields(by []string, sides bool) []report.Field[store.Figures] {
	type f = store.Figures
	var out []report.Field[f]
	if sides {
		out = append(out, report.Field[f]{Name: "When", Doc: "before or after the date", Width: 6, Left: true,
			Of: func(r *f) report.Value { return report.Text(r.Side) }})
	}
	for i, k := range by {
		out = append(out, report.Field[f]{Name: keyNames[k], Doc: "what the jobs were split by", Left: true,
			Of: func(r *f) report.Value { return report.Text(r.Key[i]) }})
	}
	out = append(out, report.Field[f]{Name: "Key", Doc: "all that the jobs were split by, joined by /", Left: true,
		Of: func(r *f) report.Value { return report.Text(strings.Join(r.Key, "/")) }})
	return append(out, figureFields()...)
}

// filled shows a value only where there is something behind it.
func filled(n int, v report.Value) report.Value {
	if n == 0 {
		return report.None
	}
	return v
}

func figureFields() []report.Field[store.Figures] {
	type f = store.Figures
	num := func(name string, width int, doc string, of func(*f) report.Value) report.Field[f] {
		return report.Field[f]{Name: name, Width: width, Doc: doc, Of: of}
	}
	span := func(name, doc string, of func(*f) (int, float64)) report.Field[f] {
		return num(name, 11, doc, func(r *f) report.Value {
			n, s := of(r)
			return filled(n, report.Duration(secs(s)))
		})
	}
	return []report.Field[f]{
		num("Jobs", 7, "jobs", func(r *f) report.Value { return report.Int(r.Jobs) }),
		num("Started", 7, "jobs that started", func(r *f) report.Value { return report.Int(r.Started) }),
		num("Finished", 8, "jobs that ended", func(r *f) report.Value { return report.Int(r.Finished) }),
		num("GPUHours", 10, "GPU hours allocated: held by jobs", func(r *f) report.Value { return report.Float(r.GPUHours, 1) }),
		num("Measured", 10, "GPU hours of these that samples cover", func(r *f) report.Value { return report.Float(r.MeasuredHours, 1) }),
		num("Busy", 10, "GPU hours measured, weighed by how busy the GPUs were", func(r *f) report.Value { return report.Float(r.BusyHours, 1) }),
		num("Used", 5, "Busy over Measured: the part of the allocated GPU time that was used, as far as it was measured", func(r *f) report.Value {
			if r.MeasuredHours <= 0 {
				return report.None
			}
			return report.Float(r.BusyHours/r.MeasuredHours, 2)
		}),
		span("WaitMean", "mean queueing delay, from eligible to start, of started jobs", func(r *f) (int, float64) { return r.Wait.N, r.Wait.Mean }),
		span("WaitMedian", "median of it", func(r *f) (int, float64) { return r.Wait.N, r.Wait.Median }),
		span("Wait95", "95th percentile of it", func(r *f) (int, float64) { return r.Wait.N, r.Wait.P95 }),
		span("JCTMean", "mean job completion time, from submit to end, of jobs that started and ended", func(r *f) (int, float64) { return r.JCT.N, r.JCT.Mean }),
		span("JCTMedian", "median of it", func(r *f) (int, float64) { return r.JCT.N, r.JCT.Median }),
		span("JCT95", "95th percentile of it", func(r *f) (int, float64) { return r.JCT.N, r.JCT.P95 }),
		num("Slowdown", 8, "mean bounded slowdown: (wait + run time) / run time of at least 10 s, at least 1", func(r *f) report.Value { return filled(r.Slowdown.N, report.Float(r.Slowdown.Mean, 2)) }),
		num("Slowdown95", 10, "95th percentile of it", func(r *f) report.Value { return filled(r.Slowdown.N, report.Float(r.Slowdown.P95, 2)) }),
		num("ANPR", 5, "mean normalized processing rate, weighted by GPU time", func(r *f) report.Value { return filled(r.ANPRJobs, report.Float(r.ANPR, 3)) }),
		num("ANPRJobs", 8, "jobs behind ANPR", func(r *f) report.Value { return report.Int(r.ANPRJobs) }),
		num("Decided", 7, "jobs that got a decision other than hands off", func(r *f) report.Value { return report.Int(r.Decided) }),
		num("Steered", 7, "jobs on which a change was applied", func(r *f) report.Value { return report.Int(r.Steered) }),
		num("Applied", 7, "changes that were applied", func(r *f) report.Value { return report.Int(r.Applied) }),
		num("Skipped", 7, "changes that were skipped", func(r *f) report.Value { return report.Int(r.Skipped) }),
		num("Failed", 6, "changes that failed", func(r *f) report.Value { return report.Int(r.Failed) }),
		num("Reward", 7, "mean reward of what was learned", func(r *f) report.Value { return filled(r.Rewards, report.Float(r.Reward, 3)) }),
		num("Rewards", 7, "episodes behind it", func(r *f) report.Value { return report.Int(r.Rewards) }),
	}
}
