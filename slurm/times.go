// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// day is 24 hours: what Slurm means by the days of a duration.
const day = 24 * time.Hour

// ParseDuration reads a time limit or an elapsed time as Slurm writes it:
// "minutes", "minutes:seconds", "hours:minutes:seconds", "days-hours",
// "days-hours:minutes", "days-hours:minutes:seconds", the seconds with a
// fraction where they are of CPU time ("02:03.500"). UNLIMITED and INFINITE are
// unlimited. Words for no value, such as sacct's Partition_Limit, give ErrUnset.
func ParseDuration(s string) (d time.Duration, unlimited bool, err error) {
	text := strings.TrimSpace(s)
	switch strings.ToUpper(text) {
	case "UNLIMITED", "INFINITE":
		return 0, true, nil
	case "", "PARTITION_LIMIT", "NOT_SET", "N/A", "NONE", "(NULL)":
		return 0, false, fmt.Errorf("duration %q: %w", s, ErrUnset)
	}
	d, ok := parseDuration(text)
	if !ok {
		return 0, false, &ParseError{Kind: "duration", Token: s, Msg: "not of the form [days-]hours:minutes:seconds"}
	}
	return d, false, nil
}

func parseDuration(s string) (time.Duration, bool) {
	var total time.Duration
	days, clock, dashed := strings.Cut(s, "-")
	if !dashed {
		clock = s
	} else if !addUnits(&total, days, day) {
		return 0, false
	}
	parts := strings.Split(clock, ":")
	// What the first part counts depends on the form.
	units := []time.Duration{time.Hour, time.Minute, time.Second}
	if len(parts) > len(units) {
		return 0, false
	}
	if !dashed && len(parts) < len(units) {
		units = units[1:]
	}
	for i, part := range parts {
		if i == len(parts)-1 && units[i] == time.Second {
			whole, frac, dotted := strings.Cut(part, ".")
			if dotted && !addFraction(&total, frac) {
				return 0, false
			}
			part = whole
		}
		if !addUnits(&total, part, units[i]) {
			return 0, false
		}
	}
	return total, true
}

// addUnits adds a written number of units, unless the sum would overflow.
func addUnits(total *time.Duration, number string, unit time.Duration) bool {
	n, ok := parseDigits(number)
	if !ok || n > int64((math.MaxInt64-*total)/unit) {
		return false
	}
	*total += time.Duration(n) * unit
	return true
}

// addFraction adds the digits behind the point of a number of seconds.
func addFraction(total *time.Duration, digits string) bool {
	if !isDigits(digits) || len(digits) > 9 {
		return false
	}
	n, _ := parseDigits(digits + strings.Repeat("0", 9-len(digits)))
	*total += time.Duration(n)
	return true
}

// FormatDuration writes d as Slurm does, "1-02:03:04" or "02:03:04", cut to
// whole seconds. Slurm prints no negative times; they get a minus sign.
func FormatDuration(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -max(d, -math.MaxInt64)
	}
	clock := fmt.Sprintf("%02d:%02d:%02d", d%day/time.Hour, d%time.Hour/time.Minute, d%time.Minute/time.Second)
	if d >= day {
		return fmt.Sprintf("%s%d-%s", sign, d/day, clock)
	}
	return sign + clock
}

// Efficiency returns CPU time used over CPU time held, within 0..1. A sum over
// steps or array tasks may exceed what one elapsed time allows; the ratio is
// then cut to 1 and clamped is true, so that it can be marked and left out of
// fits. It is 0 when nothing was held.
func Efficiency(used, elapsed time.Duration, cpus int) (ratio float64, clamped bool) {
	held := elapsed.Seconds() * float64(cpus)
	if held <= 0 {
		return 0, used > 0
	}
	ratio = used.Seconds() / held
	return max(0, min(1, ratio)), ratio > 1 || ratio < 0
}
