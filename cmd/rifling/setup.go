// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/etc"
	"rifling/report"
	"rifling/slurm"
)

func (a *app) setupCmd() *cobra.Command {
	s := &setup{app: a}
	cmd := &cobra.Command{
		Use:   "setup",
		Short: "Look at this site's Slurm and write a configuration for it",
		Long: "setup asks scontrol, sacctmgr, squeue and slurmrestd what this site has, writes a\n" +
			"configuration with the reason beside each choice, prints the commands that only\n" +
			"an admin of Slurm can run, and ends with `rifling check`. What it cannot find out\n" +
			"it names, with what to do; the rest is written all the same. It changes nothing\n" +
			"in Slurm, and the configuration that it writes observes.\n\n" +
			"A configuration that says more than the defaults is not overwritten without\n" +
			"--force, which keeps the old one as FILE.old. The exit status is 1 while the\n" +
			"check still fails.",
		Example: "  rifling setup --dry-run\n  rifling setup\n  rifling setup --url https://slurm:6820 --token-file /etc/rifling/token --force",
		Args:    args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			s.database, _ = cmd.Flags().GetString("database") // the flag is the root's
			return s.run(cmd.Context(), cmd.ErrOrStderr())
		},
	}
	f := cmd.Flags()
	f.StringVar(&s.url, "url", "", "slurmrestd, where it is not found by itself: unix:///PATH or http://HOST:PORT")
	f.StringVar(&s.user, "user", config.Default().Slurm.User, "rifling's user in Slurm")
	f.StringVar(&s.tokenFile, "token-file", "", "file with a JWT for a slurmrestd that wants one")
	f.BoolVar(&s.dryRun, "dry-run", false, "write the configuration to standard output and the rest to standard error")
	f.BoolVar(&s.force, "force", false, "overwrite a configuration; the old one is kept as FILE.old")
	return cmd
}

// setup is one call of the verb.
type setup struct {
	*app
	url, user, tokenFile, database string
	dryRun, force                  bool
}

func (s *setup) run(ctx context.Context, stderr io.Writer) error {
	path := s.configPath
	if path == "" {
		path = config.DefaultPath
	}
	if !s.dryRun && !s.force {
		if err := refuseOverwrite(path); err != nil {
			return err
		}
	}
	talk := s.out // what is said beside the configuration
	if s.dryRun {
		talk = stderr
	}
	site := s.look(ctx)
	text := site.configuration()
	fmt.Fprintf(talk, "What there is:\n")
	writeFindings(talk, site.findings())
	cfg, err := s.write(talk, path, text)
	if err != nil {
		return err
	}
	if todo := site.todo(); len(todo) > 0 {
		fmt.Fprintf(talk, "\nWhat rifling may not do itself; run as an admin of Slurm, then call rifling check:\n")
		for _, line := range todo {
			fmt.Fprintf(talk, "  %s\n", line)
		}
	}
	fmt.Fprintf(talk, "\nrifling check:\n")
	c := &checker{app: s.app, cfg: cfg}
	c.run(ctx)
	writeFindings(talk, c.findings)
	if failed(c.findings) {
		fmt.Fprintf(talk, "\nSome of it fails yet: mend it as said, in that order, and call rifling check again.\n")
		return errFailed
	}
	fmt.Fprintf(talk, "\nNext: systemctl enable --now riflingd. It observes and changes nothing.\n")
	return nil
}

// write puts the configuration in its place, or in a dry run on standard
// output, and reads it as every program will.
func (s *setup) write(talk io.Writer, path, text string) (*config.Config, error) {
	if s.dryRun {
		tmp, err := os.CreateTemp("", "rifling-setup-")
		if err != nil {
			return nil, err
		}
		defer func() { _ = os.Remove(tmp.Name()) }()
		if _, err := tmp.WriteString(text); err != nil {
			return nil, errors.Join(err, tmp.Close())
		}
		if err := tmp.Close(); err != nil {
			return nil, err
		}
		if _, err := io.WriteString(s.out, text); err != nil {
			return nil, err
		}
		return config.Load(tmp.Name(), nil)
	}
	if err := replaceFile(path, text); err != nil {
		return nil, slurm.WithHint(fmt.Errorf("write configuration: %w", err),
			"run as root, name another file with --config, or see it with --dry-run")
	}
	fmt.Fprintf(talk, "\nWrote %s\n", path)
	return config.Load(path, nil)
}

// refuseOverwrite guards a file in which somebody chose something. The sample
// that the packages bring says nothing but the defaults.
func refuseOverwrite(path string) error {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) || err == nil && string(text) == etc.Sample {
		return nil
	}
	cfg, err := config.Load(path, nil)
	if err == nil && reflect.DeepEqual(*cfg, withEmpties(config.Default(), *cfg)) {
		return nil
	}
	return slurm.WithHint(fmt.Errorf("%s is there already, and says more than the defaults", path),
		"--dry-run shows what setup would write; --force writes it and keeps the old file as %s.old", path)
}

// withEmpties returns the configuration a, with nil where b has an empty list:
// a file may write what is not set as [].
func withEmpties(a, b config.Config) config.Config {
	var fill func(x, y reflect.Value)
	fill = func(x, y reflect.Value) {
		for i := range x.NumField() {
			switch f, g := x.Field(i), y.Field(i); {
			case f.Kind() == reflect.Struct:
				fill(f, g)
			case f.Kind() == reflect.Slice && f.Len() == 0 && g.Len() == 0:
				f.Set(g)
			}
		}
	}
	fill(reflect.ValueOf(&a).Elem(), reflect.ValueOf(b))
	return a
}

// configMode lets riflingd's group read the file and nobody else.
const configMode = 0o640

// replaceFile writes the file whole or not at all, and keeps the old one.
func replaceFile(path, text string) error {
	dir := filepath.Dir(path)
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	tmp, err := os.CreateTemp(dir, ".rifling-")
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(tmp.Name()) }() // gone after the rename
	_, err = tmp.WriteString(text)
	if err := errors.Join(err, tmp.Chmod(configMode), tmp.Sync(), tmp.Close()); err != nil {
		return err
	}
	// Only root may give the file to the group, and without a group there is
	// no daemon yet that would read it.
	if g, err := user.LookupGroup(config.Default().Slurm.User); err == nil && os.Geteuid() == 0 {
		gid, err := strconv.Atoi(g.Gid)
		if err != nil {
			return err
		}
		if err := os.Chown(tmp.Name(), 0, gid); err != nil {
			return err
		}
	}
	if err := os.Rename(path, path+".old"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// writeFindings writes a line for each finding and one for what to do.
func writeFindings(w io.Writer, list []finding) {
	for _, f := range list {
		fmt.Fprintf(w, "%-4s  %-10s  %s\n", f.Level, f.About, report.Clean(f.What))
		if f.Do != "" {
			fmt.Fprintf(w, "%-4s  %-10s  -> %s\n", "", "", report.Clean(f.Do))
		}
	}
}

func failed(list []finding) bool {
	for _, f := range list {
		if f.Level == levelFail {
			return true
		}
	}
	return false
}
