// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/policy"
	"rifling/slurm"
)

// Page by page the past comes whole and once, whatever the page's size; jobs
// of the last cycle are no past.
func TestPastPage(t *testing.T) {
	s := filled(t)
	extra := record(t0.Add(12*time.Minute), runningJob(1, "gpu01"), endedJob(4, time.Minute, "gpu03"), endedJob(5, time.Minute, "gpu03"))
	end(t, s, begin(t, s, extra))
	for n := 1; n <= 5; n++ {
		var got []slurm.JobID
		for from := (PastMark{}); ; {
			jobs, next, err := s.PastPage(context.Background(), Filter{}, from, n)
			if err != nil {
				t.Fatal(err)
			}
			for _, j := range jobs {
				got = append(got, j.ID)
			}
			if from = next; from == (PastMark{}) {
				break
			}
		}
		if d := cmp.Diff([]slurm.JobID{5, 4, 3, 2}, got); d != "" {
			t.Errorf("pages of %d (-want +got):\n%s", n, d)
		}
	}
	jobs, _, err := s.PastPage(context.Background(), Filter{Users: []string{"bob"}}, PastMark{}, 10)
	if err != nil || len(jobs) != 1 || jobs[0].ID != 2 {
		t.Errorf("bob's past is %v, %v", jobs, err)
	}
}

func TestChangesPage(t *testing.T) {
	s := filled(t)
	r := record(t0.Add(12*time.Minute), pendingJob(6))
	r.Changes = []policy.Change{exclude(6, "gpu02"), exclude(6, "gpu03")}
	end(t, s, begin(t, s, r), policy.Result{Change: r.Changes[0], Outcome: policy.Failed, Detail: "no"},
		policy.Result{Change: r.Changes[1], Outcome: policy.Applied})
	page, more, err := s.ChangesPage(context.Background(), "", 0, 2)
	if err != nil || len(page) != 2 || !more || page[0].Number <= page[1].Number {
		t.Fatalf("first page %+v, more %v, %v", page, more, err)
	}
	rest, more, err := s.ChangesPage(context.Background(), "", page[1].Number, 2)
	if err != nil || len(rest) != 1 || more || rest[0].JobID != 1 || rest[0].User != "ada" {
		t.Errorf("second page %+v, more %v, %v", rest, more, err)
	}
	failed, _, err := s.ChangesPage(context.Background(), policy.Failed, 0, 10)
	if err != nil || len(failed) != 1 || failed[0].JobID != 6 {
		t.Errorf("failed ones %+v, %v", failed, err)
	}
}

// Rates are weighted by GPUs, an interval without cycles is left out.
func TestCurve(t *testing.T) {
	s := openTest(t, testPath(t))
	for _, c := range []struct {
		after time.Duration
		anpr  float64
		gpus  int
	}{{0, 0.5, 10}, {time.Minute, 1, 30}, {3 * time.Hour, 0.7, 5}} {
		r := record(t0.Add(c.after), pendingJob(1))
		r.ANPR, r.ANPRGPUs = c.anpr, c.gpus
		end(t, s, begin(t, s, r))
	}
	err := s.SaveEpisodes(context.Background(), []policy.Episode{
		{JobID: 1, Decided: t0, Reward: -0.2, Learned: true}, {JobID: 2, Decided: t0, Reward: -0.4, Learned: true},
		{JobID: 3, Decided: t0, Reward: -9},
	})
	if err != nil {
		t.Fatal(err)
	}
	got, err := s.Curve(context.Background(), t0.Add(-time.Hour), time.Hour)
	if err != nil || len(got) != 2 {
		t.Fatalf("%+v, %v", got, err)
	}
	if p := got[0]; p.Cycles != 2 || p.ANPR != 0.875 || p.Rewards != 2 || p.Reward > -0.29 || p.Reward < -0.31 || p.Pending != 1 {
		t.Errorf("first interval %+v", p)
	}
	if p := got[1]; p.Cycles != 1 || p.ANPR != 0.7 || p.Rewards != 0 {
		t.Errorf("second interval %+v", p)
	}
}
