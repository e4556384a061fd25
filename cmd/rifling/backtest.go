// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"runtime"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rifling/report"
	"rifling/sim"
	"rifling/sim/run"
	"rifling/slurm"
)

// backtestCall is one call of the verb.
type backtestCall struct {
	*app
	simFlags
	names        []string
	since, until string
	warmUp       string
	partitions   []string
	by           string
	open         bool
	asJSON       bool
	seed         uint64
	workers      int
}

func (a *app) backtestCmd() *cobra.Command {
	c := backtestCall{app: a}
	cmd := &cobra.Command{
		Use:   "backtest",
		Short: "Replay the site's own history under other policies",
		Long: "backtest takes the GPU jobs that `rifling history import` has read and shows what\n" +
			"Slurm did with them, what the simulator says that Slurm does (how far the two are\n" +
			"apart is how far the rest can be trusted), and what each of --policies would have\n" +
			"done. Intervals hold 95 % of the means when whole days are drawn again (bootstrap).\n\n" +
			"Run times are those recorded, whatever the placement was, unless --mix says how much\n" +
			"placement matters. Accounting does not tell what a job asked for: it is taken to\n" +
			"have asked for the nodes that it got (--open-nodes: for its GPUs alone). Give the\n" +
			"site's --slurm-conf: without it, priorities and backfill are Slurm's defaults, and\n" +
			"nodes are those that ran jobs.",
		Args: args(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return c.run(cmd) },
	}
	c.addCluster(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&c.since, "since", "S", "now-30days", "jobs submitted from this time on")
	fl.StringVarP(&c.until, "until", "E", "now", "jobs submitted before this time")
	fl.StringVar(&c.warmUp, "warm-up", "7-0", "how long before --since the simulation begins: for its queue, and for the fair share")
	fl.StringSliceVarP(&c.partitions, "partition", "r", nil, "only jobs of these partitions")
	fl.StringSliceVarP(&c.names, "policies", "p", []string{"pack", "rifling"}, "policies to try (rifling compare --list shows them)")
	fl.StringVar(&c.mix, "mix", "none", "how much placement matters: none, or parts of the jobs, e.g. comm=0.3,between=0.4,compute=0.3")
	fl.BoolVar(&c.open, "open-nodes", false, "take jobs to have asked for GPUs on any number of nodes")
	fl.StringVar(&c.by, "blocks", "", "what the bootstrap draws: days or jobs (default days, jobs when there are fewer than 7)")
	fl.Uint64Var(&c.seed, "seed", 1, "seed of all that is drawn")
	fl.IntVar(&c.workers, "workers", 0, "runs at once; 0: one a core")
	fl.BoolVar(&c.asJSON, "json", false, "write JSON, times in seconds")
	return cmd
}

func (c *backtestCall) run(cmd *cobra.Command) error {
	if c.by != "" && c.by != "days" && c.by != "jobs" {
		return usageError{fmt.Errorf("--blocks %q: use days or jobs", c.by)}
	}
	if err := c.choices(); err != nil {
		return err
	}
	cfg, err := c.app.config(cmd)
	if err != nil {
		return err
	}
	all := []run.Contestant{}
	for _, name := range slices.Concat([]string{"slurm"}, c.names) {
		if name == "slurm" && len(all) > 0 {
			continue
		}
		one, err := contestant(*cfg, name)
		if err != nil {
			return err
		}
		all = append(all, one)
	}
	h, err := c.history(cmd)
	if err != nil {
		return err
	}
	if err := c.place(h); err != nil {
		return err
	}
	w, err := h.Build(c.parsed, c.seed, !c.open, c.spec.Nodes)
	if err != nil {
		return err
	}
	if w.Judged == 0 {
		return slurm.WithHint(fmt.Errorf("no GPU job of the time from %s to %s is stored", c.clock(h.Since), c.clock(h.Until)),
			"rifling history status shows what is; rifling history import --since %s reads more", c.since)
	}
	runs, err := c.play(cmd, all, w)
	if err != nil {
		return err
	}
	return c.judge(h, w, all, runs)
}

