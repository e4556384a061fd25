// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"rifling/policy"
	"rifling/sim/peer"
	"rifling/sim/run"
)

// compareCall is one call of the verb.
type compareCall struct {
	*app
	simFlags
	names             []string
	loads             []float64
	seeds, workers    int
	seed              uint64
	asJSON, asCSV     bool
	list, plain       bool
	svg               string
	slurmDir, collect string
	share, part       string
	tasks             int
}

func (a *app) compareCmd() *cobra.Command {
	c := compareCall{app: a}
	cmd := &cobra.Command{
		Use:   "compare TRACE | --generate",
		Short: "Run a workload through several policies and set them side by side",
		Long: "compare runs the same work through each of --policies, with each seed and load, on as\n" +
			"many cores as there are. Figures are means over the seeds with their standard error;\n" +
			"the difference is to the first policy, seed by seed. Policies that Slurm's model\n" +
			"carries out for riflingd's own loop come first by name; peer:NAME means a scheduler\n" +
			"on the same engine. * reads true run times, ^ preempts running jobs: rifling does\n" +
			"neither. The same flags give the same bytes with any number of workers.\n\n" +
			"--slurm DIR writes a job array there that does the runs on a cluster; --collect DIR\n" +
			"puts together what its tasks have written.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: c.run,
	}
	c.add(cmd)
	fl := cmd.Flags()
	fl.StringSliceVarP(&c.names, "policies", "p", []string{"slurm", "pack", "rifling"}, "policies, the first to compare with")
	fl.Float64SliceVar(&c.loads, "loads", nil, "offered loads, e.g. 0.7,0.9 (default: as the trace is, 0.8 with --generate)")
	fl.IntVar(&c.seeds, "seeds", 3, "how many seeds")
	fl.Uint64Var(&c.seed, "seed", 1, "the first seed")
	fl.IntVar(&c.workers, "workers", 0, "runs at once; 0: one a core")
	fl.BoolVar(&c.asJSON, "json", false, "write JSON: means and every run, times in seconds")
	fl.BoolVar(&c.asCSV, "csv", false, "write a row for each run, times in seconds")
	fl.BoolVar(&c.plain, "no-plot", false, "leave out the plots")
	fl.StringVar(&c.svg, "svg", "", "also draw the distributions of completion times into this file")
	fl.BoolVar(&c.list, "list", false, "list the policies")
	fl.StringVar(&c.slurmDir, "slurm", "", "write a job array for sbatch into this directory in place of running")
	fl.IntVar(&c.tasks, "tasks", 0, "tasks of that array; 0: one a run, 1000 at most")
	fl.StringVar(&c.collect, "collect", "", "put together what the tasks of --slurm have written into this directory")
	fl.StringVar(&c.share, "share", "", "do only every Nth run, I/N")
	fl.StringVar(&c.part, "part", "", "write the share's results into this file")
	for _, inner := range []string{"share", "part"} {
		_ = fl.MarkHidden(inner) // an error only for a flag that is not there
	}
	return cmd
}

// plan says what the runs of a comparison are, in the order of their numbers:
// by load, then seed, then policy.
type plan struct {
	Cluster  string    `json:"cluster"`
	GPUs     int       `json:"gpus"`
	Trace    string    `json:"trace"`
	Policies []string  `json:"policies"`
	Marks    []string  `json:"marks"`
	Loads    []float64 `json:"loads"` // 0: as the trace is
	Seeds    []uint64  `json:"seeds"`
	Notes    []string  `json:"notes"`
	Flags    []string  `json:"flags"` // what else the runs depend on
}

func (p *plan) runs() int { return len(p.Policies) * len(p.Loads) * len(p.Seeds) }

// at returns the numbers of the run's load, seed and policy.
func (p *plan) at(i int) (load, seed, policy int) {
	return i / len(p.Policies) / len(p.Seeds), i / len(p.Policies) % len(p.Seeds), i % len(p.Policies)
}

// played is one run's result.
type played struct {
	Policy  string   `json:"policy"`
	Load    float64  `json:"load"` // asked for; 0: as the trace is
	Offered *float64 `json:"offered_load"`
	Seed    uint64   `json:"seed"`
	Asked   int      `json:"jobs_asked"`
	Open    int      `json:"open_shape"`
	figures
	// Quantiles of the completion times in percent steps, 0 to 100, in seconds.
	Quantiles []float64 `json:"jct_quantiles_s"`
}

