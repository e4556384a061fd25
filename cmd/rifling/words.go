// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"rifling/policy"
	"rifling/slurm"
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

// stateWords writes a state's code as words.
func stateWords(state string) string {
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

// actionWords says what an action is.
func actionWords(a policy.Action) string {
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

// reasonWords explains the commonest of Slurm's reasons; others stay as they are.
func reasonWords(reason string) string {
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

// request writes what a job asks for as options of sbatch.
func requestWords(r slurm.GPURequest) string {
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

// updateWords writes an update as assignments.
func updateWords(u slurm.Update) string {
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

// count writes "1 GPU", "8 GPUs".
func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

// about writes a duration for sentences: "45 s", "12 min", "3 h 20 min", "2 d 4 h".
func about(d time.Duration) string {
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
