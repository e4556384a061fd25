// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"errors"
	"fmt"
	"time"
)

// Options are the settings of a Book. Start from DefaultOptions: most zero
// values are refused by Validate.
type Options struct {
	// Groups is k, the most groups that Regroup makes, 1..16; 0 lets Regroup
	// choose, at most 5.
	Groups int
	// RegroupEvery is the least time between two regroupings, >= 0; 0 regroups
	// whenever Regroup is called.
	RegroupEvery time.Duration
	// MinGap is the least distance between two groups' centres in log cc,
	// >= 0; nearer ones become one group. 0 never merges.
	MinGap float64
	// MinSamples is how many intervals a job or family must have been seen
	// before its log cc is believed, >= 1.
	MinSamples int
	// MaxGroupSD is the greatest standard deviation of log cc with which a
	// prediction that does not come from the job's own counters still puts a
	// job into a group, > 0.
	MaxGroupSD float64
	// CommBoundBelow and ComputeBoundAbove are cc (not its logarithm): a group
	// whose centre lies below the first is communication-bound, above the
	// second compute-bound. 0 < CommBoundBelow <= ComputeBoundAbove.
	CommBoundBelow, ComputeBoundAbove float64
	// MaxCC bounds cc to 1/MaxCC..MaxCC, > 1, so that its logarithm is finite.
	// A job that does not communicate has MaxCC.
	MaxCC float64
	// SpreadNetSpeed is what the NIC of a node carries, bytes per second, where
	// no sample says; > 0. Packed runs are scaled by it.
	SpreadNetSpeed float64
	// OverSpeed is how many times a link's speed a rate may be before it is
	// garbage, >= 1. More than 1, since counters and clocks are not read in the
	// same instant.
	OverSpeed float64
	// HalfLife is the time in which evidence of a family loses half its
	// weight, > 0.
	HalfLife time.Duration
	// RateWindow is how far back a job's recent rate looks, > 0.
	RateWindow time.Duration
	// KeepEnded is how long an ended job's rate can still be asked for, >= 0.
	KeepEnded time.Duration
	// MinRuns is how many runs the user or cluster level needs to predict a
	// run time, >= 1; a family or a name answers with one.
	MinRuns int
	// MaxFamilies is how many families are remembered, >= 1; those seen
	// longest ago are forgotten first.
	MaxFamilies int
}

// DefaultOptions returns the settings that rifling ships with. Groups and the
// two thresholds come from published T4 measurements (docs/design/profile.md).
func DefaultOptions() Options {
	return Options{
		Groups:            3,
		RegroupEvery:      time.Hour,
		MinGap:            0.25,
		MinSamples:        4,
		MaxGroupSD:        0.7,
		CommBoundBelow:    1,
		ComputeBoundAbove: 4.5,
		MaxCC:             20,
		SpreadNetSpeed:    50e9 / 8,
		OverSpeed:         1.25,
		HalfLife:          14 * 24 * time.Hour,
		RateWindow:        5 * time.Minute,
		KeepEnded:         time.Hour,
		MinRuns:           3,
		MaxFamilies:       2000,
	}
}

// Validate reports every setting that is out of its range.
func (o Options) Validate() error {
	var errs []error
	check := func(ok bool, format string, args ...any) {
		if !ok {
			errs = append(errs, fmt.Errorf(format, args...))
		}
	}
	// Written so that NaN fails each of them.
	check(o.Groups >= 0 && o.Groups <= 16, "groups %d is not in 0..16", o.Groups)
	check(o.RegroupEvery >= 0, "regroup_every %v is negative", o.RegroupEvery)
	check(o.MinGap >= 0, "min_gap %v is negative", o.MinGap)
	check(o.MinSamples >= 1, "min_samples %d is less than 1", o.MinSamples)
	check(o.MaxGroupSD > 0, "max_group_sd %v is not positive", o.MaxGroupSD)
	check(o.CommBoundBelow > 0, "comm_bound_below %v is not positive", o.CommBoundBelow)
	check(o.ComputeBoundAbove >= o.CommBoundBelow,
		"compute_bound_above %v is below comm_bound_below %v", o.ComputeBoundAbove, o.CommBoundBelow)
	check(o.MaxCC > 1 && finite(o.MaxCC), "max_cc %v is not above 1", o.MaxCC)
	check(o.SpreadNetSpeed > 0 && finite(o.SpreadNetSpeed), "spread_net_speed %v is not positive", o.SpreadNetSpeed)
	check(o.OverSpeed >= 1, "over_speed %v is less than 1", o.OverSpeed)
	check(o.HalfLife > 0, "half_life %v is not positive", o.HalfLife)
	check(o.RateWindow > 0, "rate_window %v is not positive", o.RateWindow)
	check(o.KeepEnded >= 0, "keep_ended %v is negative", o.KeepEnded)
	check(o.MinRuns >= 1, "min_runs %d is less than 1", o.MinRuns)
	check(o.MaxFamilies >= 1, "max_families %d is less than 1", o.MaxFamilies)
	return errors.Join(errs...)
}