// history reads the runs of the window.
func (c *backtestCall) history(cmd *cobra.Command) (*run.History, error) {
	now := c.env.Now()
	since, err := slurm.ParseWhen(c.since, now)
	if err != nil {
		return nil, usageError{fmt.Errorf("--since: %w", err)}
	}
	until, err := slurm.ParseWhen(c.until, now)
	if err != nil {
		return nil, usageError{fmt.Errorf("--until: %w", err)}
	}
	if !since.Before(until) {
		return nil, usageError{fmt.Errorf("the range from %s to %s is empty", c.since, c.until)}
	}
	warm, err := span("--warm-up", c.warmUp)
	if err != nil {
		return nil, err
	}
	s, err := c.app.history(cmd)
	if err != nil {
		return nil, err
	}
	defer s.Close()
	h := &run.History{Since: since, Until: until, Begin: since.Add(-warm)}
	err = s.EachPast(cmd.Context(), h.Begin, time.Time{}, func(p *slurm.PastJob) error {
		if len(c.partitions) == 0 || slices.Contains(c.partitions, p.Partition) {
			h.Add(p)
		}
		return nil
	})
	return h, err
}

// place chooses the cluster: flags, slurm.conf, or what the history shows.
func (c *backtestCall) place(h *run.History) error {
	nodes, parts := h.Cluster()
	if c.nodes != "" || c.conf != "" || len(nodes) == 0 {
		if err := c.cluster(); err != nil {
			return err
		}
		if len(c.spec.Partitions) == 0 {
			// All partitions of the history, each with all nodes.
			for _, p := range parts {
				c.spec.Partitions = append(c.spec.Partitions, sim.PartitionSpec{Name: p.Name})
			}
		}
		return nil
	}
	run.Wire(nodes, c.leaf, c.gbit)
	c.settings = sim.DefaultSlurm()
	c.spec = sim.Spec{StartOverhead: c.overhead, Nodes: nodes, Partitions: parts}
	c.from = "those that ran jobs, each with the most GPUs held there at once"
	c.measure()
	return nil
}

// fate is what became of each run, by its place; nil where it could not run.
type fate struct {
	wait, jct []float64
	ok        []bool
	sum       sim.Summary
	rep       run.Report
}

func (c *backtestCall) play(cmd *cobra.Command, all []run.Contestant, w run.Work) ([]fate, error) {
	workers := c.workers
	if workers <= 0 {
		workers = runtime.NumCPU()
	}
	out := make([]fate, len(all))
	show := newProgress(cmd.ErrOrStderr(), c.env.Now)
	show.runs(0, len(all))
	err := run.Each(cmd.Context(), len(all), workers, func(ctx context.Context, i int) (err error) {
		n := len(w.Runs)
		f := &out[i]
		f.wait, f.jct, f.ok = make([]float64, n), make([]float64, n), make([]bool, n)
		f.sum, f.rep, err = all[i].Play(ctx, c.simFlags.config(c.seed), w.Jobs, func(r *sim.Result) {
			k := int(r.ID) - 1
			f.ok[k] = r.Outcome != sim.Impossible
			f.wait[k], f.jct[k] = r.Wait().Seconds(), r.JCT().Seconds()
		})
		return err
	}, func(done int) { show.runs(done, len(all)) })
	show.end()
	if err != nil {
		return nil, explainRun(err)
	}
	return out, nil
}

// verdict is one line of the answer. Times in seconds.
type verdict struct {
	What        string       `json:"what"`
	Clairvoyant bool         `json:"clairvoyant"`
	Preemptive  bool         `json:"preemptive"`
	Wait        run.Interval `json:"wait_mean_s"`
	JCT         run.Interval `json:"jct_mean_s"`
	// Differences of the means, job by job: for the simulated Slurm to the real
	// one, for the others to the simulated Slurm.
	WaitDiff *run.Interval `json:"wait_difference_s"`
	JCTDiff  *run.Interval `json:"jct_difference_s"`
	Median   float64       `json:"wait_median_s"`
	P95      float64       `json:"wait_p95_s"`

	mark string
}

