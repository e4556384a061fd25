// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"time"

	"rifling/slurm"
)

// answer is a decoded success. Lists stay raw until a record is read.
type answer struct {
	fields   map[string]json.RawMessage
	warnings []string
	release  slurm.Release // zero when the answer did not tell
	cluster  string
}

// list returns the elements under key; ok is false when the key holds no list.
func (a *answer) list(key string) (items []json.RawMessage, ok bool) {
	return elements(a.fields[key])
}

// object returns the object under key.
func (a *answer) object(key string) *record {
	return newRecord(a.fields[key])
}

// complaint is one entry of errors[] or warnings[].
type complaint struct {
	number      int
	description string
	err         string
}

func (c complaint) text() string {
	switch {
	case c.description == "":
		return c.err
	case c.err == "" || c.err == c.description || strings.Contains(c.description, c.err):
		return c.description
	}
	return c.description + ": " + c.err
}

// quick is how fast slurmrestd passes on a refused token. slurmctld being away
// shows itself in the same words on 22.05, but only after the library has given
// up trying to connect (9 s on a lab).
const quick = 2 * time.Second

// interpret reads the body of an answer that came after took.
func (c *Client) interpret(r request, status int, contentType string, body []byte, took time.Duration) (*answer, error) {
	if status == http.StatusNotModified {
		return nil, c.classify(r, status, noChange, "")
	}
	a := &answer{}
	var ok bool
	if a.fields, ok = members(body); !ok || !json.Valid(body) {
		return nil, c.notJSON(r, status, contentType, body)
	}
	a.readMeta()
	if errs := complaints(a.fields["errors"]); len(errs) > 0 && !arrayDone(r, status, errs) {
		return nil, c.complain(r, status, sum(errs), a.release, took)
	}
	if err := c.classify(r, status, 0, ""); err != nil {
		return nil, err
	}
	for _, w := range complaints(a.fields["warnings"]) {
		a.warnings = append(a.warnings, w.text())
	}
	return a, nil
}

// notJSON says what it means that an answer cannot be decoded.
func (c *Client) notJSON(r request, status int, contentType string, body []byte) error {
	text := strings.TrimSpace(string(body[:min(len(body), 4*maxText)]))
	mediaType, _, _ := strings.Cut(contentType, ";")
	switch {
	case status == http.StatusNotFound:
		// text/plain "Unable to find requested URL": the version is not loaded.
		e := &Error{Op: r.op, Status: status, Kind: slurm.ErrUnknownVersion, Text: c.clean(text)}
		return slurm.WithHint(e, "is %s the address of slurmrestd, and are its openapi plugins loaded (slurmrestd -s list)?", c.opt.URL)
	case status >= 300:
		return c.classify(r, status, 0, text)
	case mediaType == "application/json":
		return &Error{Op: r.op, Status: status, Kind: slurm.ErrUnreachable, Text: fmt.Sprintf("the answer is cut short or no JSON (%d bytes)", len(body))}
	}
	e := &Error{Op: r.op, Status: status, Kind: slurm.ErrUnreachable, Text: fmt.Sprintf("the answer is %q, not JSON", mediaType)}
	return slurm.WithHint(e, "is %s the address of slurmrestd, with no other service before it?", c.opt.URL)
}

// complain makes an error from errors[]. Up to 24.05 a refused token and an
// absent slurmctld are the same 500 with number -1; only time tells them apart.
func (c *Client) complain(r request, status int, e complaint, from slurm.Release, took time.Duration) error {
	text := e.text()
	if e.number == -1 && status >= 500 {
		kind := slurm.ErrBusy
		if from.Before(24, 11) && c.opt.TokenFile != "" && (took < quick || !c.token.expired().IsZero()) {
			kind = slurm.ErrAuth
		}
		return c.hinted(&Error{Op: r.op, Status: status, Kind: kind, Text: c.clean(text)})
	}
	if err := c.classify(r, status, e.number, text); err != nil {
		return err
	}
	// errors[] on 200 without a number that says anything.
	return c.hinted(&Error{Op: r.op, Status: status, Number: e.number, Kind: slurm.ErrRejected, Text: c.clean(text)})
}

// arrayDone reports whether errors[] holds nothing but v0.0.38's way of saying
// that an array was updated: an entry "job array update from ... failed"
// without an error number. A real failure has one.
func arrayDone(r request, status int, errs []complaint) bool {
	if r.method != http.MethodPost || status != http.StatusOK {
		return false
	}
	for _, e := range errs {
		if e.number != 0 || e.err != "" || !strings.HasPrefix(e.description, "job array update ") {
			return false
		}
	}
	return true
}

// sum makes one complaint of several: the first number that is Slurm's (0, -1
// and errno 1 say nothing), and all the words.
func sum(errs []complaint) complaint {
	out := complaint{number: errs[0].number}
	var words []string
	for _, e := range errs {
		if out.number <= 1 && e.number > 1 {
			out.number = e.number
		}
		if t := e.text(); t != "" {
			words = append(words, t)
		}
	}
	out.description = strings.Join(words, "; ")
	return out
}

// complaints reads errors[] or warnings[]: objects, or plain strings.
func complaints(raw json.RawMessage) []complaint {
	list, _ := elements(raw)
	var out []complaint
	for _, item := range list {
		if bytes.HasPrefix(bytes.TrimSpace(item), []byte(`"`)) {
			out = append(out, complaint{description: strings.Trim(string(item), `"`)})
			continue
		}
		rec := newRecord(item)
		e := complaint{description: rec.text("description"), err: rec.text("error")}
		for _, key := range []string{"error_number", "error_code", "errno"} {
			if n := rec.num(key); n.set && e.number == 0 {
				e.number = int(n.n)
			}
		}
		out = append(out, e)
	}
	return out
}

// readMeta reads the release: integer parts under meta.Slurm on v0.0.38,
// string parts under meta.slurm since.
func (a *answer) readMeta() {
	meta := newRecord(a.fields["meta"])
	for _, key := range []string{"slurm", "Slurm"} {
		if !meta.has(key) {
			continue
		}
		s := meta.sub(key)
		v := s.sub("version")
		a.release = slurm.Release{Major: v.count("major"), Minor: v.count("minor"), Micro: v.count("micro")}
		a.cluster = s.text("cluster")
		if v.odd != "" {
			a.release = slurm.Release{}
		}
	}
}

// returnCode is how slurmrestd reports a task that an array update could not
// change (23.11 and later): a warning beside HTTP 200.
var returnCode = regexp.MustCompile(`return-code\[(-?\d+)\]`)

// taskFailure returns what an accepted update says about tasks that it did not
// change: the error number, or 0.
func (a *answer) taskFailure() (number int, text string) {
	for _, w := range a.warnings {
		if m := returnCode.FindStringSubmatch(w); m != nil {
			if n, err := strconv.Atoi(m[1]); err == nil && n != 0 {
				return n, w
			}
		}
	}
	results, _ := a.list("results")
	for _, raw := range results {
		rec := newRecord(raw)
		if n := rec.num("error_code"); n.set && n.n != 0 {
			return int(n.n), rec.text("error")
		}
	}
	return 0, ""
}
