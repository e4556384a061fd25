// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// QuietHours are the hours in which a site wants nothing changed, by the clock on
// its wall. The zero value has none.
type QuietHours struct {
	zone  *time.Location
	spans []quietSpan
}

// quietSpan is one part of some days: minutes of the day, to is not included.
type quietSpan struct {
	days     [7]bool // by time.Weekday
	from, to int
}

const dayMinutes = 24 * 60

// ParseQuietHours reads spans such as "mon-fri 08:00-18:00", "sat,sun" or
// "22:00-06:00". Days are optional and mean every day when missing; a span
// whose end is not later than its beginning runs into the next day; without
// times a span is the whole day. The zone must not be nil.
func ParseQuietHours(spans []string, zone *time.Location) (QuietHours, error) {
	if zone == nil {
		return QuietHours{}, errors.New("quiet hours need a time zone")
	}
	q := QuietHours{zone: zone}
	for _, text := range spans {
		s, err := parseSpan(text)
		if err != nil {
			return QuietHours{}, fmt.Errorf("quiet hours %q: %w", text, err)
		}
		q.spans = append(q.spans, s)
	}
	return q, nil
}

func parseSpan(text string) (quietSpan, error) {
	s := quietSpan{to: dayMinutes}
	words := strings.Fields(strings.ToLower(text))
	var err error
	switch {
	case len(words) == 0 || len(words) > 2:
		return s, errors.New(`write days, times or both, e.g. "mon-fri 08:00-18:00"`)
	case len(words) == 1 && strings.Contains(words[0], ":"):
		words = append([]string{"mon-sun"}, words...)
	}
	if s.days, err = parseDays(words[0]); err != nil || len(words) == 1 {
		return s, err
	}
	from, to, ok := strings.Cut(words[1], "-")
	if !ok {
		return s, fmt.Errorf("%q is no time from-to such as 08:00-18:00", words[1])
	}
	if s.from, err = parseMinute(from); err != nil {
		return s, err
	}
	if s.to, err = parseMinute(to); err != nil {
		return s, err
	}
	if s.from == dayMinutes {
		return s, errors.New("a day begins at 00:00; 24:00 can only be an end")
	}
	return s, nil
}

var weekdays = []string{"sun", "mon", "tue", "wed", "thu", "fri", "sat"}

// parseDays reads "mon", "mon-fri" and lists of both; a range may run over the
// end of the week.
func parseDays(text string) (days [7]bool, err error) {
	for part := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(part, "-")
		if !isRange {
			last = first
		}
		a, b := slices.Index(weekdays, first), slices.Index(weekdays, last)
		if a < 0 || b < 0 {
			return days, fmt.Errorf("%q is no day; days are mon, tue, wed, thu, fri, sat, sun", part)
		}
		for days[a] = true; a != b; days[a] = true {
			a = (a + 1) % 7
		}
	}
	return days, nil
}

// parseMinute reads HH:MM, 00:00 to 24:00, as minutes of the day.
func parseMinute(text string) (int, error) {
	h, m, ok := strings.Cut(text, ":")
	hours, err1 := strconv.ParseUint(h, 10, 8)
	minutes, err2 := strconv.ParseUint(m, 10, 8)
	at := int(hours)*60 + int(minutes)
	if !ok || err1 != nil || err2 != nil || len(m) != 2 || minutes > 59 || at > dayMinutes {
		return 0, fmt.Errorf("%q is no time of day such as 08:00 or 24:00", text)
	}
	return at, nil
}

// At reports whether t lies in the quiet hours. The wall clock decides: an hour
// that a change of daylight saving time repeats is quiet both times, one that
// it leaves out never comes.
func (q QuietHours) At(t time.Time) bool {
	if len(q.spans) == 0 {
		return false
	}
	t = t.In(q.zone)
	minute := t.Hour()*60 + t.Minute()
	today, yesterday := t.Weekday(), (t.Weekday()+6)%7
	for _, s := range q.spans {
		switch {
		case s.from < s.to:
			if s.days[today] && minute >= s.from && minute < s.to {
				return true
			}
		case s.days[today] && minute >= s.from, s.days[yesterday] && minute < s.to:
			return true
		}
	}
	return false
}

// Until returns when the quiet hours that t lies in are over: the zero time
// when t lies in none, or when they never end.
func (q QuietHours) Until(t time.Time) time.Time {
	if !q.At(t) {
		return time.Time{}
	}
	// Changes come at whole minutes of the wall clock, and the pattern repeats
	// weekly but for daylight saving time.
	at := t.Truncate(time.Minute)
	for range 8 * dayMinutes {
		if at = at.Add(time.Minute); !q.At(at) {
			return at
		}
	}
	return time.Time{}
}
