// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"strings"
	"time"

	"rifling/slurm"
)

const (
	// maxBody bounds an answer: 7.8 KB a job leaves room for 60,000 jobs.
	maxBody = 512 << 20

	backoffFirst = 250 * time.Millisecond
	backoffCap   = 10 * time.Second
)

// dialer returns the URL prefix and the transport for o.URL.
func dialer(o Options) (string, *http.Transport, error) {
	u, err := url.Parse(o.URL)
	if err != nil {
		// url.Error repeats the URL, which may hold a password.
		return "", nil, badURL("it cannot be parsed")
	}
	if u.User != nil {
		return "", nil, badURL("it must not hold a user or password")
	}
	d := &net.Dialer{Timeout: min(o.Timeout, 10*time.Second), KeepAlive: 30 * time.Second}
	t := &http.Transport{
		DialContext:           d.DialContext,
		DisableCompression:    true, // slurmrestd does not compress; a proxy that does costs more than it saves
		MaxIdleConnsPerHost:   2,
		IdleConnTimeout:       90 * time.Second,
		ResponseHeaderTimeout: o.Timeout,
	}
	switch u.Scheme {
	case "unix":
		if u.Path == "" {
			return "", nil, badURL("unix:// needs the path of a socket, as in unix:///run/rifling/slurmrestd.sock")
		}
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return d.DialContext(ctx, "unix", u.Path)
		}
		return "http://localhost", t, nil
	case "http", "https":
		if u.Host == "" {
			return "", nil, badURL("it names no host")
		}
	default:
		return "", nil, badURL("use http://host:port, https://host:port or unix:///path")
	}
	if o.CAFile != "" {
		pool, err := caPool(o.CAFile)
		if err != nil {
			return "", nil, err
		}
		t.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return u.Scheme + "://" + u.Host + strings.TrimRight(u.Path, "/"), t, nil
}

func badURL(why string) error { return fmt.Errorf("slurmrestd url: %s", why) }

func caPool(file string) (*x509.CertPool, error) {
	pem, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read CA file: %w", err)
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(pem) {
		return nil, fmt.Errorf("read CA file %s: no PEM certificate in it", file)
	}
	return pool, nil
}

// request is one call: what to send, and what it is called in an error.
type request struct {
	op     string // "read jobs", "update job 7"
	method string
	path   string
	query  url.Values
	body   []byte // JSON; nil for none
}

// call sends r and returns the decoded answer. Reads are tried again while
// slurmctld or slurmrestd is away or busy; a change is tried again only where
// it is certain that it was not carried out.
func (c *Client) call(ctx context.Context, r request) (*answer, error) {
	started, wait := c.now(), backoffFirst
	for try := 0; ; try++ {
		a, err := c.once(ctx, r)
		if err == nil {
			return a, nil
		}
		if !errors.Is(err, slurm.ErrNoChange) && !errors.Is(err, slurm.ErrUnknownVersion) { // answers both, to what was asked
			c.count(func(s *Stats) { s.Errors[Kind(err)]++ })
		}
		late := c.now().Sub(started) >= c.opt.Timeout // the library in slurmrestd has tried long enough
		if late || try >= c.opt.MaxRetries || !retriable(r.method, err) || ctx.Err() != nil {
			return nil, err
		}
		c.count(func(s *Stats) { s.Retries++ })
		// Half fixed, half random, so that several clients spread out.
		if c.sleep(ctx, wait/2+c.jitter(wait/2)) != nil {
			return nil, err
		}
		wait = min(2*wait, backoffCap)
	}
}

// once sends r one time.
func (c *Client) once(ctx context.Context, r request) (*answer, error) {
	req, err := c.build(ctx, r)
	if err != nil {
		return nil, err
	}
	started := c.now()
	resp, err := c.http.Do(req)
	c.count(func(s *Stats) {
		s.Requests++
		s.BytesOut += int64(len(r.body))
		if r.method == http.MethodPost {
			s.Posts++
		}
	})
	if err != nil {
		return nil, c.unreachable(ctx, r, err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(io.LimitReader(resp.Body, maxBody+1))
	c.count(func(s *Stats) {
		s.BytesIn += int64(len(body))
		s.Latency = c.now().Sub(started)
	})
	switch {
	case err != nil:
		return nil, c.unreachable(ctx, r, fmt.Errorf("the answer broke off after %d bytes: %w", len(body), err))
	case len(body) > maxBody:
		return nil, &Error{Op: r.op, Status: resp.StatusCode, Kind: slurm.ErrRejected, Text: fmt.Sprintf("the answer is larger than %d MiB", maxBody>>20)}
	}
	return c.interpret(r, resp.StatusCode, resp.Header.Get("Content-Type"), body, c.now().Sub(started))
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	target := c.base + r.path
	if len(r.query) > 0 {
		target += "?" + r.query.Encode()
	}
	var body io.Reader
	if r.body != nil {
		body = bytes.NewReader(r.body)
	}
	req, err := http.NewRequestWithContext(ctx, r.method, target, body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.op, err)
	}
	text, user, err := c.token.get()
	if err != nil {
		c.count(func(s *Stats) { s.Errors[Kind(err)]++ })
		return nil, fmt.Errorf("%s: %w", r.op, err)
	}
	if text != "" {
		if c.opt.User != "" {
			user = c.opt.User
		}
		// 22.05 needs both; later releases take the user from the token.
		req.Header.Set("X-SLURM-USER-NAME", user)
		req.Header.Set("X-SLURM-USER-TOKEN", text)
	}
	req.Header.Set("Accept", "application/json")
	req.Header.Set("User-Agent", c.opt.UserAgent)
	if r.body != nil {
		req.Header.Set("Content-Type", "application/json")
	}
	return req, nil
}

// unreachable turns a transport failure into an error that names slurmrestd's
// place and keeps whether the request can have been carried out.
func (c *Client) unreachable(ctx context.Context, r request, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", r.op, ctx.Err())
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err // without the URL, which repeats what the hint says
	}
	var op *net.OpError
	unsent := errors.As(err, &op) && op.Op == "dial"
	e := &Error{Op: r.op, Kind: slurm.ErrUnreachable, Text: err.Error(), unsent: unsent}
	return slurm.WithHint(e, "is slurmrestd running, and does it listen on %s?", c.opt.URL)
}

// retriable reports whether sending again may help and can do no harm.
func retriable(method string, err error) bool {
	var e *Error
	if !errors.As(err, &e) {
		return false
	}
	switch {
	case !errors.Is(e.Kind, slurm.ErrUnreachable) && !errors.Is(e.Kind, slurm.ErrBusy):
		return false
	case method == http.MethodGet:
		return true
	}
	return e.unsent
}
