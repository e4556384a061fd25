// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"

	"github.com/spf13/cobra"

	"rifling/profile"
	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

// filterFlags are sacct's flags that choose jobs.
type filterFlags struct {
	users, accounts, partitions, qos, groups []string
	jobs                                     []string
	since, until                             string
}

func (f *filterFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringSliceVarP(&f.users, "user", "u", nil, "only jobs of these users")
	fl.StringSliceVarP(&f.accounts, "account", "A", nil, "only jobs of these accounts")
	fl.StringSliceVarP(&f.partitions, "partition", "r", nil, "only jobs of these partitions")
	fl.StringSliceVarP(&f.qos, "qos", "q", nil, "only jobs of these QOS")
	fl.StringSliceVarP(&f.groups, "group", "g", nil, "only jobs of these groups (numbers, or unknown)")
	fl.StringVarP(&f.since, "starttime", "S", "", "jobs that waited or ran after this time: now-7days, 2026-12-01, ...")
	fl.StringVarP(&f.until, "endtime", "E", "", "jobs that were submitted before this time")
}

func (f *filterFlags) addJobs(cmd *cobra.Command) {
	cmd.Flags().StringSliceVarP(&f.jobs, "jobs", "j", nil, "only these jobs")
}

// filter reads the flags; what cannot be read is a usage error.
func (f *filterFlags) filter(a *app) (out store.Filter, err error) {
	out = store.Filter{Users: f.users, Accounts: f.accounts, Partitions: f.partitions, QOS: f.qos}
	now := a.env.Now()
	if f.since != "" {
		if out.Since, err = slurm.ParseWhen(f.since, now); err != nil {
			return out, usageError{err}
		}
	}
	if f.until != "" {
		if out.Until, err = slurm.ParseWhen(f.until, now); err != nil {
			return out, usageError{err}
		}
	}
	if !out.Since.IsZero() && !out.Until.IsZero() && !out.Since.Before(out.Until) {
		return out, usageError{fmt.Errorf("the range from %s to %s is empty", f.since, f.until)}
	}
	if out.Groups, err = groupNumbers(f.groups); err != nil {
		return out, err
	}
	for _, s := range f.jobs {
		ref, err := slurm.ParseJobID(s)
		if err != nil {
			return out, usageError{err}
		}
		out.Jobs = append(out.Jobs, ref.Job)
	}
	return out, nil
}

func groupNumbers(words []string) ([]int, error) {
	var out []int
	for _, w := range words {
		if w == "unknown" {
			out = append(out, profile.GroupUnknown)
			continue
		}
		n, err := strconv.Atoi(w)
		if err != nil || n < 0 {
			return nil, usageError{slurm.WithHint(fmt.Errorf("no group %q", w), "give a number as `rifling groups` shows it, or unknown")}
		}
		out = append(out, n)
	}
	return out, nil
}

// tableFlags are sacct's flags that choose how rows are shown.
type tableFlags struct {
	format                     string
	noHeader, parsable, parse2 bool
	delimiter                  string
	json, list                 bool
}

func (t *tableFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVarP(&t.format, "format", "o", "", "fields to show, e.g. jobid,user%12,state (-e lists them)")
	fl.BoolVarP(&t.noHeader, "noheader", "n", false, "no header")
	fl.BoolVarP(&t.parsable, "parsable", "p", false, "separate cells by |, with one at the end of the line")
	fl.BoolVarP(&t.parse2, "parsable2", "P", false, "separate cells by |")
	fl.StringVar(&t.delimiter, "delimiter", "", "in place of | with -p and -P")
	fl.BoolVar(&t.json, "json", false, "write JSON")
	fl.BoolVarP(&t.list, "helpformat", "e", false, "list the fields that -o takes")
}

// show writes the rows with the chosen fields, or lists the fields there are.
func show[T any](w io.Writer, t tableFlags, all []report.Field[T], standard string, rows func() ([]T, error)) error {
	if t.list {
		_, err := io.WriteString(w, report.Describe(all))
		return err
	}
	spec := t.format
	if spec == "" {
		spec = standard
	}
	layout, err := report.Choose(all, spec)
	if err != nil {
		return usageError{err}
	}
	if t.parsable && t.parse2 {
		return usageError{fmt.Errorf("-p and -P exclude each other")}
	}
	list, err := rows()
	if err != nil {
		return err
	}
	return report.Write(w, layout, list, report.Style{
		NoHeader: t.noHeader, Parsable: t.parsable || t.parse2 || t.delimiter != "", Trailing: t.parsable,
		Delimiter: t.delimiter, JSON: t.json,
	})
}
