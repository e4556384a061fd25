// SPDX-License-Identifier: Apache-2.0

package report

import (
	"bytes"
	"encoding/csv"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"math/rand/v2"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// Whatever values and words there are, a plot is well-formed and holds no other
// markup than its own.
func TestPlotsAreWellFormed(t *testing.T) {
	value := rapid.OneOf(rapid.Float64Range(0, 1e7), rapid.SampledFrom([]float64{0, math.NaN(), math.Inf(1), 1e-300, 1e300}))
	rapid.Check(t, func(rt *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(rt, "places")
		p := Plot{Title: rapid.String().Draw(rt, "title"), Unit: rapid.SampledFrom([]string{"", "s", "GPUs"}).Draw(rt, "unit"), Mark: rapid.IntRange(-1, 41).Draw(rt, "mark"), MarkLabel: "<b>"}
		for range n {
			p.Labels = append(p.Labels, rapid.SampledFrom([]string{"2026-12-01", "<script>", "a&b", "\x1b\x00"}).Draw(rt, "label"))
		}
		for range rapid.IntRange(0, 3).Draw(rt, "series") {
			p.Series = append(p.Series, Series{Name: rapid.String().Draw(rt, "name"), Values: rapid.SliceOfN(value, n, n).Draw(rt, "values")})
		}
		d := xml.NewDecoder(strings.NewReader(p.SVG("x")))
		for {
			tok, err := d.Token()
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				rt.Fatalf("%v in %s", err, p.SVG("x"))
			}
			if e, ok := tok.(xml.StartElement); ok && !strings.Contains(" svg title desc line text circle polyline ", " "+e.Name.Local+" ") {
				rt.Errorf("element %s", e.Name.Local)
			}
			if e, ok := tok.(xml.StartElement); ok {
				for _, a := range e.Attr {
					if strings.Contains(a.Value, "NaN") || strings.Contains(a.Value, "Inf") {
						rt.Errorf("%s=%q", a.Name.Local, a.Value)
					}
				}
			}
		}
	})
}

func TestPlotSaysItInWords(t *testing.T) {
	p := Plot{Unit: "s", Labels: []string{"a", "b", "c"}, Series: []Series{{"wait", []float64{60, math.NaN(), 7200}}, {"none", []float64{math.NaN(), math.NaN(), math.NaN()}}}}
	want := "wait: 2 values, the first 1 min, the last 2 h, between 1 min and 2 h. none: no values. From a to c."
	if got := p.Text(); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

func TestPagesNeedNothingAndEscapeAll(t *testing.T) {
	layout, err := Choose(fields(), "name%20,gpus,nodes")
	if err != nil {
		t.Fatal(err)
	}
	rows := []row{{name: `<img src=x onerror=alert(1)>"'&`, gpus: 8}, {name: "\x1b[2J\u202e"}}
	var b bytes.Buffer
	err = WriteHTML(&b, &Document{Title: "<b>", Lead: []string{"</p><script>"}, Sections: []Section{{
		Heading: "&lt;", Plots: []Plot{{Title: "</svg><script>", Labels: []string{"</svg>"}, Series: []Series{{"<i>", []float64{1}}}}},
		Table: TableOf("</caption>", layout, rows),
	}}})
	if err != nil {
		t.Fatal(err)
	}
	for _, bad := range []string{"<script", "<img", "<b>", "<i>", "\x1b", "\u202e", "http:", "https:", "<link"} {
		if strings.Contains(b.String(), bad) {
			t.Errorf("the page holds %q", bad)
		}
	}
	if n := strings.Count(b.String(), "</svg>"); n != 1 {
		t.Errorf("%d ends of drawings", n)
	}
}

func TestCSVRoundTripsWhatUsersWrite(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{"=1+1", "+x", "-2", "@sum", `a,"b"`, "a\nb"})).Draw(rt, "name")
		layout, err := Choose(fields(), "name,gpus")
		if err != nil {
			rt.Fatal(err)
		}
		var b bytes.Buffer
		if err := Write(&b, layout, []row{{name: name, gpus: -3}}, Style{CSV: true}); err != nil {
			rt.Fatal(err)
		}
		got, err := csv.NewReader(&b).ReadAll()
		if err != nil || len(got) != 2 || len(got[1]) != 2 || got[1][1] != "-3" {
			rt.Fatalf("%v: %q", err, got)
		}
		if cell := strings.TrimPrefix(got[1][0], "'"); cell != strings.TrimPrefix(Clean(name), "'") {
			rt.Errorf("%q came back as %q", name, got[1][0])
		}
		if got[1][0] != "" && strings.ContainsRune("=+-@", rune(got[1][0][0])) {
			rt.Errorf("%q is a formula", got[1][0])
		}
	})
}

func TestDifference(t *testing.T) {
	days := func(means ...float64) (out []Day) {
		for _, m := range means {
			out = append(out, Day{Sum: 10 * m, N: 10})
		}
		return append(out, Day{})
	}
	c, ok := Difference(days(10, 12, 11, 9), days(5, 6, 5, 4), 1)
	if !ok || c.Before != 10.5 || c.After != 5 || c.Diff != -5.5 || c.DaysBefore != 4 || !(c.Low < c.Diff && c.Diff < c.High && c.High < 0) || !c.Clear() {
		t.Errorf("got %+v", c)
	}
	if again, _ := Difference(days(10, 12, 11, 9), days(5, 6, 5, 4), 1); again != c {
		t.Error("the same seed gave another interval")
	}
	if c, _ := Difference(days(1, 9, 2, 8), days(9, 1, 8, 2), 1); c.Clear() {
		t.Errorf("a difference where there is none: %+v", c)
	}
	if c, ok := Difference(days(10), days(5, 6), 1); !ok || c.Clear() || c.Low != c.Diff {
		t.Errorf("one day: %+v", c)
	}
	if _, ok := Difference(nil, days(5), 1); ok {
		t.Error("nothing before, and still a difference")
	}
}

// The interval of 95 % holds the true difference in about 95 of 100 trials.
func TestDifferenceCovers(t *testing.T) {
	hit := 0
	const trials = 200
	for seed := range uint64(trials) {
		rng := rand.New(rand.NewPCG(seed, 7))
		draw := func(mean float64) (out []Day) {
			for range 30 {
				day := mean + rng.NormFloat64()
				out = append(out, Day{Sum: 20 * day, N: 20})
			}
			return out
		}
		c, _ := Difference(draw(10), draw(8), seed)
		if c.Low <= -2 && -2 <= c.High {
			hit++
		}
	}
	if hit < 180 || hit > 199 {
		t.Errorf("%d of %d intervals hold the truth", hit, trials)
	}
}
