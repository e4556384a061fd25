// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/sim/run"
	"rifling/sim/trace"
	"rifling/slurm"
)

func (a *app) traceCmd() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "trace",
		Short: "Look at workloads, convert, cut, scale and generate them",
		Long: "trace handles workloads for `rifling simulate` and `rifling compare`: the Standard\n" +
			"Workload Format, the CSV files of the Philly cuts, Muri, Pollux, openb and the lab,\n" +
			"DeepShare's JSON and rifling's own CSV, each plain or gzip. Rows that cannot be\n" +
			"right are left out, counted and named by line; --strict refuses them.",
		Args: args(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return slurm.WithHint(usageError{errors.New("trace needs a verb: inspect, import, cut, scale or generate")}, "usage: rifling trace inspect FILE")
		},
	}
	cmd.AddCommand(a.traceInspectCmd(), a.traceImportCmd(), a.traceCutCmd(), a.traceScaleCmd(), a.traceGenerateCmd())
	return cmd
}

// traceFlags choose how a file is read.
type traceFlags struct {
	format     string
	strict     bool
	successful bool
	maxGPUs    int
}

func (t *traceFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&t.format, "format", "", "format of the file: "+formatNames()+" (default: found out)")
	fl.BoolVar(&t.strict, "strict", false, "refuse the file at its first row that cannot be right")
	fl.BoolVar(&t.successful, "successful", false, "only jobs that completed, where the file tells")
}

func formatNames() string {
	var out []string
	for _, f := range trace.Formats {
		out = append(out, string(f))
	}
	return strings.Join(out, ", ")
}

// read reads a file, - for standard input, whole and sorted.
func (t *traceFlags) read(cmd *cobra.Command, path string) ([]trace.Job, trace.Report, trace.Format, error) {
	f := trace.Format(t.format)
	if f != "" && !slices.Contains(trace.Formats, f) {
		return nil, trace.Report{}, f, usageError{fmt.Errorf("--format %q: use one of %s", t.format, formatNames())}
	}
	in := cmd.InOrStdin()
	if path != "-" {
		file, err := os.Open(path)
		if err != nil {
			return nil, trace.Report{}, f, slurm.WithHint(fmt.Errorf("read trace: %w", err), "give a file, or - for standard input")
		}
		defer file.Close()
		in = file
	}
	plain, err := trace.Plain(in)
	if err == nil && f == "" {
		plain, f, err = sniff(plain)
	}
	if err == nil {
		var jobs []trace.Job
		var rep trace.Report
		o := trace.Options{Strict: t.strict, MaxGPUs: t.maxGPUs, Successful: t.successful}
		if jobs, rep, err = trace.ReadAll(plain, f, o); err == nil {
			return jobs, rep, f, nil
		}
	}
	err = fmt.Errorf("%s: %w", path, err)
	var row trace.RowError
	switch {
	case errors.Is(err, trace.ErrFormat):
		err = slurm.WithHint(err, "formats are %s; --format names one", formatNames())
	case errors.As(err, &row):
		err = slurm.WithHint(err, "without --strict such rows are left out and counted")
	}
	return nil, trace.Report{}, f, err
}

// sniff finds out the format from a stream's beginning, and gives it back whole.
func sniff(r io.Reader) (io.Reader, trace.Format, error) {
	head := make([]byte, 4096)
	n, err := io.ReadFull(r, head)
	if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
		return nil, "", fmt.Errorf("read trace: %w", err)
	}
	f := trace.Detect(head[:n])
	if f == "" {
		return nil, "", fmt.Errorf("%w: its first line is none of those of %s", trace.ErrFormat, formatNames())
	}
	// Shorter than the head, or cut short: whoever reads on is told which.
	return io.MultiReader(bytes.NewReader(head[:n]), r), f, nil
}

func (a *app) traceImportCmd() *cobra.Command {
	var t traceFlags
	var to string
	cmd := &cobra.Command{
		Use:   "import FILE",
		Short: "Write a trace as rifling's own CSV, sorted by submit time",
		Args:  args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			jobs, rep, f, err := t.read(cmd, list[0])
			if err != nil {
				return err
			}
			return a.writeTrace(cmd, to, jobs, append([]string{fmt.Sprintf("%s: %s", f, count(rep.Rows, "row", "rows"))}, leftOut(rep)...))
		},
	}
	t.add(cmd)
	outputFlag(cmd, &to)
	return cmd
}

