// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"encoding/json"
	"fmt"
	"math"
	"time"

	"rifling/policy"
)

// Held says why nothing is set on jobs though the mode is steer. What was set
// before is taken back; deciding and recording go on.
type Held struct {
	Kind  string    `json:"kind"` // one of the Held constants
	Why   string    `json:"why"`
	Ends  string    `json:"ends"` // what ends it
	Since time.Time `json:"since"`
}

// Kinds of Held.
const (
	HeldPause   = "pause"   // an admin's word
	HeldQuiet   = "quiet"   // the site's quiet hours
	HeldSlow    = "slow"    // slurmctld is slow
	HeldRefused = "refused" // Slurm refuses updates
	HeldWorse   = "worse"   // steered jobs fare worse than others
)

// FallbackOptions are the bounds beyond which a loop steers no longer. A bound
// of 0 is never reached.
type FallbackOptions struct {
	SlowAnswer time.Duration // slurmctld's answer to its lightest question
	Threads    int           // threads that slurmctld has at work on requests
	Schedule   time.Duration // the last pass of its main scheduler
	Calm       time.Duration // half of these bounds kept for so long ends it
	Refused    float64       // share of the last updates that Slurm refused
	Worse      float64       // standard errors by which steered jobs fare worse
}

// What the bounds are counted over.
const (
	slowInARow   = 3  // one slow answer is no trend
	refusedOf    = 20 // the last updates that count
	refusedLeast = 10 // fewer say nothing
	refusedWait  = time.Hour
	refusedMost  = 24 * time.Hour
	outcomesMost = 400 // runs of each kind that are compared
	outcomesMin  = 30  // in states of which both kinds are known
)

// Load is how slurmctld fares by its own figures.
type Load struct {
	Answer   time.Duration // of this question
	Threads  int
	Schedule time.Duration
	Busy     bool // it did not answer for being busy
}

// Fallback tells when steering does more harm than good: when slurmctld gets
// slow, when it refuses updates, when steered jobs fare worse than jobs in the
// same state that were left to Slurm. It has no clock of its own.
type Fallback struct {
	Options FallbackOptions
	s       fallbackState
}

type fallbackState struct {
	Held     *Held
	Slow     int       // slow answers in a row
	LastSlow time.Time // last answer that was not below half of the bounds
	Refused  []bool    // of the last updates
	Wait     time.Duration
	Until    time.Time // when updates are tried again
	Outcomes []outcome
}

// outcome is one run that taught something.
type outcome struct {
	State   string
	Steered bool
	Reward  float64
}

// Held returns what keeps the loop from steering at this instant; nil for
// nothing. What is over by its own rule ends here.
func (f *Fallback) Held(now time.Time) *Held {
	h := f.s.Held
	if h == nil {
		return nil
	}
	switch {
	case h.Kind == HeldSlow && now.Sub(f.s.LastSlow) >= f.Options.Calm,
		h.Kind == HeldRefused && !now.Before(f.s.Until):
		f.s.Held = nil
	}
	return f.s.Held
}

// Clear ends a fall-back by the admin's word, and begins counting anew.
func (f *Fallback) Clear() { f.s = fallbackState{} }

// hold notes a cause unless there is one already: the first is what to look at.
func (f *Fallback) hold(now time.Time, kind, why, ends string) {
	if f.s.Held == nil {
		f.s.Held = &Held{Kind: kind, Why: why, Ends: ends, Since: now}
	}
}

// Load takes in slurmctld's figures.
func (f *Fallback) Load(now time.Time, l Load) {
	o := f.Options
	why := ""
	over := func(part float64) bool {
		switch {
		case l.Busy:
			why = "slurmctld is backing off"
		case o.SlowAnswer > 0 && l.Answer.Seconds() > part*o.SlowAnswer.Seconds():
			why = fmt.Sprintf("slurmctld took %s to answer, the bound is %s", l.Answer.Round(time.Millisecond), o.SlowAnswer)
		case o.Threads > 0 && float64(l.Threads) > part*float64(o.Threads):
			why = fmt.Sprintf("slurmctld has %d threads at work, the bound is %d", l.Threads, o.Threads)
		case o.Schedule > 0 && l.Schedule.Seconds() > part*o.Schedule.Seconds():
			why = fmt.Sprintf("slurmctld's main scheduler took %s, the bound is %s", l.Schedule.Round(time.Millisecond), o.Schedule)
		default:
			return false
		}
		return true
	}
	if over(0.5) {
		f.s.LastSlow = now
	}
	if !over(1) {
		f.s.Slow = 0
		return
	}
	if f.s.Slow++; f.s.Slow >= slowInARow {
		f.hold(now, HeldSlow, why, fmt.Sprintf("ends when half of the bound is kept for %s", o.Calm))
	}
}

