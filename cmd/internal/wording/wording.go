// SPDX-License-Identifier: Apache-2.0

// Package wording writes what policies, Slurm and rifling's records say in plain
// English, the same on the command line and on the status page. Text that came
// from users is not made harmless here: whoever shows it does that.
package wording

import (
	"fmt"
	"math"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"rifling/agent"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/store"
)

// stateCodes says what the words of a state mean; see policy's encoding. Words
// that are not known are shown as they are.
var stateCodes = map[string]string{
	"n1": "needs 1 node", "n2": "needs 2 nodes", "n4": "needs 3 or 4 nodes", "n+": "needs more than 4 nodes",
	"fixed": "of fixed shape", "open": "of open shape",
	"one": "one node could take it now", "leaf": "one leaf switch could take it now",
	"scattered": "only scattered nodes could take it now", "none": "nothing can take it now",
	"nic0": "no NIC is busy", "nic1": "some NICs are busy", "nic2": "most NICs are busy",
	"q0": "short queue", "q1": "queue below the cluster's size", "q2": "queue above the cluster's size",
}

// State writes a state's code as words.
func State(state string) string {
	var out []string
	for _, w := range strings.Fields(state) {
		group, isGroup := strings.CutPrefix(w, "g")
		switch {
		case w == "g?":
			out = append(out, "job of unknown group")
		case isGroup && group != "":
			out = append(out, "job of group "+group)
		case stateCodes[w] != "":
			out = append(out, stateCodes[w])
		default:
			out = append(out, w)
		}
	}
	return strings.Join(out, ", ")
}

// Action says what an action is.
func Action(a policy.Action) string {
	switch a {
	case policy.Leave:
		return "leaving it to Slurm"
	case policy.Pack:
		return "packing it on the fewest nodes"
	case policy.Leaf:
		return "keeping it under one leaf switch"
	case policy.Even:
		return "spreading it in equal parts"
	case policy.Quiet:
		return "keeping it away from busy NICs"
	case policy.Wait:
		return "waiting for a better place"
	}
	return string(a)
}

// Reason explains the commonest of Slurm's reasons; others stay as they are.
func Reason(reason string) string {
	switch reason {
	case "", "None":
		return "Slurm gives no reason yet"
	case "Resources":
		return "Slurm says Resources: nothing that it could use is free"
	case "Priority":
		return "Slurm says Priority: jobs of higher priority come first"
	case "BadConstraints":
		return "Slurm says BadConstraints: it calls the request impossible"
	case "Dependency":
		return "Slurm says Dependency: another job must end first"
	case "BeginTime":
		return "Slurm says BeginTime: it may not start yet"
	case "JobHeldUser", "JobHeldAdmin":
		return "Slurm says " + reason + ": it is held"
	}
	return "Slurm says " + reason
}

// Request writes what a job asks for as options of sbatch.
func Request(r slurm.GPURequest) string {
	typed := func(option string, n int) string {
		if r.Type != "" {
			return fmt.Sprintf("%s=%s:%d", option, r.Type, n)
		}
		return fmt.Sprintf("%s=%d", option, n)
	}
	var out []string
	for _, o := range []struct {
		option string
		n      int
	}{{"--gpus", r.PerJob}, {"--gpus-per-node", r.PerNode}, {"--gpus-per-task", r.PerTask}, {"--gpus-per-socket", r.PerSocket}} {
		if o.n > 0 {
			out = append(out, typed(o.option, o.n))
		}
	}
	return strings.Join(out, " ")
}

// Update writes an update as assignments.
func Update(u slurm.Update) string {
	var out []string
	list := func(name string, nodes *[]string) {
		switch {
		case nodes == nil:
		case len(*nodes) == 0:
			out = append(out, name+" cleared")
		default:
			out = append(out, name+"="+slurm.CompressHosts(*nodes))
		}
	}
	list("excluded_nodes", u.ExcludedNodes)
	list("required_nodes", u.RequiredNodes)
	if u.SiteFactor != nil {
		out = append(out, fmt.Sprintf("site_factor=%+d", *u.SiteFactor))
	}
	if u.Nice != nil {
		out = append(out, fmt.Sprintf("nice=%d", *u.Nice))
	}
	if len(out) == 0 {
		return "nothing"
	}
	return strings.Join(out, ", ")
}

// Count writes "1 GPU", "8 GPUs".
func Count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// About writes a duration for sentences: "45 s", "12 min", "3 h 20 min", "2 d 4 h".
func About(d time.Duration) string {
	d = max(0, d)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%d min", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
	}
	return fmt.Sprintf("%d d %d h", int(d.Hours())/24, int(d.Hours())%24)
}

// Sentence gives text a capital letter.
func Sentence(s string) string {
	r, n := utf8.DecodeRuneInString(s)
	return string(unicode.ToUpper(r)) + s[n:]
}

// Level says from which jobs a finding comes.
func Level(l profile.Level) string {
	switch l {
	case profile.LevelJob:
		return "from this job itself"
	case profile.LevelFamily:
		return "from jobs of its family"
	case profile.LevelName:
		return "from the user's jobs of that name"
	case profile.LevelUser:
		return "from the user's jobs"
	case profile.LevelClass:
		return "from all jobs with about as many GPUs"
	case profile.LevelCluster:
		return "from all jobs"
	}
	return "evidence: " + string(l)
}

// Outcome says what was written to Slurm and what became of it.
func Outcome(c store.Change) string {
	verb := "set"
	if c.Kind == policy.KindTakeBack {
		verb = "take back:"
	}
	what := verb + " " + Update(c.Update)
	switch {
	case c.Outcome == "":
		return what + ": end not known, riflingd stopped between record and answer"
	case c.Detail != "":
		return fmt.Sprintf("%s: %s, %s", what, c.Outcome, c.Detail)
	}
	return fmt.Sprintf("%s: %s", what, c.Outcome)
}

// AlphaShown is the least learning rate that rifling ships with: the history
// does not keep which one a table was learned with.
var AlphaShown = agent.DefaultParams().Alpha

// Entry says what an entry of the learner's table means, but for its state: what
// the action loses, against what the rule expected, and what that rests on.
func Entry(e policy.QEntry) string {
	lost := "loses next to nothing"
	switch {
	case e.Value < -0.005:
		lost = fmt.Sprintf("loses %.0f %% of the job's GPU time", -100*e.Value)
	case e.Value > 0.005:
		lost = fmt.Sprintf("gains %.0f %% of the job's GPU time", 100*e.Value)
	}
	gain := "as the rule expects"
	switch g := 100 * e.Gain(); {
	case g >= 0.5:
		gain = fmt.Sprintf("%.0f %% less than the rule expects", g)
	case g <= -0.5:
		gain = fmt.Sprintf("%.0f %% more than the rule expects", -g)
	}
	times := fmt.Sprintf("after %d tries, give or take %.0f %%", e.Visits, math.Ceil(100*e.StdErr(AlphaShown)))
	switch e.Visits {
	case 0:
		times = "by expectation alone"
	case 1:
		times = "after one try, which proves nothing"
	}
	return fmt.Sprintf("%s %s, %s, %s", Action(policy.Action(e.Action)), lost, gain, times)
}
