// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/policy"
	"rifling/slurm"
	"rifling/store"
)

// defaultShare is the part of the jobs of a first trial: small enough that a
// bad policy hurts few, large enough that a site of some hundred jobs a day
// knows within days.
const defaultShare = 0.1

func (a *app) policyPromoteCmd() *cobra.Command {
	var to, why string
	var share float64
	var force bool
	cmd := &cobra.Command{
		Use: "promote VERSION", Short: "Take a policy to its next stage, by evidence",
		Long: "promote takes a policy to its next stage, or to --to:\n\n" +
			"  observe  asks for a recorded evaluation on held-out data that shows it better\n" +
			"  share    asks for 50 jobs that it was observed on, and an evaluation since then\n" +
			"           that does not show it worse; --share says of how many jobs (default 0.1)\n" +
			"  live     asks for 30 jobs of its share that have ended and rank no worse\n\n" +
			"--force goes on without; the history then says so. riflingd takes the change up in its\n" +
			"next cycle. Steering still hangs on the configured mode.",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if !(share > 0 && share < 1) {
				return usageError{fmt.Errorf("--share %v is not between 0 and 1", share)}
			}
			return a.changeStage(cmd, list[0], func(s *store.Store, cfg *config.Config, v string, changes []policy.StageChange) (policy.StageChange, error) {
				from := policy.StageOf(changes, v)
				c := policy.StageChange{Version: v, Stage: policy.Stage(to), By: whoami(), Why: why}
				switch {
				case c.Stage == "" && from == policy.StageRolledBack:
					c.Stage = policy.StageObserve
				case c.Stage == "":
					c.Stage = from.Next()
				}
				if c.Stage == policy.StageShare {
					c.Share = share
				}
				err := a.mayPromote(cmd, s, cfg, v, from, c.Stage, changes)
				if errors.Is(err, policy.ErrNoEvidence) {
					if force {
						c.Forced, err = true, nil
					} else {
						err = slurm.WithHint(err, "rifling policy evaluate %s makes evidence; --force goes on without it, and the history says so", v)
					}
				}
				return c, err
			})
		},
	}
	fl := cmd.Flags()
	fl.StringVar(&to, "to", "", "stage: observe, share or live (default: the next)")
	fl.Float64Var(&share, "share", defaultShare, "part of the jobs, of the stage share")
	fl.BoolVar(&force, "force", false, "without the evidence that the stage asks for")
	fl.StringVar(&why, "why", "", "a word for the history")
	return cmd
}

func (a *app) policyRollbackCmd() *cobra.Command {
	var why string
	cmd := &cobra.Command{
		Use: "rollback [VERSION]", Short: "Take a policy out: the one on trial, else the live one",
		Long: "rollback ends the trial of a policy, or takes the live one out; the one that was live\n" +
			"before it decides again, at the end the configured one. It asks for no evidence.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			word := ""
			if len(list) > 0 {
				word = list[0]
			}
			return a.changeStage(cmd, word, func(_ *store.Store, _ *config.Config, v string, changes []policy.StageChange) (policy.StageChange, error) {
				if now := policy.StandingOf(changes); v != now.Trial && v != now.Live {
					return policy.StageChange{}, fmt.Errorf("policy %s decides nothing now", v)
				}
				return policy.StageChange{Version: v, Stage: policy.StageRolledBack, By: whoami(), Why: why}, nil
			})
		},
	}
	cmd.Flags().StringVar(&why, "why", "", "a word for the history")
	return cmd
}

type stageOf func(s *store.Store, cfg *config.Config, version string, changes []policy.StageChange) (policy.StageChange, error)

// changeStage makes one change and says what then decides.
func (a *app) changeStage(cmd *cobra.Command, word string, next stageOf) error {
	cfg, err := a.config(cmd)
	if err != nil {
		return err
	}
	s, err := a.openToWrite(cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	changes, err := s.StageChanges(cmd.Context())
	if err != nil {
		return err
	}
	now := policy.StandingOf(changes)
	version := now.Trial
	if version == "" {
		version = now.Live
	}
	if word != "" {
		kept, err := s.Policy(cmd.Context(), word)
		if err != nil {
			return err
		}
		version = kept.Version
	}
	if version == "" {
		return slurm.WithHint(errors.New("no trained policy decides anything"), "%s decides, as configured", cfg.Policy)
	}
	c, err := next(s, cfg, version, changes)
	if err != nil {
		return fmt.Errorf("policy %s: %w", version, err)
	}
	if err := s.ChangeStage(cmd.Context(), now.Last, c); err != nil {
		return err
	}
	c.ID = now.Last + 1
	then := policy.StandingOf(append(slices.Clone(changes), c))
	forced := ""
	if c.Forced {
		forced = ", by force"
	}
	fmt.Fprintf(a.out, "%s is now in the stage %s%s\ndecides  %s\n", version, c.Stage, forced, decides(then, cfg))
	switch {
	case then.Stage == policy.StageShare && cfg.Mode == config.ModeObserve:
		fmt.Fprintln(a.out, "note     the configured mode is observe: its share is decided on, but not steered")
	case then.Stage == policy.StageShare:
		fmt.Fprintf(a.out, "beside   %s for %g %% of the jobs; it is rolled back when they do worse (false alarms: %g %%)\n", then.Trial, 100*then.Share, 100*policy.FalseAlarm)
	case then.Stage == policy.StageObserve:
		fmt.Fprintf(a.out, "beside   %s, observed\n", then.Trial)
	}
	return nil
}

// mayPromote gathers the evidence.
func (a *app) mayPromote(cmd *cobra.Command, s *store.Store, cfg *config.Config, version string, from, to policy.Stage, changes []policy.StageChange) error {
	ctx := cmd.Context()
	now := policy.StandingOf(changes)
	var e policy.Evidence
	all, err := s.Evaluations(ctx, version)
	if err != nil {
		return err
	}
	against := now.Live
	if against == "" {
		against = cfg.Policy
	}
	for _, v := range all {
		if v.Against == against {
			e.Evaluations = append(e.Evaluations, v)
		}
	}
	n, err := s.PairsSince(ctx, version, now.Since)
	if err != nil {
		return err
	}
	if now.Trial == version {
		e.Observed = n.Jobs
		blob, err := s.LoadState(ctx, policy.TrialStateName)
		if err != nil {
			return err
		}
		if e.Share, err = shareFigures(blob, version, now.Since); err != nil {
			return err
		}
	}
	return policy.Promotion(now, version, from, to, e)
}

// shareFigures reads what riflingd keeps of a trial.
func shareFigures(blob []byte, version string, since time.Time) (policy.ShareFigures, error) {
	var s struct {
		Version string           `json:"version"`
		Since   time.Time        `json:"since"`
		Test    policy.ShareTest `json:"test"`
	}
	if len(blob) == 0 {
		return policy.ShareFigures{}, nil
	}
	if err := json.Unmarshal(blob, &s); err != nil {
		return policy.ShareFigures{}, fmt.Errorf("read the state of the trial: %w", err)
	}
	if s.Version != version || !s.Since.Equal(since) {
		return policy.ShareFigures{}, nil
	}
	return s.Test.Figures(), nil
}
