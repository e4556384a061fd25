// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/report"
	"rifling/slurm"
	"rifling/slurm/sacct"
	"rifling/store"
)

// restPatience is how long slurmrestd may take over one window of accounting.
const restPatience = 5 * time.Minute

// restRows is how many runs to ask slurmrestd for at once: it holds some 5 KB
// of each in memory, twice, before it answers.
const restRows = 5000

func (a *app) historyCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "history",
		Short: "Learn from Slurm's accounting: import it, show what is stored",
		Args:  args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return slurm.WithHint(usageError{errors.New("history needs a verb: import or status")}, "usage: rifling history import --since now-90days")
		},
	}
	cmd.AddCommand(a.historyImportCmd(), a.historyStatusCmd())
	return cmd
}

func (a *app) historyImportCmd() *cobra.Command {
	im := historyImport{app: a}
	cmd := &cobra.Command{
		Use:   "import",
		Short: "Read past jobs from Slurm's accounting into the database",
		Long: "import reads past jobs (run times, limits, states, nodes, GPUs) from Slurm's\n" +
			"accounting into rifling's database. riflingd learns from them at its start and once\n" +
			"a day. It may be stopped and called again at any time: what was read is not read\n" +
			"again, but for the last day, and no job is stored twice. riflingd may run meanwhile.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return im.run(cmd) },
	}
	fl := cmd.Flags()
	fl.StringVarP(&im.since, "since", "S", "now-90days", "from this time on: now-90days, 2026-01-01, ...")
	fl.StringVarP(&im.until, "until", "E", "now", "up to this time")
	fl.StringVar(&im.from, "from", "", "sacct, rest (slurmrestd), a file that sacct -P wrote, or - for standard input (default sacct where there is one, else rest)")
	fl.BoolVar(&im.again, "again", false, "read also what was read before")
	return cmd
}

// historyImport is one call of the verb.
type historyImport struct {
	*app
	since, until, from string
	again              bool
}

func (im historyImport) run(cmd *cobra.Command) error {
	ctx := cmd.Context()
	since, until, err := im.span()
	if err != nil {
		return err
	}
	cfg, err := im.config(cmd)
	if err != nil {
		return err
	}
	from := im.from
	if from == "" {
		from = "rest"
		if _, err := exec.LookPath("sacct"); err == nil {
			from = "sacct"
		}
	}
	var input io.Reader
	switch from {
	case "rest", "sacct":
	case "-":
		input = cmd.InOrStdin()
	default:
		f, err := os.Open(from)
		if err != nil {
			return slurm.WithHint(fmt.Errorf("read accounting: %w", err), "--from takes sacct, rest, - or a file that sacct wrote")
		}
		defer f.Close()
		input = f
	}
	s, err := im.openForWriting(cmd, cfg)
	if err != nil {
		return err
	}
	defer s.Close()
	show := newProgress(cmd.ErrOrStderr(), im.env.Now)
	var sum sacct.Summary
	if input != nil {
		format := sacct.Format{Location: im.env.Now().Location()}
		sum, err = sacct.ReadAll(ctx, s.PastWriter(), func(sink slurm.PastSink) error {
			return sacct.Read(input, format, sink)
		}, show.tell)
	} else {
		sum, err = im.windows(ctx, cfg, s, from, since, until, show)
	}
	show.end()
	if err == nil || sum.Rows > 0 || len(sum.Odd) > 0 {
		im.summarize(sum, im.env.Now().Sub(show.begun))
	}
	if err != nil && ctx.Err() != nil {
		return slurm.WithHint(errors.New("the import was stopped"), "what was read is stored; the same call goes on from there")
	}
	return err
}

// span reads the two times.
func (im historyImport) span() (since, until time.Time, err error) {
	now := im.env.Now()
	if since, err = slurm.ParseWhen(im.since, now); err != nil {
		return since, until, usageError{fmt.Errorf("--since: %w", err)}
	}
	if until, err = slurm.ParseWhen(im.until, now); err != nil {
		return since, until, usageError{fmt.Errorf("--until: %w", err)}
	}
	if until.After(now) {
		until = now
	}
	if !since.Before(until) {
		return since, until, usageError{fmt.Errorf("the range from %s to %s is empty", im.since, im.until)}
	}
	return since, until, nil
}

