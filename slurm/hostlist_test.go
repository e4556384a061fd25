// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestExpandHosts(t *testing.T) {
	cases := map[string]struct {
		in   string
		want []string
	}{
		"nothing":                          {in: ""},
		"no nodes yet, by squeue":          {in: "None assigned"},
		"one host":                         {in: "login", want: []string{"login"}},
		"width of each low bound":          {in: "n[08-10,9]", want: []string{"n08", "n09", "n10", "n9"}},
		"width outgrown":                   {in: "n[9-11]", want: []string{"n9", "n10", "n11"}},
		"Slurm's order, not sorted":        {in: "n[3,1-2]", want: []string{"n3", "n1", "n2"}},
		"each host once":                   {in: "n[1-2],n2,n1", want: []string{"n1", "n2"}},
		"a tail behind the bracket":        {in: "n[1-2].ib", want: []string{"n1.ib", "n2.ib"}},
		"the last bracket runs fastest":    {in: "r[1-2]n[1,3]", want: []string{"r1n1", "r1n3", "r2n1", "r2n3"}},
		"separated by blanks and newlines": {in: " n1  n2\n", want: []string{"n1", "n2"}},
		"no prefix":                        {in: "[1-2]", want: []string{"1", "2"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ExpandHosts(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ExpandHosts(%q) (-want +got):\n%s", tc.in, diff)
			}
		})
	}
}

func TestExpandHostsRefuses(t *testing.T) {
	for name, in := range map[string]string{
		"an open bracket":         "n[1-2",
		"a closing one alone":     "n1],n2",
		"brackets in brackets":    "n[[1-2]]",
		"an empty bracket":        "n[]",
		"a gap in the bracket":    "n[1,,2]",
		"letters in the bracket":  "n[a-c]",
		"a range backwards":       "n[5-1]",
		"a range too long":        "n[1-100001]",
		"a product too large":     "n[1-1000]m[1-1000]",
		"a sum too large":         "n[1-60000],m[1-60000]",
		"a number beyond all":     "n[1-99999999999999999999]",
		"brackets without end":    strings.Repeat("n[1]", 200),
		"a name without end":      strings.Repeat("n", 300),
		"characters of no host":   "gpu(1)",
		"the words of a warning":  "gpu01;rm",
		"one good and one broken": "gpu01,gpu[",
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := ExpandHosts(in); err == nil || got != nil {
				t.Errorf("got %d hosts and %v, want no hosts and an error", len(got), err)
			}
		})
	}
}

func TestExpandHostsTakesALargeCluster(t *testing.T) {
	got, err := ExpandHosts("n[000001-100000]")
	if err != nil || len(got) != 100_000 || got[99_999] != "n100000" {
		t.Fatalf("%d hosts, %v", len(got), err)
	}
}

func TestCompressHosts(t *testing.T) {
	cases := map[string]struct {
		in   []string
		want string
	}{
		"nothing":                          {nil, ""},
		"one host keeps its name":          {[]string{"gpu07"}, "gpu07"},
		"ranges and singles":               {[]string{"gpu07", "gpu02", "gpu01", "gpu03"}, "gpu[01-03,07]"},
		"two in a row are a range":         {[]string{"n1", "n2"}, "n[1-2]"},
		"a run across a width":             {[]string{"n9", "n10", "n11"}, "n[9-11]"},
		"padded numbers are other hosts":   {[]string{"n01", "n1", "n2"}, "n[1,01,2]"},
		"several prefixes":                 {[]string{"b1", "a2", "a1", "login"}, "a[1-2],b1,login"},
		"a tail is no number":              {[]string{"n1.ib", "n2.ib"}, "n1.ib,n2.ib"},
		"a prefix with digits and hyphens": {[]string{"c1-a2", "c1-a1", "c2-a1"}, "c1-a[1-2],c2-a1"},
		"each once, no empty names":        {[]string{"n1", "", "n1"}, "n1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			if got := CompressHosts(tc.in); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

func TestCompressedHostsExpandToTheSameSet(t *testing.T) {
	prefix := rapid.SampledFrom([]string{"gpu", "n", "c1-", "r2n", "x.", ""})
	rapid.Check(t, func(t *rapid.T) {
		hosts := rapid.SliceOf(rapid.Custom(func(t *rapid.T) string {
			width := rapid.IntRange(1, 4).Draw(t, "width")
			return fmt.Sprintf("%s%0*d", prefix.Draw(t, "prefix"), width, rapid.IntRange(0, 120).Draw(t, "n"))
		})).Draw(t, "hosts")
		list := CompressHosts(hosts)
		checkSameSet(t, list, hosts)
		shuffled := rapid.Permutation(hosts).Draw(t, "shuffled")
		if again := CompressHosts(shuffled); again != list {
			t.Fatalf("order matters: %q and %q", list, again)
		}
	})
}

// checkSameSet fails unless the list expands to just the given hosts.
func checkSameSet(t interface{ Fatalf(string, ...any) }, list string, hosts []string) {
	got, err := ExpandHosts(list)
	if err != nil {
		t.Fatalf("%q: %v", list, err)
	}
	want := slices.Clone(hosts)
	slices.Sort(want)
	slices.Sort(got)
	if diff := cmp.Diff(slices.Compact(want), got); diff != "" && len(want)+len(got) > 0 {
		t.Fatalf("%q (-want +got):\n%s", list, diff)
	}
}

func FuzzExpandHosts(f *testing.F) {
	for _, s := range []string{"gpu[01-03,7],cpu5", "r[0-1]_b[0-1]", "n1.ib n2", "00000000000000000001"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		hosts, err := ExpandHosts(s)
		if err != nil {
			return
		}
		if len(hosts) > maxExpand {
			t.Fatalf("%d hosts", len(hosts))
		}
		checkSameSet(t, CompressHosts(hosts), hosts)
	})
}
