// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"fmt"
	"html"
	"math"
	"os"
	"strings"
)

// colours are told apart by most eyes, also in grey (Okabe and Ito); dashes
// tell the rest apart.
var colours = []string{"#000000", "#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}

const svgWidth, svgHeight, svgLeft, svgTop, svgRight = 560, 320, 60, 30, 180

// writeSVG draws for each load the part of the jobs that are done by a time
// after their submission, a line for each policy.
func writeSVG(path string, p *plan, rows []row) error {
	var b bytes.Buffer
	each := svgHeight + svgTop + 50
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" font-family="sans-serif" font-size="12">`+"\n",
		svgLeft+svgWidth+svgRight, each*len(p.Loads))
	fmt.Fprintln(&b, `<rect width="100%" height="100%" fill="white"/>`)
	for l := range p.Loads {
		drawPanel(&b, p, rows[l*len(p.Policies):(l+1)*len(p.Policies)], p.Loads[l], each*l+svgTop)
	}
	fmt.Fprintln(&b, "</svg>")
	if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
		return fmt.Errorf("--svg: %w", err)
	}
	return nil
}

func drawPanel(b *bytes.Buffer, p *plan, rows []row, load float64, top int) {
	low, high := math.Inf(1), 1.0
	for i := range rows {
		if q := rows[i].Quantiles; len(q) == 101 {
			low, high = min(low, max(1, q[1])), max(high, q[100])
		}
	}
	if !(high > low) {
		return
	}
	x := func(s float64) float64 {
		return svgLeft + svgWidth*math.Log(min(max(s, low), high)/low)/math.Log(high/low)
	}
	y := func(part float64) float64 { return float64(top) + svgHeight*(1-part) }
	title := "completion times"
	if load > 0 {
		title += fmt.Sprintf(", load %.2f", load)
	}
	fmt.Fprintf(b, `<text x="%d" y="%d" font-size="14">%s</text>`+"\n", svgLeft, top-10, html.EscapeString(title+", "+p.Cluster))
	for part := 0.0; part <= 1.001; part += 0.25 {
		fmt.Fprintf(b, `<path d="M%d %.1fh%d" stroke="#ddd"/><text x="%d" y="%.1f" text-anchor="end">%.0f %%</text>`+"\n",
			svgLeft, y(part), svgWidth, svgLeft-6, y(part)+4, 100*part)
	}
	for _, m := range []struct {
		s    float64
		name string
	}{{10, "10 s"}, {60, "1 min"}, {600, "10 min"}, {3600, "1 h"}, {6 * 3600, "6 h"}, {86400, "1 d"}, {7 * 86400, "7 d"}, {30 * 86400, "30 d"}} {
		if m.s >= low && m.s <= high {
			fmt.Fprintf(b, `<path d="M%.1f %dv%d" stroke="#ddd"/><text x="%.1f" y="%d" text-anchor="middle">%s</text>`+"\n",
				x(m.s), top, svgHeight, x(m.s), top+svgHeight+16, m.name)
		}
	}
	for i := range rows {
		r := &rows[i]
		if len(r.Quantiles) != 101 {
			continue
		}
		var d strings.Builder
		for k, s := range r.Quantiles {
			fmt.Fprintf(&d, "%s%.1f %.1f", map[bool]string{true: "M", false: "L"}[k == 0], x(s), y(float64(k)/100))
		}
		colour, dash := colours[i%len(colours)], []string{"", "6 3", "2 3"}[i/len(colours)%3]
		fmt.Fprintf(b, `<path d="%s" fill="none" stroke="%s" stroke-width="1.6" stroke-dasharray="%s"/>`+"\n", d.String(), colour, dash)
		fmt.Fprintf(b, `<path d="M%d %dh24" stroke="%s" stroke-width="2" stroke-dasharray="%s"/><text x="%d" y="%d">%s</text>`+"\n",
			svgLeft+svgWidth+12, top+14+18*i, colour, dash, svgLeft+svgWidth+42, top+18+18*i, html.EscapeString(r.Policy+r.mark))
	}
}
