// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"testing"
	"time"

	"rifling/slurm"
)

// A grace window makes jobs known before they may start, and no others.
func TestGraceCountsANearBeginTimeAsEligible(t *testing.T) {
	at := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	tests := map[string]struct {
		grace, ahead time.Duration
		touchable    bool
	}{
		"without grace a begin time ahead is the user's": {0, time.Second, false},
		"without grace a begin time that has come":       {0, 0, true},
		"inside the window":                              {30 * time.Second, 20 * time.Second, true},
		"at its end":                                     {30 * time.Second, 30 * time.Second, true},
		"beyond it":                                      {30 * time.Second, 31 * time.Second, false},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			j := slurm.Job{State: slurm.State{Base: "PENDING"}, Priority: 1, Reason: "BeginTime", EligibleTime: at.Add(tc.ahead)}
			in := Input{Snapshot: &slurm.Snapshot{TakenAt: at}, Limits: Limits{Grace: tc.grace}}
			if why := ofState(&j, in); (why == "") != tc.touchable {
				t.Errorf("left alone because %q", why)
			}
		})
	}
}
