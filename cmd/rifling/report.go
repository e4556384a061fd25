// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"rifling/store"
)

// reportCall is one call of the verb.
type reportCall struct {
	*app
	filter filterFlags
	table  tableFlags
	by     []string
}

func (a *app) reportCmd() *cobra.Command {
	c := reportCall{app: a}
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Sum up queueing delay, completion time, use of GPUs, rates and effect",
		Long: "report sums up the GPU jobs of a range of time (all of the history without one):\n" +
			"queueing delay, job completion time, bounded slowdown, use of GPUs, ANPR, what was\n" +
			"decided and written, and what came of it. --by splits the jobs; --by action sets\n" +
			"what rifling steered beside what it left to Slurm (jobs differ, so that is no proof\n" +
			"of cause).",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.filter.add(cmd)
	c.table.add(cmd)
	cmd.Flags().StringSliceVar(&c.by, "by", nil, "split by "+strings.Join(store.ReportKeys, ","))
	return cmd
}

func (c *reportCall) run(cmd *cobra.Command) error {
	for _, k := range c.by {
		if !slices.Contains(store.ReportKeys, k) {
			return usageError{fmt.Errorf("--by %q: use one or more of %s", k, strings.Join(store.ReportKeys, ","))}
		}
	}
	return show(c.out, c.table, reportFields(c.by, false), c.format(), func() ([]store.Figures, error) {
		filter, err := c.filter.filter(c.app)
		if err != nil {
			return nil, err
		}
		s, err := c.history(cmd)
		if err != nil {
			return nil, err
		}
		defer s.Close()
		r, err := s.Report(cmd.Context(), store.ReportQuery{Filter: filter, By: c.by, Zone: c.env.Now().Location()})
		if err != nil {
			return nil, err
		}
		return r.Rows, nil
	})
}

// format is the columns that are shown without -o.
func (c *reportCall) format() string {
	out := ""
	for _, k := range c.by {
		out += keyNames[k] + ","
	}
	return out + reportFormat
}
