// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"strings"
)

// GRES is one entry of a generic-resource string: "gpu:a100:4(S:0-1)".
type GRES struct {
	Name  string // "gpu", "shard", "mps"; of a per-task request also "cpu", "mem"
	Type  string // empty when untyped
	Count int64  // never negative; bytes for memory

	// Index lists the devices in use (IDX). It is nil where Slurm did not say
	// and empty where it said that there are none.
	Index []int
	// Sockets lists the sockets that the devices are bound to (S).
	Sockets []int
	// PerDevice has {used, configured} for each device that is cut in shards.
	PerDevice [][2]int
}

// ParseGRES reads every string in which Slurm writes generic resources: a
// node's gres and gres_used, a job's gres_detail and tres_per_job, _node,
// _socket and _task, as all releases since 22.05 spell them. Words for nothing
// ("", "(null)", "N/A") give no entries.
//
// A count that is left out is 1 where Slurm or a user leaves it out: in a
// request ("gres/gpu:a100"), for a name alone ("gpu") and for a string that is
// a single entry ("gpu:a100"). A typed entry without a count among others that
// have one has been cut off, and is rejected.
//
// The entries that can be read are returned even when others cannot; the error
// then joins one *ParseError for each rejected entry.
func ParseGRES(s string) ([]GRES, error) {
	s = strings.TrimSpace(s)
	if isNothing(s) {
		return nil, nil
	}
	tokens := splitOutside(s, isComma, '(', ')')
	var out []GRES
	var errs []error
	for _, tok := range tokens {
		g, msg := parseGRESToken(strings.TrimSpace(tok), len(tokens) == 1)
		if msg != "" {
			errs = append(errs, &ParseError{Kind: "gres", Token: tok, Msg: msg})
			continue
		}
		out = append(out, g)
	}
	return out, errors.Join(errs...)
}

// isNothing reports whether s is one of the words for no resources at all.
func isNothing(s string) bool {
	switch strings.ToLower(s) {
	case "", "(null)", "n/a", "none":
		return true
	}
	return false
}

// noCount marks an entry that names no count.
const noCount = -1

// parseGRESToken reads one entry, and says what is wrong with it or "". The
// count may be left out of an entry that stands alone.
func parseGRESToken(tok string, alone bool) (GRES, string) {
	rest, request := cutGRESPrefix(tok)
	// slurmctld prints the missing type of an untyped device as "(null)".
	rest = strings.ReplaceAll(rest, ":(null)", ":")
	rest, notes, ok := cutNotes(rest)
	if !ok {
		return GRES{}, "brackets do not match"
	}
	g, msg := parseGRESFields(rest)
	if msg != "" {
		return GRES{}, msg
	}
	for _, note := range notes {
		if msg := g.readNote(note); msg != "" {
			return GRES{}, msg
		}
	}
	if g.Count != noCount {
		return g, ""
	}
	switch {
	case isDigits(g.Type): // a count too long to be one
		return GRES{}, "the count is no number"
	case g.Index != nil:
		g.Count = int64(len(g.Index))
	case request || alone || g.Type == "":
		g.Count = 1
	default:
		return GRES{}, "no count"
	}
	return g, ""
}

// cutGRESPrefix removes "gres:" (up to 23.02) or "gres/" (later), which mark
// an entry of a request.
func cutGRESPrefix(tok string) (rest string, request bool) {
	for _, prefix := range []string{"gres:", "gres/"} {
		if rest, ok := strings.CutPrefix(tok, prefix); ok {
			return rest, true
		}
	}
	return tok, false
}

// cutNotes splits "gpu:4(S:0-1)(IDX:0)" into what stands before the brackets
// and what stands in each of them.
func cutNotes(s string) (rest string, notes []string, ok bool) {
	rest, tail, found := strings.Cut(s, "(")
	for found {
		var note string
		if note, tail, ok = strings.Cut(tail, ")"); !ok || strings.Contains(note, "(") {
			return "", nil, false
		}
		notes = append(notes, note)
		if tail == "" {
			break
		}
		if tail[0] != '(' {
			return "", nil, false
		}
		tail = tail[1:]
	}
	return rest, notes, !strings.Contains(rest, ")")
}

