// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	z, err := time.LoadLocation(name)
	if err != nil {
		t.Skipf("no time zone data here: %v", err)
	}
	return z
}

func TestQuietHours(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	tests := map[string]struct {
		spans []string
		at    string // UTC
		quiet bool
		until string
	}{
		"none": {at: "2026-03-02T09:00:00Z"},
		"office hours on a Monday, Berlin is an hour ahead": {
			spans: []string{"mon-fri 08:00-18:00"}, at: "2026-03-02T07:00:00Z", quiet: true, until: "2026-03-02T17:00:00Z"},
		"a minute before":                {spans: []string{"mon-fri 08:00-18:00"}, at: "2026-03-02T06:59:59Z"},
		"the end is not included":        {spans: []string{"mon-fri 08:00-18:00"}, at: "2026-03-02T17:00:00Z"},
		"Sunday is no working day":       {spans: []string{"mon-fri 08:00-18:00"}, at: "2026-03-01T09:00:00Z"},
		"a whole day":                    {spans: []string{"sat,sun"}, at: "2026-03-01T22:59:00Z", quiet: true, until: "2026-03-01T23:00:00Z"},
		"a whole day is over at 24:00":   {spans: []string{"sun"}, at: "2026-03-01T23:00:00Z"},
		"days may run over the week end": {spans: []string{"fri-mon"}, at: "2026-03-01T12:00:00Z", quiet: true, until: "2026-03-02T23:00:00Z"},
		"a night":                        {spans: []string{"22:00-06:00"}, at: "2026-03-02T23:30:00Z", quiet: true, until: "2026-03-03T05:00:00Z"},
		"Friday's night reaches into Saturday": {
			spans: []string{"fri 22:00-06:00"}, at: "2026-03-07T04:59:00Z", quiet: true, until: "2026-03-07T05:00:00Z"},
		"Thursday's does not": {spans: []string{"fri 22:00-06:00"}, at: "2026-03-06T04:59:00Z"},
		"always":              {spans: []string{"mon-sun"}, at: "2026-03-06T04:59:00Z", quiet: true},
		// 2026-03-29 in Berlin: 01:59:59 is followed by 03:00.
		"before the spring change":           {spans: []string{"00:00-04:00"}, at: "2026-03-29T00:30:00Z", quiet: true, until: "2026-03-29T02:00:00Z"},
		"the hour left out in spring":        {spans: []string{"02:00-03:00"}, at: "2026-03-29T01:00:00Z"},
		"after it the clock is two ahead":    {spans: []string{"08:00-18:00"}, at: "2026-03-29T06:00:00Z", quiet: true, until: "2026-03-29T16:00:00Z"},
		"an hour that comes twice in autumn": {spans: []string{"02:00-03:00"}, at: "2026-10-25T00:30:00Z", quiet: true, until: "2026-10-25T02:00:00Z"},
		"and its second time":                {spans: []string{"02:00-03:00"}, at: "2026-10-25T01:30:00Z", quiet: true, until: "2026-10-25T02:00:00Z"},
		"a night over the autumn change":     {spans: []string{"22:00-06:00"}, at: "2026-10-24T20:00:00Z", quiet: true, until: "2026-10-25T05:00:00Z"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			q, err := ParseQuietHours(tc.spans, berlin)
			if err != nil {
				t.Fatal(err)
			}
			at, err := time.Parse(time.RFC3339, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			if got := q.At(at); got != tc.quiet {
				t.Errorf("quiet at %s (%s in Berlin): %t", tc.at, at.In(berlin).Format("Mon 15:04"), got)
			}
			until := ""
			if u := q.Until(at); !u.IsZero() {
				until = u.UTC().Format(time.RFC3339)
			}
			if until != tc.until {
				t.Errorf("until %q, want %q", until, tc.until)
			}
		})
	}
}

func TestQuietHoursThatCannotBeMeant(t *testing.T) {
	for text, want := range map[string]string{
		"":                 "days, times or both",
		"monday":           "is no day",
		"mon-fri 8-18":     "is no time of day",
		"mon 08:00":        "from-to",
		"mon 08:00-18:60":  "is no time of day",
		"mon 08:00-24:01":  "is no time of day",
		"24:00-06:00":      "begins at 00:00",
		"mon 8:00-18:00 x": "days, times or both",
		"mon -1:00-02:00":  "is no time of day",
	} {
		if _, err := ParseQuietHours([]string{text}, time.UTC); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v does not say %q", text, err, want)
		}
	}
	if _, err := ParseQuietHours([]string{"mon"}, nil); err == nil {
		t.Error("no error without a zone")
	}
}

// Until is the first minute that is not quiet, in any zone and over any change
// of its clock.
func TestQuietUntilIsTheFirstMinuteAfter(t *testing.T) {
	zones := []*time.Location{time.UTC, zone(t, "Europe/Berlin"), zone(t, "America/New_York"), zone(t, "Australia/Lord_Howe")}
	rapid.Check(t, func(t *rapid.T) {
		clock := func(name string) string {
			return time.Date(2026, 1, 1, 0, rapid.IntRange(0, dayMinutes-1).Draw(t, name), 0, 0, time.UTC).Format("15:04")
		}
		span := rapid.SampledFrom(weekdays).Draw(t, "first") + "-" + rapid.SampledFrom(weekdays).Draw(t, "last") +
			" " + clock("from") + "-" + clock("to")
		q, err := ParseQuietHours([]string{span}, rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		at := time.Unix(rapid.Int64Range(1767225600, 1798761600).Draw(t, "at"), 0) // in 2026
		until := q.Until(at)
		switch {
		case until.IsZero() && q.At(at):
			for m := range 7 * 24 * 60 {
				if !q.At(at.Add(time.Duration(m) * time.Minute)) {
					t.Fatalf("%q ends at some time after %v, and Until does not say so", span, at)
				}
			}
		case until.IsZero():
		case q.At(until) || !q.At(until.Add(-time.Second)) || until.Before(at):
			t.Fatalf("%q at %v: until %v is not its end", span, at, until)
		}
	})
}

func FuzzParseQuietHours(f *testing.F) {
	for _, s := range []string{"mon-fri 08:00-18:00", "sat,sun", "22:00-06:00", "fri-mon 00:00-24:00"} {
		f.Add(s)
	}
	f.Fuzz(func(_ *testing.T, text string) {
		q, err := ParseQuietHours([]string{text}, time.UTC)
		if err == nil {
			q.Until(noon)
		}
	})
}
