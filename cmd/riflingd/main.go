// SPDX-License-Identifier: Apache-2.0

// Command riflingd is the daemon that runs beside slurmctld: it polls
// slurmrestd, decides where pending GPU jobs should run, and, in steer mode,
// updates them. See docs/admin.md.
package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/cmd/internal/manual"
	"rifling/slurm"
)

var version = "unknown"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newRoot(os.Stderr).ExecuteContext(ctx)
	stop()
	if err != nil {
		fmt.Fprintf(os.Stderr, "riflingd: %v\n", err)
		if hint := slurm.HintOf(err); hint != "" {
			fmt.Fprintf(os.Stderr, "hint: %s\n", hint)
		}
		os.Exit(1)
	}
}

func newRoot(log io.Writer) *cobra.Command {
	var path string
	var once bool
	cmd := &cobra.Command{
		Use:   "riflingd",
		Short: "GPU scheduler beside slurmctld",
		Long: `riflingd polls slurmrestd for pending GPU jobs, decides where each should run or
that it should wait, records why, and in mode steer updates the jobs. It observes
unless told to steer. "rifling release" takes everything back.`,
		Args:          cobra.NoArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := config.Load(path, cmd.Flags())
			if err != nil {
				return err
			}
			warnings, err := c.CheckFiles(path)
			if err != nil {
				return err
			}
			for _, w := range warnings {
				fmt.Fprintf(log, "riflingd: warning: %s\n", w)
			}
			return run(cmd.Context(), c, once, log)
		},
	}
	f := cmd.Flags()
	f.StringVar(&path, "config", "", "configuration file (default "+config.DefaultPath+")")
	f.BoolVar(&once, "once", false, "run one cycle, take back what it set, and end")
	f.String("mode", "", "observe or steer, over the configuration")
	f.String("policy", "", "rifling, pack or slurm, over the configuration")
	f.Duration("interval", 0, "time between cycles, over the configuration")
	f.String("log.level", "", "debug, info, warn or error, over the configuration")
	manual.Add(cmd, manual.Program{
		Section: 8,
		Exit:    "0 after a stop that was asked for, 1 when something failed.",
		Files: []string{
			"/etc/rifling/rifling.yaml  configuration, see rifling.yaml(5)",
			"/etc/default/riflingd  environment of the service",
			"/var/lib/rifling/rifling.db  history, decisions, what was learnt",
		},
		SeeAlso: []string{"rifling(1)", "rifling.yaml(5)", "rifling-collector(8)"},
	})
	return cmd
}
