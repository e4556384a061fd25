// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"os/user"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/brake"
	"rifling/cycle"
	"rifling/slurm"
	"rifling/store"
)

func (a *app) pauseCmd() *cobra.Command {
	var last time.Duration
	cmd := &cobra.Command{
		Use:   "pause [REASON...]",
		Short: "Keep riflingd from changing jobs, and have it take back what it has set",
		Long: "pause makes a file that riflingd looks for in each cycle, and in each cycle of a\n" +
			"daemon that starts later. While it is there, riflingd takes back all that it has\n" +
			"set on pending jobs and sets nothing new; it goes on deciding and recording.\n" +
			"A narrowed job that nobody watches would be worse than one left to Slurm, so\n" +
			"nothing is kept. `rifling resume` ends it. It works with the daemon down, the\n" +
			"disk full or the database broken; where even this cannot run, touch the file.",
		Example: "  rifling pause maintenance of the switches\n  rifling pause --for 2h",
		RunE: func(cmd *cobra.Command, words []string) error {
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			now := a.env.Now()
			p := brake.Pause{By: caller(), Why: strings.Join(words, " "), At: now}
			if p.Why == "" {
				p.Why = "no reason was given"
			}
			switch {
			case cmd.Flags().Changed("for") && last <= 0:
				return usageError{fmt.Errorf("--for %s: a pause lasts for more than nothing", last)}
			case last > 0:
				until := now.Add(last)
				p.Until = &until
			}
			if err := brake.Write(cfg.PauseFile(), p); err != nil {
				return err
			}
			until := "until `rifling resume`"
			if p.Until != nil {
				until = "until " + a.clock(*p.Until)
			}
			fmt.Fprintf(a.out, "paused %s\nriflingd takes back what it has set with its next cycle, within %s\n", until, cfg.Interval)
			if alive, err := a.alive(cmd, cfg.Database, staleAfter(cfg)); err != nil || !alive {
				fmt.Fprintln(a.out, "riflingd does not seem to run: call `rifling release` to take back now what it has left")
			}
			return nil
		},
	}
	cmd.Flags().DurationVar(&last, "for", 0, "end it by itself after this time, e.g. 2h")
	return cmd
}

func (a *app) resumeCmd() *cobra.Command {
	return &cobra.Command{
		Use:   "resume",
		Short: "End a pause, or riflingd's falling back to observe",
		Long: "resume removes the file of `rifling pause`, and tells riflingd to end a fall-back\n" +
			"that it went into by itself. A kill switch (brakes.kill-switch) and quiet hours stay.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := a.config(cmd)
			if err != nil {
				return err
			}
			was, err := brake.Remove(cfg.PauseFile())
			if err != nil {
				return err
			}
			if err := brake.Touch(cfg.ResumeFile()); err != nil {
				return fmt.Errorf("tell riflingd: %w", err)
			}
			if was {
				fmt.Fprintln(a.out, "the pause is over")
			} else {
				fmt.Fprintln(a.out, "there was no pause; a fall-back ends with riflingd's next cycle")
			}
			if path := cfg.Brakes.KillSwitch; path != "" && brake.Read(path, a.env.Now()) != nil {
				fmt.Fprintf(a.out, "note: the kill switch %s is still there, and nothing is set while it is\n", path)
			}
			return nil
		},
	}
}

// caller is who runs the program, for others to ask.
func caller() string {
	u, err := user.Current()
	if err != nil {
		return "somebody"
	}
	return u.Username
}

// alive reports whether a daemon has been at work lately.
func (a *app) alive(cmd *cobra.Command, database string, within time.Duration) (bool, error) {
	s, err := store.OpenReadOnly(database)
	if err != nil {
		return false, err
	}
	defer s.Close()
	last, err := s.LastCycle(cmd.Context())
	if err != nil || last == nil {
		return false, err
	}
	return !last.Stopped() && a.env.Now().Sub(lastBeat(last)) <= within, nil
}

// held returns what keeps riflingd from steering; nil for nothing.
func held(cmd *cobra.Command, s *store.Store) (*cycle.Held, error) {
	blob, err := s.LoadState(cmd.Context(), cycle.StateHeld)
	if err != nil || blob == nil {
		return nil, err
	}
	var h *cycle.Held
	if err := json.Unmarshal(blob, &h); err != nil {
		return nil, slurm.WithHint(fmt.Errorf("read what holds riflingd back: %w", err), "was the database written by another version?")
	}
	return h, nil
}
