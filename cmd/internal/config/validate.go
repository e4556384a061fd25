// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"rifling/policy"
	"rifling/slurm"
)

// basePath is what a proxy may put before the status page's own paths.
var basePath = regexp.MustCompile(`^(/[A-Za-z0-9._~-]+)*$`)

// Validate reports the first value that cannot be meant.
func (c *Config) Validate() error {
	type rule struct {
		bad bool
		key string
		is  any
		say string
	}
	rules := []rule{
		{c.Mode != ModeObserve && c.Mode != ModeSteer, "mode", c.Mode, "use observe or steer"},
		{!slices.Contains(policy.Names(), c.Policy), "policy", c.Policy, "use rifling, rule, pack or slurm; of the baselines also " + baselines()},
		{c.Order != "fcfs" && c.Order != "slurm", "order", c.Order, "use fcfs or slurm"},
		{c.Interval < 100*time.Millisecond, "interval", c.Interval, "use 1s or more; 15s suits most sites"},
		{c.UsersSee != SeeOwn && c.UsersSee != SeeAll, "users-see", c.UsersSee, "use own or all"},
		{c.Slurm.URL == "", "slurm.url", c.Slurm.URL, "name slurmrestd, e.g. unix:///run/rifling/slurmrestd.sock"},
		{c.Slurm.Timeout <= 0, "slurm.timeout", c.Slurm.Timeout, "use e.g. 30s"},
		{c.Database == "", "database", c.Database, "name a file, e.g. /var/lib/rifling/rifling.db"},
		{c.Limits.Depth < 0, "limits.depth", c.Limits.Depth, "use 0 (no job) or more"},
		{c.Limits.SlackNodes < 0, "limits.slack-nodes", c.Limits.SlackNodes, "use 0 or more"},
		{c.Limits.MaxOffset < 0, "limits.max-offset", c.Limits.MaxOffset, "use 0 (never) or more"},
		{c.Limits.MaxChanges < 0, "limits.max-changes", c.Limits.MaxChanges, "use 0 (never) or more"},
		{c.Limits.Grace < 0 || c.Limits.Grace > 10*time.Minute, "limits.grace", c.Limits.Grace, "use 0 (none) to 10m; 30s goes with contrib/job_submit"},
		{c.Limits.MaxWait < 0, "limits.max-wait", c.Limits.MaxWait, "use 0 (never wait) or more"},
		{c.Limits.TTL < 2*c.Interval, "limits.ttl", c.Limits.TTL, "use at least twice the interval, else what was set expires between cycles"},
		{c.Profile.Groups < 0 || c.Profile.Groups > 16, "profile.groups", c.Profile.Groups, "use 1 to 5, or 0 to have it chosen; 3 by default"},
		{c.Agent.Alpha <= 0 || c.Agent.Alpha > 1, "agent.alpha", c.Agent.Alpha, "use more than 0, at most 1"},
		{c.Agent.Tau <= 0, "agent.tau", c.Agent.Tau, "use e.g. 1h"},
		{c.Agent.Epsilon < 0 || c.Agent.Epsilon > 1, "agent.epsilon", c.Agent.Epsilon, "use 0 to 1"},
		{!slices.Contains([]string{PageOff, PageLoopback, PageOn}, c.Listen.Page), "listen.page", c.Listen.Page, "use off, loopback or on"},
		{!basePath.MatchString(c.Listen.BasePath), "listen.base-path", c.Listen.BasePath, "begin with a slash and end without one, e.g. /rifling; empty for none"},
		{c.Samples.Raw < time.Hour, "samples.raw", c.Samples.Raw, "use 1h or more; 48h suits most sites"},
		{c.Samples.FiveMinutes < c.Samples.Raw, "samples.five-minutes", c.Samples.FiveMinutes, "use samples.raw or more, e.g. 720h"},
		{c.Samples.MaxRows < 10_000, "samples.max-rows", c.Samples.MaxRows, "use 10000 or more; a row takes about 50 bytes"},
		{c.History.Learn < 0, "history.learn", c.History.Learn, "use 0 (nothing) or more, e.g. 2160h"},
		{c.History.Retention < 0, "history.retention", c.History.Retention, "use 0 (for ever) or more, e.g. 9600h"},
		{c.Agent.Prior != "rule" && c.Agent.Prior != "none", "agent.prior", c.Agent.Prior, "use rule or none"},
	}
	for _, r := range rules {
		if r.bad {
			return slurm.WithHint(fmt.Errorf("%s: %v is not possible", r.key, r.is), "%s", r.say)
		}
	}
	return c.validateBrakes()
}

// baselines are the policies that are there to be compared with.
func baselines() string {
	names := slices.DeleteFunc(policy.Names(), func(n string) bool {
		return n == "rifling" || n == "rule" || n == "pack" || n == "slurm"
	})
	return strings.Join(names, ", ")
}
