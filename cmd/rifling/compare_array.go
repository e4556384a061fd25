// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rifling/slurm"
)

// part is what one task of a job array writes.
type part struct {
	Plan plan           `json:"plan"`
	Runs map[int]played `json:"runs"` // by number
}

// mostTasks is Slurm's default MaxArraySize, less one.
const mostTasks = 1000

// flagWords are the flags that were set, as words for a shell, in their order.
func flagWords(cmd *cobra.Command, without []string) []string {
	out := []string{}
	cmd.Flags().Visit(func(f *pflag.Flag) {
		if slices.Contains(without, f.Name) {
			return
		}
		v := f.Value.String()
		if list, ok := f.Value.(pflag.SliceValue); ok {
			v = strings.Join(list.GetSlice(), ",")
		}
		out = append(out, "--"+f.Name+"="+quote(v))
	})
	return out
}

// quote protects a word from the shell.
func quote(s string) string {
	if s != "" && !strings.ContainsFunc(s, func(r rune) bool {
		return !strings.ContainsRune("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_./,:=+-", r)
	}) {
		return s
	}
	return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'"
}

// arrayPlace readies the folder of a job array, which must hold no results yet,
// and returns this program's own file and that folder. Tasks run elsewhere, so
// the paths in the named flags are made whole.
func arrayPlace(cmd *cobra.Command, folder string, paths ...string) (self, dir string, err error) {
	if self, err = os.Executable(); err != nil {
		return "", "", fmt.Errorf("find this program's own file: %w", err)
	}
	if dir, err = filepath.Abs(folder); err != nil {
		return "", "", fmt.Errorf("--slurm: %w", err)
	}
	if old, _ := filepath.Glob(filepath.Join(dir, "part-*.json")); len(old) > 0 {
		return "", "", slurm.WithHint(fmt.Errorf("%s holds results of an earlier array", dir), "give another directory, or remove them")
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", "", fmt.Errorf("--slurm: %w", err)
	}
	for _, name := range paths {
		f := cmd.Flags().Lookup(name)
		if f == nil || !f.Changed || f.Value.String() == "" {
			continue
		}
		abs, err := filepath.Abs(f.Value.String())
		if err == nil {
			err = f.Value.Set(abs)
		}
		if err != nil {
			return "", "", fmt.Errorf("--%s: %w", name, err)
		}
	}
	return self, dir, nil
}

// writeArray writes the job array that does the runs.
func (c *compareCall) writeArray(cmd *cobra.Command, list []string, p *plan) error {
	tasks := c.tasks
	if tasks == 0 {
		tasks = min(p.runs(), mostTasks)
	}
	tasks = min(tasks, p.runs())
	self, dir, err := arrayPlace(cmd, c.slurmDir, "slurm-conf", "config")
	if err != nil {
		return err
	}
	words := append([]string{quote(self), "compare"}, flagWords(cmd, []string{"loads", "slurm", "tasks", "json", "csv", "no-plot", "svg", "workers"})...)
	if len(c.loads) > 0 {
		loads := make([]string, len(c.loads))
		for i, l := range c.loads {
			loads[i] = num(l) // all digits, which the flag itself does not write
		}
		words = append(words, "--loads="+strings.Join(loads, ","))
	}
	for _, path := range list {
		abs, err := filepath.Abs(path)
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		words = append(words, quote(abs))
	}
	text := fmt.Sprintf(`#!/bin/sh
# Made by rifling compare --slurm: %s in %s.
# Give a partition, an account or a time limit to sbatch itself.
#SBATCH --job-name=rifling-compare
#SBATCH --array=0-%d
#SBATCH --ntasks=1
#SBATCH --cpus-per-task=1
#SBATCH --output="%s/task-%%a.log"
exec %s --workers=1 \
  --share="$SLURM_ARRAY_TASK_ID/%d" --part=%s/part-"$SLURM_ARRAY_TASK_ID".json
`, count(p.runs(), "run", "runs"), count(tasks, "task", "tasks"), tasks-1, dir, strings.Join(words, " "), tasks, quote(dir))
	script := filepath.Join(dir, "compare.sbatch")
	if err := os.WriteFile(script, []byte(text), 0o755); err != nil {
		return fmt.Errorf("--slurm: %w", err)
	}
	fmt.Fprintf(c.out, "%s in %s are ready. Every node must see this directory, the trace and this program.\n  sbatch %s\nand when all have ended:\n  rifling compare --collect %s\n",
		count(p.runs(), "run", "runs"), count(tasks, "task", "tasks"), quote(script), quote(dir))
	return nil
}

// writePart writes a share's results at once or not at all.
func writePart(path string, p *plan, runs map[int]played) error {
	text, err := json.Marshal(part{Plan: *p, Runs: runs})
	if err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.WriteFile(path+".new", text, 0o644); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	if err := os.Rename(path+".new", path); err != nil {
		return fmt.Errorf("write results: %w", err)
	}
	return nil
}

// collectParts puts together what the tasks have written. All must have come
// from one call, and all runs must be there.
func collectParts(dir string) (*plan, map[int]played, error) {
	files, err := filepath.Glob(filepath.Join(dir, "part-*.json"))
	if err != nil || len(files) == 0 {
		return nil, nil, slurm.WithHint(errors.Join(fmt.Errorf("%s holds no results", dir), err), "its job array has not run yet; task-*.log there say why a task failed")
	}
	runs := map[int]played{}
	var first plan
	for i, path := range files {
		text, err := os.ReadFile(path)
		if err != nil {
			return nil, nil, fmt.Errorf("collect: %w", err)
		}
		var p part
		if err := json.Unmarshal(text, &p); err != nil {
			return nil, nil, fmt.Errorf("collect %s: %w", path, err)
		}
		if i == 0 {
			first = p.Plan
		} else if !reflect.DeepEqual(first, p.Plan) {
			return nil, nil, slurm.WithHint(fmt.Errorf("%s and %s are of different comparisons", files[0], path), "use one directory for each call of --slurm")
		}
		for n, r := range p.Runs {
			runs[n] = r
		}
	}
	if missing := first.runs() - len(runs); missing != 0 {
		return nil, nil, slurm.WithHint(fmt.Errorf("%d of %s are missing in %s", missing, count(first.runs(), "run", "runs"), dir),
			"tasks still run, or failed: see task-*.log there; sbatch --array=N compare.sbatch repeats one")
	}
	return &first, runs, nil
}
