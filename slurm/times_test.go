// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"math"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseDuration(t *testing.T) {
	cases := map[string]time.Duration{
		"90":           90 * time.Minute,
		"90:30":        90*time.Minute + 30*time.Second,
		"2:00:00":      2 * time.Hour,
		"00:00:00":     0,
		"1-0":          24 * time.Hour,
		"1-06:30":      30*time.Hour + 30*time.Minute,
		"7-00:00:00":   7 * 24 * time.Hour,
		"100:00:00":    100 * time.Hour,
		"00:01.250":    1250 * time.Millisecond,
		"1-00:00:00.5": 24*time.Hour + 500*time.Millisecond,
	}
	for in, want := range cases {
		if got, unlimited, err := ParseDuration(in); got != want || unlimited || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %t, %v; want %v", in, got, unlimited, err, want)
		}
	}
	for _, in := range []string{"UNLIMITED", "infinite"} {
		if got, unlimited, err := ParseDuration(in); got != 0 || !unlimited || err != nil {
			t.Errorf("ParseDuration(%q) = %v, %t, %v; want unlimited", in, got, unlimited, err)
		}
	}
	for _, in := range []string{"", "Partition_Limit", "N/A", "NOT_SET"} {
		if _, _, err := ParseDuration(in); !errors.Is(err, ErrUnset) {
			t.Errorf("ParseDuration(%q) gives %v, want ErrUnset", in, err)
		}
	}
	for _, in := range []string{
		"-1", "1:2:3:4", "1-1:2:3:4", "1-", "-", ":", "1:", "1h", "1.5", "1-2-3", "INVALID",
		"1:02:03.", "1:02:03.1234567890", "1:2.5:3", "999999999999999999-0", "106752-00:00:00",
	} {
		if got, _, err := ParseDuration(in); err == nil || errors.Is(err, ErrUnset) {
			t.Errorf("ParseDuration(%q) = %v, %v; want a fault", in, got, err)
		}
	}
}

func TestFormatDuration(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"00:00:00":         999 * time.Millisecond,
		"00:01:05":         65 * time.Second,
		"23:59:59":         24*time.Hour - 1,
		"1-00:00:00":       24 * time.Hour,
		"1-02:03:04":       26*time.Hour + 3*time.Minute + 4*time.Second,
		"-00:00:07":        -7 * time.Second,
		"-106751-23:47:16": math.MinInt64,
	} {
		if got := FormatDuration(d); got != want {
			t.Errorf("FormatDuration(%d) = %q, want %q", d, got, want)
		}
	}
}

func TestDurationsAreReadBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		want := time.Duration(rapid.Int64Range(0, 9_000_000_000).Draw(t, "seconds")) * time.Second
		got, unlimited, err := ParseDuration(FormatDuration(want))
		if got != want || unlimited || err != nil {
			t.Fatalf("%q is read as %v, %t, %v", FormatDuration(want), got, unlimited, err)
		}
	})
}

func TestEfficiencyStaysWithinOne(t *testing.T) {
	cases := map[string]struct {
		used, elapsed time.Duration
		cpus          int
		want          float64
		clamped       bool
	}{
		"half of two CPUs":      {time.Hour, time.Hour, 2, 0.5, false},
		"all":                   {2 * time.Hour, time.Hour, 2, 1, false},
		"summed over many jobs": {41 * time.Hour, 26 * time.Minute, 2, 1, true},
		"nothing held":          {0, 0, 2, 0, false},
		"used without holding":  {time.Second, 0, 2, 0, true},
		"a clock that ran back": {-time.Second, time.Hour, 1, 0, true},
	}
	for name, tc := range cases {
		if got, clamped := Efficiency(tc.used, tc.elapsed, tc.cpus); got != tc.want || clamped != tc.clamped {
			t.Errorf("%s: %v, %t; want %v, %t", name, got, clamped, tc.want, tc.clamped)
		}
	}
}

// oslo is two hours ahead of UTC, as a summer there is.
var oslo = time.FixedZone("CEST", 2*60*60)

