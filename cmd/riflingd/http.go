// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"rifling/slurm"
)

// server is the daemon's own HTTP server: counters in, health and metrics out.
type server struct{ http *http.Server }

// listen starts the server, or none when no address is configured.
func (d *daemon) listen() (*server, error) {
	l := d.conf.Listen
	if l.Address == "" {
		return &server{}, nil
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(d.metrics.registry, promhttp.HandlerOpts{}))
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	if h := d.loop.Telemetry.(*telemetry).handler(); h != nil {
		mux.Handle("POST /v1/samples", h)
	}
	d.servePage(mux)
	var secure *tls.Config
	if l.CertFile != "" {
		pair, err := tls.LoadX509KeyPair(l.CertFile, l.KeyFile)
		if err != nil {
			return nil, slurm.WithHint(fmt.Errorf("listen: %w", err), "listen.cert-file and listen.key-file are PEM files that belong together")
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12}
	}
	ln, err := net.Listen("tcp", l.Address)
	if err != nil {
		return nil, slurm.WithHint(fmt.Errorf("listen: %w", err),
			"another riflingd may be running, or listen.address is not this host's")
	}
	if host, _, err := net.SplitHostPort(ln.Addr().String()); err == nil && secure == nil && l.SecretFile != "" && !net.ParseIP(host).IsLoopback() {
		d.log.Warn("collectors send their secret in the clear: listen.address is not this machine's alone and there is no certificate",
			"hint", "set listen.cert-file and listen.key-file, or keep the network between nodes and daemon to yourself")
	}
	ln = newBounded(ln, maxConnections)
	s := &server{http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10, TLSConfig: secure,
	}}
	go func() {
		var err error
		if secure != nil {
			err = s.http.ServeTLS(ln, "", "")
		} else {
			err = s.http.Serve(ln)
		}
		if !errors.Is(err, http.ErrServerClosed) {
			d.log.Error("the HTTP server ended; counters are no longer taken", "err", err)
		}
	}()
	return s, nil
}

func (s *server) close() {
	if s.http == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Second)
	defer cancel()
	_ = s.http.Shutdown(ctx) // the process ends anyway
}
