// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"

	"rifling/policy"
)

func TestQSentence(t *testing.T) {
	tests := map[string]struct {
		e    policy.QEntry
		want string
	}{
		"better than expected": {
			policy.QEntry{Value: -0.1, Prior: -0.25, Visits: 25, Var: 0.01},
			"loses 10 % of the job's GPU time, 15 % less than the rule expects, after 25 tries, give or take 2 %"},
		"worse than expected, once": {
			policy.QEntry{Value: -0.3, Prior: -0.1, Visits: 1},
			"loses 30 % of the job's GPU time, 20 % more than the rule expects, after one try, which proves nothing"},
		"as expected": {
			policy.QEntry{Value: -0.001, Prior: -0.002, Visits: 9},
			"loses next to nothing, as the rule expects, after 9 tries, give or take 0 %"},
	}
	for name, tt := range tests {
		tt.e.State, tt.e.Action = "g0 n1 open leaf nic0 q1", "pack"
		if got := qSentence(tt.e); !strings.HasSuffix(got, tt.want) {
			t.Errorf("%s: %q, want it to end in %q", name, got, tt.want)
		}
	}
}
