// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// ErrUnset is what a parser answers to a word that Slurm writes in place of a
// value, such as Partition_Limit for a time limit or Unknown for a start time.
// It is an answer, not a fault.
var ErrUnset = errors.New("not set")

// ParseError names the part of a string that could not be read, so that an odd
// string can be counted and shown while the rest of the answer is used.
type ParseError struct {
	Kind  string // what was being read: "gres", "tres", "host list", ...
	Token string // the part that was rejected, as it stood
	Msg   string // what is wrong with it
}

func (e *ParseError) Error() string {
	return fmt.Sprintf("%s %q: %s", e.Kind, e.Token, e.Msg)
}

// maxExpand bounds how many items a range may stand for. Larger clusters than
// this do not run Slurm; a longer list is a slip of the pen.
const maxExpand = 100_000

// splitOutside splits s at each separator that stands outside the given pair
// of brackets. A bracket that is never closed swallows the rest of the string.
func splitOutside(s string, sep func(byte) bool, open, shut byte) []string {
	var out []string
	depth, from := 0, 0
	for i := range len(s) {
		switch c := s[i]; {
		case c == open:
			depth++
		case c == shut && depth > 0:
			depth--
		case depth == 0 && sep(c):
			out = append(out, s[from:i])
			from = i + 1
		}
	}
	return append(out, s[from:])
}

func isComma(c byte) bool { return c == ',' }

// isDigits reports whether s is one or more ASCII digits. strconv alone would
// let signs and underscores pass.
func isDigits(s string) bool {
	if s == "" {
		return false
	}
	for i := range len(s) {
		if s[i] < '0' || s[i] > '9' {
			return false
		}
	}
	return true
}

// parseDigits reads a plain decimal number of at most 18 digits.
func parseDigits(s string) (int64, bool) {
	if !isDigits(s) || len(s) > 18 {
		return 0, false
	}
	n, err := strconv.ParseInt(s, 10, 64)
	return n, err == nil
}

// unitShift gives the power of two that each of Slurm's suffixes stands for.
var unitShift = map[byte]uint{'K': 10, 'M': 20, 'G': 30, 'T': 40, 'P': 50, 'E': 60}

// parseScaled reads a number that may carry a fraction and one of Slurm's
// binary suffixes (1.50T), and multiplies it out. A number without a suffix is
// multiplied by bare.
func parseScaled(s string, bare int64) (int64, bool) {
	unit := bare
	if s != "" {
		if shift, ok := unitShift[s[len(s)-1]&^0x20]; ok {
			unit, s = 1<<shift, s[:len(s)-1]
		}
	}
	whole, frac, dotted := strings.Cut(s, ".")
	n, ok := parseDigits(whole)
	if !ok || n > math.MaxInt64/unit {
		return 0, false
	}
	n *= unit
	if !dotted {
		return n, true
	}
	if !isDigits(frac) {
		return 0, false
	}
	f, err := strconv.ParseFloat("0."+frac, 64)
	part := int64(math.Round(f * float64(unit)))
	if err != nil || part > math.MaxInt64-n {
		return 0, false
	}
	return n + part, true
}

// parseIndexes reads a list of small numbers and ranges: "0-1,3". "N/A" and
// the empty string are the empty list, which is not nil.
func parseIndexes(s string) ([]int, bool) {
	out := []int{}
	if s == "" || s == "N/A" {
		return out, true
	}
	for part := range strings.SplitSeq(s, ",") {
		low, high, ranged := strings.Cut(part, "-")
		a, ok := parseDigits(low)
		b, ok2 := a, true
		if ranged {
			b, ok2 = parseDigits(high)
		}
		if !ok || !ok2 || b < a || b-a >= maxExpand || len(out)+int(b-a) >= maxExpand {
			return nil, false
		}
		for ; a <= b; a++ {
			out = append(out, int(a))
		}
	}
	return out, true
}

// addCounts adds two counts that are not negative and stops at the largest
// number there is.
func addCounts(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}