// parseGRESFields reads name, type and count: "gpu", "gpu:4", "gpu:a100:4",
// "gpu:a100=4", "gpu=4". The count is noCount when there is none.
func parseGRESFields(s string) (GRES, string) {
	g := GRES{Count: noCount}
	s, value, equals := strings.Cut(s, "=")
	fields := strings.Split(s, ":")
	g.Name, fields = fields[0], fields[1:]
	if !isGRESWord(g.Name) || isDigits(g.Name) {
		return g, "no name"
	}
	if len(fields) > 0 && !equals {
		if n, ok := parseScaled(fields[len(fields)-1], 1); ok {
			g.Count, fields = n, fields[:len(fields)-1]
		}
	}
	if equals {
		n, ok := parseScaled(value, bareUnit(g.Name))
		if !ok {
			return g, "the count is no number"
		}
		g.Count = n
	}
	if n := len(fields); n > 0 && fields[n-1] == "no_consume" {
		fields = fields[:n-1]
	}
	switch {
	case len(fields) > 1:
		return g, "too many fields, or the count is no number"
	case len(fields) == 1 && fields[0] != "" && !isGRESWord(fields[0]):
		return g, "odd characters in the type"
	case len(fields) == 1:
		g.Type = fields[0]
	}
	return g, ""
}

// isGRESWord reports whether s may be the name or the type of a resource.
func isGRESWord(s string) bool {
	for i := range len(s) {
		switch c := s[i]; {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9':
		case strings.IndexByte("._-+/", c) >= 0 && i > 0:
		default:
			return false
		}
	}
	return s != ""
}

// readNote takes in what stands in brackets behind an entry. Notes of a kind
// that rifling does not know change no count and are passed over.
func (g *GRES) readNote(note string) string {
	key, value, found := strings.Cut(note, ":")
	if !found {
		var ok bool
		if g.PerDevice, ok = parseShares(note); !ok {
			return "odd shares per device"
		}
		return ""
	}
	ok := true
	switch key {
	case "IDX":
		g.Index, ok = parseIndexes(value)
	case "S":
		g.Sockets, ok = parseIndexes(value)
	case "CNT":
		if g.Count == noCount {
			if g.Count, ok = parseDigits(value); !ok {
				g.Count = noCount
			}
		}
	}
	if !ok {
		return "odd list in (" + key + ":)"
	}
	return ""
}

// parseShares reads the shards of each device, used/configured: "0/5,5/5".
func parseShares(s string) ([][2]int, bool) {
	var out [][2]int
	for part := range strings.SplitSeq(s, ",") {
		used, all, _ := strings.Cut(part, "/")
		u, ok := parseDigits(used)
		a, ok2 := parseDigits(all)
		if !ok || !ok2 {
			return nil, false
		}
		out = append(out, [2]int{int(u), int(a)})
	}
	return out, true
}

// GPUs counts the GPUs among the entries, in all and by type. Where an untyped
// entry stands beside typed ones it is their total, as Slurm's accounting
// writes it, and is not added to them; should it be smaller than their sum, the
// sum is taken. Shards and MPS shares are parts of the same devices and are not
// counted. byType is nil when no entry has a type.
func GPUs(gs []GRES) (total int, byType map[string]int) {
	var untyped, typed int64
	for _, g := range gs {
		switch {
		case g.Name != "gpu":
		case g.Type == "":
			untyped = addCounts(untyped, g.Count)
		default:
			typed = addCounts(typed, g.Count)
			if byType == nil {
				byType = map[string]int{}
			}
			byType[g.Type] = int(addCounts(int64(byType[g.Type]), g.Count))
		}
	}
	return int(max(untyped, typed)), byType
}