func (c *compareCall) run(cmd *cobra.Command, list []string) error {
	switch {
	case c.list:
		return c.listPolicies()
	case c.asJSON && c.asCSV:
		return usageError{errors.New("--json and --csv exclude each other")}
	case c.collect != "":
		p, runs, err := collectParts(c.collect)
		if err != nil {
			return err
		}
		return c.show(p, runs)
	}
	all, err := c.contestants(cmd)
	if err != nil {
		return err
	}
	if err := c.prepare(cmd, list); err != nil {
		return err
	}
	p := c.plan(cmd, list, all)
	if c.slurmDir != "" {
		return c.writeArray(cmd, list, &p)
	}
	mine, err := c.mine(&p)
	if err != nil {
		return err
	}
	runs, err := c.play(cmd, &p, all, mine)
	if err != nil {
		return err
	}
	if c.share != "" {
		return writePart(c.part, &p, runs)
	}
	return c.show(&p, runs)
}

func (c *compareCall) contestants(cmd *cobra.Command) ([]run.Contestant, error) {
	if c.seeds < 1 || len(c.names) == 0 || c.workers < 0 || c.tasks < 0 {
		return nil, usageError{errors.New("--policies must name one or more, --seeds be 1 or more, and --workers and --tasks not negative")}
	}
	for _, l := range c.loads {
		if !(l > 0) || math.IsInf(l, 0) {
			return nil, usageError{fmt.Errorf("--loads: %v is no load", l)}
		}
	}
	if (c.share == "") != (c.part == "") {
		return nil, usageError{errors.New("--share and --part go together")}
	}
	cfg, err := c.parameters(cmd)
	if err != nil {
		return nil, err
	}
	var out []run.Contestant
	for _, name := range c.names {
		one, err := contestant(cfg, name)
		if err != nil {
			return nil, err
		}
		if slices.ContainsFunc(out, func(o run.Contestant) bool { return o.Name == name }) {
			return nil, usageError{fmt.Errorf("--policies names %s twice", name)}
		}
		out = append(out, one)
	}
	return out, nil
}

func (c *compareCall) plan(cmd *cobra.Command, list []string, all []run.Contestant) plan {
	p := plan{Cluster: c.words(), GPUs: c.clusterGPUs, Trace: "generated", Loads: c.loads, Notes: append([]string{}, c.notes...)}
	if len(list) > 0 {
		p.Trace = list[0]
	}
	if len(p.Loads) == 0 {
		p.Loads = []float64{0}
		if c.made {
			p.Loads[0] = generatedLoad
		}
	}
	for i := range all {
		p.Policies, p.Marks = append(p.Policies, all[i].Name), append(p.Marks, all[i].Mark())
	}
	for i := range c.seeds {
		p.Seeds = append(p.Seeds, c.seed+uint64(i))
	}
	p.Flags = flagWords(cmd, notOfRuns)
	return p
}

// notOfRuns are flags that change no run, and those that a plan has by itself.
var notOfRuns = []string{
	"policies", "loads", "seeds", "seed", "workers", "json", "csv", "no-plot", "svg", "list", "slurm", "tasks", "collect", "share", "part",
}

// mine are the numbers of the runs to do here.
func (c *compareCall) mine(p *plan) ([]int, error) {
	i, n := 0, 1
	if c.share != "" {
		first, second, _ := strings.Cut(c.share, "/")
		var err1, err2 error
		i, err1 = strconv.Atoi(first)
		n, err2 = strconv.Atoi(second)
		if err1 != nil || err2 != nil || n < 1 || i < 0 || i >= n {
			return nil, usageError{fmt.Errorf("--share %q is not I/N", c.share)}
		}
	}
	var out []int
	for ; i < p.runs(); i += n {
		out = append(out, i)
	}
	return out, nil
}

