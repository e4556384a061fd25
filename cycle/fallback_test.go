// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"rifling/policy"
	"rifling/slurm"
)

var bounds = FallbackOptions{
	SlowAnswer: 5 * time.Second, Threads: 100, Schedule: 10 * time.Second, Calm: 10 * time.Minute, Refused: 0.5, Worse: 3,
}

func kind(h *Held) string {
	if h == nil {
		return ""
	}
	return h.Kind
}

func TestFallbackWhenSlurmctldIsSlow(t *testing.T) {
	slow := Load{Answer: 6 * time.Second}
	tests := map[string]struct {
		loads []Load // a minute apart
		held  string
	}{
		"three slow answers in a row":       {loads: []Load{slow, slow, slow}, held: HeldSlow},
		"two are no trend":                  {loads: []Load{slow, slow}},
		"a good one between them":           {loads: []Load{slow, slow, {}, slow, slow}},
		"too many threads at work":          {loads: []Load{{Threads: 101}, {Threads: 150}, {Threads: 101}}, held: HeldSlow},
		"a long pass of its scheduler":      {loads: []Load{{Schedule: time.Minute}, {Schedule: 11 * time.Second}, slow}, held: HeldSlow},
		"backing off":                       {loads: []Load{{Busy: true}, {Busy: true}, {Busy: true}}, held: HeldSlow},
		"below every bound":                 {loads: []Load{{Answer: 5 * time.Second, Threads: 100}, {}, {Schedule: 10 * time.Second}}},
		"calm again, but not for as long":   {loads: append([]Load{slow, slow, slow}, make([]Load, 9)...), held: HeldSlow},
		"calm for ten minutes ends it":      {loads: append([]Load{slow, slow, slow}, make([]Load, 10)...)},
		"below the bound, above half of it": {loads: append([]Load{slow, slow, slow}, load(20, Load{Answer: 3 * time.Second})...), held: HeldSlow},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &Fallback{Options: bounds}
			now := noon
			var held *Held
			for _, l := range tc.loads {
				now = now.Add(time.Minute)
				f.Load(now, l)
				held = f.Held(now)
			}
			if kind(held) != tc.held {
				t.Errorf("held %+v, want %q", held, tc.held)
			}
		})
	}
}

func load(n int, l Load) []Load {
	out := make([]Load, n)
	for i := range out {
		out[i] = l
	}
	return out
}

func results(outcome policy.Outcome, n int) []policy.Result {
	out := make([]policy.Result, n)
	for i := range out {
		out[i] = policy.Result{Change: policy.Change{Kind: policy.KindSet}, Outcome: outcome}
	}
	return out
}

func TestFallbackWhenUpdatesAreRefused(t *testing.T) {
	f := &Fallback{Options: bounds}
	f.Results(noon, results(policy.Failed, 9))
	f.Results(noon, results(policy.Skipped, 50)) // jobs that started say nothing
	if h := f.Held(noon); h != nil {
		t.Fatalf("held after nine refusals: %+v", h)
	}
	f.Results(noon, results(policy.Failed, 1))
	if kind(f.Held(noon)) != HeldRefused || !strings.Contains(f.Held(noon).Why, "10 of the last 10") {
		t.Fatalf("held %+v after ten refusals", f.Held(noon))
	}
	now := noon.Add(time.Hour)
	if f.Held(now.Add(-time.Second)) == nil || f.Held(now) != nil {
		t.Fatal("it must be tried again after an hour")
	}
	f.Results(now, results(policy.Failed, 10))
	if f.Held(now.Add(2*time.Hour-time.Second)) == nil || f.Held(now.Add(2*time.Hour)) != nil {
		t.Error("the second time must last twice as long")
	}
	f.Results(now, results(policy.Applied, 20))
	f.Results(now, results(policy.Failed, 11))
	if h := f.Held(now); h == nil || !strings.Contains(h.Ends, "1h0m0s") {
		t.Errorf("held %+v: after twenty good updates the time begins at an hour again", h)
	}
}

