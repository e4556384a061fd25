// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"rifling/cmd/internal/config"
	"rifling/sim"
	"rifling/sim/peer"
	"rifling/sim/run"
	"rifling/slurm"
)

// contestant finds a policy by name: first those that steer Slurm, then the
// schedulers of package peer. "peer:NAME" means one of the latter.
func contestant(cfg config.Config, name string) (run.Contestant, error) {
	plain, forced := strings.CutPrefix(name, "peer:")
	if !forced {
		cfg.Policy = name
		if cfg.Validate() == nil {
			return run.Contestant{Name: name, Policy: cfg.NewPolicy}, nil
		}
	}
	p, ok := peer.Find(plain)
	if !ok {
		return run.Contestant{}, slurm.WithHint(usageError{fmt.Errorf("no policy %q", name)}, "rifling compare --list shows the policies")
	}
	return run.Contestant{
		Name: name, Clairvoyant: p.Clairvoyant, Preemptive: p.Preemptive,
		Scheduler: func(seed uint64) sim.Scheduler {
			return p.New(peer.Settings{Seed: seed, RestartCost: restartCost})
		},
	}, nil
}

// restartCost is what a preempted job's next run pays before its work goes on:
// the start of a training program as Muri's authors measured it, 4 to 46 s.
const restartCost = 30 * time.Second

// parameters are the policies': of the configuration where one is named, else
// the defaults, so that a simulation does not depend on the machine.
func (a *app) parameters(cmd *cobra.Command) (config.Config, error) {
	if a.configPath == "" {
		return config.Default(), nil
	}
	c, err := a.config(cmd)
	if err != nil {
		return config.Config{}, err
	}
	return *c, nil
}

func (a *app) simulateCmd() *cobra.Command {
	var s simFlags
	var name string
	var seed uint64
	var load float64
	var asJSON, asCSV bool
	cmd := &cobra.Command{
		Use:   "simulate TRACE | --generate",
		Short: "Run a workload through one policy on a simulated cluster",
		Long: "simulate runs a trace, or jobs that it makes up, on a simulated cluster with a model\n" +
			"of Slurm that the policy steers through riflingd's own loop. A trace's run times are\n" +
			"taken as those on the best placement; how much slower a job runs spread over nodes\n" +
			"comes from its model. The same flags give the same bytes. With --config, policies\n" +
			"take their parameters from there, else the defaults.",
		Args: args(cobra.MaximumNArgs(1)),
		RunE: func(cmd *cobra.Command, list []string) error {
			if asJSON && asCSV {
				return usageError{errors.New("--json and --csv exclude each other")}
			}
			cfg, err := a.parameters(cmd)
			if err != nil {
				return err
			}
			c, err := contestant(cfg, name)
			if err != nil {
				return err
			}
			if err := s.prepare(cmd, list); err != nil {
				return err
			}
			return a.simulate(cmd.Context(), &s, c, seed, load, asJSON, asCSV)
		},
	}
	s.add(cmd)
	fl := cmd.Flags()
	fl.StringVarP(&name, "policy", "p", "rifling", "policy (rifling compare --list shows them)")
	fl.Uint64Var(&seed, "seed", 1, "seed of all that is drawn")
	fl.Float64Var(&load, "load", 0, "offered load, e.g. 0.8: GPU time asked for over that of the cluster from first to last submission (default: as the trace is, 0.8 with --generate)")
	fl.BoolVar(&asJSON, "json", false, "write JSON, times in seconds")
	fl.BoolVar(&asCSV, "csv", false, "write a row for each job, times in seconds")
	return cmd
}

// simulation is what --json writes.
type simulation struct {
	Policy      string   `json:"policy"`
	Clairvoyant bool     `json:"clairvoyant"`
	Preemptive  bool     `json:"preemptive"`
	Seed        uint64   `json:"seed"`
	Cluster     string   `json:"cluster"`
	GPUs        int      `json:"gpus"`
	Load        *float64 `json:"load"`
	Open        int      `json:"open_shape"`
	figures
	Notes []string `json:"notes"`
}

func (a *app) simulate(ctx context.Context, s *simFlags, c run.Contestant, seed uint64, load float64, asJSON, asCSV bool) error {
	jobs, notes, offered, err := s.work(seed, load)
	if err != nil {
		return err
	}
	var sink sim.Sink
	var rows *csv.Writer
	if asCSV {
		rows = csv.NewWriter(a.out)
		if err := rows.Write(jobColumns); err != nil {
			return err
		}
		sink = func(r *sim.Result) { _ = rows.Write(jobRow(r, s.spec.Nodes)) } // Error below tells
	}
	sum, rep, err := c.Play(ctx, s.config(seed), jobs, sink)
	if err != nil {
		return explainRun(err)
	}
	if asCSV {
		rows.Flush()
		return rows.Error()
	}
	out := simulation{
		Policy: c.Name, Clairvoyant: c.Clairvoyant, Preemptive: c.Preemptive, Seed: seed, Cluster: s.words(), GPUs: s.clusterGPUs,
		Open: openJobs(jobs), figures: figuresOf(sum, rep), Notes: append([]string{}, append(s.notes, notes.Words(s.parsed)...)...),
	}
	if !math.IsInf(offered, 0) {
		out.Load = &offered
	}
	if notes.Users < 2 {
		out.Fairness = nil
	}
	if asJSON {
		return writeJSON(a.out, out)
	}
	out.write(a.out, offered, len(jobs))
	return nil
}

