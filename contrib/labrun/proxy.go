// SPDX-License-Identifier: Apache-2.0

package labrun

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strings"
	"sync"
	"time"
)

// Call is one kind of request to slurmrestd.
type Call struct {
	Method string
	Path   string
}

// Fault is what a proxy does to a request instead of, or before, passing it on.
// The zero value passes the request on untouched.
type Fault struct {
	Before func(context.Context) // runs first; the request waits for it
	Delay  time.Duration         // then it waits this long
	Drop   bool                  // then the connection is cut without an answer
	Status int                   // or this status is answered, with Body, and nothing is passed on
	Body   string
}

// Proxy stands in front of a slurmrestd, counts requests by method and path,
// and can disturb them. It is how "not one POST was sent" is known.
type Proxy struct {
	URL string // where it listens

	server *http.Server
	mu     sync.Mutex
	counts map[Call]int
	fault  func(*http.Request) Fault
}

// NewProxy starts a proxy for target: "http://HOST:PORT" or "unix:PATH".
func NewProxy(target string) (*Proxy, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if path, ok := strings.CutPrefix(target, "unix:"); ok {
		path = strings.TrimPrefix(path, "//")
		transport.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, "unix", path)
		}
		target = "http://localhost"
	}
	to, err := url.Parse(target)
	if err != nil || to.Host == "" {
		return nil, fmt.Errorf("proxy target %q is neither http://HOST:PORT nor unix:PATH", target)
	}
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &Proxy{URL: "http://" + ln.Addr().String(), counts: map[Call]int{}}
	forward := &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(to); r.Out.Host = to.Host },
		Transport: transport,
		ErrorHandler: func(w http.ResponseWriter, _ *http.Request, err error) {
			http.Error(w, "proxy: "+err.Error(), http.StatusBadGateway)
		},
	}
	p.server = &http.Server{Handler: p.handler(forward), ReadHeaderTimeout: 10 * time.Second}
	go func() {
		if err := p.server.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			panic(err) // the listener is ours alone: only a bug gets here
		}
	}()
	return p, nil
}

// handler counts first, so a request that is cut off was still sent.
func (p *Proxy) handler(forward http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		p.counts[Call{r.Method, r.URL.Path}]++
		choose := p.fault
		p.mu.Unlock()
		var f Fault
		if choose != nil {
			f = choose(r)
		}
		if f.Before != nil {
			f.Before(r.Context())
		}
		if f.Delay > 0 {
			select {
			case <-time.After(f.Delay):
			case <-r.Context().Done():
			}
		}
		switch {
		case f.Drop:
			panic(http.ErrAbortHandler)
		case f.Status != 0:
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(f.Status)
			_, _ = w.Write([]byte(f.Body)) // a client that went away is its own affair
		default:
			forward.ServeHTTP(w, r)
		}
	})
}

// Inject makes choose decide about every request from now on; nil ends it.
// It is called from many requests at once.
func (p *Proxy) Inject(choose func(*http.Request) Fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fault = choose
}

// Counts returns a copy of the counts by method and path.
func (p *Proxy) Counts() map[Call]int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.counts)
}

// Count returns how many requests of one method came through.
func (p *Proxy) Count(method string) int {
	n := 0
	for c, k := range p.Counts() {
		if c.Method == method {
			n += k
		}
	}
	return n
}

// Close stops the proxy and cuts its connections.
func (p *Proxy) Close() error { return p.server.Close() }
