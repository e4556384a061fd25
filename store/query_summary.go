// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

// SummaryKeys lists by what Summary can split jobs.
var SummaryKeys = []string{"user", "account", "partition", "qos", "group", "action"}

// Summary is the account of a set of jobs.
type Summary struct {
	Key      string // "" for all jobs together
	Jobs     int
	Started  int
	Finished int
	GPUHours float64

	// Queueing delay from eligible to start, of jobs that started.
	WaitMean, WaitMedian, WaitP95 time.Duration
	// Job completion time from submit to end, of jobs that finished.
	JCTMean, JCTMedian time.Duration

	// ANPR is the mean normalized processing rate of jobs that have one,
	// weighted by their GPU time; meaningless when ANPRJobs is 0.
	ANPR     float64
	ANPRJobs int

	Decided int // jobs that got a decision other than hands off
	Steered int // jobs on which at least one change was applied
	Applied int // changes by outcome
	Skipped int
	Failed  int
	Reward  float64 // mean over episodes; meaningless when Rewards is 0
	Rewards int
}

// Summary sums up the jobs that pass the filter, split by the given keys (see
// SummaryKeys; none gives one row). Rows come by key.
func (s *Store) Summary(ctx context.Context, f Filter, by ...string) ([]Summary, error) {
	for _, k := range by {
		if !slices.Contains(SummaryKeys, k) {
			return nil, slurm.WithHint(fmt.Errorf("jobs cannot be split by %q", k), "use one or more of %s", strings.Join(SummaryKeys, ","))
		}
	}
	jobs, err := s.Jobs(ctx, f)
	if err != nil {
		return nil, err
	}
	effects, err := s.effects(ctx)
	if err != nil {
		return nil, explain(s.path, "sum up", err)
	}
	parts := map[string][]*Job{}
	for i := range jobs {
		k := summaryKey(&jobs[i], by)
		parts[k] = append(parts[k], &jobs[i])
	}
	if len(by) == 0 && len(parts) == 0 {
		parts[""] = nil
	}
	out := make([]Summary, 0, len(parts))
	for k, js := range parts {
		out = append(out, sumUp(k, js, effects))
	}
	slices.SortFunc(out, func(a, b Summary) int { return cmp.Compare(a.Key, b.Key) })
	return out, nil
}

// effect is what rifling did to one job and what came of it.
type effect struct {
	applied, skipped, failed int
	reward                   float64
	rewards                  int
}

func (s *Store) effects(ctx context.Context) (map[slurm.JobID]effect, error) {
	out := map[slurm.JobID]effect{}
	var changes []struct {
		JobID   slurm.JobID `db:"job_id"`
		Outcome policy.Outcome
		N       int
	}
	const q = `SELECT job_id, outcome, count(*) AS n FROM changes WHERE kind = 'set' GROUP BY job_id, outcome`
	if err := s.db.SelectContext(ctx, &changes, q); err != nil {
		return nil, err
	}
	for _, c := range changes {
		e := out[c.JobID]
		switch c.Outcome {
		case policy.Applied:
			e.applied += c.N
		case policy.Skipped:
			e.skipped += c.N
		case policy.Failed:
			e.failed += c.N
		}
		out[c.JobID] = e
	}
	var rewards []struct {
		JobID  slurm.JobID `db:"job_id"`
		Reward float64
		N      int
	}
	const r = `SELECT job_id, sum(reward) AS reward, count(*) AS n FROM episodes WHERE learned GROUP BY job_id`
	if err := s.db.SelectContext(ctx, &rewards, r); err != nil {
		return nil, err
	}
	for _, row := range rewards {
		e := out[row.JobID]
		e.reward, e.rewards = row.Reward, row.N
		out[row.JobID] = e
	}
	return out, nil
}

func summaryKey(j *Job, by []string) string {
	words := make([]string, len(by))
	for i, k := range by {
		switch k {
		case "user":
			words[i] = j.User
		case "account":
			words[i] = j.Account
		case "partition":
			words[i] = j.Partition
		case "qos":
			words[i] = j.QOS
		case "group":
			words[i] = GroupName(j.Profile.Group)
		case "action":
			words[i] = ActionName(j.Decision)
		}
	}
	return strings.Join(words, "/")
}

// GroupName is a group's number, or "unknown".
func GroupName(group int) string {
	if group == profile.GroupUnknown {
		return "unknown"
	}
	return fmt.Sprint(group)
}

// ActionName is what was decided in one word: an action, "skipped" when a guard
// rail kept hands off, or "none" without a decision.
func ActionName(d *Decision) string {
	switch {
	case d == nil:
		return "none"
	case d.Skipped != "":
		return "skipped"
	}
	return string(d.Action)
}

func sumUp(key string, jobs []*Job, effects map[slurm.JobID]effect) Summary {
	out := Summary{Key: key, Jobs: len(jobs)}
	var waits, jcts []time.Duration
	var weight, reward float64
	for _, j := range jobs {
		gpuSeconds := float64(j.GPUs) * j.Elapsed().Seconds()
		out.GPUHours += gpuSeconds / 3600
		if !j.Start.IsZero() {
			out.Started++
			waits = append(waits, j.Wait())
		}
		if !j.End.IsZero() {
			out.Finished++
			jcts = append(jcts, max(0, j.End.Sub(j.Submit)))
		}
		if j.Profile.NPRCount > 0 && gpuSeconds > 0 {
			out.ANPRJobs++
			out.ANPR += j.Profile.NPR * gpuSeconds
			weight += gpuSeconds
		}
		if j.Decision != nil && j.Decision.Skipped == "" {
			out.Decided++
		}
		e := effects[j.ID]
		if e.applied > 0 {
			out.Steered++
		}
		out.Applied, out.Skipped, out.Failed = out.Applied+e.applied, out.Skipped+e.skipped, out.Failed+e.failed
		reward, out.Rewards = reward+e.reward, out.Rewards+e.rewards
	}
	if weight > 0 {
		out.ANPR /= weight
	}
	if out.Rewards > 0 {
		out.Reward = reward / float64(out.Rewards)
	}
	out.WaitMean, out.WaitMedian, out.WaitP95 = mean(waits), quantile(waits, 0.5), quantile(waits, 0.95)
	out.JCTMean, out.JCTMedian = mean(jcts), quantile(jcts, 0.5)
	return out
}

func mean(ds []time.Duration) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	var sum time.Duration
	for _, d := range ds {
		sum += d
	}
	return sum / time.Duration(len(ds))
}

// quantile returns the smallest value that at least the share q of all values
// does not exceed; 0 without values.
func quantile(ds []time.Duration, q float64) time.Duration {
	if len(ds) == 0 {
		return 0
	}
	sorted := slices.Sorted(slices.Values(ds))
	i := int(q*float64(len(sorted))+0.999999) - 1
	return sorted[min(max(i, 0), len(sorted)-1)]
}
