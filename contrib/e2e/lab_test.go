// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/contrib/labrun"
)

// theLab is the one that all tests use, one after the other.
var theLab *labrun.Lab

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) int {
	ctx := context.Background()
	var err error
	if file := os.Getenv("LAB_ENV_FILE"); file != "" {
		theLab, err = labrun.FromEnv(file)
	} else {
		release := cmp.Or(os.Getenv("SLURM"), "22.05")
		theLab, err = labrun.Start(ctx, labrun.Options{Release: release, Name: "e2e-" + release, Log: os.Stderr})
		if err == nil {
			defer func() {
				if err := theLab.Down(ctx); err != nil {
					fmt.Fprintln(os.Stderr, err)
				}
			}()
		}
	}
	switch {
	case errors.Is(err, labrun.ErrSkip), errors.Is(err, labrun.ErrNeedsRoot):
		fmt.Fprintln(os.Stderr, "skipped:", err)
		return 0
	case err != nil:
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if err := theLab.SetCompression(compression); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// compression is emulated seconds per real second.
const compression = 60

// within returns a context that ends with the test and after d.
func within(t *testing.T, d time.Duration) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	t.Cleanup(cancel)
	return ctx
}

// submit submits a script with sbatch's arguments; the job is cancelled when
// the test ends.
func submit(t *testing.T, user, script string, args ...string) string {
	t.Helper()
	id, err := theLab.Sbatch(within(t, 30*time.Second), user, script, args...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := theLab.Cancel(context.Background(), id); err != nil {
			t.Log(err)
		}
	})
	return id
}

const sleeper = "#!/bin/bash\nsleep 600\n"

// waitJob waits up to a minute for ok to hold of what scontrol shows.
func waitJob(t *testing.T, id, what string, ok func(labrun.Fields) bool) labrun.Fields {
	t.Helper()
	f, err := theLab.WaitJob(within(t, time.Minute), id, what, ok)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// job reads a job as scontrol shows it now.
func job(t *testing.T, id string) labrun.Fields {
	t.Helper()
	f, err := theLab.Job(within(t, 30*time.Second), id)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// shared returns the path of a file of the project's shared data, or skips.
func shared(t *testing.T, name string) string {
	t.Helper()
	repo, err := labrun.Repo()
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(cmp.Or(os.Getenv("RIFLING_SHARED"), filepath.Join(repo, "..", "shared")), name)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs %s: set RIFLING_SHARED to the folder with the published measurements", path)
	}
	return path
}

// older tells whether the lab's Slurm is older than the given release. Releases
// have two digits each, so their order is that of their text.
func older(release string) bool { return strings.Compare(theLab.Release, release) < 0 }