// play does the runs and returns them by their numbers.
func (c *compareCall) play(cmd *cobra.Command, p *plan, all []run.Contestant, mine []int) (map[int]played, error) {
	workers := c.workers
	if workers == 0 {
		workers = runtime.NumCPU()
	}
	out := make([]played, len(mine))
	show := newProgress(cmd.ErrOrStderr(), c.env.Now)
	show.runs(0, len(mine))
	err := run.Each(cmd.Context(), len(mine), workers, func(ctx context.Context, i int) (err error) {
		load, seed, pol := p.at(mine[i])
		out[i], err = c.playOne(ctx, p.Loads[load], p.Seeds[seed], all[pol])
		return err
	}, func(done int) { show.runs(done, len(mine)) })
	show.end()
	if err != nil {
		return nil, explainRun(err)
	}
	byNumber := map[int]played{}
	for i, n := range mine {
		byNumber[n] = out[i]
	}
	return byNumber, nil
}

func (c *compareCall) playOne(ctx context.Context, load float64, seed uint64, who run.Contestant) (played, error) {
	jobs, notes, offered, err := c.work(seed, load)
	if err != nil {
		return played{}, err
	}
	sum, rep, err := who.Play(ctx, c.simFlags.config(seed), jobs, nil)
	if err != nil {
		return played{}, fmt.Errorf("seed %d: %w", seed, err)
	}
	out := played{
		Policy: who.Name, Load: load, Seed: seed, Asked: len(jobs), Open: openJobs(jobs), figures: figuresOf(sum, rep),
		Quantiles: quantiles(sum.JCTs, percents()),
	}
	if notes.Users < 2 {
		out.Fairness = nil
	}
	if !math.IsInf(offered, 0) {
		out.Offered = &offered
	}
	return out, nil
}

func percents() []float64 {
	out := make([]float64, 101)
	for i := range out {
		out[i] = float64(i) / 100
	}
	return out
}

// runs tells how many runs are done, on a terminal.
func (p *progress) runs(done, all int) {
	if p.out == nil {
		return
	}
	line := fmt.Sprintf("%d of %s", done, count(all, "run", "runs"))
	if done > 0 {
		line += ", " + about(run.Until(p.now().Sub(p.begun), done, all)) + " left"
	}
	fmt.Fprintf(p.out, "\r%-*s", p.width, line)
	p.width = len(line)
}

func (c *compareCall) show(p *plan, runs map[int]played) error {
	list := make([]played, p.runs())
	for i := range list {
		list[i] = runs[i]
	}
	rows := rowsOf(p, list)
	if c.svg != "" {
		if err := writeSVG(c.svg, p, rows); err != nil {
			return err
		}
	}
	switch {
	case c.asJSON:
		return writeJSON(c.out, struct {
			plan
			Rows []row    `json:"rows"`
			Runs []played `json:"runs"`
		}{*p, rows, list})
	case c.asCSV:
		return c.writeRuns(list)
	}
	return writeComparison(c.out, p, list, rows, !c.plain)
}

func (c *compareCall) writeRuns(list []played) error {
	w := csv.NewWriter(c.out)
	head := []string{"load", "seed", "policy", "jobs"}
	for _, m := range measures {
		head = append(head, m.key)
	}
	if err := w.Write(head); err != nil {
		return err
	}
	for i := range list {
		r := &list[i]
		cells := []string{num(r.Load), fmt.Sprint(r.Seed), r.Policy, strconv.Itoa(r.Jobs)}
		for _, m := range measures {
			v, ok := m.of(&r.figures)
			if !ok {
				cells = append(cells, "")
				continue
			}
			cells = append(cells, num(v))
		}
		if err := w.Write(cells); err != nil {
			return err
		}
	}
	w.Flush()
	return w.Error()
}

func num(x float64) string { return strconv.FormatFloat(x, 'g', -1, 64) }

// listPolicies shows what --policies takes.
func (c *compareCall) listPolicies() error {
	fmt.Fprintln(c.out, "steering Slurm's model through riflingd's loop:")
	for _, name := range policy.Names() {
		fmt.Fprintf(c.out, "  %-15s %s\n", name, policy.About(name))
	}
	fmt.Fprintln(c.out, "schedulers of their own on the same engine (* reads true run times, ^ preempts):")
	for _, p := range peer.All() {
		name, mark := p.Name, (&run.Contestant{Clairvoyant: p.Clairvoyant, Preemptive: p.Preemptive}).Mark()
		if slices.Contains(policy.Names(), name) {
			name = "peer:" + name
		}
		fmt.Fprintf(c.out, "  %-15s %s\n", name+mark, p.About)
	}
	return nil
}
