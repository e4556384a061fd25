// SPDX-License-Identifier: Apache-2.0

// Command rifling-collector runs on each GPU node: it reads what the GPUs and
// the network ports do, finds out which Slurm job it is for, and sends that to
// riflingd. It changes nothing on the node.
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/viper"

	"rifling/cmd/internal/manual"
	"rifling/collector"
	"rifling/slurm"
)

var version = "unknown"

// Exit statuses.
const (
	exitFailed = 1
	exitMisuse = 2
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGINT, syscall.SIGTERM)
	err := newRoot().ExecuteContext(ctx)
	stop()
	if err == nil {
		return
	}
	fmt.Fprintf(os.Stderr, "rifling-collector: %v\n", err)
	if hint := slurm.HintOf(err); hint != "" {
		fmt.Fprintf(os.Stderr, "hint: %s\n", hint)
	}
	os.Exit(exitStatus(err))
}

// errMisuse is in every error that the command line or the environment's
// options caused.
var errMisuse = errors.New("called wrongly")

func exitStatus(err error) int {
	switch {
	case err == nil:
		return 0
	case errors.Is(err, errMisuse):
		return exitMisuse
	}
	return exitFailed
}

// misuse is an error of whoever called, without saying so twice.
type misuse struct{ error }

func (misuse) Is(target error) bool { return target == errMisuse }
func (m misuse) Unwrap() error      { return m.error }

func misused(err error) error {
	return slurm.WithHint(misuse{err}, "rifling-collector --help lists commands and options")
}

// config is the command line and RIFLING_COLLECTOR_* of the environment.
type config struct {
	Node       string        `mapstructure:"node"`
	URL        string        `mapstructure:"url"`
	SecretFile string        `mapstructure:"secret-file"`
	CAFile     string        `mapstructure:"ca-file"`
	Interval   time.Duration `mapstructure:"interval"`
	Ports      []string      `mapstructure:"ports"`
	Spool      string        `mapstructure:"spool"`
	SpoolMiB   int64         `mapstructure:"spool-mib"`
	Library    string        `mapstructure:"nvml-library"`
	Sysfs      string        `mapstructure:"sysfs"`
	Proc       string        `mapstructure:"proc"`
	LogLevel   string        `mapstructure:"log-level"`
}

func newRoot() *cobra.Command {
	var once, asJSON bool
	cmd := &cobra.Command{
		Use:   "rifling-collector",
		Short: "sends riflingd what the jobs on this node do",
		Long: `rifling-collector reads GPUs (NVML) and network ports (InfiniBand, RoCE,
Ethernet), finds the Slurm job of each, and sends rates to riflingd. What a node
or a driver does not have is left out. Every option may be given as
RIFLING_COLLECTOR_OPTION in the environment; the command line has precedence.

Exit status: 0 when all is well, 1 when something failed or "check" found
something wanting, 2 when it was called wrongly.`,
		Args:          noArgs,
		Version:       version,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := load(cmd)
			switch {
			case err != nil:
				return err
			case once:
				return printOnce(cmd.Context(), c, asJSON, cmd.OutOrStdout(), cmd.ErrOrStderr())
			case asJSON:
				return misused(errors.New("--json goes with --once"))
			}
			return run(cmd.Context(), c, cmd.ErrOrStderr())
		},
	}
	cmd.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return misused(err) })
	f := cmd.PersistentFlags()
	f.String("node", "", "Slurm's name of this node (default: the short host name)")
	f.String("url", "http://127.0.0.1:6830", "riflingd's address")
	f.String("secret-file", "/etc/rifling/secret", "file with the secret shared with riflingd")
	f.String("ca-file", "", "certificates to check an https address with (default: the system's)")
	f.Duration("interval", 15*time.Second, "time between readings")
	f.StringSlice("ports", nil, `network ports that jobs train over, as names or patterns: "mlx5_0/1", "mlx5_*",
"eth0" (default: InfiniBand and RoCE if there is any, else Ethernet; of these
the ports at half the fastest's speed or more)`)
	f.String("spool", stateDirectory(), `folder in which samples wait while riflingd is away, of this collector alone
(default: the unit's state directory; without one they wait in memory)`)
	f.Int64("spool-mib", collector.DefaultSpoolBytes>>20, "room in that folder; when it is full the oldest give way")
	f.String("nvml-library", "", "libnvidia-ml.so.1, where it is not on the library path")
	f.String("sysfs", "/sys", "root of sysfs")
	f.String("proc", "/proc", "root of procfs")
	f.String("log-level", "info", "debug, info, warn or error")
	cmd.Flags().BoolVar(&once, "once", false, "print what one interval shows, send nothing, and end")
	cmd.Flags().BoolVar(&asJSON, "json", false, `with --once: a line of JSON for each sample, GPU and port, told apart by "kind"`)
	cmd.AddCommand(newCheck())
	manual.Add(cmd, manual.Program{
		Section: 8,
		Exit:    "0 when all is well, 1 when something failed or a check says FAIL, 2 when it was called wrongly.",
		Files: []string{
			"/etc/default/rifling-collector  options of the service",
			"/etc/rifling/secret  shared with riflingd",
		},
		SeeAlso: []string{"riflingd(8)"},
	})
	return cmd
}

// stateDirectory is the folder that systemd made for the unit, if it did.
func stateDirectory() string {
	dir, _, _ := strings.Cut(os.Getenv("STATE_DIRECTORY"), ":")
	return dir
}

func noArgs(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return misused(fmt.Errorf("%s: no command %q", cmd.CommandPath(), args[0]))
	}
	return nil
}

func load(cmd *cobra.Command) (config, error) {
	v := viper.New()
	v.SetEnvPrefix("RIFLING_COLLECTOR")
	v.SetEnvKeyReplacer(strings.NewReplacer("-", "_"))
	v.AutomaticEnv()
	if err := v.BindPFlags(cmd.Flags()); err != nil {
		return config{}, err
	}
	var c config
	if err := v.Unmarshal(&c); err != nil {
		return config{}, misused(fmt.Errorf("options: %w", err))
	}
	if c.Node == "" {
		host, err := os.Hostname()
		if err != nil {
			return config{}, slurm.WithHint(fmt.Errorf("host name: %w", err), "give the node's name with --node")
		}
		c.Node, _, _ = strings.Cut(host, ".")
	}
	if c.Interval < time.Second || c.Interval > time.Hour {
		return config{}, misused(fmt.Errorf("--interval %s is not between 1s and 1h", c.Interval))
	}
	if c.SpoolMiB < 1 || c.SpoolMiB > 1<<20 {
		return config{}, misused(fmt.Errorf("--spool-mib %d is not between 1 and %d", c.SpoolMiB, 1<<20))
	}
	if err := collector.CheckPorts(c.Ports); err != nil {
		return config{}, misused(fmt.Errorf("--ports: %w", err))
	}
	if _, err := logLevel(c.LogLevel); err != nil {
		return config{}, misused(fmt.Errorf("--log-level: %w", err))
	}
	c.URL = strings.TrimRight(c.URL, "/")
	return c, nil
}
