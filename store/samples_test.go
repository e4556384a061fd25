// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"database/sql"
	"math"
	"net/url"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/profile"
)

// sampleAt is a sample of job 1 on gpu01 that ends at an instant.
func sampleAt(at time.Time) profile.Sample {
	return profile.Sample{
		JobID: 1, Node: "gpu01", At: at, Interval: 15 * time.Second, GPUs: 4, Compute: 0.25, Source: profile.SourceGPM,
		NVLinkRate: 1e10, PCIeRate: 2e9, NetRate: 3e8, NVLinkSpeed: 3e11, PCIeSpeed: 3e10, NetSpeed: 5e10,
		NetShared: true, Origin: profile.OriginPrometheus, Weight: 0.5, Throttled: 0.125, GPUShared: true,
	}
}

func keep(t *testing.T, s *Store, samples ...profile.Sample) {
	t.Helper()
	if err := s.KeepSamples(context.Background(), samples, nil); err != nil {
		t.Fatal(err)
	}
}

func rowsOf(t *testing.T, s *Store, query string) int64 {
	t.Helper()
	var n int64
	if err := s.db.Get(&n, query); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestSamplesComeBackAsTheyWere(t *testing.T) {
	path := testPath(t)
	s := openTest(t, path)
	first, second := sampleAt(hostNow.Add(123*time.Millisecond)), sampleAt(hostNow.Add(15*time.Second))
	second.Node, second.NetShared, second.NetRate = "gpu02", false, 0
	keep(t, s, first)
	keep(t, s, second, first)
	for _, tc := range []struct {
		after int64
		limit int
		want  []profile.Sample
		last  int64
	}{
		{0, 10, []profile.Sample{first, second, first}, 3},
		{0, 2, []profile.Sample{first, second}, 2},
		{2, 10, []profile.Sample{first}, 3},
		{3, 10, nil, 3},
	} {
		got, last, err := s.SamplesAfter(context.Background(), tc.after, tc.limit)
		if d := cmp.Diff(tc.want, got); d != "" || last != tc.last || err != nil {
			t.Errorf("after %d: last %d, %v (-want +got):\n%s", tc.after, last, err, d)
		}
	}
	if n := rowsOf(t, s, `SELECT count(*) FROM series`); n != 2 {
		t.Errorf("%d series for two kinds of samples", n)
	}
}

// A transaction that fails leaves nothing behind, neither rows nor numbers that
// later ones would rest on.
func TestFailedKeepLeavesNothing(t *testing.T) {
	s := openTest(t, testPath(t))
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.KeepSamples(ctx, []profile.Sample{sampleAt(hostNow)}, nil); err == nil {
		t.Fatal("kept under a context that has ended")
	}
	if _, err := s.db.Exec(`CREATE TRIGGER no BEFORE INSERT ON senders BEGIN SELECT raise(ABORT, 'no'); END`); err != nil {
		t.Fatal(err)
	}
	if err := s.KeepSamples(context.Background(), []profile.Sample{sampleAt(hostNow)}, []Sender{{Node: "gpu01", State: "{}"}}); err == nil {
		t.Fatal("kept though the senders could not be")
	}
	if _, err := s.db.Exec(`DROP TRIGGER no`); err != nil {
		t.Fatal(err)
	}
	keep(t, s, sampleAt(hostNow))
	if got, _, err := s.SamplesAfter(context.Background(), 0, 10); len(got) != 1 || err != nil {
		t.Errorf("%d samples, %v, want the one that was kept at last", len(got), err)
	}
}

func TestSendersAreRemembered(t *testing.T) {
	ctx := context.Background()
	s := openTest(t, testPath(t))
	for _, state := range []string{"one", "two", ""} { // a cycle's own samples know no state
		if err := s.KeepSamples(ctx, nil, []Sender{{Node: "gpu01", At: hostNow, State: state}, {Node: "gpu02", At: hostNow}}); err != nil {
			t.Fatal(err)
		}
	}
	got, err := s.Senders(ctx)
	if d := cmp.Diff([]Sender{{Node: "gpu01", At: hostNow, State: "two"}}, got); d != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, d)
	}
}