// openJobs counts those whose request leaves their nodes open.
func openJobs(jobs []sim.Job) int {
	n := 0
	for i := range jobs {
		if r := &jobs[i].Request; r.GPUs > 1 && r.GPUsPerNode == 0 && r.MaxNodes != 1 && (r.MaxNodes == 0 || r.MinNodes != r.MaxNodes) {
			n++
		}
	}
	return n
}

// explainRun adds what to do about a simulation that cannot go on.
func explainRun(err error) error {
	if errors.Is(err, run.ErrStarved) {
		return slurm.WithHint(err, "jobs that no node can run together: look at --nodes and --shape")
	}
	return err
}

func (o *simulation) write(w io.Writer, offered float64, jobs int) {
	line := func(key, format string, args ...any) { fmt.Fprintf(w, "%-14s %s\n", key, fmt.Sprintf(format, args...)) }
	mark := ""
	if o.Clairvoyant {
		mark += ", reads true run times"
	}
	if o.Preemptive {
		mark += ", preempts running jobs"
	}
	line("policy", "%s%s, seed %d", o.Policy, mark, o.Seed)
	line("cluster", "%s", o.Cluster)
	line("work", "%s, offered load %s; %d leave their nodes open", count(jobs, "job", "jobs"), loadWords(offered), o.Open)
	for _, n := range o.Notes {
		line("note", "%s", n)
	}
	fmt.Fprintln(w)
	line("jobs", "%d ended; %d at their limit, %d failed, %d impossible here", o.Jobs, o.TimedOut, o.Failed, o.Impossible)
	if o.Jobs == 0 {
		return
	}
	line("JCT", "mean %s, median %s, 95 %% %s, 99 %% %s", spanWords(o.MeanJCT), spanWords(o.MedianJCT), spanWords(o.P95JCT), spanWords(o.P99JCT))
	line("queueing delay", "mean %s, median %s, 95 %% %s", spanWords(o.MeanWait), spanWords(o.MedianWait), spanWords(o.P95Wait))
	line("slowdown", "mean %.2f (bounded)", o.Slowdown)
	line("makespan", "%s", spanWords(o.Makespan))
	line("utilization", "%.1f %% of the GPU time", 100*o.Utilization)
	line("ANPR", "%.3f (1: every job as fast as on its best placement)", o.ANPR)
	line("fragmentation", "%.1f %% of the GPU time that was free while jobs waited lay on partly taken nodes", 100*o.Fragmentation)
	fair := "- (fewer than two users told)"
	if o.Fairness != nil {
		fair = fmt.Sprintf("%.3f (Jain's index over users' slowdowns)", *o.Fairness)
	}
	line("fairness", "%s", fair)
	if o.Cycles > 0 {
		line("steering", "%d cycles, %d changes written, %d refused", o.Cycles, o.Writes, o.Refused)
	}
	if o.Preempted > 0 {
		line("preemptions", "%d", o.Preempted)
	}
}

// spanWords writes seconds for people: short times to the second.
func spanWords(s float64) string {
	return slurm.FormatDuration(seconds(s).Round(time.Second))
}

var jobColumns = []string{"job", "user", "name", "gpus", "model", "submit_s", "start_s", "end_s", "wait_s", "jct_s", "npr", "nodes", "outcome", "backfilled", "preempted"}

var outcomes = map[sim.Outcome]string{sim.Completed: "completed", sim.TimedOut: "timeout", sim.Failed: "failed", sim.Impossible: "impossible"}

func jobRow(r *sim.Result, nodes []sim.NodeSpec) []string {
	num := func(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }
	model := ""
	if r.Model != nil {
		model = r.Model.Name
	}
	var on []string
	for _, al := range r.Alloc {
		on = append(on, fmt.Sprintf("%s:%d", nodes[al.Node].Name, al.GPUs))
	}
	return []string{
		fmt.Sprint(r.ID), r.User, r.Name, strconv.Itoa(r.GPUs), model, num(r.Submit.Seconds()), num(r.Start.Seconds()), num(r.End.Seconds()),
		num(r.Wait().Seconds()), num(r.JCT().Seconds()), strconv.FormatFloat(r.NPR, 'f', 4, 64), strings.Join(on, " "), outcomes[r.Outcome],
		strconv.FormatBool(r.Backfilled), strconv.Itoa(r.Preempted),
	}
}
