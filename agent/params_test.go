// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math"
	"strings"
	"testing"
	"time"
)

func TestParamsValidate(t *testing.T) {
	tests := map[string]struct {
		change func(*Params)
		want   string // part of the error; empty for none
	}{
		"the defaults are valid":               {func(*Params) {}, ""},
		"greedy for ever is allowed":           {func(p *Params) { p.Epsilon, p.EpsilonMin = 0, 0 }, ""},
		"a rate of 0 never learns":             {func(p *Params) { p.Alpha = 0 }, "alpha"},
		"a rate above 1 overshoots":            {func(p *Params) { p.Alpha = 1.5 }, "alpha"},
		"no number":                            {func(p *Params) { p.Alpha = math.NaN() }, "alpha"},
		"time must discount":                   {func(p *Params) { p.Tau = 0 }, "tau"},
		"a chance above 1":                     {func(p *Params) { p.Epsilon = 2 }, "epsilon 2"},
		"the least chance above the first one": {func(p *Params) { p.EpsilonMin = 0.5 }, "epsilon_min"},
		"no decay":                             {func(p *Params) { p.EpsilonDecay = 0 }, "epsilon_decay"},
		"a negative margin":                    {func(p *Params) { p.Margin = -1 }, "margin"},
		"all faults are named at once":         {func(p *Params) { *p = Params{Tau: -time.Hour} }, "epsilon_decay"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			p := DefaultParams()
			tt.change(&p)
			err := p.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Validate() = %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Validate() = %v, want one with %q", err, tt.want)
			}
		})
	}
}
