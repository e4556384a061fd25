// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
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
	ln, err := net.Listen("tcp", l.Address)
	if err != nil {
		return nil, slurm.WithHint(fmt.Errorf("listen: %w", err),
			"another riflingd may be running, or listen.address is not this host's")
	}
	s := &server{http: &http.Server{
		Handler: mux, ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 30 * time.Second,
		WriteTimeout: 30 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() {
		var err error
		if l.CertFile != "" {
			err = s.http.ServeTLS(ln, l.CertFile, l.KeyFile)
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