func TestFallbackWhenSteeredJobsFareWorse(t *testing.T) {
	type runs struct {
		state   string
		steered bool
		n       int
		reward  float64
		noise   float64
	}
	tests := map[string]struct {
		runs []runs
		held string
	}{
		"worse in the same state":  {runs: []runs{{"a", false, 40, -0.1, 0.05}, {"a", true, 40, -0.3, 0.05}}, held: HeldWorse},
		"better":                   {runs: []runs{{"a", false, 40, -0.3, 0.05}, {"a", true, 40, -0.1, 0.05}}},
		"the same but for chance":  {runs: []runs{{"a", false, 40, -0.2, 0.2}, {"a", true, 40, -0.22, 0.2}}},
		"too few to tell":          {runs: []runs{{"a", false, 40, -0.1, 0.01}, {"a", true, 29, -0.5, 0.01}}},
		"harder states, no worse":  {runs: []runs{{"easy", false, 40, 0, 0.05}, {"hard", true, 40, -0.9, 0.05}}},
		"harder states on average": {runs: []runs{{"easy", false, 90, 0, 0.1}, {"hard", false, 10, -0.8, 0.1}, {"easy", true, 10, 0, 0.1}, {"hard", true, 90, -0.8, 0.1}}},
		"worse in each of two states": {
			runs: []runs{{"easy", false, 90, 0, 0.1}, {"hard", false, 10, -0.8, 0.1}, {"easy", true, 10, -0.3, 0.1}, {"hard", true, 90, -1.1, 0.1}}, held: HeldWorse},
		"nothing to compare with": {runs: []runs{{"a", true, 400, -0.9, 0.05}}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			f := &Fallback{Options: bounds}
			for _, r := range tc.runs {
				for i := range r.n {
					f.Outcome(noon, r.state, r.steered, r.reward+r.noise*float64(i%3-1))
				}
			}
			if got := kind(f.Held(noon.Add(1000 * time.Hour))); got != tc.held {
				t.Errorf("held %q, want %q", got, tc.held)
			}
			blob, err := json.Marshal(f)
			if err != nil {
				t.Fatal(err)
			}
			again := &Fallback{Options: bounds}
			if err := json.Unmarshal(blob, again); err != nil || kind(again.Held(noon)) != tc.held {
				t.Errorf("after a restart: held %q, error %v", kind(again.Held(noon)), err)
			}
			if f.Clear(); f.Held(noon) != nil {
				t.Error("the admin's word does not end it")
			}
		})
	}
}

// Jobs whose rewards do not depend on steering must hardly ever end it, though
// each run is looked at anew.
func TestFallbackSeldomErrs(t *testing.T) {
	const sites = 100
	seed, wrong := uint64(1), 0
	next := func() float64 { // xorshift, 0 to 1
		seed ^= seed << 13
		seed ^= seed >> 7
		seed ^= seed << 17
		return float64(seed>>11) / (1 << 53)
	}
	for range sites {
		f := &Fallback{Options: bounds}
		for range 400 {
			f.Outcome(noon, fmt.Sprint(int(3*next())), next() < 0.5, -next())
		}
		if f.Held(noon) != nil {
			wrong++
		}
	}
	t.Logf("%d of %d sites without any effect fell back within 400 runs", wrong, sites)
	if wrong > sites*5/100 {
		t.Errorf("%d of %d: more than 5 %%", wrong, sites)
	}
}