func TestParseWhen(t *testing.T) {
	now := time.Date(2026, 5, 14, 9, 26, 53, 0, oslo)
	at := func(y int, m time.Month, d, hour, minute, sec int) time.Time {
		return time.Date(y, m, d, hour, minute, sec, 0, oslo)
	}
	cases := map[string]time.Time{
		"now":                  now,
		"now-7days":            now.Add(-7 * 24 * time.Hour),
		"NOW-1day":             now.Add(-24 * time.Hour),
		"now-2weeks":           now.Add(-14 * 24 * time.Hour),
		"now+90":               now.Add(90 * time.Second),
		"now - 3 hours":        now.Add(-3 * time.Hour),
		"now-5min":             now.Add(-5 * time.Minute),
		"today":                at(2026, 5, 14, 0, 0, 0),
		"midnight":             at(2026, 5, 14, 0, 0, 0),
		"noon":                 at(2026, 5, 14, 12, 0, 0),
		"fika":                 at(2026, 5, 14, 15, 0, 0),
		"teatime":              at(2026, 5, 14, 16, 0, 0),
		"tomorrow":             at(2026, 5, 15, 0, 0, 0),
		"2026-02-03":           at(2026, 2, 3, 0, 0, 0),
		"2026-02-03T04:05":     at(2026, 2, 3, 4, 5, 0),
		"2026-02-03t04:05:06":  at(2026, 2, 3, 4, 5, 6),
		"2026-02-03T04:05:06Z": time.Date(2026, 2, 3, 4, 5, 6, 0, time.UTC),
		"02/03":                at(2026, 2, 3, 0, 0, 0),
		"2/3/25":               at(2025, 2, 3, 0, 0, 0),
		"02/03-04:05":          at(2026, 2, 3, 4, 5, 0),
		"02/03/25-04:05:06":    at(2025, 2, 3, 4, 5, 6),
		"0203":                 at(2026, 2, 3, 0, 0, 0),
		"020325":               at(2025, 2, 3, 0, 0, 0),
		"04:05":                at(2026, 5, 14, 4, 5, 0),
		"04:05:06":             at(2026, 5, 14, 4, 5, 6),
		"4:05pm":               at(2026, 5, 14, 16, 5, 0),
		"1762787291":           time.Unix(1762787291, 0),
		"uts1762787291":        time.Unix(1762787291, 0),
		"uts0":                 time.Unix(0, 0),
	}
	for in, want := range cases {
		got, err := ParseWhen(in, now)
		if err != nil || !got.Equal(want) {
			t.Errorf("ParseWhen(%q) = %v, %v; want %v", in, got, err, want)
		}
	}
	for _, in := range []string{"", "Unknown", "None", "N/A"} {
		if got, err := ParseWhen(in, now); !errors.Is(err, ErrUnset) || !got.IsZero() {
			t.Errorf("ParseWhen(%q) = %v, %v; want ErrUnset", in, got, err)
		}
	}
	for _, in := range []string{"yesteryear", "now-", "now*2", "now-x", "now-2fortnights", "2026-13-01", "02/29", "25:00", "12", "uts", "uts-1"} {
		if got, err := ParseWhen(in, now); err == nil || HintOf(err) == "" {
			t.Errorf("ParseWhen(%q) = %v, %v; want an error with a hint", in, got, err)
		}
	}
}

func TestTheLeapDayIsOfThisYear(t *testing.T) {
	now := time.Date(2028, 3, 1, 0, 0, 0, 0, time.UTC)
	got, err := ParseWhen("02/29", now)
	if want := time.Date(2028, 2, 29, 0, 0, 0, 0, time.UTC); err != nil || !got.Equal(want) {
		t.Errorf("got %v, %v; want %v", got, err, want)
	}
}

func FuzzParseDuration(f *testing.F) {
	for _, s := range []string{"1-02:03:04", "02:03.500", "UNLIMITED", "30"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		d, unlimited, err := ParseDuration(s)
		if d < 0 || (unlimited || err != nil) && d != 0 {
			t.Fatalf("%q: %v, %t, %v", s, d, unlimited, err)
		}
		if again, _, err := ParseDuration(FormatDuration(d)); err != nil || again != d.Truncate(time.Second) {
			t.Fatalf("%q: %v is written %q", s, d, FormatDuration(d))
		}
	})
}

func FuzzParseWhen(f *testing.F) {
	for _, s := range []string{"now-7days", "02/03/25-04:05:06", "2026-02-03T04:05", "uts1762787291"} {
		f.Add(s)
	}
	now := time.Date(2026, 5, 14, 9, 26, 53, 0, oslo)
	f.Fuzz(func(t *testing.T, s string) {
		if got, err := ParseWhen(s, now); err != nil && !got.IsZero() {
			t.Fatalf("%q: %v and %v", s, got, err)
		}
	})
}
