// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"fmt"
	"strings"
	"time"
)

// whenLayouts are the dates that carry their own year, and times of day, that
// sacct -S takes.
var whenLayouts = []string{
	"2006-01-02T15:04:05", "2006-01-02T15:04", "2006-01-02",
	"2006-01-02 15:04:05", "2006-01-02 15:04",
	"1/2/06-15:04:05", "1/2/06-15:04", "1/2/06", "01.02.06", "010206",
}

// yearlessLayouts are dates of this year.
var yearlessLayouts = []string{
	"1/2-15:04:05", "1/2-15:04", "1/2", "01.02", "0102",
}

// clockLayouts are times of today.
var clockLayouts = []string{
	"15:04:05", "15:04", "3:04:05PM", "3:04PM", "3:04:05 PM", "3:04 PM",
}

// ParseWhen reads an instant as sacct's -S and -E take it, in now's location:
// now, now-7days, now+1hour, today, midnight, noon, fika (15:00), teatime
// (16:00), tomorrow, YYYY-MM-DD[THH:MM[:SS]], MM/DD[/YY][-HH:MM[:SS]], MMDD[YY],
// HH:MM[:SS][AM|PM], and seconds since the epoch, plain or behind "uts". An
// instant with a zone (RFC 3339) keeps it. Words for no time (Unknown, None,
// N/A) give ErrUnset.
func ParseWhen(s string, now time.Time) (time.Time, error) {
	text := strings.TrimSpace(s)
	word := strings.ToLower(text)
	if word == "" || word == "unknown" || word == "none" || word == "n/a" || word == "(null)" {
		return time.Time{}, fmt.Errorf("time %q: %w", s, ErrUnset)
	}
	if t, ok := whenWord(word, now); ok {
		return t, nil
	}
	if t, ok := whenEpoch(word, now); ok {
		return t, nil
	}
	if t, err := time.Parse(time.RFC3339, text); err == nil {
		return t, nil
	}
	if t, ok := whenLayout(strings.ToUpper(text), now); ok {
		return t, nil
	}
	err := &ParseError{Kind: "time", Token: s, Msg: "not a time that Slurm knows"}
	return time.Time{}, WithHint(err, "write it as now-7days, YYYY-MM-DD or YYYY-MM-DDTHH:MM:SS")
}

// whenWord reads the words, and now with an offset.
func whenWord(word string, now time.Time) (time.Time, bool) {
	at := func(days, hour int) (time.Time, bool) {
		y, m, d := now.Date()
		return time.Date(y, m, d+days, hour, 0, 0, 0, now.Location()), true
	}
	switch word {
	case "today", "midnight":
		return at(0, 0)
	case "noon":
		return at(0, 12)
	case "fika":
		return at(0, 15)
	case "teatime":
		return at(0, 16)
	case "tomorrow":
		return at(1, 0)
	}
	offset, ok := strings.CutPrefix(word, "now")
	if !ok {
		return time.Time{}, false
	}
	offset = strings.ReplaceAll(offset, " ", "")
	if offset == "" {
		return now, true
	}
	d, ok := whenOffset(offset[1:])
	switch {
	case ok && offset[0] == '-':
		return now.Add(-d), true
	case ok && offset[0] == '+':
		return now.Add(d), true
	}
	return time.Time{}, false
}

// whenOffset reads a count and a unit, seconds when there is none. As in Slurm,
// any beginning of the unit's name will do.
func whenOffset(s string) (time.Duration, bool) {
	i := 0
	for i < len(s) && '0' <= s[i] && s[i] <= '9' {
		i++
	}
	var d time.Duration
	for _, u := range []struct {
		name string
		unit time.Duration
	}{
		{"seconds", time.Second}, {"minutes", time.Minute}, {"hours", time.Hour},
		{"days", day}, {"weeks", 7 * day},
	} {
		if strings.HasPrefix(u.name, s[i:]) {
			return d, addUnits(&d, s[:i], u.unit)
		}
	}
	return 0, false
}

// whenEpoch reads seconds since the epoch. Fewer than nine digits without "uts"
// are a date instead, as in MMDDYY.
func whenEpoch(word string, now time.Time) (time.Time, bool) {
	digits, marked := strings.CutPrefix(word, "uts")
	n, ok := parseDigits(digits)
	if !ok || n > 1<<40 || !marked && len(digits) < 9 {
		return time.Time{}, false
	}
	return time.Unix(n, 0).In(now.Location()), true
}

func whenLayout(text string, now time.Time) (time.Time, bool) {
	loc := now.Location()
	for _, layout := range whenLayouts {
		if t, err := time.ParseInLocation(layout, text, loc); err == nil {
			return t, true
		}
	}
	for _, layout := range yearlessLayouts {
		// Parsed with the year in front, so that 29 February is judged by
		// this year.
		if t, err := time.ParseInLocation("2006 "+layout, now.Format("2006 ")+text, loc); err == nil {
			return t, true
		}
	}
	for _, layout := range clockLayouts {
		if t, err := time.ParseInLocation(layout, text, loc); err == nil {
			y, m, d := now.Date()
			return time.Date(y, m, d, t.Hour(), t.Minute(), t.Second(), 0, loc), true
		}
	}
	return time.Time{}, false
}
