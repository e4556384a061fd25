// SPDX-License-Identifier: Apache-2.0

package page

import (
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// colours reads the variables of the light (0) and the dark (1) scheme.
func colours(t *testing.T) [2]map[string][3]float64 {
	t.Helper()
	var out [2]map[string][3]float64
	parts := strings.SplitN(string(styleSheet), "@media (prefers-color-scheme: dark)", 2)
	for i, part := range parts {
		out[i] = map[string][3]float64{}
		_, block, found := strings.Cut(part, ":root {")
		block, _, closed := strings.Cut(block, "}")
		if !found || !closed {
			t.Fatalf("part %d of the style sheet has no block :root", i)
		}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): #([0-9a-f]{6});`).FindAllStringSubmatch(block, -1) {
			n, err := strconv.ParseUint(m[2], 16, 32)
			if err != nil {
				t.Fatal(err)
			}
			for k := range 3 {
				v := float64(n>>(16-8*k)&255) / 255
				if v <= 0.04045 {
					v /= 12.92
				} else {
					v = math.Pow((v+0.055)/1.055, 2.4)
				}
				c := out[i][m[1]]
				c[k] = v // linear light
				out[i][m[1]] = c
			}
		}
	}
	return out
}

// contrast is WCAG 2's ratio of two colours in linear light.
func contrast(a, b [3]float64) float64 {
	y := func(c [3]float64) float64 { return 0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2] }
	hi, lo := max(y(a), y(b)), min(y(a), y(b))
	return (hi + 0.05) / (lo + 0.05)
}

// All text has a contrast of 4.5 or more, the edges of what can be used 3.
func TestContrast(t *testing.T) {
	for i, scheme := range colours(t) {
		name := []string{"light", "dark"}[i]
		check := func(ink, paper string, least float64) {
			a, ok := scheme[ink]
			b, ok2 := scheme[paper]
			if !ok || !ok2 {
				t.Fatalf("%s: no colour %s or %s", name, ink, paper)
			}
			if c := contrast(a, b); c < least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, want %.1f", name, ink, paper, c, least)
			}
		}
		for _, paper := range []string{"bg", "surface", "soft"} {
			check("ink", paper, 7)
			check("dim", paper, 4.5)
			check("accent", paper, 4.5)
			check("edge", paper, 3)
		}
		for _, n := range []string{"ok", "warn", "bad"} {
			check(n, n+"-bg", 4.5)
			check("ink", n+"-bg", 7)
			check(n, "surface", 4.5)
		}
		check("surface", "accent", 4.5)
		for g := range groupColours {
			check("on-group", fmt.Sprintf("g%d", g), 4.5)
			check(fmt.Sprintf("g%d", g), "surface", 3)
		}
		check("on-group", "gu", 4.5)
	}
}

// sight simulates kinds of colour vision on linear light, by the matrices of
// Machado, Oliveira and Fernandes (IEEE TVCG 15, 2009) for full severity.
var sight = map[string][3][3]float64{
	"usual":        {{1, 0, 0}, {0, 1, 0}, {0, 0, 1}},
	"protanopia":   {{0.152286, 1.052583, -0.204868}, {0.114503, 0.786281, 0.099216}, {-0.003882, -0.048116, 1.051998}},
	"deuteranopia": {{0.367322, 0.860646, -0.227968}, {0.280085, 0.672501, 0.047413}, {-0.011820, 0.042940, 0.968881}},
	"tritanopia":   {{1.255528, -0.076749, -0.178779}, {-0.078411, 0.930809, 0.147602}, {0.004733, 0.691367, 0.303900}},
}

// lab turns linear light into CIELAB under D65.
func lab(c [3]float64) [3]float64 {
	f := func(t float64) float64 {
		if t > 216.0/24389 {
			return math.Cbrt(t)
		}
		return (24389.0/27*t + 16) / 116
	}
	x := f((0.4124*c[0] + 0.3576*c[1] + 0.1805*c[2]) / 0.95047)
	y := f(0.2126*c[0] + 0.7152*c[1] + 0.0722*c[2])
	z := f((0.0193*c[0] + 0.1192*c[1] + 0.9505*c[2]) / 1.08883)
	return [3]float64{116*y - 16, 500 * (x - y), 200 * (y - z)}
}

// The colours of the first groups, more than a site has by default, can be told
// apart with each kind of colour vision; digits tell the rest.
func TestGroupsCanBeToldApart(t *testing.T) {
	const least = 15 // CIE76; about 2 can just be seen side by side
	for i, scheme := range colours(t) {
		for kind, m := range sight {
			var seen [3][3]float64
			for g := range seen {
				c := scheme[fmt.Sprintf("g%d", g)]
				var s [3]float64
				for k := range 3 {
					s[k] = min(1, max(0, m[k][0]*c[0]+m[k][1]*c[1]+m[k][2]*c[2]))
				}
				seen[g] = lab(s)
			}
			for a := range seen {
				for b := range a {
					d := math.Hypot(math.Hypot(seen[a][0]-seen[b][0], seen[a][1]-seen[b][1]), seen[a][2]-seen[b][2])
					if d < least {
						t.Errorf("%s, %s: groups %d and %d are %.1f apart", []string{"light", "dark"}[i], kind, b, a, d)
					}
				}
			}
		}
	}
}
