// SPDX-License-Identifier: Apache-2.0

package collector

import "time"

// Odd counts readings that were left out, by what was wrong with them.
type Odd map[string]int

// reading is one cumulative counter, in bytes, and when it was right.
type reading struct {
	bytes uint64
	at    time.Time
}

// meter turns a cumulative counter's readings into rates, by the counter's own
// time stamps. The zero value is ready.
type meter struct {
	last  reading
	known bool
}

// slack is how far above its link's speed a rate may lie and still be believed:
// time stamps and counters are not read at one instant.
const slack = 1.25

// rate returns bytes per second since the last reading. A counter that went
// back (a reset or a wrap), one that moved faster than the link can, and a time
// stamp that went back are counted in odd under the given name and give no
// rate; the next reading starts anew.
func (m *meter) rate(r reading, speed float64, name string, odd Odd) (bytesPerSecond float64, ok bool) {
	last, known := m.last, m.known
	if known && r.at.Equal(last.at) {
		if r.bytes != last.bytes {
			odd[name+" counter without a new time stamp"]++
		}
		return 0, false // nothing new was read
	}
	m.last, m.known = r, true
	switch {
	case !known:
		return 0, false
	case r.at.Before(last.at): // waiting for the old time to come again could take for ever
		odd[name+" time stamp went back"]++
		return 0, false
	case r.bytes < last.bytes:
		odd[name+" counter went back"]++
		return 0, false
	}
	v := float64(r.bytes-last.bytes) / r.at.Sub(last.at).Seconds()
	limit := speed
	if limit <= 0 {
		limit = fastestLink
	}
	if v > slack*limit {
		odd[name+" counter faster than its link"]++
		return 0, false
	}
	return v, true
}

// fastestLink bounds a link of unknown speed: bytes per second in one
// direction, several times what any GPU has today.
const fastestLink = 10e12
