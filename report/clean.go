// SPDX-License-Identifier: Apache-2.0

package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Clean makes text of users (job names, comments) harmless to show: control
// characters, escape sequences, bytes that are no UTF-8, and marks that are
// invisible or change the direction of writing become visible escapes such as
// \x1b or \u202e. All else stays as it is.
func Clean(s string) string {
	if !strings.ContainsFunc(s, needsEscape) {
		return s
	}
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == utf8.RuneError && size <= 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case !needsEscape(r):
			b.WriteRune(r)
		case r < 0x100:
			fmt.Fprintf(&b, `\x%02x`, r)
		case r < 0x10000:
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			fmt.Fprintf(&b, `\U%08x`, r)
		}
		i += size
	}
	return b.String()
}

// needsEscape holds for what is no printable character; a wrong byte decodes
// to RuneError.
func needsEscape(r rune) bool {
	return r == utf8.RuneError || !unicode.IsPrint(r)
}

// width returns the columns that text takes, wide East Asian characters as two
// and combining marks as none.
func width(s string) int {
	n := 0
	for _, r := range s {
		n += runeWidth(r)
	}
	return n
}

func runeWidth(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana),
		0xff01 <= r && r <= 0xff60, 0x1f300 <= r && r <= 0x1faff:
		return 2
	}
	return 1
}

// cut shortens text to the given columns and marks that with "+", as sacct does.
func cut(s string, columns int) string {
	if width(s) <= columns {
		return s
	}
	n := 0
	for i, r := range s {
		if n+runeWidth(r) > columns-1 {
			return s[:i] + "+" + strings.Repeat(" ", columns-1-n)
		}
		n += runeWidth(r)
	}
	return s
}
