// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"time"

	"rifling/cmd/internal/config"
	"rifling/cycle"
	"rifling/slurm"
	"rifling/slurm/rest"
	"rifling/store"
)

// stopTimeout bounds how long a clean stop may take to take everything back.
const stopTimeout = time.Minute

// daemon is riflingd with all its parts.
type daemon struct {
	conf    *config.Config
	log     *slog.Logger
	client  *rest.Client
	store   *store.Store
	loop    *cycle.Loop
	metrics *metrics
	sources *sources
	page    *statusPage

	lastError string    // of the last cycle, to log it once and not each time
	saidAt    time.Time // when that was
	said      map[string]bool
	connected bool
	pruned    time.Time
	learned   time.Time // of past jobs
	policies  policies
}

func run(ctx context.Context, c *config.Config, once bool, logTo io.Writer) (err error) {
	log, err := newLogger(c, logTo)
	if err != nil {
		return err
	}
	lock, err := lockDatabase(c.Database)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, lock.Close()) }()
	d := &daemon{conf: c, log: log, said: map[string]bool{}, policies: policies{seen: -1}}
	if err := d.build(ctx); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.store.Close()) }()
	defer d.client.Close()
	if d.page, err = newStatusPage(c); err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.closePage()) }()
	server, err := d.listen()
	if err != nil {
		return err
	}
	defer server.close()
	log.Info("started", "version", version, "mode", c.Mode, "policy", c.Policy, "interval", c.Interval,
		"slurmrestd", c.Slurm.URL, "database", c.Database, "listen", c.Listen.Address)
	var tidy sync.WaitGroup
	tidyUntil, end := context.WithCancel(ctx)
	tidy.Go(func() { d.tidy(tidyUntil) })
	tidy.Go(func() { d.sources.run(tidyUntil) })
	d.work(ctx, once)
	end()
	tidy.Wait()
	return d.stop()
}

func newLogger(c *config.Config, w io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.Log.Level)); err != nil {
		return nil, slurm.WithHint(fmt.Errorf("log.level: %w", err), "use debug, info, warn or error")
	}
	o := &slog.HandlerOptions{Level: level, ReplaceAttr: cleanWords}
	switch c.Log.Format {
	case "text":
		return slog.New(slog.NewTextHandler(w, o)), nil
	case "json":
		return slog.New(slog.NewJSONHandler(w, o)), nil
	}
	return nil, slurm.WithHint(fmt.Errorf("log.format: %q is not possible", c.Log.Format), "use text or json")
}

// build makes the parts and restores what earlier runs kept. It does not talk
// to Slurm: a slurmrestd that is away is waited for.
func (d *daemon) build(ctx context.Context) (err error) {
	c := d.conf
	if d.client, err = c.Client("riflingd/" + version); err != nil {
		return err
	}
	book, err := c.Book()
	if err != nil {
		return err
	}
	pol, err := c.NewPolicy()
	if err != nil {
		return err
	}
	exporters, err := c.Exporters()
	if err != nil {
		return err
	}
	if d.store, err = store.Open(c.Database, store.Options{MaxSamples: c.Samples.MaxRows}); err != nil {
		return err
	}
	telemetry, err := newTelemetry(ctx, c, d.store, d.log)
	if err != nil {
		return errors.Join(err, d.store.Close())
	}
	d.sources = &sources{
		prom: exporters, jobs: &runningJobs{Cluster: d.client}, add: telemetry.receiver.Add, log: d.log, said: map[string]bool{},
	}
	d.metrics = newMetrics(telemetry)
	d.sources.register(d.metrics.registry)
	d.metrics.registry.MustRegister(&restMetrics{client: d.client, database: c.Database, now: time.Now})
	brakes, err := d.brakes()
	if err != nil {
		return errors.Join(err, d.store.Close())
	}
	d.loop = &cycle.Loop{
		Brakes: brakes, Cluster: cycle.Pace(d.sources.jobs, c.Gap()), Recorder: d.store, Telemetry: telemetry, Policy: pol, Book: book,
		Mode: c.Mode, Limits: c.PolicyLimits(), Seed: c.Seed, Tau: c.Agent.Tau,
		Log: d.log, Clock: time.Now, CheckpointEvery: max(1, int(time.Minute/c.Interval)),
	}
	if err := d.loop.Start(ctx); err != nil {
		return errors.Join(err, d.store.Close())
	}
	d.learnPast(ctx)
	return nil
}

