// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"hash/fnv"
	"io"
	"log/slog"
	"net"
	"net/url"
	"sync"
	"time"

	"rifling/collector"
	"rifling/slurm"
)

// run samples and sends until ctx ends.
func run(ctx context.Context, c config, logTo io.Writer) error {
	level, err := logLevel(c.LogLevel)
	if err != nil {
		return err
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
	spooling := &changes{log: log, what: "keeping samples on disk"}
	pusher.Spool = collector.NewSpool(collector.SpoolOptions{Dir: c.Spool, MaxBytes: c.SpoolMiB << 20, Report: spooling.note})
	pusher.Notice = func(what string) { log.Warn("riflingd found something odd in samples; said once", "what", what) }
	opening := &changes{log: log, what: "opening NVML"}
	sampler, gpus := newSampler(c, opening.note)

	var sender sync.WaitGroup
	sendCtx, stop := context.WithCancel(ctx)
	defer stop()
	sender.Go(func() { pusher.Run(sendCtx, sendTimeout) })
	log.Info("started", "node", c.Node, "url", c.URL, "interval", c.Interval, "version", version)

	failed := sampleUntil(ctx, c, log, sampler, func(samples []collector.Sample) {
		if gpus.nvml != nil {
			opening.note(nil)
		}
		if len(samples) > 0 {
			pusher.Add(samples)
		}
	})
	stop()
	sender.Wait()
	queued, dropped := pusher.Waiting()
	log.Info("stopped", "unsent", queued, "dropped", dropped)
	return errors.Join(failed, pusher.Spool.Close(), gpus.Close())
}

// sampleUntil reads the node at each interval until ctx ends, or until the
// driver was replaced: then the process must begin anew.
func sampleUntil(ctx context.Context, c config, log *slog.Logger, sampler *collector.Sampler, take func([]collector.Sample)) error {
	reading := &changes{log: log, what: "reading the node"}
	seen := map[string]bool{}
	next := time.Now().Add(untilPhase(time.Now(), c.Node, c.Interval))
	timer := time.NewTimer(0)
	defer timer.Stop()
	for ctx.Err() == nil {
		samples, err := sampler.Sample(time.Now())
		reading.note(err)
		if errors.Is(err, collector.ErrDriverReplaced) {
			return err
		}
		take(samples)
		for what := range sampler.Odd {
			if !seen[what] {
				seen[what] = true
				log.Warn("a reading was left out; further ones like it are not logged", "reading", what)
			}
		}
		log.Debug("sampled", "samples", len(samples), "found_by", sampler.View().Ways)
		timer.Reset(time.Until(next))
		select {
		case <-ctx.Done():
		case <-timer.C:
		}
		if next = next.Add(c.Interval); time.Until(next) < 0 {
			next = time.Now().Add(c.Interval) // the node slept: do not catch up
		}
	}
	return nil
}

// phase is how far into each interval a node reads and sends: nodes that were
// started at one instant do not speak at one instant.
func phase(node string, interval time.Duration) time.Duration {
	h := fnv.New64a()
	_, _ = io.WriteString(h, node)
	return time.Duration(h.Sum64() % uint64(interval))
}

// untilPhase is how long the first interval is, from half an interval to one
// and a half: the next time that the node's phase comes, by its clock, but not
// at once after the first reading.
func untilPhase(now time.Time, node string, interval time.Duration) time.Duration {
	wait := phase(node, interval) - time.Duration(now.UnixNano()%int64(interval))
	for wait < interval/2 {
		wait += interval
	}
	return wait
}

func logLevel(name string) (level slog.Level, err error) {
	err = level.UnmarshalText([]byte(name))
	return level, err
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
