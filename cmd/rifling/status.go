// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/cycle"
	"rifling/policy"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

func (a *app) statusCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what riflingd is doing: mode, queue, GPUs, rates, what it has set, last errors",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			s, err := store.OpenReadOnly(cfg.Database)
			if err != nil {
				return err
			}
			defer s.Close()
			st, err := s.Status(cmd.Context())
			if err != nil {
				return err
			}
			if st.Last == nil {
				return slurm.WithHint(fmt.Errorf("%s: riflingd has not finished a cycle yet", cfg.Database),
					"see `systemctl status riflingd`, and `rifling check` for what stands in its way")
			}
			hold, err := held(cmd, s)
			if err != nil {
				return err
			}
			if asJSON {
				return a.statusJSON(st, hold, cfg)
			}
			return a.statusText(st, hold, cfg)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (a *app) statusText(st *store.Status, hold *cycle.Held, cfg *config.Config) error {
	var b strings.Builder
	c := st.Last
	line := func(key, format string, args ...any) {
		fmt.Fprintf(&b, "%-11s %s\n", key, report.Clean(fmt.Sprintf(format, args...)))
	}
	mode := "observe: decides and records, changes nothing"
	if c.Mode == config.ModeSteer {
		mode = "steer: changes pending jobs"
	}
	line("mode", "%s", mode)
	switch {
	case hold != nil && cfg.Mode == config.ModeSteer:
		line("", "nothing is set on jobs since %s: %s", a.clock(hold.Since), hold.Why)
		line("", "%s", hold.Ends)
	case c.Mode != cfg.Mode:
		line("", "the configuration says %s: restart riflingd to make it so", cfg.Mode)
	}
	line("policy", "%s, %s learned", c.Policy, count(st.QEntries, "table entry", "table entries"))
	age := a.env.Now().Sub(lastBeat(st.Newest))
	line("last cycle", "number %d at %s, %s ago, took %s", c.ID, a.clock(c.At), about(a.env.Now().Sub(lastBeat(c))), c.Took.Round(time.Millisecond))
	switch {
	case st.Newest.Stopped():
		line("", "riflingd was stopped %s ago and took back what it could", about(age))
	case age > staleAfter(cfg):
		line("", "riflingd seems not to run: see `systemctl status riflingd`")
	case c.Ended.IsZero():
		line("", "it is at work")
	}
	line("queue", "%s waiting for %s, %d running", count(c.Pending, "GPU job", "GPU jobs"), count(c.PendingGPUs, "GPU", "GPUs"), c.Running)
	line("GPUs", "%d of %d in use%s", c.GPUsUsed, c.GPUs, percent(c.GPUsUsed, c.GPUs))
	if c.ANPRGPUs > 0 {
		line("ANPR", "%.3f over %s", c.ANPR, count(c.ANPRGPUs, "GPU", "GPUs"))
	} else {
		line("ANPR", "unknown: no running job has a rate yet")
	}
	line("decisions", "%s", decisionCounts(st))
	line("owned", "%s with something of rifling's set, %s applied within a day",
		count(st.Owned, "job", "jobs"), count(st.Changes, "change", "changes"))
	line("counters", "%s", a.counters(st))
	if len(c.Odd) > 0 {
		line("odd", "%s", oddWords(c.Odd))
	}
	a.problems(line, st.Problems)
	_, err := io.WriteString(a.out, b.String())
	return err
}

func percent(part, whole int) string {
	if whole == 0 {
		return ""
	}
	return fmt.Sprintf(" (%d %%)", 100*part/whole)
}

func decisionCounts(st *store.Status) string {
	var out []string
	for _, act := range policy.Actions {
		if n := st.Decisions[act]; n > 0 {
			out = append(out, fmt.Sprintf("%d %s", n, act))
		}
	}
	if st.Skipped > 0 {
		out = append(out, fmt.Sprintf("%d left alone by a guard rail", st.Skipped))
	}
	if len(out) == 0 {
		return "none in the last cycle"
	}
	return strings.Join(out, ", ")
}

func (a *app) counters(st *store.Status) string {
	if st.LastSample.IsZero() {
		return "none yet: no rifling-collector has reported"
	}
	return fmt.Sprintf("from %s within an hour, last %s before that cycle",
		count(st.Collectors, "node", "nodes"), about(st.Last.At.Sub(st.LastSample)))
}

func oddWords(odd map[string]int) string {
	var out []string
	for what, n := range odd {
		out = append(out, fmt.Sprintf("%s (%d)", what, n))
	}
	slices.Sort(out)
	return "records that could not be read: " + strings.Join(out, ", ")
}

func (a *app) problems(line func(string, string, ...any), list []store.Change) {
	if len(list) == 0 {
		line("errors", "none within a day")
		return
	}
	for i, p := range list {
		key := ""
		if i == 0 {
			key = "errors"
		}
		line(key, "%s job %d: %s", a.clock(p.At), p.JobID, outcomeWords(p))
	}
}

func (a *app) statusJSON(st *store.Status, hold *cycle.Held, cfg *config.Config) error {
	c := st.Last
	type problem struct {
		Time   time.Time   `json:"time"`
		JobID  slurm.JobID `json:"job_id"`
		Detail string      `json:"detail"`
	}
	out := struct {
		Mode       string                `json:"mode"`
		Held       *cycle.Held           `json:"held"` // what keeps riflingd from steering; null for nothing
		Policy     string                `json:"policy"`
		Cycle      int64                 `json:"cycle"`
		Time       time.Time             `json:"time"`
		Heartbeat  time.Time             `json:"heartbeat"`
		Alive      bool                  `json:"alive"`
		Took       float64               `json:"took_seconds"`
		Pending    int                   `json:"pending_jobs"`
		PendGPUs   int                   `json:"pending_gpus"`
		Running    int                   `json:"running_jobs"`
		GPUs       int                   `json:"gpus"`
		GPUsUsed   int                   `json:"gpus_used"`
		ANPR       *float64              `json:"anpr"`
		Decisions  map[policy.Action]int `json:"decisions"`
		Skipped    int                   `json:"skipped"`
		Owned      int                   `json:"owned_jobs"`
		Collectors int                   `json:"collectors"`
		QEntries   int                   `json:"table_entries"`
		Odd        map[string]int        `json:"odd"`
		Problems   []problem             `json:"problems"`
	}{
		Mode: c.Mode, Held: hold, Policy: c.Policy, Cycle: c.ID, Time: a.local(c.At), Heartbeat: a.local(lastBeat(st.Newest)),
		Alive: !st.Newest.Stopped() && a.env.Now().Sub(lastBeat(st.Newest)) <= staleAfter(cfg), Took: c.Took.Seconds(),
		Pending: c.Pending, PendGPUs: c.PendingGPUs, Running: c.Running, GPUs: c.GPUs, GPUsUsed: c.GPUsUsed,
		Decisions: st.Decisions, Skipped: st.Skipped, Owned: st.Owned, Collectors: st.Collectors,
		QEntries: st.QEntries, Odd: c.Odd, Problems: []problem{},
	}
	if c.ANPRGPUs > 0 {
		out.ANPR = &c.ANPR
	}
	for _, p := range st.Problems {
		out.Problems = append(out.Problems, problem{a.local(p.At), p.JobID, outcomeWords(p)})
	}
	return writeJSON(a.out, out)
}

func writeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
