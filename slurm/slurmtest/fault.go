// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
)

// Fault is something that goes wrong with matching requests. The first fault
// in the list that matches strikes; with none of Status, Body, Half and Drop it
// only delays.
type Fault struct {
	Method string // "" matches all
	Path   string // a part of the path and query; "" matches all
	Times  int    // how often; 0 means once, negative for ever

	Delay       time.Duration // before anything else
	Drop        bool          // close the connection without an answer
	Half        bool          // carry the request out and break off half way through the answer
	Status      int           // answer with this status, and do not carry the request out
	Number      int           // Slurm's error number in errors[]; 0 for none
	Text        string        // the error's words
	Body        string        // the whole answer as it stands, with Status (200 by default)
	ContentType string        // of Body; "" means application/json
}

// Fail adds faults.
func (s *Server) Fail(faults ...Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, f := range faults {
		if f.Times == 0 {
			f.Times = 1
		}
		s.faults = append(s.faults, &f)
	}
}

// fault picks the fault for a request and counts it down. The caller holds the
// lock.
func (s *Server) fault(r *http.Request) *Fault {
	for i, f := range s.faults {
		if f.Method != "" && f.Method != r.Method || !strings.Contains(r.URL.RequestURI(), f.Path) {
			continue
		}
		if f.Times--; f.Times == 0 {
			s.faults = append(s.faults[:i:i], s.faults[i+1:]...)
		}
		return f
	}
	return nil
}

// strike answers in place of the server, if that is what the fault does.
func (f *Fault) strike(w http.ResponseWriter, r *http.Request) bool {
	if f.Delay > 0 {
		select {
		case <-r.Context().Done():
		case <-time.After(f.Delay):
		}
	}
	switch {
	case f.Drop:
		if conn, _, err := http.NewResponseController(w).Hijack(); err == nil {
			conn.Close()
		}
		return true
	case f.Body == "" && f.Status == 0:
		return false
	}
	contentType, body := f.ContentType, f.Body
	if contentType == "" {
		contentType = "application/json"
	}
	if body == "" {
		body = f.errors()
	}
	w.Header().Set("Content-Type", contentType)
	status := f.Status
	if status == 0 {
		status = http.StatusOK
	}
	w.WriteHeader(status)
	io.WriteString(w, body)
	return true
}

func (f *Fault) errors() string {
	e := map[string]any{"description": f.Text, "error": f.Text}
	if f.Number != 0 {
		e["error_number"] = f.Number
	}
	raw, _ := json.Marshal(map[string]any{"jobs": []any{}, "errors": []any{e}})
	return string(raw)
}

// cutShort sends half of the answer that was promised.
func (f *Fault) cutShort(w http.ResponseWriter, a reply) {
	raw, _ := json.Marshal(a.body)
	conn, buf, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer conn.Close()
	fmt.Fprintf(buf, "HTTP/1.1 %d OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n", a.status, len(raw))
	buf.Write(raw[:len(raw)/2])
	buf.Flush()
}
