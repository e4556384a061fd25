// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"math"
	"testing"
)

// The engine's own arithmetic of rates follows a model's law as Rate does.
func TestTheEngineFollowsTheLaw(t *testing.T) {
	bert, _ := FindModel("bert")
	bert.Law = Law{Exponent: 0.1, TwoNodes: 1.9}
	j := job(0, 8, 1000)
	j.Model, j.Request = &bert, Request{GPUsPerNode: 4, MinNodes: 2}
	rs, _ := simulate(t, small(8, 8), &Ordered{}, listed(j))
	alone := Rate(bert, map[string]int{"a": 4, "b": 4}, func(string) (float64, int) { return DefaultNICBytesPerSecond, 1 })
	if want := alone / PackedRate(bert, 8); math.Abs(rs[0].NPR-want) > 1e-6 {
		t.Errorf("NPR %.6f, want %.6f", rs[0].NPR, want)
	}
}
