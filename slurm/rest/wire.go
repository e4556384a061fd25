// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/slurm"
)

// record is one object of an answer. Its getters take whatever shape a release
// gives a value in, and remember the first value that they cannot read. A key
// that is missing or null is unset, never odd.
type record struct {
	fields map[string]json.RawMessage
	odd    string // why the record cannot be used; "" when it can
	notes  []string
}

func newRecord(raw json.RawMessage) *record {
	r := &record{}
	var ok bool
	if r.fields, ok = members(raw); !ok {
		r.odd = "not an object"
	}
	return r
}

// fail marks the record as unusable; the first reason stands.
func (r *record) fail(key, format string, args ...any) {
	if r.odd == "" {
		r.odd = key + ": " + fmt.Sprintf(format, args...)
	}
}

// note counts something odd that costs only one field.
func (r *record) note(key, format string, args ...any) {
	r.notes = append(r.notes, key+": "+fmt.Sprintf(format, args...))
}

// has reports whether the key is there with any value but null.
func (r *record) has(key string) bool {
	raw := bytes.TrimSpace(r.fields[key])
	return len(raw) > 0 && !bytes.Equal(raw, []byte("null"))
}

// sub returns the object under key; an empty one when there is none.
func (r *record) sub(key string) *record {
	if !r.has(key) {
		return &record{}
	}
	s := newRecord(r.fields[key])
	if s.odd != "" {
		r.fail(key, "%s", s.odd)
	}
	return s
}

// inherit takes over what was odd in parts of the record.
func (r *record) inherit(parts ...*record) {
	for _, p := range parts {
		if r.odd == "" {
			r.odd = p.odd
		}
	}
}

// number is a count as Slurm's REST versions write it.
type number struct {
	n        int64
	set      bool
	infinite bool
}

// The values that stand for "no value" and "infinite" where a release prints
// the C number itself (NO_VAL, INFINITE and their 64-bit forms).
const (
	noVal      = 1<<32 - 2
	infinite   = 1<<32 - 1
	noVal64    = math.MaxUint64 - 1
	infinite64 = math.MaxUint64
)

// num reads a count: 7, 7.0, "7", null, "Infinity", or
// {"set":true,"infinite":false,"number":7}. -2 is NO_VAL64 as a signed number.
func (r *record) num(key string) number {
	v, err := readNumber(r.fields[key])
	if err != nil {
		r.fail(key, "%v", err)
	}
	return v
}

// count is num for what must not be negative; 0 when unset or infinite.
func (r *record) count(key string) int {
	v := r.num(key)
	switch {
	case !v.set || v.infinite:
		return 0
	case v.n < 0 || v.n > math.MaxInt32:
		r.fail(key, "out of range")
		return 0
	}
	return int(v.n)
}

// id reads a job or user id; 0 when unset.
func (r *record) id(key string) uint32 {
	v := r.num(key)
	if v.n < 0 || v.n > math.MaxUint32 {
		r.fail(key, "out of range")
		return 0
	}
	return uint32(v.n)
}

// signed reads a number around 0 in which no value is special: v0.0.38 prints
// the negative ones as 32 bits without a sign.
func (r *record) signed(key string) int64 {
	raw := bytes.TrimSpace(r.fields[key])
	n, err := strconv.ParseInt(string(raw), 10, 64)
	if err != nil {
		return r.num(key).n
	}
	if n > math.MaxInt32 && n <= math.MaxUint32 {
		n -= 1 << 32
	}
	return n
}

// instant reads seconds since the epoch; zero when unset.
func (r *record) instant(key string) time.Time {
	v := r.num(key)
	if !v.set || v.infinite || v.n <= 0 {
		return time.Time{}
	}
	if v.n > 1<<40 {
		r.fail(key, "out of range")
		return time.Time{}
	}
	return time.Unix(v.n, 0)
}

// text reads a string; a list of strings is joined with commas, and "(null)"
// is unset.
func (r *record) text(key string) string { return strings.Join(r.words(key), ",") }

// words reads a list of strings, or a string as a list of one.
func (r *record) words(key string) []string {
	list, err := readWords(r.fields[key])
	if err != nil {
		r.fail(key, "%v", err)
	}
	return list
}

