// SPDX-License-Identifier: Apache-2.0

package page

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"

	"rifling/slurm"
	"rifling/store"
)

// Options are what a Server is told once.
type Options struct {
	Version  string
	BasePath string        // under which a proxy shows the page: "/rifling"; empty for none
	Loopback bool          // answer this machine only
	Interval time.Duration // between two cycles
	Depth    int           // of the queue that is decided on
	Policy   string
	Started  time.Time
	History  *store.Store // for reading
	Now      func() time.Time
	Zone     *time.Location // of the instants that are shown
	Log      *slog.Logger
}

// Server answers with the newest View. Its methods may be called by several
// goroutines.
type Server struct {
	o       Options
	current atomic.Pointer[View]
	trouble atomic.Pointer[Trouble]
	paused  atomic.Pointer[string]
	curves  curves
}

// Trouble is why cycles do not succeed.
type Trouble struct {
	Since      time.Time // by the host's clock
	Text, Hint string
}

// NewServer returns a server without a view: it says that it waits for one.
func NewServer(o Options) *Server {
	return &Server{o: o, curves: curves{of: map[string]*curve{}}}
}

// Publish makes v what is shown from now on.
func (s *Server) Publish(v *View) {
	s.current.Store(v)
	s.trouble.Store(nil)
}

// Fail tells that a cycle failed. What was published last is shown on.
func (s *Server) Fail(err error) {
	t := &Trouble{Since: s.o.Now(), Text: err.Error(), Hint: slurm.HintOf(err)}
	if old := s.trouble.Load(); old != nil {
		t.Since = old.Since
	}
	s.trouble.Store(t)
}

// Pause tells why riflingd keeps still; empty: it works.
func (s *Server) Pause(why string) { s.paused.Store(&why) }

// maxHistory bounds how long a page waits for the history.
const maxHistory = 10 * time.Second

// Handler serves the page, at the root and under the base path, whichever of
// them a proxy leaves.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	for _, p := range []struct {
		path string
		show func(*request) error
	}{
		{"/{$}", s.overview},
		{"/cluster", s.cluster},
		{"/nodes/{name}", s.node},
		{"/queue", s.queue},
		{"/decisions", s.decisions},
		{"/learning", s.learning},
		{"/qtable", s.qtable},
		{"/finished", s.finished},
		{"/jobs/{id}", s.job},
	} {
		mux.HandleFunc("GET "+p.path, func(w http.ResponseWriter, r *http.Request) { s.serve(w, r, p.show) })
	}
	mux.HandleFunc("GET "+stylePath, style)
	mux.HandleFunc("GET /", func(w http.ResponseWriter, r *http.Request) {
		s.serve(w, r, func(*request) error { return errNotFound })
	})
	return s.guard(mux)
}

// guard lets through what may be answered, with the headers of every answer.
func (s *Server) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; style-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cache-Control", "no-store")
		if s.o.Loopback && !fromHere(r) {
			http.Error(w, "the status page is shown to this machine only: listen.page in riflingd's configuration", http.StatusForbidden)
			return
		}
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			h.Set("Allow", "GET, HEAD")
			http.Error(w, "the status page is read-only", http.StatusMethodNotAllowed)
			return
		}
		if rest, ok := strings.CutPrefix(r.URL.Path, s.o.BasePath); ok && s.o.BasePath != "" && (rest == "" || rest[0] == '/') {
			if rest == "" {
				rest = "/"
			}
			r2 := r.Clone(r.Context())
			r2.URL.Path, r2.URL.RawPath = rest, ""
			r = r2
		}
		next.ServeHTTP(w, r)
	})
}

// fromHere reports whether a request was made on this machine, for this
// machine: a page of another site that has its name resolve to 127.0.0.1 names
// itself in Host.
func fromHere(r *http.Request) bool {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !from.Addr().Unmap().IsLoopback() {
		return false
	}
	host := r.Host
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	host = strings.Trim(host, "[]")
	if ip, err := netip.ParseAddr(host); err == nil {
		return ip.IsLoopback()
	}
	return host == "localhost"
}

// errNotFound is answered with 404.
var errNotFound = errors.New("there is nothing here")

// request is one look at the page.
type request struct {
	*http.Request
	s    *Server
	view *View // nil before the first cycle
	now  time.Time
	out  bytes.Buffer
}

// serve answers with what show writes. The page is made whole before the first
// byte is sent, so that a slow reader holds nothing but its own connection.
func (s *Server) serve(w http.ResponseWriter, r *http.Request, show func(*request) error) {
	ctx, cancel := context.WithTimeout(r.Context(), maxHistory)
	defer cancel()
	q := &request{Request: r.WithContext(ctx), s: s, view: s.current.Load(), now: s.o.Now()}
	status := http.StatusOK
	if err := show(q); err != nil {
		status = q.failed(err)
	}
	if q.live() {
		w.Header().Set("Refresh", fmt.Sprint(refreshSeconds))
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(q.out.Bytes()) // the reader may have left
}

// failed writes a page that says what went wrong and returns the status.
func (q *request) failed(err error) int {
	status, title := http.StatusInternalServerError, "This could not be read"
	switch {
	case errors.Is(err, errNotFound), errors.Is(err, store.ErrUnknownJob):
		status, title = http.StatusNotFound, "Not found"
	case errors.Is(err, context.DeadlineExceeded):
		status, title = http.StatusServiceUnavailable, "The history took too long"
	default:
		q.s.o.Log.Warn("the status page could not be made", "path", q.URL.Path, "err", err)
	}
	q.out.Reset()
	if err := q.render("error", title, errorPage{Text: err.Error(), Hint: slurm.HintOf(err)}); err != nil {
		q.s.o.Log.Error("the status page's own error could not be shown", "err", err)
	}
	return status
}

type errorPage struct{ Text, Hint string }

// refreshSeconds is how often a page that is to follow is read again. WCAG
// 2.2.1 wants it to be the reader's own choice.
const refreshSeconds = 15

func (q *request) live() bool { return q.URL.Query().Get("live") == "1" }

// slurmNow is Slurm's clock now, as far as the last snapshot tells.
func (q *request) slurmNow() time.Time {
	return q.view.Snapshot.TakenAt.Add(q.now.Sub(q.view.Published))
}