// backtested is the whole answer.
type backtested struct {
	Since    time.Time      `json:"since"`
	Until    time.Time      `json:"until"`
	Cluster  string         `json:"cluster"`
	Jobs     int            `json:"jobs"`
	Others   int            `json:"other_jobs"` // of before, not judged
	Left     map[string]int `json:"left_out"`
	Blocks   int            `json:"blocks"`
	By       string         `json:"blocks_of"`
	Mix      string         `json:"mix"`
	Verdicts []verdict      `json:"verdicts"`
}

func (c *backtestCall) judge(h *run.History, w run.Work, all []run.Contestant, fates []fate) error {
	j := judgement{call: c, work: w}
	j.out = backtested{
		Since: c.local(h.Since), Until: c.local(h.Until), Cluster: c.words(), Others: len(w.Runs) - w.Judged,
		Left: maps.Clone(h.Left), Mix: c.parsed.String(),
	}
	if j.out.Left == nil {
		j.out.Left = map[string]int{}
	}
	if j.choose(fates); len(j.at) == 0 {
		return slurm.WithHint(fmt.Errorf("none of the %d jobs could run on this cluster", w.Judged), "look at --nodes or --slurm-conf: the cluster is %s", c.words())
	}
	j.block()
	realWait := j.pick(func(i int) float64 { return w.Runs[i].RealWait().Seconds() })
	realJCT := j.pick(func(i int) float64 { return w.Runs[i].RealJCT().Seconds() })
	j.add(verdict{What: "Slurm did"}, realWait, realJCT, nil, nil)
	var simWait, simJCT []float64
	for p := range all {
		wait := j.pick(func(i int) float64 { return fates[p].wait[i] })
		jct := j.pick(func(i int) float64 { return fates[p].jct[i] })
		v := verdict{What: all[p].Name, Clairvoyant: all[p].Clairvoyant, Preemptive: all[p].Preemptive, mark: all[p].Mark()}
		if p == 0 {
			v.What = "Slurm, simulated"
			simWait, simJCT = wait, jct
			j.add(v, wait, jct, realWait, realJCT)
			continue
		}
		j.add(v, wait, jct, simWait, simJCT)
	}
	if c.asJSON {
		return writeJSON(c.out, j.out)
	}
	return j.out.write(c.out, c.app)
}

// judgement puts the answer together.
type judgement struct {
	call   *backtestCall
	work   run.Work
	at     []int // the runs that are judged, by place
	blocks []int // of them, for the bootstrap
	out    backtested
}

// choose takes the runs of the window that every policy could run.
func (j *judgement) choose(fates []fate) {
	for i := range j.work.Runs {
		switch {
		case !j.work.Runs[i].Judged:
		case slices.ContainsFunc(fates, func(f fate) bool { return !f.ok[i] }):
			j.out.Left["that this cluster cannot run"]++
		default:
			j.at = append(j.at, i)
		}
	}
	j.out.Jobs = len(j.at)
}

// block numbers what the bootstrap draws.
func (j *judgement) block() {
	days := map[int]bool{}
	for _, i := range j.at {
		days[j.call.day(j.work.Runs[i].Submit)] = true
	}
	j.out.By, j.out.Blocks = j.call.by, len(j.at)
	if j.out.By == "" {
		if j.out.By = "jobs"; len(days) >= fewDays {
			j.out.By = "days"
		}
	}
	byDay := j.out.By == "days"
	if byDay {
		j.out.Blocks = len(days)
	}
	for k, i := range j.at {
		if byDay {
			k = j.call.day(j.work.Runs[i].Submit)
		}
		j.blocks = append(j.blocks, k)
	}
}

func (j *judgement) pick(of func(i int) float64) []float64 {
	v := make([]float64, len(j.at))
	for k, i := range j.at {
		v[k] = of(i)
	}
	return v
}

// add adds a line, compared with the base where there is one.
func (j *judgement) add(v verdict, wait, jct, baseWait, baseJCT []float64) {
	boot := func(v []float64) run.Interval { return run.Bootstrap(v, j.blocks, j.call.seed) }
	v.Wait, v.JCT = boot(wait), boot(jct)
	q := quantiles(wait, []float64{0.5, 0.95})
	v.Median, v.P95 = q[0], q[1]
	if baseWait != nil {
		dw, dj := boot(minus(wait, baseWait)), boot(minus(jct, baseJCT))
		v.WaitDiff, v.JCTDiff = &dw, &dj
	}
	j.out.Verdicts = append(j.out.Verdicts, v)
}