// openForWriting opens the database, and makes one only where --database asks
// for it: run by root, it would belong to the wrong user.
func (im historyImport) openForWriting(cmd *cobra.Command, cfg *config.Config) (*store.Store, error) {
	if f := cmd.Flags().Lookup("database"); f == nil || !f.Changed {
		if _, err := os.Stat(cfg.Database); errors.Is(err, os.ErrNotExist) {
			return nil, slurm.WithHint(fmt.Errorf("%s: %w", cfg.Database, store.ErrMissing),
				"start riflingd once, which makes it under the right user, or give --database to make a new one")
		}
	}
	return store.Open(cfg.Database, store.Options{Now: im.env.Now})
}

// windows imports from what can be asked for ranges of time.
func (im historyImport) windows(ctx context.Context, cfg *config.Config, s *store.Store, from string, since, until time.Time, show *progress) (sacct.Summary, error) {
	i := sacct.Import{Keeper: s.PastWriter(), From: since, To: until, Now: im.env.Now, Progress: show.tell}
	switch from {
	case "sacct":
		i.Source = &sacct.Command{Usage: sacct.RecordsUsage(ctx)}
	case "rest":
		patient := *cfg
		patient.Slurm.Timeout = max(patient.Slurm.Timeout, restPatience)
		client, err := im.env.Connect(&patient)
		if err != nil {
			return sacct.Summary{}, err
		}
		defer client.Close()
		src, ok := client.(sacct.Source)
		if !ok {
			return sacct.Summary{}, errors.New("this client of slurmrestd reads no accounting")
		}
		i.Source, i.Rows = src, restRows
	}
	if !im.again {
		ranges, err := s.PastRanges(ctx)
		if err != nil {
			return sacct.Summary{}, err
		}
		for _, r := range ranges {
			i.Known = append(i.Known, sacct.Span{From: r.Since, To: r.Until})
		}
	}
	return i.Run(ctx)
}

func (im historyImport) summarize(s sacct.Summary, took time.Duration) {
	rate := ""
	if took >= time.Second {
		rate = fmt.Sprintf(", %.0f a second", float64(s.Rows)/took.Seconds())
	}
	fmt.Fprintf(im.out, "%s read in %s%s: %d new, %d changed, %d known before\n",
		count(s.Rows, "run", "runs"), about(took), rate, s.New, s.Changed, s.Rows-s.New-s.Changed)
	for _, reason := range slices.Sorted(maps.Keys(s.Odd)) {
		fmt.Fprintf(im.out, "odd: %s: %s, first %s\n", report.Clean(reason), count(s.Odd[reason], "time", "times"), report.Clean(s.Where[reason]))
	}
}

// progress shows on a terminal how far an import is.
type progress struct {
	out         io.Writer // nil: no terminal
	now         func() time.Time
	begun, last time.Time
	width       int
}

func newProgress(w io.Writer, now func() time.Time) *progress {
	p := &progress{now: now, begun: now()}
	if f, ok := w.(*os.File); ok {
		if info, err := f.Stat(); err == nil && info.Mode()&os.ModeCharDevice != 0 {
			p.out = w
		}
	}
	return p
}

func (p *progress) tell(s sacct.Summary) {
	now := p.now()
	if p.out == nil || now.Sub(p.last) < 200*time.Millisecond {
		return
	}
	p.last = now
	took := now.Sub(p.begun)
	line := fmt.Sprintf("%d runs, %.0f a second", s.Rows, float64(s.Rows)/max(0.001, took.Seconds()))
	if s.Whole > 0 {
		part := float64(s.Done) / float64(s.Whole)
		line += fmt.Sprintf(", %.0f %% of the time range", 100*part)
		if part > 0 {
			line += ", " + about(time.Duration(float64(took)*(1-part)/part)) + " left"
		}
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, line)
	p.width = len(line)
}

// end clears the line.
func (p *progress) end() {
	if p.out != nil && p.width > 0 {
		fmt.Fprintf(p.out, "\r%s\r", strings.Repeat(" ", p.width))
	}
}
