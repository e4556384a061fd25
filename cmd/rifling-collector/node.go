// SPDX-License-Identifier: Apache-2.0

package main

import (
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"net/http"
	"os"
	"time"

	"rifling/collector"
	"rifling/slurm"
)

// gpus opens NVML when it is first needed and again as long as there is none:
// a driver may be loaded after us. Without one the node has no GPUs.
type gpus struct {
	library string
	nvml    *collector.NVML
	failed  func(error) // told of each failure to open
}

func (g *gpus) open() error {
	if g.nvml != nil {
		return nil
	}
	n, err := collector.LoadNVML(g.library)
	if err != nil {
		return err
	}
	g.nvml = n
	return nil
}

func (g *gpus) Read(now time.Time, odd collector.Odd) ([]collector.GPU, error) {
	if err := g.open(); err != nil {
		g.failed(err)
		return nil, nil
	}
	return g.nvml.Read(now, odd)
}

func (g *gpus) Close() error {
	if g.nvml == nil {
		return nil
	}
	return g.nvml.Close()
}

func newSampler(c config, failed func(error)) (*collector.Sampler, *gpus) {
	g := &gpus{library: c.Library, failed: failed}
	return &collector.Sampler{
		Node: c.Node,
		Boot: rand.Text(),
		GPUs: g,
		Net:  &collector.SysfsNet{Root: c.Sysfs, Now: time.Now, Choose: c.Ports},
		Jobs: collector.NewProc(c.Proc),
		Odd:  collector.Odd{},
	}, g
}

// sendTimeout bounds one attempt to send.
const sendTimeout = 10 * time.Second

func newPusher(c config, report func(error)) (*collector.Pusher, error) {
	transport := http.DefaultTransport.(*http.Transport).Clone()
	if c.CAFile != "" {
		pem, err := os.ReadFile(c.CAFile)
		if err != nil {
			return nil, fmt.Errorf("read certificates: %w", err)
		}
		pool := x509.NewCertPool()
		if !pool.AppendCertsFromPEM(pem) {
			return nil, slurm.WithHint(fmt.Errorf("%s holds no certificate", c.CAFile), "it must be PEM")
		}
		transport.TLSClientConfig = &tls.Config{RootCAs: pool, MinVersion: tls.VersionTLS12}
	}
	return &collector.Pusher{
		URL:    c.URL,
		Secret: collector.SecretFile(c.SecretFile),
		Client: &http.Client{Transport: transport, Timeout: sendTimeout},
		Report: report,
	}, nil
}