// Results takes in how updates ended. Only refusals count, not jobs that
// started or were changed meanwhile; nor does trouble of Slurm's, which stops
// the batch by itself.
func (f *Fallback) Results(now time.Time, results []policy.Result) {
	for _, r := range results {
		if r.Change.Kind != policy.KindSet || r.Outcome == policy.Skipped {
			continue
		}
		f.s.Refused = append(f.s.Refused, r.Outcome == policy.Failed)
	}
	f.s.Refused = f.s.Refused[max(0, len(f.s.Refused)-refusedOf):]
	n, all := 0, len(f.s.Refused)
	for _, no := range f.s.Refused {
		if no {
			n++
		}
	}
	if f.Options.Refused <= 0 || all < refusedLeast || float64(n) <= f.Options.Refused*float64(all) {
		if all == refusedOf && n == 0 {
			f.s.Wait = 0
		}
		return
	}
	// Nothing is sent while it lasts, so only time can end it; each time it
	// comes back it lasts longer.
	f.s.Wait = min(max(refusedWait, 2*f.s.Wait), refusedMost)
	f.s.Until, f.s.Refused = now.Add(f.s.Wait), nil
	f.hold(now, HeldRefused, fmt.Sprintf("Slurm refused %d of the last %d updates", n, all),
		fmt.Sprintf("is tried again after %s", f.s.Wait))
}

// Outcome takes in a run that taught something: in which state its decision
// was made, whether it was steered, and the reward.
func (f *Fallback) Outcome(now time.Time, state string, steered bool, reward float64) {
	if state == "" || math.IsNaN(reward) || math.IsInf(reward, 0) {
		return
	}
	f.s.Outcomes = append(f.s.Outcomes, outcome{state, steered, reward})
	f.s.Outcomes = trim(f.s.Outcomes, steered)
	if !steered || f.Options.Worse <= 0 {
		return
	}
	diff, se, ok := compare(f.s.Outcomes)
	if ok && diff < -f.Options.Worse*se {
		f.hold(now, HeldWorse, fmt.Sprintf("steered jobs lose %.3f more of their GPU time than jobs in the same state that Slurm placed alone (standard error %.3f)", -diff, se),
			"ends with `rifling resume`")
	}
}

// trim drops the oldest outcome of one kind when there are too many of it.
func trim(list []outcome, steered bool) []outcome {
	n, first := 0, -1
	for i, o := range list {
		if o.Steered == steered {
			n++
			if first < 0 {
				first = i
			}
		}
	}
	if n <= outcomesMost {
		return list
	}
	return append(list[:first:first], list[first+1:]...)
}

// compare returns by how much the rewards of steered runs differ from those of
// others, state by state, with its standard error. ok is false as long as too
// few runs of either kind are known in states that both have.
func compare(list []outcome) (diff, se float64, ok bool) {
	type sums struct{ n, sum, sq float64 }
	states := map[string]*[2]sums{}
	for _, o := range list {
		if states[o.State] == nil {
			states[o.State] = &[2]sums{}
		}
		i := 0
		if o.Steered {
			i = 1
		}
		s := &states[o.State][i]
		s.n, s.sum, s.sq = s.n+1, s.sum+o.Reward, s.sq+o.Reward*o.Reward
	}
	var weight, squares, free float64
	var n [2]float64
	for _, name := range sortedKeys(states) {
		s := states[name]
		if s[0].n == 0 || s[1].n == 0 {
			continue
		}
		w := s[0].n * s[1].n / (s[0].n + s[1].n)
		weight += w
		diff += w * (s[1].sum/s[1].n - s[0].sum/s[0].n)
		for i := range s {
			squares += max(0, s[i].sq-s[i].sum*s[i].sum/s[i].n)
			free += s[i].n - 1
			n[i] += s[i].n
		}
	}
	if min(n[0], n[1]) < outcomesMin || free <= 0 {
		return 0, 0, false
	}
	// One variance for all states; the weights make the difference that with
	// the smallest variance.
	return diff / weight, math.Sqrt(squares / free / weight), true
}

// MarshalJSON and UnmarshalJSON keep the state over a restart: a fall-back does
// not end because the daemon did.
func (f *Fallback) MarshalJSON() ([]byte, error) { return json.Marshal(f.s) }

// UnmarshalJSON restores the state.
func (f *Fallback) UnmarshalJSON(b []byte) error { return json.Unmarshal(b, &f.s) }