func outputFlag(cmd *cobra.Command, to *string) {
	cmd.Flags().StringVarP(to, "output", "O", "", "write to this file in place of standard output")
}

// writeTrace writes jobs and, on standard error, what was done.
func (a *app) writeTrace(cmd *cobra.Command, path string, jobs []trace.Job, notes []string) (err error) {
	out := a.out
	if path != "" {
		f, e := os.Create(path)
		if e != nil {
			return fmt.Errorf("write trace: %w", e)
		}
		defer func() { err = errors.Join(err, f.Close()) }()
		out = f
	}
	w := trace.NewWriter(out)
	for i := range jobs {
		if err := w.Write(jobs[i]); err != nil {
			return fmt.Errorf("write trace: %w", err)
		}
	}
	if err := w.Flush(); err != nil {
		return fmt.Errorf("write trace: %w", err)
	}
	for _, n := range append(notes, count(len(jobs), "job", "jobs")+" written") {
		fmt.Fprintln(cmd.ErrOrStderr(), n)
	}
	return nil
}

func (a *app) traceCutCmd() *cobra.Command {
	var t traceFlags
	var from, until, to string
	var jobs int
	cmd := &cobra.Command{
		Use:   "cut FILE",
		Short: "Keep a range of time or the first jobs of a trace",
		Long: "cut keeps the jobs that were submitted from --from on and before --to, times since\n" +
			"the first submission as Slurm writes durations (D-HH:MM:SS, or 36h), and of those\n" +
			"the first --jobs. Submit times then count from the first job that is kept.",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			begin, err := span("--from", from)
			if err != nil {
				return err
			}
			end, err := span("--to", until)
			if err != nil {
				return err
			}
			if until != "" && end <= begin || jobs < 0 {
				return usageError{errors.New("nothing lies in the range of --from, --to and --jobs")}
			}
			in, rep, _, err := t.read(cmd, list[0])
			if err != nil {
				return err
			}
			kept := cutJobs(in, begin, end, jobs)
			return a.writeTrace(cmd, to, kept, append(leftOut(rep), fmt.Sprintf("%d of %s kept", len(kept), count(len(in), "job", "jobs"))))
		},
	}
	t.add(cmd)
	outputFlag(cmd, &to)
	fl := cmd.Flags()
	fl.StringVar(&from, "from", "", "from this time after the first submission on")
	fl.StringVar(&until, "to", "", "up to this time after the first submission")
	fl.IntVar(&jobs, "jobs", 0, "the first so many jobs; 0: all")
	return cmd
}

// span reads a duration as Slurm or as Go writes it; "" is 0.
func span(flag, s string) (time.Duration, error) {
	if s == "" {
		return 0, nil
	}
	if d, err := time.ParseDuration(s); err == nil && d >= 0 {
		return d, nil
	}
	d, unlimited, err := slurm.ParseDuration(s)
	if err != nil || unlimited {
		return 0, slurm.WithHint(usageError{fmt.Errorf("%s %q is no time", flag, s)}, "write it as 36h, 90m or D-HH:MM:SS")
	}
	return d, nil
}

// cutJobs keeps jobs and sets the zero to the first of them.
func cutJobs(in []trace.Job, from, to time.Duration, most int) []trace.Job {
	if len(in) == 0 {
		return in
	}
	first := in[0].Submit
	kept := slices.DeleteFunc(slices.Clone(in), func(j trace.Job) bool {
		return j.Submit-first < from || to > 0 && j.Submit-first >= to
	})
	if most > 0 && len(kept) > most {
		kept = kept[:most]
	}
	if len(kept) > 0 {
		zero := kept[0].Submit
		for i := range kept {
			kept[i].Submit -= zero
		}
	}
	return kept
}

