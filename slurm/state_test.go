// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func state(base string, flags ...string) State { return State{Base: base, Flags: flags} }

func TestParseState(t *testing.T) {
	cases := map[string]struct {
		in   []string
		want State
	}{
		"nothing":                          {nil, State{}},
		"blanks only":                      {[]string{"", " "}, State{}},
		"one word in lower case":           {[]string{"mixed"}, state("MIXED")},
		"base first":                       {[]string{"RUNNING", "COMPLETING"}, state("RUNNING", "COMPLETING")},
		"flag first":                       {[]string{"DRAIN", "IDLE"}, state("IDLE", "DRAIN")},
		"joined words":                     {[]string{"DOWN+DRAIN", "CLOUD"}, state("DOWN", "DRAIN", "CLOUD")},
		"a flag of the future":             {[]string{"PENDING", "TELEPORTING"}, state("PENDING", "TELEPORTING")},
		"a base of the future":             {[]string{"TELEPORTED"}, state("TELEPORTED")},
		"v0.0.38 shows the flag for it":    {[]string{"CONFIGURING"}, state("RUNNING", "CONFIGURING")},
		"v0.0.38 of a held requeue":        {[]string{"REQUEUE_HOLD"}, state("PENDING", "REQUEUE_HOLD")},
		"a completing job may end any way": {[]string{"COMPLETING"}, state("COMPLETING")},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tc.want, ParseState(tc.in)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestParseStateLeavesItsArgumentAlone(t *testing.T) {
	words := []string{"drain", "idle"}
	ParseState(words)
	if diff := cmp.Diff([]string{"drain", "idle"}, words); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestParseCompactState(t *testing.T) {
	cases := map[string]State{
		"PENDING":                 state("PENDING"),
		"IDLE+CLOUD+POWERED_DOWN": state("IDLE", "CLOUD", "POWERED_DOWN"),
		"idle*":                   state("IDLE", "NOT_RESPONDING"),
		"idle~":                   state("IDLE", "POWERED_DOWN"),
		"alloc#":                  state("ALLOCATED", "POWERING_UP"),
		"mix-":                    state("MIXED", "PLANNED"),
		"drng@":                   state("ALLOCATED", "DRAIN", "REBOOT_REQUESTED"),
		"drained*":                state("IDLE", "DRAIN", "NOT_RESPONDING"),
		"fail":                    state("IDLE", "FAIL"),
		"maint":                   state("IDLE", "MAINTENANCE"),
		"alloc+":                  state("ALLOCATED", "COMPLETING"),
		"?":                       state("UNKNOWN"),
		"CANCELLED by 1001":       state("CANCELLED"),
		"Cancelled By 0":          state("CANCELLED"),
		"OOM":                     state("OUT_OF_MEMORY"),
		"PD":                      state("PENDING"),
		"CF":                      state("RUNNING", "CONFIGURING"),
		"IDLE+DRAIN*":             state("IDLE", "DRAIN", "NOT_RESPONDING"),
		"COMPLETED":               state("COMPLETED"),
	}
	for in, want := range cases {
		got, err := ParseCompactState(in)
		if err != nil {
			t.Errorf("%q: %v", in, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q (-want +got):\n%s", in, diff)
		}
	}
	for _, in := range []string{"", "*", "+", "IDLE++DRAIN", "+IDLE", "PEN DING", "=", "ÄH"} {
		if got, err := ParseCompactState(in); err == nil {
			t.Errorf("ParseCompactState(%q) = %v, want an error", in, got)
		}
	}
}

func TestACutOffStateIsRefusedWithAHint(t *testing.T) {
	for _, in := range []string{"CANCELLED+", "OUT_OF_ME+", "idle+drai+"} {
		got, err := ParseCompactState(in)
		if err == nil || !strings.Contains(HintOf(err), "--parsable2") {
			t.Errorf("%q: %v, %v with hint %q", in, got, err, HintOf(err))
		}
	}
}

func FuzzParseState(f *testing.F) {
	for _, s := range []string{"IDLE+DRAIN", "mixed-", "CANCELLED by 1001", "CANCELLED+", "alloc#"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		ParseState(strings.Fields(s))
		got, err := ParseCompactState(s)
		if err != nil {
			if got.Base != "" {
				t.Fatalf("%q: %v and %v", s, got, err)
			}
			return
		}
		again, err := ParseCompactState(got.String())
		if diff := cmp.Diff(got, again); diff != "" || err != nil || got.Base == "" {
			t.Fatalf("%q is not read back: %v (-want +got):\n%s", s, err, diff)
		}
	})
}
