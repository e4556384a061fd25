// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
)

// spread is what several trained models came to.
type spread struct{ median, least, most float64 }

func (s spread) String() string {
	return fmt.Sprintf("%10s %10s .. %-10s", figureText(s.median), figureText(s.least), figureText(s.most))
}

func orderOver(models []*orderPolicy, of func(*orderPolicy) float64) spread {
	var v []float64
	for _, m := range models {
		v = append(v, of(m))
	}
	return spreadOf(v)
}

func spreadOf(v []float64) spread {
	v = slices.Sorted(slices.Values(v))
	return spread{v[len(v)/2], v[0], v[len(v)-1]}
}

// lessThan prints the bar of a figure that must stay below another.
func lessThan(out io.Writer, name string, value, target float64) {
	fmt.Fprintf(out, "bar: %s value=%s target=%s %s\n", name, figureText(value), figureText(target), verdict(value < target))
}

func figureText(v float64) string {
	if v < 1000 {
		return fmt.Sprintf("%.2f", v)
	}
	return fmt.Sprintf("%.0f", v)
}
