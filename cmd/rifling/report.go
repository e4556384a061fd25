// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"rifling/report"
	"rifling/slurm"
	"rifling/store"
)

// reportCall is one call of the verb.
type reportCall struct {
	*app
	filter   filterFlags
	table    tableFlags
	by       []string
	date     string
	csv      bool
	html     bool
	replay   bool
	seed     uint64
	backtest backtestCall // of the replay: the cluster

	at      time.Time // of --before-after; zero without
	query   store.ReportQuery
	report  *store.Report
	cluster []store.ClusterDay
	changes []comparison
	alone   *alone
}

func (a *app) reportCmd() *cobra.Command {
	c := reportCall{app: a}
	c.backtest.app = a
	c.backtest.addCluster(&cobra.Command{}) // for what it has as defaults
	cmd := &cobra.Command{
		Use:   "report",
		Short: "Sum up queueing delay, completion time, use of GPUs, rates and effect",
		Long: "report sums up the GPU jobs of a range of time (all of the history without one):\n" +
			"queueing delay, job completion time (JCT), bounded slowdown, ANPR, GPU hours used\n" +
			"against allocated, and how the cluster did: GPUs in use, fragmentation, unevenness.\n" +
			"--by splits the jobs. --by action sets what rifling steered beside what it left to\n" +
			"Slurm; jobs differ, so that is no proof of cause.\n\n" +
			"--before-after compares the jobs submitted before a date with those from it on, the\n" +
			"switch from observe to steer say. Intervals hold 95 % of the differences when whole\n" +
			"days are drawn again (bootstrap). The jobs of two times differ as well, so look at\n" +
			"--counterfactual too: the same jobs, replayed in the simulator under Slurm alone.\n\n" +
			"--html writes one page that needs nothing beside it. Quantiles of more than 256\n" +
			"jobs are right within 1 %. Users see their own jobs only, unless users-see says\n" +
			"otherwise.",
		Example: "  rifling report --by user --since now-30days\n" +
			"  rifling report --by day,partition --csv > days.csv\n" +
			"  rifling report --before-after 2026-11-15 --html > board.html",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.filter.add(cmd)
	c.table.add(cmd)
	fl := cmd.Flags()
	fl.SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		// The words of rifling backtest and of most other tools.
		switch name {
		case "since":
			name = "starttime"
		case "until":
			name = "endtime"
		}
		return pflag.NormalizedName(name)
	})
	fl.StringSliceVar(&c.by, "by", nil, "split by "+strings.Join(store.ReportKeys, ","))
	fl.StringVar(&c.date, "before-after", "", "compare jobs submitted before this date with those from it on")
	fl.BoolVar(&c.csv, "csv", false, "write comma-separated values for spreadsheets")
	fl.BoolVar(&c.html, "html", false, "write a page of HTML with plots")
	fl.BoolVar(&c.replay, "counterfactual", false, "replay the jobs under Slurm alone (needs rifling history import)")
	fl.Uint64Var(&c.seed, "seed", 1, "seed of the bootstrap and of the replay")
	fl.StringVar(&c.backtest.nodes, "nodes", "", "cluster of the replay, as for rifling backtest")
	fl.StringVar(&c.backtest.conf, "slurm-conf", "", "slurm.conf of the replay, as for rifling backtest")
	return cmd
}

func (c *reportCall) run(cmd *cobra.Command) error {
	if err := c.check(); err != nil {
		return err
	}
	all := reportFields(c.by, !c.at.IsZero())
	if c.table.list {
		_, err := io.WriteString(c.out, report.Describe(all))
		return err
	}
	spec := c.table.format
	if spec == "" {
		spec = c.standard()
	}
	layout, err := report.Choose(all, spec)
	if err != nil {
		return usageError{err}
	}
	if err := c.read(cmd); err != nil {
		return err
	}
	c.changes = c.compare()
	if c.replay {
		if c.alone, err = c.replayed(cmd); err != nil {
			return err
		}
	}
	return c.write(layout)
}

