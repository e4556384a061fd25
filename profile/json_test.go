// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// aBook has seen a packed and a spread run, an ended one and a regrouping.
func aBook(t testing.TB) (*Book, time.Time, []*job) {
	b := newBook(t)
	packed, spread := newJob(1).on(t0, 4, "n1"), newJob(2).on(t0.Add(time.Hour), 2, "n2", "n3")
	s, _ := heavy.run(packed, 1)
	feed(t, b, packed, 70, s)
	packed.ended("COMPLETED", 20*time.Minute)
	b.Track(snapshot(packed.EndTime, packed))
	s, _ = heavy.run(spread, 1)
	now := feed(t, b, spread, 10, s)
	b.Regroup(now)
	return b, now, []*job{spread, newJob(3), newJob(4).of("eve")}
}

func TestCheckpointRestoresAndGoesOnAlike(t *testing.T) {
	b, now, jobs := aBook(t)
	data, err := json.Marshal(b)
	if err != nil {
		t.Fatal(err)
	}
	c := newBook(t)
	if err := json.Unmarshal(data, c); err != nil {
		t.Fatal(err)
	}
	same := func(when string, s time.Time) {
		t.Helper()
		snap := snapshot(s, jobs...)
		if diff := cmp.Diff(b.Profiles(snap), c.Profiles(snap)); diff != "" {
			t.Errorf("%s: profiles (-original +restored):\n%s", when, diff)
		}
		if diff := cmp.Diff(b.Members(), c.Members()); diff != "" {
			t.Errorf("%s: members (-original +restored):\n%s", when, diff)
		}
		if diff := cmp.Diff(b.Groups(), c.Groups()); diff != "" {
			t.Errorf("%s: groups (-original +restored):\n%s", when, diff)
		}
		an, ag := b.ANPR(snap)
		cn, cg := c.ANPR(snap)
		if an != cn || ag != cg {
			t.Errorf("%s: ANPR %v of %d, want %v of %d", when, cn, cg, an, ag)
		}
	}
	same("at once", now)
	samples, _ := heavy.run(jobs[0], 0.5)
	for i := 1; i <= 20; i++ {
		at := now.Add(time.Duration(i) * tick)
		for _, book := range []*Book{b, c} {
			book.Track(snapshot(at, jobs...))
			if got := book.Add(samples(at)); len(got) > 0 {
				t.Fatalf("refused %v", got)
			}
			book.Regroup(at.Add(time.Hour))
		}
	}
	same("five minutes later", now.Add(20*tick))
	again, err := json.Marshal(c)
	if err != nil {
		t.Fatal(err)
	}
	if data, _ := json.Marshal(b); string(data) != string(again) {
		t.Error("the check-points differ five minutes later")
	}
}

func TestUnreadableCheckpointsLeaveTheBookAlone(t *testing.T) {
	tests := map[string]struct{ data, want string }{
		"no JSON":                {`{`, "unexpected end"},
		"of another release":     {`{"Version":99}`, "version 99"},
		"without a version":      {`{}`, "version 0"},
		"a family without GPUs":  {`{"Version":1,"Families":[{}]}`, "no GPUs"},
		"a family that is null":  {`{"Version":1,"Families":[null]}`, "null"},
		"a run time of nothing":  {`{"Version":1,"Families":[{"ID":{"GPUs":1},"Times":[[1,60,0,0,0,0,0]]}]}`, "without a weight"},
		"a run that is null":     {`{"Version":1,"Runs":[null]}`, "null"},
		"a run without a stride": {`{"Version":1,"Runs":[{"JobID":7}]}`, "stride"},
		"a negative weight":      {`{"Version":1,"Families":[{"ID":{"GPUs":1},"CC":{"Spread":{"W":-1}}}]}`, "weight"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b, _, _ := aBook(t)
			before := b.Members()
			err := b.UnmarshalJSON([]byte(tt.data))
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("error %v, want one with %q", err, tt.want)
			}
			if diff := cmp.Diff(before, b.Members()); diff != "" {
				t.Errorf("members (-before +after):\n%s", diff)
			}
		})
	}
}

// A check-point that can be read can be worked with, whoever wrote it.
func FuzzCheckpoint(f *testing.F) {
	b, now, jobs := aBook(f)
	data, err := json.Marshal(b)
	if err != nil {
		f.Fatal(err)
	}
	f.Add(string(data))
	f.Add(`{"Version":1,"Runs":[{"JobID":2,"Stride":1,"GPUs":4}]}`)
	f.Add(`{"Version":1,"Families":[{"ID":{"User":"ann","GPUs":4},"Times":[[1,60,0,0,0,1,0],[2,9223372036854775807,5,-1,9,1e300,1]]}]}`)
	f.Fuzz(func(t *testing.T, data string) {
		b := newBook(t)
		if json.Unmarshal([]byte(data), b) != nil {
			return
		}
		s := snapshot(now, jobs...)
		b.Track(s)
		samples, _ := heavy.run(jobs[0], 1)
		b.Add(samples(now))
		b.Regroup(now)
		b.Profiles(s)
		b.ANPR(s)
		if _, err := json.Marshal(b); err != nil {
			t.Fatalf("cannot be written again: %v", err)
		}
	})
}
