// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// maxHostName is the longest host name that is accepted, that of DNS.
const maxHostName = 255

// ExpandHosts reads a host list such as "gpu[01-03,7],cpu5" or
// "rack[0-1]_blade[0-1]" and returns the names in Slurm's order, each once.
// Several brackets in a name are a product, the last one running fastest. Words
// for nothing ("", "(null)", "None assigned", "N/A") give no names. A list of
// more than 100,000 hosts is refused, and on any error there are no names: half
// a host list would be a wrong one.
func ExpandHosts(s string) ([]string, error) {
	s = strings.TrimSpace(s)
	if isNothing(s) || strings.EqualFold(s, "None assigned") {
		return nil, nil
	}
	var out []string
	seen := map[string]bool{}
	left := maxExpand
	for _, tok := range splitOutside(s, isHostSeparator, '[', ']') {
		if tok == "" {
			continue
		}
		hosts, err := expandHostToken(tok, left)
		if err != nil {
			return nil, err
		}
		left -= len(hosts)
		for _, h := range hosts {
			if !seen[h] {
				seen[h] = true
				out = append(out, h)
			}
		}
	}
	return out, nil
}

// isHostText reports whether s may stand in a host name outside brackets.
func isHostText(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case c == '.', c == '-', c == '_':
		default:
			return false
		}
	}
	return true
}

func isHostSeparator(c byte) bool {
	return c == ',' || c == ' ' || c == '\t' || c == '\n' || c == '\r'
}

// expandHostToken expands one name with any number of brackets to at most
// limit names.
func expandHostToken(tok string, limit int) ([]string, error) {
	fail := func(format string, args ...any) ([]string, error) {
		return nil, &ParseError{Kind: "host list", Token: tok, Msg: fmt.Sprintf(format, args...)}
	}
	out := []string{""}
	for rest := tok; rest != ""; {
		plain, tail, bracket := strings.Cut(rest, "[")
		if !isHostText(plain) {
			return fail("odd character, or brackets do not match")
		}
		if len(out[0])+len(plain) > maxHostName {
			return fail("name longer than %d", maxHostName)
		}
		for i := range out {
			out[i] += plain
		}
		if !bracket {
			break
		}
		list, after, closed := strings.Cut(tail, "]")
		if !closed {
			return fail("brackets do not match")
		}
		numbers, msg := expandNumbers(list, limit/len(out))
		if msg != "" {
			return fail("%s", msg)
		}
		out, rest = product(out, numbers), after
	}
	if len(out) > limit {
		return fail("more than %d hosts", maxExpand)
	}
	return out, nil
}

// product appends each of the tails to each of the heads.
func product(heads, tails []string) []string {
	out := make([]string, 0, len(heads)*len(tails))
	for _, h := range heads {
		for _, t := range tails {
			out = append(out, h+t)
		}
	}
	return out
}

// expandNumbers expands what stands in brackets, "01-03,7", to at most limit
// numbers, each padded with zeros to the width of its own range's low bound. It
// says what is wrong, or "".
func expandNumbers(list string, limit int) (out []string, msg string) {
	for part := range strings.SplitSeq(list, ",") {
		part = strings.TrimSpace(part)
		low, high, ranged := strings.Cut(part, "-")
		if !ranged {
			high = low
		}
		a, ok := parseDigits(low)
		b, ok2 := parseDigits(high)
		switch {
		case !ok || !ok2:
			return nil, fmt.Sprintf("%q is no number or range", part)
		case b < a:
			return nil, fmt.Sprintf("range %q runs backwards", part)
		case b-a >= int64(limit-len(out)):
			return nil, fmt.Sprintf("more than %d hosts", maxExpand)
		}
		for ; a <= b; a++ {
			out = append(out, pad(a, len(low)))
		}
	}
	return out, ""
}

// pad writes n with leading zeros up to the given width.
func pad(n int64, width int) string {
	s := strconv.FormatInt(n, 10)
	if len(s) >= width {
		return s
	}
	return strings.Repeat("0", width-len(s)) + s
}

// numbered is a host name split at its trailing digits.
type numbered struct {
	prefix string
	digits string // empty when the name has no number that ranges could hold
	n      int64
}

// splitNumber splits a host name at its trailing digits.
func splitNumber(host string) numbered {
	i := len(host)
	for i > 0 && '0' <= host[i-1] && host[i-1] <= '9' {
		i--
	}
	n, ok := parseDigits(host[i:])
	if !ok {
		return numbered{prefix: host}
	}
	return numbered{host[:i], host[i:], n}
}

// CompressHosts writes host names as a host list with one bracket for each
// prefix, "gpu[01-03,07]", sorted by prefix and number. The result depends only
// on the set of names, and ExpandHosts gives that set back. Empty names are
// passed over.
func CompressHosts(hosts []string) string {
	split := make([]numbered, 0, len(hosts))
	for _, h := range hosts {
		if h != "" {
			split = append(split, splitNumber(h))
		}
	}
	slices.SortFunc(split, func(a, b numbered) int {
		return cmp.Or(
			strings.Compare(a.prefix, b.prefix),
			cmp.Compare(min(1, len(a.digits)), min(1, len(b.digits))),
			cmp.Compare(a.n, b.n),
			cmp.Compare(len(a.digits), len(b.digits)))
	})
	split = slices.Compact(split)
	var out []string
	for len(split) > 0 {
		end := 1
		for end < len(split) && split[end].prefix == split[0].prefix && split[0].digits != "" {
			end++
		}
		out = append(out, compressGroup(split[:end]))
		split = split[end:]
	}
	return strings.Join(out, ",")
}

// compressGroup writes the hosts of one prefix.
func compressGroup(group []numbered) string {
	if len(group) == 1 {
		return group[0].prefix + group[0].digits
	}
	var parts []string
	for i := 0; i < len(group); {
		j := i + 1
		for j < len(group) && group[j].digits == pad(group[j-1].n+1, len(group[i].digits)) {
			j++
		}
		part := group[i].digits
		if j-i > 1 {
			part += "-" + group[j-1].digits
		}
		parts = append(parts, part)
		i = j
	}
	return group[0].prefix + "[" + strings.Join(parts, ",") + "]"
}