func TestTooManySamplesBecomeMeans(t *testing.T) {
	s, err := Open(testPath(t), Options{MaxSamples: 10, Now: func() time.Time { return hostNow }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for i := range 21 {
		keep(t, s, sampleAt(t0.Add(time.Duration(i)*time.Minute)))
	}
	f, err := s.FoldSamples(context.Background(), SampleAges{}, 0)
	if err != nil || f.Raw != 11 {
		t.Errorf("folded %+v, %v, want 11", f, err)
	}
	got, _, err := s.SamplesAfter(context.Background(), 0, 100)
	if err != nil || len(got) != 10 || !got[0].At.Equal(t0.Add(11*time.Minute)) {
		t.Errorf("%d samples left, %v, want the newest 10", len(got), err)
	}
	if n := rowsOf(t, s, `SELECT sum(n) FROM means`); n != 11 {
		t.Errorf("means stand for %d samples, want 11", n)
	}
}

// Whatever comes in whatever order, each sample is in one row and one only, and
// the means have the totals that the samples had.
func TestFoldingLosesNothing(t *testing.T) {
	now := hostNow
	s, err := Open(testPath(t), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	rapid.Check(t, func(rt *rapid.T) {
		now = hostNow
		s.ids.forget()
		// No wait for the disk: nothing here crashes.
		const afresh = `PRAGMA synchronous = OFF; DELETE FROM samples; DELETE FROM means; DELETE FROM series; DELETE FROM nodes`
		if _, err := s.db.Exec(afresh); err != nil {
			rt.Fatal(err)
		}
		ctx := context.Background()
		var n, ms int64
		var bytes float64
		for range rapid.IntRange(1, 6).Draw(rt, "rounds") {
			var in []profile.Sample
			for range rapid.IntRange(0, 40).Draw(rt, "samples") {
				p := sampleAt(now.Add(-time.Duration(rapid.IntRange(0, 7*86400).Draw(rt, "age")) * time.Second))
				p.Node = rapid.SampledFrom([]string{"gpu01", "gpu02"}).Draw(rt, "node")
				p.Interval = time.Duration(rapid.IntRange(1, 60).Draw(rt, "interval")) * time.Second
				p.NetRate = float64(rapid.IntRange(0, 1e9).Draw(rt, "rate"))
				n, ms, bytes = n+1, ms+p.Interval.Milliseconds(), bytes+p.NetRate*p.Interval.Seconds()
				in = append(in, p)
			}
			if err := s.KeepSamples(ctx, in, nil); err != nil {
				rt.Fatal(err)
			}
			now = now.Add(time.Duration(rapid.IntRange(0, 5*86400).Draw(rt, "later")) * time.Second)
			if _, err := s.FoldSamples(ctx, SampleAges{Raw: 48 * time.Hour, FiveMinutes: 96 * time.Hour}, 0); err != nil {
				rt.Fatal(err)
			}
		}
		var got struct {
			N, MS sql.NullInt64
			B     sql.NullFloat64
		}
		const q = `SELECT sum(n) AS n, sum(ms) AS ms, sum(net * ms / 1000.0) AS b FROM (
			SELECT n, ms, net FROM means UNION ALL SELECT 1, interval_ms, net FROM samples)`
		if err := s.db.Get(&got, q); err != nil {
			rt.Fatal(err)
		}
		// A mean is rounded to a whole byte a second each time it is touched.
		if got.N.Int64 != n || got.MS.Int64 != ms || math.Abs(got.B.Float64-bytes) > 2*float64(n)*float64(ms)/1000 {
			rt.Fatalf("%d samples, %d ms, %.0f bytes became %d, %d, %.0f", n, ms, bytes, got.N.Int64, got.MS.Int64, got.B.Float64)
		}
	})
}

func TestSamplesGrowOldInSteps(t *testing.T) {
	now := hostNow
	s, err := Open(testPath(t), Options{Now: func() time.Time { return now }})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	ages := SampleAges{Raw: 48 * time.Hour, FiveMinutes: 30 * 24 * time.Hour}
	for i := range 8 * 60 { // two hours, ending now
		keep(t, s, sampleAt(now.Add(time.Duration(i-8*60+1)*15*time.Second)))
	}
	check := func(what string, want ...int64) {
		t.Helper()
		var got []int64
		for _, q := range []string{`SELECT count(*) FROM samples`, `SELECT count(*) FROM means WHERE res = 300`, `SELECT count(*) FROM means WHERE res = 3600`} {
			got = append(got, rowsOf(t, s, q))
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: samples, 5 min, hours (-want +got):\n%s", what, d)
		}
	}
	fold := func() {
		t.Helper()
		if _, err := s.FoldSamples(context.Background(), ages, 0); err != nil {
			t.Fatal(err)
		}
	}
	fold()
	check("fresh", 480, 0, 0)
	now = hostNow.Add(47 * time.Hour)
	fold()
	check("an hour is older than two days", 241, 12, 0)
	now = hostNow.Add(50 * time.Hour)
	fold()
	check("all but the newest", 1, 24, 0)
	now = hostNow.Add(31 * 24 * time.Hour)
	fold()
	check("a month old", 1, 0, 2)
	if err := s.Prune(context.Background(), now); err != nil {
		t.Fatal(err)
	}
	check("forgotten", 1, 0, 0)
	keep(t, s, sampleAt(now))
	if got, _, err := s.SamplesAfter(context.Background(), 0, 10); len(got) != 2 || err != nil {
		t.Errorf("after the series were forgotten: %d samples, %v", len(got), err)
	}
}

// What a release before kept of samples is there as means after the upgrade.
func TestOldSamplesBecomeMeans(t *testing.T) {
	path := testPath(t)
	all, err := migrations()
	if err != nil {
		t.Fatal(err)
	}
	old := open(path, dsn(path, url.Values{}), Options{})
	if _, err := old.db.Exec(`CREATE TABLE migrations (version INTEGER PRIMARY KEY, name TEXT NOT NULL, applied_at INTEGER NOT NULL) STRICT`); err != nil {
		t.Fatal(err)
	}
	for _, m := range all[:2] {
		if err := old.step(m); err != nil {
			t.Fatal(err)
		}
	}
	const q = `INSERT INTO samples (job_id, node, at, interval_ms, gpus, compute, source, nvlink_rate, pcie_rate, net_rate,
		nvlink_speed, pcie_speed, net_speed, net_shared) VALUES (1, 'gpu01', ?, 15000, 4, ?, 'gpm', 0, 0, ?, 0, 0, 5e10, 0)`
	for i := range 20 { // five minutes, twice
		for j := range 2 {
			if _, err := old.db.Exec(q, 1_800_000_000+15*i+300*j, 0.5, 1e9); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := old.Close(); err != nil {
		t.Fatal(err)
	}
	s := openTest(t, path)
	var got struct{ Rows, N, MS, Compute, Net, Senders, Raw int64 }
	const sum = `SELECT count(*) AS rows, sum(n) AS n, sum(ms) AS ms, max(compute) AS compute, max(net) AS net,
		(SELECT count(*) FROM senders) AS senders, (SELECT count(*) FROM samples) AS raw FROM means JOIN series ON series = id WHERE job_id = 1`
	if err := s.db.Get(&got, sum); err != nil {
		t.Fatal(err)
	}
	if got.Rows != 2 || got.N != 40 || got.MS != 600_000 || got.Compute != 500_000 || got.Net != 1e9 || got.Senders != 1 || got.Raw != 0 {
		t.Errorf("after the upgrade: %+v", got)
	}
}