// fewDays is below how many days the bootstrap draws jobs: a handful of blocks
// says little.
const fewDays = 7

// day numbers the days by the host's calendar.
func (c *backtestCall) day(t time.Time) int {
	y, m, d := c.local(t).Date()
	return int(time.Date(y, m, d, 0, 0, 0, 0, time.UTC).Unix() / 86400)
}

func minus(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for i := range a {
		out[i] = a[i] - b[i]
	}
	return out
}

func (b *backtested) write(w io.Writer, a *app) error {
	fmt.Fprintf(w, "window   %s to %s\n", a.clock(b.Since), a.clock(b.Until))
	fmt.Fprintf(w, "jobs     %d submitted in it; %d of before are simulated too\n", b.Jobs, b.Others)
	for _, why := range slices.Sorted(maps.Keys(b.Left)) {
		fmt.Fprintf(w, "left out %s %s\n", count(b.Left[why], "run", "runs"), why)
	}
	fmt.Fprintf(w, "cluster  %s\n", b.Cluster)
	speed := "placement changes no run time (--mix none)"
	if b.Mix != "none" {
		speed = "models drawn, " + b.Mix
	}
	fmt.Fprintf(w, "speed    %s\n\n", speed)
	span := func(x float64) string {
		if x < 0 {
			return "-" + shortSpan(-x)
		}
		return shortSpan(x)
	}
	cell := func(i run.Interval) report.Value {
		return report.Text(fmt.Sprintf("%s [%s, %s]", span(i.Mean), span(i.Low), span(i.High)))
	}
	maybe := func(i *run.Interval) report.Value {
		if i == nil {
			return report.None
		}
		return cell(*i)
	}
	layout := report.Layout[verdict]{
		{Name: "Policy", Left: true, Of: func(v *verdict) report.Value { return report.Text(v.What + v.mark) }},
		{Name: "Wait", Of: func(v *verdict) report.Value { return cell(v.Wait) }},
		{Name: "Difference", Of: func(v *verdict) report.Value { return maybe(v.WaitDiff) }},
		{Name: "Median", Of: func(v *verdict) report.Value { return report.Text(span(v.Median)) }},
		{Name: "95 %", Of: func(v *verdict) report.Value { return report.Text(span(v.P95)) }},
		{Name: "JCT", Of: func(v *verdict) report.Value { return cell(v.JCT) }},
		{Name: "Difference", Of: func(v *verdict) report.Value { return maybe(v.JCTDiff) }},
	}
	if err := report.Write(w, layout, b.Verdicts, report.Style{}); err != nil {
		return err
	}
	fmt.Fprintf(w, "\nMeans with intervals of 95 %% (bootstrap over %d %s). The simulated Slurm is compared\nwith what Slurm did, the policies with the simulated Slurm, job by job.\n", b.Blocks, b.By)
	return b.trust(w)
}

// far is the difference between the simulated and the real mean wait, as a part
// of the real one, from which on the simulation is said not to be trusted.
// Chosen: twice what the model is held to on recorded schedules.
const far = 0.1

// trust says how far the simulated Slurm is from the real one.
func (b *backtested) trust(w io.Writer) error {
	if len(b.Verdicts) < 2 {
		return errors.New("no simulated Slurm to compare with")
	}
	did, says := b.Verdicts[0].Wait.Mean, b.Verdicts[1].Wait.Mean
	if did <= 0 {
		fmt.Fprintln(w, "No job waited: there is nothing to gain here.")
		return nil
	}
	off := says/did - 1
	fmt.Fprintf(w, "The simulated mean wait is %+.0f %% off the real one", 100*off)
	if off > far || off < -far {
		fmt.Fprint(w, ": do not trust differences of that size. Give --slurm-conf and\n--nodes; holds, reservations, licences and limits of associations are not simulated")
	}
	fmt.Fprintln(w, ".")
	return nil
}
