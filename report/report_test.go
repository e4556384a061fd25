// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/json"
	"flag"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"rifling/slurm"
)

var update = flag.Bool("update", false, "rewrite the golden pages")

type row struct {
	id    uint32
	name  string
	gpus  int
	npr   float64
	wait  time.Duration
	start time.Time
	nodes []string
	owned bool
}

func fields() []Field[row] {
	return []Field[row]{
		{Name: "JobID", Doc: "raw job id", Width: 8, Of: func(r *row) Value { return Int(r.id) }},
		{Name: "Name", Doc: "job name", Width: 12, Left: true, Of: func(r *row) Value { return Text(r.name) }},
		{Name: "GPUs", Doc: "GPUs asked for", Width: 4, Of: func(r *row) Value { return Int(r.gpus) }},
		{Name: "NPR", Doc: "normalized processing rate", Width: 5, Of: func(r *row) Value { return Float(r.npr, 2) }},
		{Name: "Wait", Doc: "queueing delay", Width: 12, Of: func(r *row) Value { return Duration(r.wait) }},
		{Name: "Start", Doc: "start", Width: 19, Of: func(r *row) Value { return Time(r.start) }},
		{Name: "Nodes", Doc: "nodes", Left: true, Of: func(r *row) Value { return Nodes(r.nodes) }},
		{Name: "Owned", Doc: "whether rifling has set something", Width: 5, Of: func(r *row) Value { return Bool(r.owned) }},
	}
}

func rows() []row {
	return []row{
		{id: 101, name: "train", gpus: 8, npr: 0.875, wait: 90 * time.Second, nodes: []string{"gpu02", "gpu01", "gpu03"},
			start: time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC), owned: true},
		{id: 4294967295, name: "a|b\x1b[31mred\nline", gpus: 16, npr: math.NaN(), wait: 26 * time.Hour},
		{id: 103, name: "模型训练任务很长的名字", gpus: 1, npr: -0.001, nodes: []string{}},
	}
}

func TestGoldenPages(t *testing.T) {
	const all = "jobid,name,gpus,npr,wait,start,nodes,owned"
	tests := map[string]struct {
		spec  string
		style Style
		rows  []row
	}{
		"table":        {all, Style{}, rows()},
		"table-empty":  {all, Style{}, nil},
		"no-header":    {"name%-20,jobid%4,nodes%6", Style{NoHeader: true}, rows()},
		"parsable":     {all, Style{Parsable: true, Trailing: true}, rows()},
		"parsable2":    {all, Style{Parsable: true}, rows()},
		"delimiter":    {"jobid,name,nodes", Style{Parsable: true, Delimiter: ",", NoHeader: true}, rows()},
		"json":         {all, Style{JSON: true}, rows()},
		"json-nothing": {all, Style{JSON: true}, nil},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			layout, err := Choose(fields(), tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			var b bytes.Buffer
			if err := Write(&b, layout, tc.rows, tc.style); err != nil {
				t.Fatal(err)
			}
			path := filepath.Join("testdata", name+".golden")
			if *update {
				if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(string(want), b.String()); d != "" {
				t.Errorf("%s (-want +got), -update rewrites:\n%s", path, d)
			}
			if tc.style.JSON && !json.Valid(b.Bytes()) {
				t.Error("no valid JSON")
			}
		})
	}
}

func TestChooseRefusesWhatItDoesNotKnow(t *testing.T) {
	for spec, want := range map[string]string{
		"jobid,colour":  "colour",
		"jobid%x":       "odd width",
		"jobid%0":       "odd width",
		"jobid%":        "odd width",
		"jobid%9999999": "odd width",
		"":              "no field",
		" , ":           "no field",
		"\x1b[2J":       `\x1b`,
	} {
		_, err := Choose(fields(), spec)
		if err == nil || !strings.Contains(err.Error(), want) || slurm.HintOf(err) == "" {
			t.Errorf("%q: got %v (hint %q), want one with %q", spec, err, slurm.HintOf(err), want)
		}
	}
}

func TestChooseTakesAnyCaseOrderAndWidth(t *testing.T) {
	l, err := Choose(fields(), "NODES, jobID%-3 ,jobid")
	if err != nil {
		t.Fatal(err)
	}
	type column struct {
		Name  string
		Width int
		Left  bool
	}
	var got []column
	for _, f := range l {
		got = append(got, column{f.Name, f.Width, f.Left})
	}
	if d := cmp.Diff([]column{{"Nodes", 0, true}, {"JobID", 3, true}, {"JobID", 8, false}}, got); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestClean(t *testing.T) {
	for in, want := range map[string]string{
		"plain":          "plain",
		"Schrödinger 猫":  "Schrödinger 猫",
		"\x1b[2J":        `\x1b[2J`,
		"a\nb\tc\r":      `a\x0ab\x09c\x0d`,
		"\xff\xfe":       `\xff\xfe`,
		"\u202egnp.exe":  `\u202egnp.exe`,
		"\u009b31m":      `\x9b31m`,
		"zero\u200bwide": `zero\u200bwide`,
		"\U000e0041tag":  `\U000e0041tag`,
		"":               "",
	} {
		if got := Clean(in); got != want {
			t.Errorf("Clean(%q) = %q, want %q", in, got, want)
		}
	}
}

// Whatever a user calls a job, a table has one line a row and a fixed width,
// and separated values have as many cells as fields.
func TestNamesCannotBreakTheLayout(t *testing.T) {
	name := rapid.OneOf(rapid.String(), rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }))
	rapid.Check(t, func(rt *rapid.T) {
		n := name.Draw(rt, "name")
		layout, err := Choose(fields(), "jobid%8,name%12,gpus%4")
		if err != nil {
			rt.Fatal(err)
		}
		var table, values, again bytes.Buffer
		rs := []row{{id: 1, name: n, gpus: 8}}
		if err := Write(&table, layout, rs, Style{NoHeader: true}); err != nil {
			rt.Fatal(err)
		}
		line := strings.TrimSuffix(table.String(), "\n")
		if strings.ContainsFunc(line, needsEscape) || width(line) != 8+1+12+1+4 {
			rt.Errorf("table line %q is %d columns wide", line, width(line))
		}
		delimiter := rapid.SampledFrom([]string{"|", ";", "\x1f", "||", "§"}).Draw(rt, "delimiter")
		style := Style{NoHeader: true, Parsable: true, Delimiter: delimiter}
		if err := Write(&values, layout, rs, style); err != nil {
			rt.Fatal(err)
		}
		text := strings.TrimSuffix(values.String(), "\n")
		if cells := strings.Split(text, delimiter); len(cells) != 3 || strings.Contains(text, "\n") {
			rt.Errorf("%q has %d cells", text, len(cells))
		}
		if err := Write(&again, layout, rs, style); err != nil || again.String() != values.String() {
			rt.Errorf("the same rows gave other bytes: %v", err)
		}
	})
}

func FuzzClean(f *testing.F) {
	f.Add("train\x1b[31m")
	f.Add("\xc3\x28")
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if strings.ContainsFunc(got, needsEscape) {
			t.Errorf("Clean(%q) = %q still holds what must not be shown", s, got)
		}
		if Clean(got) != got {
			t.Errorf("Clean(%q) is not stable", s)
		}
	})
}