// work runs cycles until the context ends, or one.
func (d *daemon) work(ctx context.Context, once bool) {
	tick := time.NewTicker(d.conf.Interval)
	defer tick.Stop()
	for {
		d.cycle(ctx)
		if once {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// cycle runs one cycle and says what came of it. A failure is logged and the
// next cycle tries again: a daemon that gives up helps nobody.
func (d *daemon) cycle(ctx context.Context) {
	if err := d.connect(ctx); err != nil {
		d.failed(ctx, err)
		return
	}
	d.choosePolicy(ctx)
	rep, err := d.loop.Once(ctx)
	if err != nil {
		if errors.Is(err, slurm.ErrUnknownVersion) {
			d.connected = false
		}
		d.failed(ctx, err)
		return
	}
	if d.lastError != "" {
		d.log.Info("cycles run again")
		d.lastError = ""
	}
	d.metrics.observe(&rep, d.loop)
	d.publish(&rep)
	d.report(rep)
	d.followTrial(ctx, rep.At, rep.Plan.Policy)
	d.prune(ctx, rep.At)
	d.learnPast(ctx)
}

func (d *daemon) connect(ctx context.Context) error {
	if d.connected {
		return nil
	}
	rel, err := d.client.Connect(ctx)
	if err != nil {
		return err
	}
	d.connected = true
	d.log.Info("connected", "slurm", rel.String(), "rest", fmt.Sprintf("v0.0.%d", rel.REST))
	if d.client.Stats().NewerRelease {
		d.log.Warn("this Slurm is newer than the releases that this rifling knows; the newest known REST version is used")
	}
	return nil
}

// failed logs an error when it is new, and again every ten minutes.
func (d *daemon) failed(ctx context.Context, err error) {
	if ctx.Err() != nil {
		return
	}
	d.metrics.failed()
	d.pageFailed(err)
	if err.Error() == d.lastError && time.Since(d.saidAt) < 10*time.Minute {
		return
	}
	d.lastError, d.saidAt = err.Error(), time.Now()
	args := []any{"err", err}
	if hint := slurm.HintOf(err); hint != "" {
		args = append(args, "hint", hint)
	}
	d.log.Error("cycle failed, the next one tries again", args...)
}

func (d *daemon) report(rep cycle.Report) {
	d.log.Debug("cycle", "cycle", rep.Cycle, "at", rep.At.UTC(), "pending", rep.Pending, "running", rep.Running,
		"gpus", rep.GPUs, "gpus_used", rep.GPUsUsed, "anpr", rep.ANPR, "decisions", rep.Decisions,
		"skipped", rep.Skipped, "samples", rep.Samples, "owned", rep.Owned, "learned", rep.Learned, "took", rep.Took)
	for _, r := range rep.Results {
		args := []any{"job", r.Change.Update.JobID, "kind", r.Change.Kind, "outcome", r.Outcome, "why", r.Change.Why}
		if r.Detail != "" {
			args = append(args, "detail", r.Detail)
		}
		level := slog.LevelInfo
		if r.Outcome == "failed" {
			level = slog.LevelWarn
		}
		d.log.Log(context.Background(), level, "update", args...)
	}
	if rep.GPUs == 0 {
		d.once("no node with GPUs is usable in the managed partitions",
			"check manage.partitions and `scontrol show node`")
	}
	for what, n := range rep.Odd {
		d.once(fmt.Sprintf("%d records could not be read and are left out: %s", n, what), "please report this with the Slurm release")
	}
	for why, n := range rep.Rejected {
		d.once(fmt.Sprintf("%d counter samples were refused: %s", n, why), "run `rifling-collector check` on the node")
	}
}

// once warns the first time only, whatever number the text begins with.
func (d *daemon) once(what, hint string) {
	key := hint + strings.TrimLeft(what, "0123456789")
	if !d.said[key] {
		d.said[key] = true
		d.log.Warn(what, "hint", hint)
	}
}

func (d *daemon) prune(ctx context.Context, now time.Time) {
	if now.Sub(d.pruned) < time.Hour {
		return
	}
	d.pruned = now
	if d.conf.Retention > 0 {
		if err := d.store.Prune(ctx, now.Add(-d.conf.Retention)); err != nil {
			d.log.Warn("old history could not be removed", "err", err)
		}
		if err := d.store.PrunePairs(ctx, now.Add(-d.conf.Retention)); err != nil {
			d.log.Warn("old plans of trials could not be removed", "err", err)
		}
	}
	d.prunePast(ctx, now)
}

// stop takes back what is set. It has its own context: the one that ended is
// why we stop.
func (d *daemon) stop() error {
	ctx, cancel := context.WithTimeout(context.Background(), stopTimeout)
	defer cancel()
	results, err := d.loop.Stop(ctx)
	err = errors.Join(err, d.saveTrial(ctx))
	back := 0
	for _, r := range results {
		switch r.Outcome {
		case "applied":
			back++
		case "failed":
			d.log.Warn("a job could not be given back", "job", r.Change.Update.JobID, "detail", r.Detail,
				"hint", "run `rifling release` when Slurm answers again")
		}
	}
	d.log.Info("stopped", "given_back", back)
	return err
}