// check refuses what does not go together, before anything is read.
func (c *reportCall) check() (err error) {
	for _, k := range c.by {
		if !slices.Contains(store.ReportKeys, k) {
			return usageError{fmt.Errorf("--by %q: use one or more of %s", k, strings.Join(store.ReportKeys, ","))}
		}
	}
	for i, k := range c.by {
		if slices.Contains(c.by[:i], k) {
			return usageError{fmt.Errorf("--by names %s twice", k)}
		}
	}
	forms := []string{}
	for _, f := range []struct {
		on   bool
		name string
	}{{c.table.json, "--json"}, {c.csv, "--csv"}, {c.html, "--html"}, {c.table.parsable, "-p"}, {c.table.parse2, "-P"}} {
		if f.on {
			forms = append(forms, f.name)
		}
	}
	if len(forms) > 1 {
		return usageError{fmt.Errorf("%s exclude each other", strings.Join(forms, " and "))}
	}
	if c.date != "" {
		if c.at, err = slurm.ParseWhen(c.date, c.env.Now()); err != nil {
			return usageError{fmt.Errorf("--before-after: %w", err)}
		}
	}
	f, err := c.filter.filter(c.app)
	if err != nil {
		return err
	}
	if !c.at.IsZero() && (!f.Since.IsZero() && !f.Since.Before(c.at) || !f.Until.IsZero() && !c.at.Before(f.Until)) {
		return usageError{fmt.Errorf("--before-after %s is not within the range of time", c.date)}
	}
	c.query = store.ReportQuery{Filter: f, By: c.by, Zone: c.env.Now().Location(), Switch: c.at, Blocks: !c.at.IsZero() || c.html}
	return nil
}

// read gets the figures from the history.
func (c *reportCall) read(cmd *cobra.Command) error {
	cfg, err := c.config(cmd)
	if err != nil {
		return err
	}
	s, err := store.OpenReadOnly(cfg.Database)
	if err != nil {
		return err
	}
	defer s.Close()
	if c.query.Users, err = c.mayAsk(cfg, c.query.Users); err != nil {
		return err
	}
	if c.report, err = s.Report(cmd.Context(), c.query); err != nil {
		return err
	}
	c.cluster, err = s.ClusterDays(cmd.Context(), c.query.Since, c.query.Until, c.query.Zone)
	return err
}

// standard is the columns that are shown without -o.
func (c *reportCall) standard() string {
	var names []string
	if !c.at.IsZero() {
		names = append(names, "When")
	}
	for _, k := range c.by {
		names = append(names, keyNames[k])
	}
	return strings.Join(append(names, reportFormat), ",")
}

func (c *reportCall) write(layout report.Layout[store.Figures]) error {
	switch {
	case c.table.json:
		return c.writeJSON(layout)
	case c.html:
		return report.WriteHTML(c.out, c.document(layout))
	}
	style := report.Style{
		NoHeader: c.table.noHeader, Parsable: c.table.parsable || c.table.parse2 || c.table.delimiter != "",
		Trailing: c.table.parsable, Delimiter: c.table.delimiter, CSV: c.csv,
	}
	if err := report.Write(c.out, layout, c.report.Rows, style); err != nil {
		return err
	}
	if style.Parsable || style.CSV || style.NoHeader {
		return nil
	}
	return c.writeMore()
}

// writeMore writes what stands below the table.
func (c *reportCall) writeMore() error {
	var b strings.Builder
	for _, n := range c.notes() {
		fmt.Fprintf(&b, "\n%s\n", report.Clean(n))
	}
	if len(c.changes) > 0 {
		b.WriteString("\n")
		if err := report.Write(&b, c.changeLayout(), c.changes, report.Style{}); err != nil {
			return err
		}
		fmt.Fprintf(&b, "\n%s\n", c.changeNote())
	}
	if c.alone != nil {
		for _, l := range c.alone.words(c.app) {
			fmt.Fprintf(&b, "\n%s\n", report.Clean(l))
		}
	}
	_, err := io.WriteString(c.out, b.String())
	return err
}

// notes are the sentences about the cluster, and about what was left out.
func (c *reportCall) notes() []string {
	var out []string
	if s := c.shape(); s.Cycles > 0 {
		line := fmt.Sprintf("Cluster: %.0f %% of the GPUs in use", 100*s.Used.Mean())
		if s.Split.N > 0 {
			line += fmt.Sprintf(", fragmentation %.2f", s.Split.Mean())
		}
		if s.Unevenness.N > 0 {
			line += fmt.Sprintf(", unevenness %.2f", s.Unevenness.Mean())
		}
		out = append(out, line+fmt.Sprintf(" (means over %s).", count(s.Cycles, "cycle", "cycles")))
	}
	if n := c.report.Straddling; n > 0 {
		out = append(out, fmt.Sprintf("Left out: %s submitted before %s that had not started by then.", count(n, "job", "jobs"), c.clock(c.at)))
	}
	return out
}

// shape is the cluster's days summed up.
func (c *reportCall) shape() store.ClusterDay {
	var s store.ClusterDay
	for _, d := range c.cluster {
		s.Cycles += d.Cycles
		s.Used, s.Split, s.Unevenness = s.Used.Plus(d.Used), s.Split.Plus(d.Split), s.Unevenness.Plus(d.Unevenness)
		s.ANPR, s.Pending = s.ANPR.Plus(d.ANPR), s.Pending.Plus(d.Pending)
	}
	return s
}
