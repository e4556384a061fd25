// SPDX-License-Identifier: Apache-2.0

package profile

import "math"

// How k is chosen where Options.Groups is 0; why so is in docs/design/profile.md.
const (
	// mostAuto is the greatest k that is chosen: states per group of the
	// agent's table must all be visited.
	mostAuto = 5
	// enough is the share of the variance of the modelled retention that the
	// groups must explain, and band what it may be off by before k changes.
	enough, band = 0.90, 0.03
	// tellApart is the standard deviation of the modelled retention below
	// which all jobs are one group.
	tellApart = 0.05
	// patience is how many regroupings in a row must ask for another k.
	patience = 3
	// evidencePerGroup is what each group must rest on, in MinSamples.
	evidencePerGroup = 4
)

// autoK is the k that was chosen, and another one that is asked for.
type autoK struct {
	K, Wish, Times int
}

// next returns the choice after one more regrouping. The first is taken at
// once; a later one must ask patience times in a row.
func (a autoK) next(points []weighted, o Options) autoK {
	k := chooseK(points, o, a.K)
	switch {
	case a.K == 0:
		return autoK{K: k}
	case k == a.K:
		return autoK{K: a.K}
	case k != a.Wish:
		return autoK{K: a.K, Wish: k, Times: 1}
	case a.Times+1 < patience:
		return autoK{K: a.K, Wish: k, Times: a.Times + 1}
	}
	return autoK{K: k}
}

// chooseK returns the least k whose groups explain enough of the variance of
// retention; the present k (0: none) as long as it is within the band.
func chooseK(points []weighted, o Options, present int) int {
	if deviation(retentions(points)) < tellApart {
		return 1
	}
	last := 1
	for k := 1; k <= mostAuto; k++ {
		parts := kmeans(points, k)
		if len(parts) < k || !supported(parts, o) {
			return last
		}
		need := enough
		switch {
		case present > 0 && k < present:
			need += band // fewer only when that is clearly enough
		case k == present:
			need -= band
		}
		if explainedRetention(parts) >= need {
			return k
		}
		last = k
	}
	return last
}

// supported reports whether the groups are far enough apart and each rests on
// enough.
func supported(parts [][]weighted, o Options) bool {
	for i, p := range parts {
		w := 0.0
		for _, q := range p {
			w += q.w
		}
		if len(parts) > 1 && len(p) == 1 && w < float64(evidencePerGroup*o.MinSamples) && p[0].x < math.Log(o.MaxCC) {
			return false
		}
		if i > 0 && center(p)-center(parts[i-1]) < o.MinGap {
			return false
		}
	}
	return true
}

// retention is the share of its speed that a job of this log cc keeps across
// nodes by the model iteration = compute + communication. Beyond a cc of some
// tens nothing is left to tell apart, and below some tenths neither.
func retention(logCC float64) float64 { return 1 / (1 + math.Exp(-logCC)) }

func retentions(points []weighted) []weighted {
	out := make([]weighted, len(points))
	for i, p := range points {
		out[i] = weighted{retention(p.x), p.w}
	}
	return out
}

// explainedRetention is the share of the weighted variance of retention that
// lies between the groups, 0..1.
func explainedRetention(parts [][]weighted) float64 {
	var all []weighted
	within := 0.0
	for _, p := range parts {
		r := retentions(p)
		all = append(all, r...)
		within += squares(r)
	}
	if t := squares(all); t > 0 {
		return 1 - within/t
	}
	return 1
}

// squares is the weighted sum of squared deviations from the mean.
func squares(p []weighted) float64 {
	m, sum := center(p), 0.0
	for _, q := range p {
		sum += q.w * (q.x - m) * (q.x - m)
	}
	return sum
}
