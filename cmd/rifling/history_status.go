// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/store"
)

func (a *app) historyStatusCmd() *cobra.Command {
	var asJSON bool
	cmd := &cobra.Command{
		Use:   "status",
		Short: "Show what is stored of Slurm's accounting: runs, users, ranges and gaps",
		Args:  args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s, err := a.history(cmd)
			if err != nil {
				return err
			}
			defer s.Close()
			st, err := s.PastStatus(cmd.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return a.historyJSON(st)
			}
			return a.historyText(st)
		},
	}
	cmd.Flags().BoolVar(&asJSON, "json", false, "write JSON")
	return cmd
}

func (a *app) historyText(st *store.PastStatus) error {
	var b strings.Builder
	line := func(key, format string, args ...any) { fmt.Fprintf(&b, "%-8s %s\n", key, fmt.Sprintf(format, args...)) }
	if st.Runs == 0 {
		line("runs", "none: `rifling history import --since now-90days` reads them from Slurm's accounting")
	} else {
		line("runs", "%d, %d of them with GPUs, of %s in %s", st.Runs, st.GPURuns,
			count(st.Users, "user", "users"), count(st.Accounts, "account", "accounts"))
		if !st.Newest.IsZero() {
			line("ended", "from %s to %s", a.clock(st.Oldest), a.clock(st.Newest))
		}
		if st.Open > 0 {
			line("open", "%s not over when last read, the oldest submitted %s", count(st.Open, "run", "runs"), a.clock(st.OpenSince))
		}
		line("GPU use", "%s with a measured use of the GPUs", count(st.Usage, "run", "runs"))
	}
	for i, r := range st.Ranges {
		if i > 0 {
			line("gap", "%s to %s was never read", a.clock(st.Ranges[i-1].Until), a.clock(r.Since))
		}
		line("read", "%s to %s, last at %s", a.clock(r.Since), a.clock(r.Until), a.clock(r.Read))
	}
	if n := len(st.Ranges); n > 0 {
		line("", "later jobs are read again by the next import: accounting may still change for a day")
	}
	_, err := io.WriteString(a.out, b.String())
	return err
}

func (a *app) historyJSON(st *store.PastStatus) error {
	type span struct {
		Since time.Time  `json:"since"`
		Until time.Time  `json:"until"`
		Read  *time.Time `json:"read,omitempty"`
	}
	out := struct {
		Runs      int        `json:"runs"`
		GPURuns   int        `json:"gpu_runs"`
		Open      int        `json:"open_runs"`
		Usage     int        `json:"runs_with_gpu_use"`
		Users     int        `json:"users"`
		Accounts  int        `json:"accounts"`
		Oldest    *time.Time `json:"oldest_end"`
		Newest    *time.Time `json:"newest_end"`
		OpenSince *time.Time `json:"open_since"`
		Ranges    []span     `json:"ranges"`
		Gaps      []span     `json:"gaps"`
	}{
		Runs: st.Runs, GPURuns: st.GPURuns, Open: st.Open, Usage: st.Usage, Users: st.Users, Accounts: st.Accounts,
		Oldest: a.maybe(st.Oldest), Newest: a.maybe(st.Newest), OpenSince: a.maybe(st.OpenSince),
		Ranges: []span{}, Gaps: []span{},
	}
	for i, r := range st.Ranges {
		if i > 0 {
			out.Gaps = append(out.Gaps, span{Since: a.local(st.Ranges[i-1].Until), Until: a.local(r.Since)})
		}
		out.Ranges = append(out.Ranges, span{Since: a.local(r.Since), Until: a.local(r.Until), Read: a.maybe(r.Read)})
	}
	e := json.NewEncoder(a.out)
	e.SetIndent("", "  ")
	return e.Encode(out)
}

// maybe is an instant that may be unset, for JSON.
func (a *app) maybe(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	t = a.local(t)
	return &t
}