func TestHeldLoopTakesBackAndGoesOnDeciding(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	l := newLoop(t, c, r)
	var word *Held
	l.Brakes.Word = func() *Held { return word }
	once(t, l)
	if len(c.jobs[7].ExcludedNodes) == 0 {
		t.Fatal("not steered to begin with")
	}
	word = &Held{Kind: HeldPause, Why: "maintenance"}
	rep := once(t, l)
	if got := c.jobs[7].ExcludedNodes; len(got) != 0 || c.factor[7] != 0 {
		t.Errorf("paused, and still set: %v, %d points", got, c.factor[7])
	}
	if last := r.records[len(r.records)-1]; last.Mode != Observe || len(last.Plan.Decisions) != 1 || rep.Held == nil {
		t.Errorf("mode %s, %d decisions, held %v; want one decision, observed", last.Mode, len(last.Plan.Decisions), rep.Held)
	}
	var kept *Held
	if err := json.Unmarshal(r.blobs[StateHeld], &kept); err != nil || kind(kept) != HeldPause || !kept.Since.Equal(noon) {
		t.Errorf("kept %s, error %v", r.blobs[StateHeld], err)
	}
	posts := c.posts
	once(t, l)
	if c.posts != posts {
		t.Errorf("%d more writes while paused", c.posts-posts)
	}
	word = nil
	if rep = once(t, l); rep.Held != nil || len(c.jobs[7].ExcludedNodes) == 0 || string(r.blobs[StateHeld]) != "null" {
		t.Errorf("after the pause: held %v, excluded %v, kept %s", rep.Held, c.jobs[7].ExcludedNodes, r.blobs[StateHeld])
	}
}

func TestSlowSlurmctldEndsSteeringUntilTheAdminResumes(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	l := newLoop(t, c, r)
	resumed, asked := false, 0
	l.Brakes = Brakes{
		Fallback: &Fallback{Options: bounds},
		Load: func(context.Context) (Load, error) {
			asked++
			return Load{}, fmt.Errorf("diag: %w", slurm.ErrBusy)
		},
		Resume: func() bool { return resumed },
	}
	for range 10 {
		c.now = c.now.Add(15 * time.Second)
		once(t, l)
	}
	if kind(l.held) != HeldSlow || len(c.jobs[7].ExcludedNodes) != 0 || asked != 5 {
		t.Fatalf("held %v, excluded %v, asked %d times in 150 s", l.held, c.jobs[7].ExcludedNodes, asked)
	}
	again := newLoop(t, c, r) // a restart does not end it
	again.Brakes = Brakes{Fallback: &Fallback{Options: bounds}, Resume: l.Brakes.Resume}
	if err := again.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	once(t, again)
	if kind(again.held) != HeldSlow {
		t.Fatalf("after the restart: held %v", again.held)
	}
	resumed = true
	once(t, again)
	if again.held != nil || len(c.jobs[7].ExcludedNodes) == 0 {
		t.Errorf("resumed: held %v, excluded %v", again.held, c.jobs[7].ExcludedNodes)
	}
}

func TestUpdatesKeepTheirDistance(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		perSecond := rapid.IntRange(1, 20).Draw(rt, "updates per second")
		jobs := rapid.IntRange(1, 30).Draw(rt, "jobs")
		answers := rapid.SliceOfN(rapid.SampledFrom([]error{nil, slurm.ErrRejected, slurm.ErrStarted}), 1, 9).Draw(rt, "answers")
		var sent []time.Time
		synctest.Test(t, func(t *testing.T) {
			c := partlyBusy()
			for i := range jobs {
				c.submit(gpuJob(slurm.JobID(7+i), 2))
			}
			c.onWrite = func(n int) error {
				sent = append(sent, time.Now())
				return answers[n%len(answers)]
			}
			l := newLoop(t, Pace(c, (time.Second+time.Duration(perSecond)-1)/time.Duration(perSecond)), newFakeRecorder())
			once(t, l)
			once(t, l)
		})
		for i := range sent {
			n := 0
			for _, at := range sent[i:] {
				if at.Sub(sent[i]) < time.Second {
					n++
				}
			}
			if n > perSecond {
				rt.Fatalf("%d updates within a second, %d are allowed", n, perSecond)
			}
		}
	})
}

func TestPacedUpdateEndsWithItsContext(t *testing.T) {
	c := partlyBusy()
	c.submit(gpuJob(7, 2))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	nodes := []string{"a"}
	if err := Pace(c, time.Hour).Update(ctx, slurm.Update{JobID: 7, ExcludedNodes: &nodes}); err != nil {
		t.Error(err)
	}
	c.onWrite = func(int) error { return errLost }
	if err := Pace(c, time.Millisecond).Update(t.Context(), slurm.Update{JobID: 7}); !errors.Is(err, errLost) {
		t.Errorf("error %v, want the cluster's own", err)
	}
}
