// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"strings"
	"testing"
)

func TestOptionsValidate(t *testing.T) {
	tests := map[string]struct {
		change func(*Options)
		want   string // part of the error; empty for none
	}{
		"the defaults are valid":         {func(*Options) {}, ""},
		"regrouping at every call":       {func(o *Options) { o.RegroupEvery = 0 }, ""},
		"fewer groups than none":         {func(o *Options) { o.Groups = -1 }, "groups"},
		"more groups than states can be": {func(o *Options) { o.Groups = 17 }, "groups"},
		"believing nothing":              {func(o *Options) { o.MinSamples = 0 }, "min_samples"},
		"thresholds the wrong way round": {func(o *Options) { o.CommBoundBelow, o.ComputeBoundAbove = 5, 1 }, "compute_bound_above"},
		"a threshold that is no number":  {func(o *Options) { o.CommBoundBelow = math.NaN() }, "comm_bound_below"},
		"no bound of cc":                 {func(o *Options) { o.MaxCC = math.Inf(1) }, "max_cc"},
		"a NIC without a speed":          {func(o *Options) { o.SpreadNetSpeed = 0 }, "spread_net_speed"},
		"links slower than they are":     {func(o *Options) { o.OverSpeed = 0.5 }, "over_speed"},
		"no memory":                      {func(o *Options) { o.HalfLife = 0 }, "half_life"},
		"all faults are named at once":   {func(o *Options) { *o = Options{} }, "max_families"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			o := DefaultOptions()
			tt.change(&o)
			err := o.Validate()
			switch {
			case tt.want == "" && err != nil:
				t.Errorf("Validate() = %v, want none", err)
			case tt.want != "" && (err == nil || !strings.Contains(err.Error(), tt.want)):
				t.Errorf("Validate() = %v, want one with %q", err, tt.want)
			}
		})
	}
}
