// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"math/rand/v2"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// byFunc scores by a function of a job and tells true run times.
type byFunc func(s *Scene, j *Seen) float64

func (f byFunc) Rank(s *Scene) {
	for _, j := range s.Queue {
		j.Score, j.Run = f(s, j), j.run
	}
	for _, j := range s.Running {
		j.Left = j.Start + j.run - s.Now
	}
}

func first(*Scene, *Seen) float64        { return 0 }
func shortest(_ *Scene, j *Seen) float64 { return -j.run }

func TestScored(t *testing.T) {
	two := Machine{Nodes: 2, GPUs: 2}
	for name, tc := range map[string]struct {
		by   byFunc
		keep Reserve
		jobs []Work
		want []Done
	}{
		"what fits passes": {first, Reserve{}, []Work{job(3, 0, 10), job(4, 1, 5), job(1, 2, 100)},
			[]Done{{0, 10, 0, 0}, {102, 107, 101, 0}, {2, 102, 0, 0}}},
		"backfill lets pass only what ends in time": {first, Reserve{Slack: 1}, []Work{job(3, 0, 10), job(4, 1, 5), job(1, 2, 100), job(1, 3, 7)},
			[]Done{{0, 10, 0, 0}, {10, 15, 9, 0}, {15, 115, 13, 0}, {3, 10, 0, 0}}},
		"the reserve counts the other's run time": {first, Reserve{Slack: 1, Run: 20}, []Work{job(3, 0, 10), job(4, 1, 5), job(1, 2, 100)},
			[]Done{{0, 10, 0, 0}, {102, 107, 101, 0}, {2, 102, 0, 0}}},
		"the best score goes first": {shortest, Reserve{}, []Work{job(4, 0, 10), job(4, 1, 9), job(4, 2, 3)},
			[]Done{{0, 10, 0, 0}, {13, 22, 12, 0}, {10, 13, 8, 0}}},
	} {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, Scored(two, tc.jobs, tc.by, tc.keep)); diff != "" {
				t.Errorf("schedule (-want +got):\n%s", diff)
			}
		})
	}
}

// Without estimates, passing and late arrivals there is nothing in which the
// scored replay by arrival could differ from fit-first with the same placement.
func TestScoredByArrivalIsFitFirst(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		m := Machine{Nodes: rapid.IntRange(1, 4).Draw(t, "nodes"), GPUs: rapid.IntRange(1, 4).Draw(t, "gpus")}
		rng := rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 1))
		var jobs []Work
		at := 0
		for range rapid.IntRange(1, 30).Draw(t, "jobs") {
			at += rng.IntN(20)
			jobs = append(jobs, job(1+rng.IntN(m.Nodes*m.GPUs), float64(at), float64(1+rng.IntN(50))))
		}
		want, err := Replay(m, jobs, Options{Order: FitFirst, Placement: BestWhole})
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, Scored(m, jobs, byFunc(first), Reserve{})); diff != "" {
			t.Errorf("schedule (-fit-first +scored):\n%s", diff)
		}
	})
}
