// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// numbered makes groups at the centres, all labelled by Book.relabel.
func numbered(b *Book, at time.Time, centers ...float64) []int {
	next := make([]Group, len(centers))
	for i, c := range centers {
		next[i] = Group{Index: i, Center: c, Members: 1}
	}
	b.groups = b.relabel(next, at)
	out := make([]int, len(b.groups))
	for i, g := range b.groups {
		out[i] = g.Index
	}
	return out
}

func TestGroupsKeepTheirNumbers(t *testing.T) {
	tests := map[string]struct {
		groupings [][]float64
		want      []int // of the last grouping
	}{
		"the first are numbered from the most communication-bound": {[][]float64{{-0.9, 0.5, 2.4}}, []int{0, 1, 2}},
		"centres that move keep theirs":                            {[][]float64{{-0.9, 0.5, 2.4}, {-0.6, 0.9, 2.1}}, []int{0, 1, 2}},
		"two that merge keep the nearer one's":                     {[][]float64{{-0.9, 0.5, 2.4}, {-0.9, 1.9}}, []int{0, 2}},
		"and the other's waits for its return":                     {[][]float64{{-0.9, 0.5, 2.4}, {-0.9, 1.9}, {-0.8, 0.6, 2.4}}, []int{0, 1, 2}},
		"one that is new takes a free number":                      {[][]float64{{2.4}, {-0.9, 0.5, 2.4}}, []int{1, 2, 0}},
		"one that jumps is another":                                {[][]float64{{-0.9}, {2.4}}, []int{1}},
		"the nearest in sum, not one by one":                       {[][]float64{{0, 0.6}, {0.35, 0.95}}, []int{0, 1}},
		"unless that moves all of them far":                        {[][]float64{{0, 0.6}, {0.5, 1.1}}, []int{1, 2}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			b := newBook(t)
			var got []int
			for i, c := range tt.groupings {
				got = numbered(b, t0.Add(time.Duration(i)*time.Hour), c...)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("numbers (-want +got):\n%s", diff)
			}
		})
	}
}

func TestANumberIsForgottenAfterAWhile(t *testing.T) {
	b := newBook(t)
	numbered(b, t0, -0.9, 2.4)
	numbered(b, t0.Add(time.Hour), 2.4)
	if got := numbered(b, t0.Add(5*b.opts.HalfLife), 0.9, 2.4); got[0] != 0 || len(b.former) != 0 {
		t.Errorf("numbers %v, %d former groups; want 0 free again", got, len(b.former))
	}
}

// However the groups change, numbers are distinct, few, and no group takes a
// number from another one that is nearer to where it was.
func TestNumbersAreDistinctAndFew(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := NewBook(DefaultOptions())
		for i := range rapid.IntRange(1, 12).Draw(t, "groupings") {
			c := rapid.SliceOfN(rapid.Float64Range(-3.4, 3.4), 1, 5).Draw(t, "centres")
			slices.Sort(c)
			got := numbered(b, t0.Add(time.Duration(i)*time.Hour), slices.Compact(c)...)
			seen := map[int]bool{}
			for _, n := range got {
				if seen[n] || n < 0 || n > keepFormer+5 {
					t.Fatalf("numbers %v", got)
				}
				seen[n] = true
			}
			for _, f := range b.former {
				if seen[f.Group.Index] {
					t.Fatalf("number %d both waits and is taken: %v", f.Group.Index, got)
				}
			}
			if same := numbered(b, t0.Add(time.Duration(i)*time.Hour), centers(b.groups)...); !slices.Equal(same, got) {
				t.Fatalf("the same centres are numbered %v, then %v", got, same)
			}
		}
	})
}

// matchInOrder against all ways to match without crossing.
func TestMatchInOrderIsOptimal(t *testing.T) {
	const most = 0.7
	var cheapest func(a, b []float64) float64
	cheapest = func(a, b []float64) float64 {
		if len(a) == 0 || len(b) == 0 {
			return float64(len(a)+len(b)) * most / 2
		}
		return min(cheapest(a[1:], b)+most/2, cheapest(a, b[1:])+most/2, apart(a[0], b[0], most)+cheapest(a[1:], b[1:]))
	}
	line := rapid.Custom(func(t *rapid.T) []float64 {
		s := rapid.SliceOfN(rapid.Float64Range(-2, 2), 0, 5).Draw(t, "line")
		slices.Sort(s)
		return s
	})
	rapid.Check(t, func(t *rapid.T) {
		a, b := line.Draw(t, "a"), line.Draw(t, "b")
		got, last, matched := 0.0, -1, 0
		for i, j := range matchInOrder(a, b, most) {
			if j < 0 {
				got += most / 2
				continue
			}
			if j <= last {
				t.Fatalf("matches cross at %d", i)
			}
			last = j
			matched++
			got += apart(a[i], b[j], most)
		}
		got += float64(len(b)-matched) * most / 2
		if want := cheapest(a, b); math.Abs(got-want) > 1e-9 {
			t.Fatalf("cost %v, want %v", got, want)
		}
	})
}

