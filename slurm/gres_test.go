// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// rejected lists the tokens that the ParseErrors in err name.
func rejected(err error) []string {
	if err == nil {
		return nil
	}
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		var out []string
		for _, e := range joined.Unwrap() {
			out = append(out, rejected(e)...)
		}
		return out
	}
	var pe *ParseError
	if errors.As(err, &pe) {
		return []string{pe.Token}
	}
	return []string{"not a ParseError: " + err.Error()}
}

func TestParseGRES(t *testing.T) {
	cases := map[string]struct {
		in       string
		want     []GRES
		rejected []string
	}{
		"a node without resources, over REST":       {in: ""},
		"a node without resources, by scontrol":     {in: "(null)"},
		"a job that asks for none, by squeue":       {in: "N/A"},
		"untyped":                                   {in: "gpu:4", want: []GRES{{Name: "gpu", Count: 4}}},
		"typed, bound to two sockets":               {in: "gpu:l40s:8(S:0,1)", want: []GRES{{Name: "gpu", Type: "l40s", Count: 8, Sockets: []int{0, 1}}}},
		"commas inside the brackets":                {in: "gpu:l40s:3(IDX:0,2-3),shard:l40s:2(2/4,0/4)", want: []GRES{{Name: "gpu", Type: "l40s", Count: 3, Index: []int{0, 2, 3}}, {Name: "shard", Type: "l40s", Count: 2, PerDevice: [][2]int{{2, 4}, {0, 4}}}}},
		"two notes on one entry":                    {in: "gpu:l40s:2(S:0)(IDX:1,5)", want: []GRES{{Name: "gpu", Type: "l40s", Count: 2, Sockets: []int{0}, Index: []int{1, 5}}}},
		"a note of a kind still unknown":            {in: "gpu:l40s:2(NEW:x)", want: []GRES{{Name: "gpu", Type: "l40s", Count: 2}}},
		"no type in (null), no devices":             {in: "gpu:(null):0(IDX:N/A)", want: []GRES{{Name: "gpu", Count: 0, Index: []int{}}}},
		"devices without a count":                   {in: "gpu(IDX:0-1,7)", want: []GRES{{Name: "gpu", Count: 3, Index: []int{0, 1, 7}}}},
		"count in a note, typed":                    {in: "gpu:l40s(CNT:2)", want: []GRES{{Name: "gpu", Type: "l40s", Count: 2}}},
		"per node up to 23.02":                      {in: "gres:gpu:8", want: []GRES{{Name: "gpu", Count: 8}}},
		"per node from 23.11":                       {in: "gres/gpu:l40s:8", want: []GRES{{Name: "gpu", Type: "l40s", Count: 8}}},
		"per node from 24.05":                       {in: "gres/gpu=2", want: []GRES{{Name: "gpu", Count: 2}}},
		"per task with CPUs and memory":             {in: "cpu=4,mem=2G,gres/gpu:l40s=1", want: []GRES{{Name: "cpu", Count: 4}, {Name: "mem", Count: 2 << 30}, {Name: "gpu", Type: "l40s", Count: 1}}},
		"a request without a count":                 {in: "gres:gpu", want: []GRES{{Name: "gpu", Count: 1}}},
		"a typed request without a count":           {in: "gres/gpu:l40s,gres/shard=2", want: []GRES{{Name: "gpu", Type: "l40s", Count: 1}, {Name: "shard", Count: 2}}},
		"alone, typed, without a count":             {in: "gpu:l40s", want: []GRES{{Name: "gpu", Type: "l40s", Count: 1}}},
		"a name alone among others":                 {in: "gpu,shard:4", want: []GRES{{Name: "gpu", Count: 1}, {Name: "shard", Count: 4}}},
		"not consumed":                              {in: "bandwidth:lustre:no_consume:4G", want: []GRES{{Name: "bandwidth", Type: "lustre", Count: 4 << 30}}},
		"count with a suffix":                       {in: "mps:l40s:1K", want: []GRES{{Name: "mps", Type: "l40s", Count: 1024}}},
		"blank after the comma":                     {in: "gpu:1, shard:2", want: []GRES{{Name: "gpu", Count: 1}, {Name: "shard", Count: 2}}},
		"a type of digits":                          {in: "gpu:1080:2", want: []GRES{{Name: "gpu", Type: "1080", Count: 2}}},
		"a MIG profile with a plus sign":            {in: "gpu:h100_1g.10gb+me:1", want: []GRES{{Name: "gpu", Type: "h100_1g.10gb+me", Count: 1}}},
		"cut off in the type, the rest kept":        {in: "gpu:l40s:1,shard:l4", want: []GRES{{Name: "gpu", Type: "l40s", Count: 1}}, rejected: []string{"shard:l4"}},
		"cut off in the note":                       {in: "shard:2,gpu:l40s:4(IDX:0-", want: []GRES{{Name: "shard", Count: 2}}, rejected: []string{"gpu:l40s:4(IDX:0-"}},
		"negative count":                            {in: "gpu:-4,shard:1", want: []GRES{{Name: "shard", Count: 1}}, rejected: []string{"gpu:-4"}},
		"count beyond all numbers":                  {in: "gpu:99999999999999999999", rejected: []string{"gpu:99999999999999999999"}},
		"count that overflows by its suffix":        {in: "gpu:l40s:100000000000000000P", rejected: []string{"gpu:l40s:100000000000000000P"}},
		"an index range that would fill the memory": {in: "gpu:1(IDX:0-4000000000)", rejected: []string{"gpu:1(IDX:0-4000000000)"}},
		"empty entries":                             {in: "gpu:1,,", want: []GRES{{Name: "gpu", Count: 1}}, rejected: []string{"", ""}},
		"no name":                                   {in: ":l40s:4", rejected: []string{":l40s:4"}},
		"three words":                               {in: "gpu:a:b:4", rejected: []string{"gpu:a:b:4"}},
		"a count that is a word":                    {in: "gres/gpu=two", rejected: []string{"gres/gpu=two"}},
		"brackets the wrong way round":              {in: "gpu:4)(", rejected: []string{"gpu:4)("}},
		"letters behind the brackets":               {in: "gpu:4(S:0)x", rejected: []string{"gpu:4(S:0)x"}},
		"letters for shares":                        {in: "shard:4(a/b)", rejected: []string{"shard:4(a/b)"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := ParseGRES(tc.in)
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("ParseGRES(%q) (-want +got):\n%s", tc.in, diff)
			}
			if diff := cmp.Diff(tc.rejected, rejected(err)); diff != "" {
				t.Errorf("rejected (-want +got):\n%s", diff)
			}
		})
	}
}

