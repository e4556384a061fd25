// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"errors"
	"testing"
	"time"

	"rifling/profile"
	"rifling/slurm"
)

// kept is a telemetry whose samples stay, as the daemon's store has them: the
// number of a sample is its place.
type kept struct {
	samples []profile.Sample
	ahead   time.Duration // the host's clock against Slurm's
	now     func() time.Time
	page    int
	err     error
}

func (k *kept) Since(_ context.Context, mark int64) (Counters, error) {
	rest := k.samples[mark:]
	n := min(k.page, len(rest))
	return Counters{
		Samples: append([]profile.Sample(nil), rest[:n]...), Mark: mark + int64(n), More: n < len(rest),
		Now: k.now().Add(k.ahead), Kept: true,
	}, k.err
}

func (k *kept) add(c *fakeCluster, nodes ...string) {
	for _, n := range nodes {
		s := stalled(nil, n)
		s.JobID, s.Node, s.At, s.Interval, s.GPUs = 7, n, c.now.Add(k.ahead), 15*time.Second, 4
		k.samples = append(k.samples, s)
	}
}

// What came in after the last check-point comes to the book again after a crash
// of the daemon: nothing is lost, nothing counts twice, and a cycle records none.
func TestCountersAfterTheCheckpointComeAgain(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	c.submit(openJob(7, 8))
	l := newLoop(t, c, r)
	k := &kept{now: func() time.Time { return c.now }, ahead: time.Hour, page: 3}
	l.Telemetry = k
	once(t, l)
	c.start(7, "a", "b")
	l.CheckpointEvery = 1
	pass := func(l *Loop) Report {
		c.now = c.now.Add(15 * time.Second)
		k.add(c, "a", "b")
		return once(t, l)
	}
	for range 5 {
		pass(l)
	}
	l.CheckpointEvery = 1000
	for range 5 {
		pass(l)
	}
	again := newLoop(t, c, r) // as after a kill -9
	again.Telemetry = k
	rep := pass(again)
	if want := 2 * 6; rep.Samples != want || len(rep.Rejected) != 0 {
		t.Errorf("the first cycle took %d samples and refused %v, want the %d after the check-point", rep.Samples, rep.Rejected, want)
	}
	one := c.jobs[7]
	before, after := l.Book.Profiles(snapshot(t, c))[one.ID], again.Book.Profiles(snapshot(t, c))[one.ID]
	if after.Count != before.Count+1 {
		t.Errorf("%d intervals in the book after the restart, %d before it", after.Count, before.Count)
	}
	for _, rec := range r.records {
		if len(rec.Samples) != 0 {
			t.Errorf("a cycle recorded %d samples that are kept", len(rec.Samples))
		}
	}
}

// A store that cannot be read costs a cycle its counters, not itself.
func TestCountersThatCannotBeReadWait(t *testing.T) {
	c, r := halfFull(), newFakeRecorder()
	c.submit(openJob(7, 8))
	l := newLoop(t, c, r)
	k := &kept{now: func() time.Time { return c.now }, page: 100}
	l.Telemetry = k
	once(t, l)
	c.start(7, "a", "b")
	k.add(c, "a", "b")
	k.err = errors.New("disk")
	if rep := once(t, l); rep.Samples != 0 {
		t.Errorf("took %d samples", rep.Samples)
	}
	k.err = nil
	if rep := once(t, l); rep.Samples != 2 {
		t.Errorf("took %d samples once they could be read, want 2", rep.Samples)
	}
}

// The distance of the clocks is read anew only when it has really changed.
func TestClocksKeepTheirDistance(t *testing.T) {
	l := &Loop{}
	for _, tc := range []struct{ slurms, theirs, want time.Duration }{
		{0, time.Hour, -time.Hour},
		{15 * time.Second, time.Hour + 16*time.Second, -time.Hour},
		{30 * time.Second, time.Hour + 29*time.Second, -time.Hour},
		{45 * time.Second, 45 * time.Second, 0},
		{60 * time.Second, 61 * time.Second, 0},
	} {
		if got := l.setClock(noon.Add(tc.slurms), noon.Add(tc.theirs)); got != tc.want {
			t.Errorf("Slurm at %s, the host at %s: shift %s, want %s", tc.slurms, tc.theirs, got, tc.want)
		}
	}
}

func snapshot(t *testing.T, c *fakeCluster) *slurm.Snapshot {
	t.Helper()
	s, err := c.Snapshot(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}
