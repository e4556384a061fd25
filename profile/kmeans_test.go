// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"math"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func cost(groups [][]weighted) float64 {
	sum := 0.0
	for _, g := range groups {
		m := center(g)
		for _, p := range g {
			sum += p.w * (p.x - m) * (p.x - m)
		}
	}
	return sum
}

// bruteForce tries every assignment of the points to k groups.
func bruteForce(points []weighted, k int) float64 {
	best := math.Inf(1)
	assignment := make([]int, len(points))
	for {
		groups := make([][]weighted, k)
		for i, g := range assignment {
			groups[g] = append(groups[g], points[i])
		}
		groups = slices.DeleteFunc(groups, func(g []weighted) bool { return len(g) == 0 })
		best = min(best, cost(groups))
		i := 0
		for ; i < len(assignment); i++ {
			if assignment[i]++; assignment[i] < k {
				break
			}
			assignment[i] = 0
		}
		if i == len(assignment) {
			return best
		}
	}
}

func drawPoints(t *rapid.T, most int) []weighted {
	return rapid.SliceOfN(rapid.Custom(func(t *rapid.T) weighted {
		return weighted{
			x: float64(rapid.IntRange(-50, 50).Draw(t, "x")) / 10, // coarse, so that points coincide
			w: float64(rapid.IntRange(1, 20).Draw(t, "w")) / 2,
		}
	}), 1, most).Draw(t, "points")
}

func TestKMeansIsOptimal(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t, 7)
		k := rapid.IntRange(1, 4).Draw(t, "k")
		got, want := cost(kmeans(points, k)), bruteForce(points, k)
		if math.Abs(got-want) > 1e-9*(1+want) {
			t.Fatalf("cost %v, the best of all assignments has %v", got, want)
		}
	})
}

func TestKMeansIgnoresTheOrderOfPoints(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		points := drawPoints(t, 40)
		shuffled := rapid.Permutation(points).Draw(t, "shuffled")
		k := rapid.IntRange(1, 5).Draw(t, "k")
		a, b := group(points, k, 0.25), group(shuffled, k, 0.25)
		if diff := cmp.Diff(a, b); diff != "" {
			t.Fatalf("groups differ (-one order +another):\n%s", diff)
		}
		for i := 1; i < len(a); i++ {
			if a[i].Center-a[i-1].Center < 0.25 {
				t.Fatalf("groups %d and %d are nearer than the gap: %+v", i-1, i, a)
			}
		}
	})
}

func TestGroup(t *testing.T) {
	tests := map[string]struct {
		points []weighted
		k      int
		want   []Group
	}{
		"three kinds of work, three groups": {
			points: []weighted{{3, 1}, {-1, 1}, {1, 1}, {-1.2, 1}, {3.2, 1}},
			k:      3,
			want: []Group{
				{Index: 0, Center: -1.1, Spread: 0.1, Members: 2},
				{Index: 1, Center: 1, Spread: 0, Members: 1},
				{Index: 2, Center: 3.1, Spread: 0.1, Members: 2},
			},
		},
		"fewer distinct points than groups": {
			points: []weighted{{2, 1}, {2, 5}},
			k:      3,
			want:   []Group{{Index: 0, Center: 2, Members: 2}},
		},
		"noise around one centre is one group": {
			points: []weighted{{1, 1}, {1.05, 1}, {0.95, 1}},
			k:      3,
			want:   []Group{{Index: 0, Center: 1, Spread: 0.0408, Members: 3}},
		},
		"a family seen more often draws the centre": {
			points: []weighted{{0, 3}, {1, 1}},
			k:      1,
			want:   []Group{{Index: 0, Center: 0.25, Spread: 0.4330, Members: 2}},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got := group(tt.points, tt.k, 0.25)
			near := cmp.Comparer(func(a, b float64) bool { return math.Abs(a-b) < 1e-3 })
			if diff := cmp.Diff(tt.want, got, near); diff != "" {
				t.Errorf("group (-want +got):\n%s", diff)
			}
		})
	}
}

func TestKMeansOfNothing(t *testing.T) {
	if got := kmeans(nil, 3); got != nil {
		t.Errorf("kmeans of no points = %v, want nil", got)
	}
}