func (a *app) traceScaleCmd() *cobra.Command {
	var t traceFlags
	var nodes, to string
	var load, factor float64
	cmd := &cobra.Command{
		Use:   "scale FILE",
		Short: "Stretch or squeeze the time between submissions",
		Long: "scale multiplies the time between submissions by --factor, or so that the trace\n" +
			"asks for --load times the GPU time that the cluster of --nodes has from the first\n" +
			"submission to the last. Run times stay.",
		Args: args(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if (load > 0) == (factor > 0) || load < 0 || factor < 0 {
				return slurm.WithHint(usageError{errors.New("give one of --load and --factor, above 0")}, "usage: rifling trace scale --load 0.8 --nodes 8x8 FILE")
			}
			spec, err := run.Nodes(nodes, 0, 1)
			if err != nil {
				return usageError{err}
			}
			jobs, rep, _, err := t.read(cmd, list[0])
			if err != nil {
				return err
			}
			gpus := clusterGPUs(spec)
			if load > 0 {
				if factor, err = stretchFor(jobs, gpus, load); err != nil {
					return err
				}
			}
			before := trace.Load(jobs, gpus)
			trace.Stretch(jobs, factor)
			say := fmt.Sprintf("time between submissions times %.4g; load on %d GPUs %.3f, was %.3f", factor, gpus, trace.Load(jobs, gpus), before)
			return a.writeTrace(cmd, to, jobs, append(leftOut(rep), say))
		},
	}
	t.add(cmd)
	outputFlag(cmd, &to)
	fl := cmd.Flags()
	fl.Float64Var(&load, "load", 0, "offered load to reach, e.g. 0.8")
	fl.Float64Var(&factor, "factor", 0, "factor of the time between submissions, e.g. 0.5 for twice the load")
	fl.StringVar(&nodes, "nodes", "8x8", "cluster, NODESxGPUS[:TYPE] and more of them after commas")
	return cmd
}

// stretchFor is the factor that gives the load.
func stretchFor(jobs []trace.Job, gpus int, load float64) (float64, error) {
	is := trace.Load(jobs, gpus)
	if len(jobs) < 2 || jobs[0].Submit == jobs[len(jobs)-1].Submit {
		return 0, slurm.WithHint(errors.New("all jobs come at once: there is no load to scale"), "leave --load out for such a trace")
	}
	if is == 0 {
		return 0, slurm.WithHint(errors.New("the trace tells no run times: there is no load to scale"), "use --factor")
	}
	return is / load, nil
}

func (a *app) traceGenerateCmd() *cobra.Command {
	var g generateFlags
	var nodes, to string
	var load float64
	var seed uint64
	cmd := &cobra.Command{
		Use:   "generate",
		Short: "Make a workload where there is no trace",
		Long: "generate makes jobs whose sizes, run times and hours of submission are fitted to\n" +
			"the Philly cluster of 2017 (four virtual clusters, 3,638 jobs), with time limits as\n" +
			"loose as in RICC-2010. The same flags give the same bytes.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			spec, err := run.Nodes(nodes, 0, 1)
			if err != nil {
				return usageError{err}
			}
			jobs, err := g.generate(spec, seed, load)
			if err != nil {
				return err
			}
			return a.writeTrace(cmd, to, jobs, nil)
		},
	}
	outputFlag(cmd, &to)
	g.add(cmd)
	fl := cmd.Flags()
	fl.Uint64Var(&seed, "seed", 1, "seed of all that is drawn")
	fl.Float64Var(&load, "load", 0.8, "GPU time asked for over GPU time there is, from first to last submission")
	fl.StringVar(&nodes, "nodes", "8x8", "cluster, NODESxGPUS[:TYPE] and more of them after commas")
	return cmd
}

// leftOut says what was left out and where.
func leftOut(rep trace.Report) []string {
	var out []string
	kinds := make([]string, 0, len(rep.Left))
	for k := range rep.Left {
		kinds = append(kinds, k)
	}
	slices.SortFunc(kinds, func(a, b string) int {
		return cmp.Or(cmp.Compare(rep.Left[b], rep.Left[a]), cmp.Compare(a, b))
	})
	for _, k := range kinds {
		var lines []string
		for _, p := range rep.First {
			if p.What == k {
				lines = append(lines, fmt.Sprint(p.Line))
			}
		}
		where := ""
		if len(lines) > 0 {
			where = ", line " + strings.Join(lines, ", ")
			if len(lines) < rep.Left[k] {
				where += ", ..."
			}
		}
		out = append(out, fmt.Sprintf("left out: %s: %s%s", k, count(rep.Left[k], "row", "rows"), where))
	}
	if rep.Unsorted > 0 {
		out = append(out, fmt.Sprintf("unsorted: %s submitted before the row above, sorted here", count(rep.Unsorted, "row", "rows")))
	}
	return out
}
