// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"math"
	"path/filepath"
	"time"
	_ "time/tzdata" // the zones, where the host has none installed

	"rifling/cycle"
	"rifling/policy"
	"rifling/slurm"
)

// Brakes say when nothing may be set on jobs though the mode is steer.
type Brakes struct {
	PauseFile  string   `mapstructure:"pause-file"`
	KillSwitch string   `mapstructure:"kill-switch"`
	QuietHours []string `mapstructure:"quiet-hours"`
	TimeZone   string   `mapstructure:"time-zone"`
	Fallback   Fallback `mapstructure:"fallback"`
}

// Fallback are the bounds beyond which riflingd observes by itself.
type Fallback struct {
	SlowAnswer time.Duration `mapstructure:"slow-answer"`
	Threads    int           `mapstructure:"server-threads"`
	Schedule   time.Duration `mapstructure:"schedule"`
	Calm       time.Duration `mapstructure:"calm"`
	Refused    float64       `mapstructure:"refused"`
	Worse      float64       `mapstructure:"worse"`
}

func defaultBrakes() Brakes {
	return Brakes{
		KillSwitch: "/etc/rifling/stop",
		Fallback: Fallback{
			SlowAnswer: 5 * time.Second, Threads: 128, Schedule: 10 * time.Second, Calm: 10 * time.Minute,
			Refused: 0.5, Worse: 3,
		},
	}
}

// PauseFile is the file of `rifling pause`: by default beside the database.
func (c *Config) PauseFile() string {
	if c.Brakes.PauseFile != "" {
		return c.Brakes.PauseFile
	}
	return filepath.Join(filepath.Dir(c.Database), "pause")
}

// ResumeFile is the file by which `rifling resume` ends a fall-back.
func (c *Config) ResumeFile() string { return c.PauseFile() + ".resume" }

// QuietHours returns the site's quiet hours.
func (c *Config) QuietHours() (policy.QuietHours, error) {
	zone := time.Local
	var err error
	if c.Brakes.TimeZone != "" {
		zone, err = time.LoadLocation(c.Brakes.TimeZone)
	}
	if err != nil {
		return policy.QuietHours{}, slurm.WithHint(fmt.Errorf("brakes.time-zone: %w", err),
			"use a name such as Europe/Berlin, or \"\" for this machine's zone")
	}
	q, err := policy.ParseQuietHours(c.Brakes.QuietHours, zone)
	if err != nil {
		return q, slurm.WithHint(fmt.Errorf("brakes.quiet-hours: %w", err), `write e.g. "mon-fri 08:00-18:00", "sat,sun" or "22:00-06:00"`)
	}
	return q, nil
}

// NewFallback returns what makes riflingd observe by itself.
func (c *Config) NewFallback() *cycle.Fallback {
	return &cycle.Fallback{Options: cycle.FallbackOptions(c.Brakes.Fallback)}
}

// Gap is the least time between two updates.
func (c *Config) Gap() time.Duration {
	return time.Duration(math.Ceil(float64(time.Second) / c.Limits.PerSecond))
}

func (c *Config) validateBrakes() error {
	f, l := c.Brakes.Fallback, c.Listen
	for _, r := range []struct {
		bad bool
		key string
		is  any
		say string
	}{
		{c.Limits.PerSecond <= 0 || c.Limits.PerSecond > 1000, "limits.updates-per-second", c.Limits.PerSecond, "use more than 0, at most 1000; limits.max-changes: 0 changes nothing"},
		{c.Limits.MaxOvertake < 0, "limits.max-overtake", c.Limits.MaxOvertake, "use 0 (never) or more"},
		{(l.CertFile == "") != (l.KeyFile == ""), "listen.cert-file, listen.key-file", l.CertFile + l.KeyFile, "name both, or neither"},
		{f.SlowAnswer < 0, "brakes.fallback.slow-answer", f.SlowAnswer, "use 0 (never) or more, e.g. 5s"},
		{f.Threads < 0, "brakes.fallback.server-threads", f.Threads, "use 0 (never) or more, e.g. 128"},
		{f.Schedule < 0, "brakes.fallback.schedule", f.Schedule, "use 0 (never) or more, e.g. 10s"},
		{f.Calm < 0, "brakes.fallback.calm", f.Calm, "use 0 or more, e.g. 10m"},
		{f.Refused < 0 || f.Refused > 1, "brakes.fallback.refused", f.Refused, "use 0 (never) to 1"},
		{f.Worse < 0, "brakes.fallback.worse", f.Worse, "use 0 (never) or more; 3 errs seldom"},
	} {
		if r.bad {
			return slurm.WithHint(fmt.Errorf("%s: %v is not possible", r.key, r.is), "%s", r.say)
		}
	}
	_, err := c.QuietHours()
	return err
}
