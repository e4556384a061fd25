// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rifling/report"
	"rifling/store"
)

const reportFormat = "key,jobs,finished,gpuhours,waitmean,waitmedian,wait95,jctmean,jctmedian,anpr,decided,steered,applied,failed,reward"

func (a *app) reportCmd() *cobra.Command {
	var f filterFlags
	var t tableFlags
	var by []string
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Sum up queueing delay, completion time, rates and effect",
		Long: "report sums up the GPU jobs of a range of time (all of the history without one):\n" +
			"queueing delay, job completion time, ANPR, what was decided and written, and what\n" +
			"came of it. --by splits the jobs; --by action sets what rifling steered beside what\n" +
			"it left to Slurm (jobs differ, so that is no proof of cause).",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			return show(a.out, t, summaryFields(by), summaryFormat(by), func() ([]store.Summary, error) {
				for _, k := range by {
					if !slices.Contains(store.SummaryKeys, k) {
						return nil, usageError{fmt.Errorf("--by %q: use one or more of %s", k, strings.Join(store.SummaryKeys, ","))}
					}
				}
				filter, err := f.filter(a)
				if err != nil {
					return nil, err
				}
				s, err := a.history(cmd)
				if err != nil {
					return nil, err
				}
				defer s.Close()
				return s.Summary(cmd.Context(), filter, by...)
			})
		},
	}
	f.add(cmd)
	t.add(cmd)
	cmd.Flags().StringSliceVar(&by, "by", nil, "split by "+strings.Join(store.SummaryKeys, ","))
	return cmd
}

func summaryFormat(by []string) string {
	if len(by) == 0 {
		return strings.TrimPrefix(reportFormat, "key,")
	}
	return reportFormat
}

// summaryFields are the columns of a report; the key is named after the split.
func summaryFields(by []string) []report.Field[store.Summary] {
	type s = store.Summary
	doc := "what the jobs were split by"
	if len(by) > 0 {
		doc = strings.Join(by, "/")
	}
	// A mean of nothing is no value.
	some := func(n int, v report.Value) report.Value {
		if n == 0 {
			return report.None
		}
		return v
	}
	num := func(name string, width int, doc string, of func(*s) report.Value) report.Field[s] {
		return report.Field[s]{Name: name, Width: width, Doc: doc, Of: of}
	}
	return []report.Field[s]{
		{Name: "Key", Doc: doc, Left: true, Of: func(r *s) report.Value { return report.Text(r.Key) }},
		num("Jobs", 6, "jobs", func(r *s) report.Value { return report.Int(r.Jobs) }),
		num("Started", 7, "jobs that started", func(r *s) report.Value { return report.Int(r.Started) }),
		num("Finished", 8, "jobs that ended", func(r *s) report.Value { return report.Int(r.Finished) }),
		num("GPUHours", 9, "GPU hours held", func(r *s) report.Value { return report.Float(r.GPUHours, 1) }),
		num("WaitMean", 11, "mean queueing delay of started jobs", func(r *s) report.Value { return some(r.Started, report.Duration(r.WaitMean)) }),
		num("WaitMedian", 11, "median of it", func(r *s) report.Value { return some(r.Started, report.Duration(r.WaitMedian)) }),
		num("Wait95", 11, "95th percentile of it", func(r *s) report.Value { return some(r.Started, report.Duration(r.WaitP95)) }),
		num("JCTMean", 11, "mean time from submit to end", func(r *s) report.Value { return some(r.Finished, report.Duration(r.JCTMean)) }),
		num("JCTMedian", 11, "median of it", func(r *s) report.Value { return some(r.Finished, report.Duration(r.JCTMedian)) }),
		num("ANPR", 5, "mean normalized processing rate, weighted by GPU time", func(r *s) report.Value { return some(r.ANPRJobs, report.Float(r.ANPR, 3)) }),
		num("ANPRJobs", 8, "jobs behind ANPR", func(r *s) report.Value { return report.Int(r.ANPRJobs) }),
		num("Decided", 7, "jobs that got a decision other than hands off", func(r *s) report.Value { return report.Int(r.Decided) }),
		num("Steered", 7, "jobs on which a change was applied", func(r *s) report.Value { return report.Int(r.Steered) }),
		num("Applied", 7, "changes that were applied", func(r *s) report.Value { return report.Int(r.Applied) }),
		num("Skipped", 7, "changes that were skipped", func(r *s) report.Value { return report.Int(r.Skipped) }),
		num("Failed", 6, "changes that failed", func(r *s) report.Value { return report.Int(r.Failed) }),
		num("Reward", 7, "mean reward of what was learned", func(r *s) report.Value { return some(r.Rewards, report.Float(r.Reward, 3)) }),
		num("Rewards", 7, "episodes behind it", func(r *s) report.Value { return report.Int(r.Rewards) }),
	}
}
