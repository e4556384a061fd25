// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/gdamore/tcell/v2"
	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

// Exit statuses.
const (
	exitOK     = 0
	exitFailed = 1
	exitUsage  = 2
)

// errFailed ends a verb that has already said on its output what failed.
var errFailed = errors.New("failed")

// usageError is a mistake in how the program was called.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// Env is what the program needs of the world around it.
type Env struct {
	// Now is the host's clock; its location is that of all times shown.
	Now func() time.Time
	// Connect makes a client for slurmrestd. It sends nothing yet.
	Connect func(*config.Config) (Slurm, error)
	// Run runs one of Slurm's commands and returns its standard output.
	Run commandFunc
	// Asker tells who called; nil: somebody who may see all.
	Asker func() (Asker, error)
	// Screen opens the terminal; nil, or one that is nil: there is none.
	Screen func() (tcell.Screen, error)
	// Root is where the host's files lie, for tests; "" is the root directory.
	Root string
}

type commandFunc func(ctx context.Context, name string, args ...string) (string, error)

// app is what the verbs share.
type app struct {
	env        Env
	out        io.Writer
	configPath string
}

// Main runs the program and returns its exit status: 0, 1 when something
// failed, 2 when it was called wrongly.
func Main(ctx context.Context, args []string, stdout, stderr io.Writer, env Env) int {
	root := NewRoot(stdout, stderr, env)
	root.SetArgs(args)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var usage usageError
	// Cobra itself finds unknown verbs, and tells them by text alone.
	wrong := errors.As(err, &usage) || strings.HasPrefix(err.Error(), "unknown command")
	if !errors.Is(err, errFailed) {
		fmt.Fprintf(stderr, "rifling: %s\n", report.Clean(err.Error()))
		hint := slurm.HintOf(err)
		if hint == "" && wrong {
			hint = "rifling --help lists the verbs, rifling VERB --help their flags"
		}
		if hint != "" {
			fmt.Fprintf(stderr, "hint: %s\n", report.Clean(hint))
		}
	}
	if wrong {
		return exitUsage
	}
	return exitFailed
}

// NewRoot returns the command with all its verbs.
func NewRoot(stdout, stderr io.Writer, env Env) *cobra.Command {
	a := &app{env: env, out: stdout}
	root := &cobra.Command{
		Use:   "rifling",
		Short: "Show, explain and undo what riflingd does beside Slurm",
		Long: "rifling shows what riflingd does beside Slurm and why, checks the installation,\n" +
			"and takes back all that was set. It reads riflingd's database and needs no\nrunning daemon.",
		SilenceUsage: true, SilenceErrors: true,
		Version: version,
	}
	root.SetOut(stdout)
	root.SetErr(stderr)
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.PersistentFlags().StringVar(&a.configPath, "config", "", "configuration file (default "+config.DefaultPath+")")
	root.PersistentFlags().String("database", "", "database file, in place of the configured one")
	root.AddCommand(a.checkCmd(), a.setupCmd(), a.statusCmd(), a.jobsCmd(), a.explainCmd(), a.groupsCmd(),
		a.qtableCmd(), a.reportCmd(), a.topCmd(), a.historyCmd(), a.pauseCmd(), a.resumeCmd(), a.releaseCmd(),
		a.traceCmd(), a.simulateCmd(), a.compareCmd(), a.backtestCmd(), a.trainCmd(), a.policyCmd(), a.versionCmd())
	addManual(root)
	return root
}

// args makes a wrong number of arguments a usage error.
func args(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, list []string) error {
		if err := check(cmd, list); err != nil {
			return slurm.WithHint(usageError{err}, "usage: %s", cmd.UseLine())
		}
		return nil
	}
}

func (a *app) config(cmd *cobra.Command) (*config.Config, error) {
	return config.Load(a.configPath, cmd.Flags())
}

// history opens the database for reading.
func (a *app) history(cmd *cobra.Command) (*store.Store, error) {
	cfg, err := a.config(cmd)
	if err != nil {
		return nil, err
	}
	return store.OpenReadOnly(cfg.Database)
}

// local sets an instant to the location in which times are shown.
func (a *app) local(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.In(a.env.Now().Location())
}

// clock writes an instant for sentences.
func (a *app) clock(t time.Time) string {
	if t.IsZero() {
		return "an unknown time"
	}
	return a.local(t).Format("2006-01-02 15:04:05")
}
