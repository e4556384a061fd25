// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"sync"
	"time"

	"rifling/slurm"
)

// Options says how to reach slurmrestd. Only URL is needed.
type Options struct {
	// URL is http://host:port, https://host:port or unix:///path/to/socket.
	URL string
	// User is sent as X-SLURM-USER-NAME. Empty: the user that the token names.
	User string
	// TokenFile holds a JWT. It is read again when it changes and shortly
	// before the token's exp. Empty for rest_auth/local on a unix socket.
	TokenFile string
	// CAFile holds the PEM certificates that an https server is checked
	// against. Empty: the system's.
	CAFile string
	// Version is NN of v0.0.NN; 0 lets Connect find the best.
	Version int
	// Timeout bounds one request, body included. 0 means 30 s.
	Timeout time.Duration
	// Topology names each node's leaf switch. The zero value leaves
	// slurm.Node.Leaf empty.
	Topology slurm.Topology
	// Now is the host's clock, used for tokens, latency and back-off only. Nil
	// means time.Now.
	Now func() time.Time
	// MaxRetries bounds the tries after the first; 0 means 3, negative none.
	MaxRetries int
	// UserAgent names the program to the server's log; empty means "rifling".
	UserAgent string
}

// Client talks to one slurmrestd. Its methods may be called by several
// goroutines; Snapshots wait for one another.
type Client struct {
	opt   Options
	base  string
	http  *http.Client
	token *token
	now   func() time.Time
	// sleep waits out a back-off; tests replace it.
	sleep func(context.Context, time.Duration) error
	// jitter returns a random part of its argument; tests replace it.
	jitter func(time.Duration) time.Duration

	mu       sync.Mutex // guards the four below
	release  slurm.Release
	jobsREST int // the version that jobs are read in
	stats    Stats
	usage    *bool // whether accounting records the use of GPUs; nil: not asked yet

	poll  sync.Mutex // guards cache
	cache cache
}

// New returns a client; it sends nothing yet. It fails on options that cannot
// work, such as an unknown scheme, a CA file that cannot be read or v0.0.39.
func New(o Options) (*Client, error) {
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	if o.MaxRetries == 0 {
		o.MaxRetries = 3
	}
	if o.UserAgent == "" {
		o.UserAgent = "rifling"
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if err := checkVersion(o.Version); err != nil {
		return nil, err
	}
	base, transport, err := dialer(o)
	if err != nil {
		return nil, err
	}
	return &Client{
		opt:    o,
		base:   base,
		http:   &http.Client{Transport: transport, Timeout: o.Timeout, CheckRedirect: noRedirect},
		token:  newToken(o.TokenFile, o.Now),
		now:    o.Now,
		sleep:  sleep,
		jitter: func(d time.Duration) time.Duration { return rand.N(d + 1) },
		stats:  Stats{Errors: map[string]int{}},
	}, nil
}

// Release returns what Connect found; the zero value before that.
func (c *Client) Release() slurm.Release {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// connected returns the release and the version to read jobs in, finding them
// first where that was not done yet.
func (c *Client) connected(ctx context.Context) (slurm.Release, int, error) {
	if c.Release().REST == 0 {
		if _, err := c.Connect(ctx); err != nil {
			return slurm.Release{}, 0, err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.release, c.jobsREST, nil
}

// path joins /slurm (or /slurmdb), the version and the segments.
func path(api string, version int, segments ...string) string {
	p := fmt.Sprintf("/%s/v0.0.%d", api, version)
	for _, s := range segments {
		p += "/" + url.PathEscape(s)
	}
	return p
}

func noRedirect(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }

func sleep(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}