func TestGPUs(t *testing.T) {
	cases := map[string]struct {
		in     string
		total  int
		byType map[string]int
	}{
		"none":                                      {in: "(null)"},
		"two types":                                 {in: "gpu:l40s:2,gpu:h100:4", total: 6, byType: map[string]int{"l40s": 2, "h100": 4}},
		"one type in two entries, by socket":        {in: "gpu:l40s:2(S:0),gpu:l40s:2(S:1)", total: 4, byType: map[string]int{"l40s": 4}},
		"the untyped total is not added":            {in: "gres/gpu=3,gres/gpu:l40s=3", total: 3, byType: map[string]int{"l40s": 3}},
		"a total that counts more than the types":   {in: "gpu:4,gpu:l40s:1", total: 4, byType: map[string]int{"l40s": 1}},
		"an untyped entry that cannot be the total": {in: "gpu:(null):0(IDX:N/A),gpu:l40s:2(IDX:0-1)", total: 2, byType: map[string]int{"l40s": 2}},
		"shards and MPS are not GPUs":               {in: "gpu:2,shard:16,mps:400", total: 2},
		"only shards":                               {in: "shard:16"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			gs, err := ParseGRES(tc.in)
			if err != nil {
				t.Fatal(err)
			}
			total, byType := GPUs(gs)
			if total != tc.total {
				t.Errorf("GPUs(%q) = %d, want %d", tc.in, total, tc.total)
			}
			if diff := cmp.Diff(tc.byType, byType); diff != "" {
				t.Errorf("by type (-want +got):\n%s", diff)
			}
		})
	}
}

func FuzzParseGRES(f *testing.F) {
	for _, s := range []string{"gpu:l40s:4(S:0-1)", "gres/gpu:l40s=2,cpu=1", "gpu(IDX:0,2)", "shard:8(0/5,5/5)", "gpu:(null):1"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		gs, err := ParseGRES(s)
		if bad := strings.Join(rejected(err), ","); strings.Contains(bad, "not a ParseError") {
			t.Fatal(bad)
		}
		var sum int64
		for _, g := range gs {
			if g.Count < 0 || g.Name == "" {
				t.Fatalf("%q gives %+v", s, g)
			}
			if g.Name == "gpu" {
				sum = addCounts(sum, g.Count)
			}
		}
		total, byType := GPUs(gs)
		if total < 0 || int64(total) > sum {
			t.Fatalf("%q: %d GPUs of %d named", s, total, sum)
		}
		for kind, n := range byType {
			if n > total {
				t.Fatalf("%q: %d of type %s among %d", s, n, kind, total)
			}
		}
	})
}
