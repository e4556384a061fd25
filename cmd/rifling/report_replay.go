// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math"
	"time"

	"github.com/spf13/cobra"

	"rifling/sim/run"
	"rifling/slurm"
)

// alone is what the replay says of Slurm by itself.
type alone struct {
	Jobs   int            `json:"jobs"`
	Since  time.Time      `json:"since"`
	Until  time.Time      `json:"until"`
	Was    run.Interval   `json:"wait_mean_s"`             // what happened
	Slurm  run.Interval   `json:"slurm_alone_wait_mean_s"` // the same jobs under the simulated Slurm
	Diff   run.Interval   `json:"difference_s"`            // simulated minus what happened, job by job
	JCT    run.Interval   `json:"jct_mean_s"`
	SimJCT run.Interval   `json:"slurm_alone_jct_mean_s"`
	Left   map[string]int `json:"left_out"`
	// Trust is the same on jobs that Slurm did schedule alone, those before the
	// date: what the simulation is off by there. Nil where it was not asked.
	Trust *alone `json:"check_before_switch"`
}

// replayed replays the jobs of the range under Slurm alone, and, where there is
// a date, those before it as well, to see how far the simulation can be trusted.
func (c *reportCall) replayed(cmd *cobra.Command) (*alone, error) {
	since, until := c.query.Since, c.query.Until
	if until.IsZero() {
		until = c.env.Now()
	}
	if since.IsZero() {
		since = until.AddDate(0, 0, -30)
	}
	if c.at.IsZero() {
		return c.replayOf(cmd, since, until)
	}
	after, err := c.replayOf(cmd, c.at, until)
	if err != nil {
		return nil, err
	}
	after.Trust, err = c.replayOf(cmd, since, c.at)
	return after, err
}

func (c *reportCall) replayOf(cmd *cobra.Command, since, until time.Time) (*alone, error) {
	cfg, err := c.config(cmd)
	if err != nil {
		return nil, err
	}
	if only, err := c.only(cfg); err != nil || only != "" {
		if err == nil {
			err = notYours(fmt.Errorf("the replay needs the jobs of all users"))
		}
		return nil, err
	}
	b := c.backtest
	const form = "2006-01-02T15:04:05"
	b.since, b.until, b.warmUp = c.local(since).Format(form), c.local(until).Format(form), "7-0"
	b.mix, b.seed, b.partitions = "none", c.seed, c.filter.partitions
	if err := b.choices(); err != nil {
		return nil, err
	}
	only, err := contestant(*cfg, "slurm")
	if err != nil {
		return nil, err
	}
	h, err := b.history(cmd)
	if err != nil {
		return nil, err
	}
	if err := b.place(h); err != nil {
		return nil, err
	}
	w, err := h.Build(b.parsed, b.seed, true, b.spec.Nodes)
	if err != nil {
		return nil, err
	}
	if w.Judged == 0 {
		return nil, slurm.WithHint(fmt.Errorf("no GPU job of the time from %s to %s is in the accounting that was imported", c.clock(since), c.clock(until)),
			"rifling history status shows what is; rifling history import reads more")
	}
	fates, err := b.play(cmd, []run.Contestant{only}, w)
	if err != nil {
		return nil, err
	}
	return b.alone(h, w, fates), nil
}

// alone sums up what the simulated Slurm did beside what happened.
func (c *backtestCall) alone(h *run.History, w run.Work, fates []fate) *alone {
	j := judgement{call: c, work: w}
	j.out.Left = map[string]int{}
	for why, n := range h.Left {
		j.out.Left[why] = n
	}
	j.choose(fates)
	j.block()
	was := j.pick(func(i int) float64 { return w.Runs[i].RealWait().Seconds() })
	jct := j.pick(func(i int) float64 { return w.Runs[i].RealJCT().Seconds() })
	sim := j.pick(func(i int) float64 { return fates[0].wait[i] })
	boot := func(v []float64) run.Interval { return run.Bootstrap(v, j.blocks, c.seed) }
	return &alone{
		Jobs: len(j.at), Since: c.local(h.Since), Until: c.local(h.Until), Was: boot(was), Slurm: boot(sim), Diff: boot(minus(sim, was)),
		JCT: boot(jct), SimJCT: boot(j.pick(func(i int) float64 { return fates[0].jct[i] })), Left: j.out.Left,
	}
}

// words says it in sentences, how far it can be trusted last.
func (x *alone) words(a *app) []string {
	span := func(s float64) string {
		if s < 0 {
			return "-" + shortSpan(-s)
		}
		return shortSpan(s)
	}
	out := []string{fmt.Sprintf("Slurm alone, replayed on the same %s from %s to %s: a mean wait of %s, where it was %s; difference %s [%s, %s].",
		count(x.Jobs, "job", "jobs"), a.clock(x.Since), a.clock(x.Until), span(x.Slurm.Mean), span(x.Was.Mean),
		span(x.Diff.Mean), span(x.Diff.Low), span(x.Diff.High))}
	limits := "Run times are those recorded, whatever the placement; holds, reservations, licences and limits of associations are not simulated."
	if x.Trust == nil {
		return append(out, "How far that can be trusted is not known without --before-after: jobs that Slurm scheduled alone show what the simulation is off by. "+limits)
	}
	t := x.Trust
	if t.Was.Mean <= 0 {
		return append(out, "Before the date no job waited, so how far that can be trusted is not known. "+limits)
	}
	off := t.Slurm.Mean/t.Was.Mean - 1
	line := fmt.Sprintf("How far that can be trusted: on %s before the date, which Slurm scheduled alone, the same replay is %+.0f %% off what happened.",
		count(t.Jobs, "job", "jobs"), 100*off)
	if math.Abs(off) > far {
		line += " Do not trust differences of that size."
	}
	return append(out, line+" "+limits)
}