// families draws as many points as sizes say round each centre.
func clusters(rng *rand.Rand, sd float64, centers []float64, sizes ...int) []weighted {
	var out []weighted
	for i, c := range centers {
		for range sizes[i] {
			out = append(out, weighted{c + sd*rng.NormFloat64(), 20 + 60*rng.Float64()})
		}
	}
	return out
}

func TestChosenK(t *testing.T) {
	o := DefaultOptions()
	tests := map[string]struct {
		centers []float64
		sizes   []int
		want    int
	}{
		"all alike":                    {[]float64{0.5}, []int{20}, 1},
		"two kinds":                    {[]float64{-1, 2}, []int{12, 9}, 2},
		"three kinds":                  {[]float64{-1, 0.6, 2.5}, []int{9, 8, 12}, 3},
		"compute-bound and more so":    {[]float64{2.6, 3.4}, []int{10, 10}, 1},
		"three, one of them far apart": {[]float64{-1, 0.6, 3.4}, []int{12, 12, 12}, 3},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			hits := 0
			for seed := range uint64(40) {
				points := clusters(rand.New(rand.NewPCG(seed, 1)), 0.15, tt.centers, tt.sizes...)
				if chooseK(points, o, 0) == tt.want {
					hits++
				}
			}
			if hits < 38 {
				t.Errorf("k = %d in %d of 40", tt.want, hits)
			}
		})
	}
}

func TestAGroupNeedsEvidence(t *testing.T) {
	o := DefaultOptions()
	points := clusters(rand.New(rand.NewPCG(1, 1)), 0.05, []float64{2}, 10)
	seenBriefly := append(slices.Clone(points), weighted{-1, float64(o.MinSamples)})
	if k := chooseK(seenBriefly, o, 0); k != 1 {
		t.Errorf("k = %d by one family seen for %d intervals, want 1", k, o.MinSamples)
	}
	seenLong := append(slices.Clone(points), weighted{-1, mostWeight})
	if k := chooseK(seenLong, o, 0); k != 2 {
		t.Errorf("k = %d by one family seen for long, want 2", k)
	}
}

// A k that is another one for an hour or two must not change the groups.
func TestKDoesNotFlip(t *testing.T) {
	o := DefaultOptions()
	rng := rand.New(rand.NewPCG(3, 1))
	two := clusters(rng, 0.1, []float64{-1, 2}, 10, 10)
	three := clusters(rng, 0.1, []float64{-1, 0.6, 2.5}, 9, 8, 9)
	a := autoK{}.next(two, o)
	if a.K != 2 {
		t.Fatalf("k = %d, want 2", a.K)
	}
	for i, step := range []struct {
		points []weighted
		want   int
	}{{three, 2}, {three, 2}, {two, 2}, {three, 2}, {three, 2}, {three, 3}, {two, 3}, {three, 3}} {
		if a = a.next(step.points, o); a.K != step.want {
			t.Fatalf("regrouping %d: k = %d, want %d", i+1, a.K, step.want)
		}
	}
}

func TestRegroupChoosesK(t *testing.T) {
	o := DefaultOptions()
	o.Groups = 0
	b := NewBook(o)
	for i, cc := range []float64{-1, -0.9, -1.1, 2, 2.1, 1.9} {
		id := identity{User: "ann", Name: fmt.Sprint("w", i), GPUs: 4}
		b.family(id).CC.Spread = stat{W: 50, Mean: cc, At: t0}
	}
	b.now = t0
	g, changed := b.Regroup(t0)
	if len(g) != 2 || !changed {
		t.Fatalf("groups %+v, want two", g)
	}
	data, err := b.MarshalJSON()
	if err != nil {
		t.Fatal(err)
	}
	c := NewBook(o)
	if err := c.UnmarshalJSON(data); err != nil {
		t.Fatal(err)
	}
	if c.auto != b.auto || c.auto.K != 2 {
		t.Errorf("restored %+v, want %+v", c.auto, b.auto)
	}
}
