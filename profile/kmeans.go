// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"math"
	"slices"
)

// weighted is a point on the line that counts as much as its weight, > 0.
type weighted struct{ x, w float64 }

// kmeans splits points into at most k groups so that the weighted sum of
// squared distances to the groups' means is the least there is. In one
// dimension groups are intervals, so dynamic programming finds the optimum
// exactly, without random starts (Wang and Song, R Journal 3(2), 2011). It
// returns the groups by ascending mean, fewer than k when there are fewer
// distinct points. Points are left as they are, in whatever order they come.
func kmeans(points []weighted, k int) [][]weighted {
	p := slices.Clone(points)
	slices.SortFunc(p, func(a, b weighted) int {
		return cmp.Or(cmp.Compare(a.x, b.x), cmp.Compare(a.w, b.w))
	})
	// Group equal points first: they can only belong together.
	var starts []int
	for i := range p {
		if i == 0 || p[i].x != p[i-1].x {
			starts = append(starts, i)
		}
	}
	n := len(starts)
	k = min(k, n)
	if k < 1 {
		return nil
	}
	starts = append(starts, len(p))
	cost := costs(p, starts)

	// best[g][i]: least cost of the first i distinct points in g+1 groups;
	// from[g][i]: where the last of these groups starts.
	best, from := make([][]float64, k), make([][]int, k)
	for g := range k {
		best[g], from[g] = make([]float64, n+1), make([]int, n+1)
		for i := 1; i <= n; i++ {
			best[g][i] = math.Inf(1)
			if g == 0 {
				best[g][i] = cost(0, i)
				continue
			}
			for j := g; j < i; j++ {
				if c := best[g-1][j] + cost(j, i); c < best[g][i] {
					best[g][i], from[g][i] = c, j
				}
			}
		}
	}
	out := make([][]weighted, k)
	for g, end := k-1, n; g >= 0; g-- {
		start := from[g][end]
		out[g] = p[starts[start]:starts[end]]
		end = start
	}
	return out
}

// costs returns a function that gives the weighted sum of squared deviations
// of the distinct points i to j-1 from their mean, by prefix sums. The points
// are taken relative to their overall mean, which keeps the sums small.
func costs(p []weighted, starts []int) func(i, j int) float64 {
	shift := center(p)
	w, x, xx := make([]float64, len(p)+1), make([]float64, len(p)+1), make([]float64, len(p)+1)
	for i, q := range p {
		d := q.x - shift
		w[i+1] = w[i] + q.w
		x[i+1] = x[i] + q.w*d
		xx[i+1] = xx[i] + q.w*d*d
	}
	return func(i, j int) float64 {
		a, b := starts[i], starts[j]
		sum := x[b] - x[a]
		return max(0, xx[b]-xx[a]-sum*sum/(w[b]-w[a]))
	}
}

// center is the weighted mean.
func center(p []weighted) float64 {
	w, x := 0.0, 0.0
	for _, q := range p {
		w += q.w
		x += q.w * q.x
	}
	return x / w
}

// deviation is the weighted standard deviation.
func deviation(p []weighted) float64 {
	m, w, xx := center(p), 0.0, 0.0
	for _, q := range p {
		w += q.w
		xx += q.w * (q.x - m) * (q.x - m)
	}
	return math.Sqrt(xx / w)
}
