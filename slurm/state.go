// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"slices"
	"strings"
)

// ParseState reads the words of a job's or node's state, in whatever order and
// case a release gives them: ["PENDING","REQUEUED"], ["IDLE","DRAIN"], "idle"
// with the flag words behind it. A word may itself be joined with plus signs.
// Words that are not known stay flags, or become the base when there is no
// other.
//
// v0.0.38 shows a job's flag in place of its base. Where the flag leaves one
// base only, as CONFIGURING does, that base is given and the flag kept.
func ParseState(words []string) State {
	var all []string
	for _, w := range words {
		for part := range strings.SplitSeq(w, "+") {
			if part = strings.ToUpper(strings.TrimSpace(part)); part != "" {
				all = append(all, part)
			}
		}
	}
	if len(all) == 0 {
		return State{}
	}
	i := max(0, slices.IndexFunc(all, isBase))
	s := State{Base: all[i]}
	s.Flags = slices.Delete(all, i, i+1)
	if implied := impliedBase(s.Base); implied != "" {
		s.Base, s.Flags = implied, append([]string{s.Base}, s.Flags...)
	}
	if len(s.Flags) == 0 {
		s.Flags = nil
	}
	return s
}

// isBase reports whether the word is a base state of a job or node.
func isBase(word string) bool {
	switch word {
	case "PENDING", "RUNNING", "SUSPENDED", "COMPLETED", "CANCELLED", "FAILED", "TIMEOUT",
		"NODE_FAIL", "PREEMPTED", "BOOT_FAIL", "DEADLINE", "OUT_OF_MEMORY",
		"UNKNOWN", "DOWN", "IDLE", "ALLOCATED", "ERROR", "MIXED", "FUTURE":
		return true
	}
	return false
}

// impliedBase returns the base that a job with this flag must have, or "".
func impliedBase(flag string) string {
	switch flag {
	case "CONFIGURING", "RESIZING", "SIGNALING", "STOPPED":
		return "RUNNING"
	case "REQUEUED", "REQUEUE_FED", "REQUEUE_HOLD", "SPECIAL_EXIT", "RESV_DEL_HOLD":
		return "PENDING"
	}
	return ""
}

// compactStates spells out the words of squeue, sinfo and sacct that stand for
// a state under another name, or for a base and a flag at once.
var compactStates = map[string]string{
	// squeue %t
	"PD": "PENDING", "R": "RUNNING", "S": "SUSPENDED", "CD": "COMPLETED", "CA": "CANCELLED",
	"F": "FAILED", "TO": "TIMEOUT", "NF": "NODE_FAIL", "PR": "PREEMPTED", "BF": "BOOT_FAIL",
	"DL": "DEADLINE", "OOM": "OUT_OF_MEMORY", "CF": "RUNNING+CONFIGURING", "CG": "COMPLETING",
	"RS": "RUNNING+RESIZING", "SI": "RUNNING+SIGNALING", "ST": "RUNNING+STOPPED",
	"RQ": "PENDING+REQUEUED", "RF": "PENDING+REQUEUE_FED", "RH": "PENDING+REQUEUE_HOLD",
	"RD": "PENDING+RESV_DEL_HOLD", "SE": "PENDING+SPECIAL_EXIT", "SO": "STAGE_OUT", "RV": "REVOKED",
	// sinfo %t and %T
	"ALLOC": "ALLOCATED", "MIX": "MIXED", "UNK": "UNKNOWN", "FUTR": "FUTURE", "ERR": "ERROR",
	"COMP": "COMPLETING", "DRAINED": "IDLE+DRAIN", "DRAIN": "IDLE+DRAIN",
	"DRAINING": "ALLOCATED+DRAIN", "DRNG": "ALLOCATED+DRAIN", "FAILG": "ALLOCATED+FAIL",
	"FAILING": "ALLOCATED+FAIL", "MAINT": "IDLE+MAINTENANCE", "PLND": "IDLE+PLANNED",
	"PLANNED": "IDLE+PLANNED", "RESV": "IDLE+RESERVED", "RESERVED": "IDLE+RESERVED",
	"NPC": "IDLE+PERFCTRS", "INVAL": "DOWN+INVALID_REG", "BOOT": "IDLE+REBOOT_ISSUED",
	"POW_DN": "IDLE+POWERING_DOWN", "POW_UP": "IDLE+POWERING_UP",
	"FAIL": "IDLE+FAIL", "PERFCTRS": "IDLE+PERFCTRS", "?": "UNKNOWN",
	"ALLOC+": "ALLOCATED+COMPLETING", "ALLOCATED+": "ALLOCATED+COMPLETING",
}

// nodeMarks are the signs that sinfo puts behind a node's state.
var nodeMarks = map[byte]string{
	'*': "NOT_RESPONDING", '~': "POWERED_DOWN", '#': "POWERING_UP", '!': "POWER_DOWN",
	'%': "POWERING_DOWN", '$': "MAINTENANCE", '@': "REBOOT_REQUESTED", '^': "REBOOT_ISSUED",
	'-': "PLANNED",
}

// ParseCompactState reads a state in one piece, as Slurm's commands print it:
// "IDLE+DRAIN" (scontrol), "mixed-", "idle*" (sinfo), "CANCELLED by 1001"
// (sacct), "PD" (squeue). A word that is not known becomes the base. A state
// that a column was too narrow for ("CANCELLED+") is refused with a hint.
func ParseCompactState(s string) (State, error) {
	fail := func(msg string) (State, error) {
		return State{}, &ParseError{Kind: "state", Token: s, Msg: msg}
	}
	word := strings.ToUpper(strings.TrimSpace(s))
	word, _, _ = strings.Cut(word, " BY ")
	if full, ok := compactStates[word]; ok {
		return ParseState([]string{full}), nil
	}
	if strings.HasSuffix(word, "+") {
		_, err := fail("cut off by the column's width")
		return State{}, WithHint(err, "always use --parsable2 (sacct -P), which cuts nothing off")
	}
	var marks []string
	for word != "" {
		flag, ok := nodeMarks[word[len(word)-1]]
		if !ok {
			break
		}
		marks, word = append(marks, flag), word[:len(word)-1]
	}
	if full, ok := compactStates[word]; ok {
		word = full
	}
	words := strings.Split(word, "+")
	for _, w := range words {
		if w == "" || strings.Trim(w, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") != "" {
			return fail("not a state")
		}
	}
	return ParseState(append(words, marks...)), nil
}