// hosts reads a host list, given as one string or as a list of them.
func (r *record) hosts(key string) []string {
	hosts, err := slurm.ExpandHosts(r.text(key))
	if err != nil {
		r.fail(key, "%v", err)
	}
	return hosts
}

func readNumber(raw json.RawMessage) (number, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return number{}, nil
	}
	switch raw[0] {
	case 'n':
		return number{}, nil
	case '"':
		s, ok := text(raw)
		if !ok {
			return number{}, fmt.Errorf("not a number")
		}
		return numberWord(s)
	case '{':
		return numberObject(raw)
	}
	return numberDigits(string(raw))
}

func numberWord(s string) (number, error) {
	switch strings.ToUpper(strings.TrimSpace(s)) {
	case "", "NULL", "(NULL)", "NAN", "N/A", "NONE", "NOT_SET":
		return number{}, nil
	case "INFINITY", "INFINITE", "UNLIMITED", "INF":
		return number{infinite: true}, nil
	}
	return numberDigits(s)
}

// numberObject tests infinite first: its set may be false.
func numberObject(raw []byte) (number, error) {
	o, ok := members(raw)
	set, told := o["set"]
	n := o["number"]
	switch {
	case !ok || !told && n == nil:
		return number{}, fmt.Errorf("not a number object")
	case string(o["infinite"]) == "true":
		return number{infinite: true}, nil
	case string(set) == "false":
		return number{}, nil
	case len(n) > 0 && n[0] == '{':
		return number{}, fmt.Errorf("not a number object")
	}
	return readNumber(n)
}

func numberDigits(s string) (number, error) {
	if u, err := strconv.ParseUint(s, 10, 64); err == nil {
		switch {
		case u == noVal, u == noVal64:
			return number{}, nil
		case u == infinite, u == infinite64:
			return number{infinite: true}, nil
		case u <= math.MaxInt64:
			return number{n: int64(u), set: true}, nil
		}
		return number{}, fmt.Errorf("out of range")
	}
	if n, err := strconv.ParseInt(s, 10, 64); err == nil {
		return number{n: n, set: n != -2}, nil
	}
	f, err := strconv.ParseFloat(s, 64)
	switch {
	case err != nil || math.IsNaN(f):
		return number{}, fmt.Errorf("not a number")
	case math.IsInf(f, 0):
		return number{infinite: true}, nil
	case math.Abs(f) >= 1<<62:
		// As NO_VAL64 and INFINITE64 come out of a float.
		return number{}, nil
	case f == noVal:
		return number{}, nil
	case f == infinite:
		return number{infinite: true}, nil
	}
	return number{n: int64(math.Round(f)), set: true}, nil
}

func readWords(raw json.RawMessage) ([]string, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || raw[0] == 'n' {
		return nil, nil
	}
	switch raw[0] {
	case '[':
		list, ok := elements(raw)
		if !ok {
			return nil, fmt.Errorf("not a list")
		}
		var out []string
		for _, item := range list {
			words, err := readWords(item)
			if err != nil || len(item) > 0 && item[0] == '[' {
				return nil, fmt.Errorf("not a list of strings")
			}
			out = append(out, words...)
		}
		return out, nil
	case '"':
		s, ok := text(raw)
		if !ok {
			return nil, fmt.Errorf("not a string")
		}
		if s == "" || s == "(null)" {
			return nil, nil
		}
		return []string{s}, nil
	case '{', 't', 'f':
		return nil, fmt.Errorf("neither a string nor a list")
	}
	return []string{string(raw)}, nil
}

// strings returns the elements of a list, the empty ones too: their place
// means something.
func (r *record) strings(key string) []string {
	var list []*string
	if !r.has(key) {
		return nil
	}
	if err := json.Unmarshal(r.fields[key], &list); err != nil {
		r.note(key, "not a list of strings")
		return nil
	}
	out := make([]string, len(list))
	for i, s := range list {
		if s != nil {
			out[i] = *s
		}
	}
	return out
}

// hasWord reports whether the list under key holds the word, in any case.
func (r *record) hasWord(key, word string) bool {
	return slices.ContainsFunc(r.words(key), func(w string) bool { return strings.EqualFold(w, word) })
}
