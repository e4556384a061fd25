// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"text/tabwriter"
	"time"

	"rifling/collector"
	"rifling/slurm"
)

// run samples and sends until ctx ends.
func run(ctx context.Context, c config, logTo io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.LogLevel)); err != nil {
		return fmt.Errorf("--log-level: %w", err)
	}
	log := slog.New(slog.NewTextHandler(logTo, &slog.HandlerOptions{Level: level}))
	if plain(c.URL) {
		log.Warn("the secret goes over the network unencrypted", "url", c.URL, "hint", "give riflingd a certificate and use https")
	}
	sending := &changes{log: log, what: "sending samples"}
	pusher, err := newPusher(c, sending.note)
	if err != nil {
		return err
	}
	if _, err := pusher.Secret(); err != nil {
		return err
	}
	opening := &changes{log: log, what: "opening NVML"}
	sampler, gpus := newSampler(c, opening.note)

	var sender sync.WaitGroup
	sender.Go(func() { pusher.Run(ctx, sendTimeout) })
	log.Info("started", "node", c.Node, "url", c.URL, "interval", c.Interval, "version", version)

	reading := &changes{log: log, what: "reading the node"}
	seen := map[string]bool{}
	tick := time.NewTicker(c.Interval)
	defer tick.Stop()
	for ctx.Err() == nil {
		samples, err := sampler.Sample(time.Now())
		reading.note(err)
		if gpus.nvml != nil {
			opening.note(nil)
		}
		if len(samples) > 0 {
			pusher.Add(samples)
		}
		for what := range sampler.Odd {
			if !seen[what] {
				seen[what] = true
				log.Warn("a reading was left out; further ones like it are not logged", "reading", what)
			}
		}
		log.Debug("sampled", "samples", len(samples))
		select {
		case <-ctx.Done():
		case <-tick.C:
		}
	}
	sender.Wait()
	queued, dropped := pusher.Waiting()
	log.Info("stopped", "unsent", queued, "dropped", dropped)
	return gpus.Close()
}

// plain reports whether the address sends the secret in the clear past this
// machine.
func plain(address string) bool {
	u, err := url.Parse(address)
	if err != nil || u.Scheme != "http" {
		return false
	}
	ip := net.ParseIP(u.Hostname())
	return u.Hostname() != "localhost" && (ip == nil || !ip.IsLoopback())
}

// changes logs an error when it comes, changes or goes, not each time.
type changes struct {
	log  *slog.Logger
	what string
	last string
}

func (c *changes) note(err error) {
	text := ""
	if err != nil {
		text = err.Error()
	}
	switch {
	case text == c.last:
		return
	case err != nil:
		c.log.Error(c.what+" failed", "error", err, "hint", slurm.HintOf(err))
	default:
		c.log.Info(c.what + " works again")
	}
	c.last = text
}

// printOnce prints the samples of one interval.
func printOnce(ctx context.Context, c config, asJSON bool, out, errOut io.Writer) error {
	var noGPUs error
	sampler, gpus := newSampler(c, func(err error) { noGPUs = err })
	defer gpus.Close()
	if _, err := sampler.Sample(time.Now()); err != nil {
		return err
	}
	if noGPUs != nil {
		return noGPUs
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(c.Interval):
	}
	samples, err := sampler.Sample(time.Now())
	if err != nil {
		return err
	}
	for what, n := range sampler.Odd {
		fmt.Fprintf(errOut, "left out: %s (%d)\n", what, n)
	}
	if !asJSON {
		return table(out, samples)
	}
	enc := json.NewEncoder(out)
	for _, s := range samples {
		if err := enc.Encode(s); err != nil {
			return err
		}
	}
	return nil
}

func table(w io.Writer, samples []collector.Sample) error {
	tw := tabwriter.NewWriter(w, 0, 8, 2, ' ', 0)
	fmt.Fprintln(tw, "JOB\tGPUS\tCOMPUTE\tBY\tNVLINK\tPCIE\tNET\tNET SHARED")
	for _, s := range samples {
		fmt.Fprintf(tw, "%d\t%d\t%.0f %%\t%s\t%s\t%s\t%s\t%v\n", s.JobID, s.GPUs, 100*s.Compute, s.Source,
			link(s.NVLinkRate, s.NVLinkSpeed), link(s.PCIeRate, s.PCIeSpeed), link(s.NetRate, s.NetSpeed), s.NetShared)
	}
	return tw.Flush()
}

// link writes a rate and what part of its link it is.
func link(rate, speed float64) string {
	if speed <= 0 {
		return fmt.Sprintf("%.3g GB/s", rate/1e9)
	}
	return fmt.Sprintf("%.3g GB/s (%.0f %%)", rate/1e9, 100*rate/speed)
}
