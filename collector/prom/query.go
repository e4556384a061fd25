// SPDX-License-Identifier: Apache-2.0

package prom

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"rifling/slurm"
)

// newAPI returns Prometheus' own client over a transport that knows the
// token, the certificates, and a bound for answers.
func newAPI(o Options) (v1.API, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if o.CAFile != "" {
		pem, err := os.ReadFile(o.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, slurm.WithHint(fmt.Errorf("%s holds no certificate", o.CAFile), "it must be PEM")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	c, err := api.NewClient(api.Config{
		Address:      o.URL,
		RoundTripper: &guard{next: transport, tokenFile: o.TokenFile, most: o.MaxBytes},
	})
	if err != nil {
		return nil, err
	}
	return v1.NewAPI(c), nil
}

// guard sends the token and bounds what an answer may hold.
type guard struct {
	next      http.RoundTripper
	tokenFile string
	most      int64
}

var errTooLarge = errors.New("the answer is larger than it may be")

// RoundTrip implements http.RoundTripper.
func (g *guard) RoundTrip(req *http.Request) (*http.Response, error) {
	if g.tokenFile != "" {
		b, err := os.ReadFile(g.tokenFile)
		if err != nil {
			return nil, fmt.Errorf("read Prometheus' token: %w", err)
		}
		req = req.Clone(req.Context())
		req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(b)))
	}
	resp, err := g.next.RoundTrip(req)
	if err == nil {
		resp.Body = &bounded{ReadCloser: resp.Body, left: g.most}
	}
	return resp, err
}

// bounded is a body that fails where it grows too large, rather than end.
type bounded struct {
	io.ReadCloser
	left int64
}

func (b *bounded) Read(p []byte) (int, error) {
	if b.left < 0 {
		return 0, errTooLarge
	}
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	if b.left < 0 {
		return n, errTooLarge
	}
	return n, err
}

// query returns the raw values of a metric, of all nodes at once: those of the
// slot that ends then, and those of the slot before, where counters begin.
func (s *Source) query(ctx context.Context, m Metric, end time.Time) (model.Matrix, error) {
	ctx, cancel := context.WithTimeout(ctx, s.opts.Timeout)
	defer cancel()
	selector := m.Name
	if m.Matcher != "" {
		selector += "{" + m.Matcher + "}"
	}
	text := fmt.Sprintf("%s[%s]", selector, model.Duration(2*s.opts.Interval))
	v, _, _, err := s.api.Query(ctx, text, end, v1.WithTimeout(s.opts.Timeout))
	if err != nil {
		return nil, explain(fmt.Errorf("ask Prometheus for %s: %w", selector, err))
	}
	matrix, ok := v.(model.Matrix)
	if !ok {
		return nil, fmt.Errorf("ask Prometheus for %s: the answer is a %s, not a matrix", selector, v.Type())
	}
	return matrix, nil
}

func explain(err error) error {
	var e *v1.Error
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return slurm.WithHint(err, "raise prometheus.timeout, or ask for fewer metrics")
	case errors.Is(err, errTooLarge):
		return slurm.WithHint(err, "narrow prometheus.metrics with matchers to the GPU nodes")
	case errors.As(err, &e) && e.Type == v1.ErrBadData:
		return slurm.WithHint(err, "Prometheus does not understand the selector: see prometheus.metrics")
	case errors.As(err, &e):
		return slurm.WithHint(err, "is prometheus.url Prometheus' own address, and the token right?")
	}
	return slurm.WithHint(err, "is Prometheus there? see prometheus.url")
}
