// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"rifling/agent"
	"rifling/sim/peer"
	"rifling/sim/trace"
)

// benchWorkers is how many candidates a search measures at once.
var benchWorkers = runtime.GOMAXPROCS(0)

// orderFold is a cluster that is tested on a model that was trained on the
// others. Muri's traces hold jobs of three of the four clusters, so each
// belongs to that one's fold.
type orderFold struct {
	philly, muri string
	// The published figures to stay below: QSSF less 10 %, fit-first, and of
	// Muri's trace preemptive Tiresias.
	qssf, fitFirst, tiresias float64
	// others to stay below with estimates
	also map[string]float64
}

var orderFolds = []orderFold{
	{philly: "7f04ca_10x8", muri: "trace1", qssf: 336267, fitFirst: 514103, tiresias: 3330371},
	{philly: "0e4a51_8x8", muri: "trace4", qssf: 292601, fitFirst: 536274, tiresias: 1319383},
	{philly: "2869ce_8x8", muri: "trace3", qssf: 199293, fitFirst: 181122, tiresias: 347213,
		also: map[string]float64{"real-slurm": 192576, "sjf": 164871}},
	{philly: "103959_4x8", qssf: 44429, fitFirst: 57408},
}

const orderSeeds = 3

func order(ctx context.Context, out io.Writer) error {
	dir := filepath.Join(sharedDir(), "traces")
	if _, err := os.Stat(filepath.Join(dir, "philly_vc")); err != nil {
		fmt.Fprintln(out, "skipped: no traces; set RIFLING_SHARED to the folder that holds traces/")
		return nil //nolint:nilerr // skipped aloud
	}
	all := map[string]cluster{}
	for _, f := range orderFolds {
		c, err := phillyCluster(dir, f.philly)
		if err != nil {
			return err
		}
		all[f.philly] = c
	}
	fmt.Fprintln(out, "Mean JCT in seconds, no preemption, Helios's placement; each cluster under an order trained on the other three,")
	fmt.Fprintf(out, "%d searches of %d generations of %d from different seeds; learned: the median of them, and their spread\n\n", orderSeeds, orderGenerations, orderPopulation)
	for _, f := range orderFolds {
		if err := f.run(ctx, out, dir, all); err != nil {
			return err
		}
	}
	return orderRICC(ctx, out, dir)
}

func phillyCluster(dir, name string) (cluster, error) {
	jobs, err := readTrace(filepath.Join(dir, "philly_vc", name+".csv"), trace.Philly)
	if err != nil {
		return cluster{}, err
	}
	size := sizeInName.FindStringSubmatch(name)
	nodes, _ := strconv.Atoi(size[1]) // digits by the pattern
	gpus, _ := strconv.Atoi(size[2])
	return cluster{name, peer.Machine{Nodes: nodes, GPUs: gpus}, peer.FromTrace(jobs)}, nil
}

func (f orderFold) run(ctx context.Context, out io.Writer, dir string, all map[string]cluster) error {
	var lists []cluster
	for _, other := range orderFolds {
		if other.philly != f.philly {
			lists = append(lists, all[other.philly])
		}
	}
	var models []*orderPolicy
	for seed := range uint64(orderSeeds) {
		m, p, err := trainOrder(ctx, lists, seed+1)
		if err != nil {
			return err
		}
		models = append(models, m)
		fmt.Fprintf(out, "%s, search %d: best candidate %+.1f %% on what it learned from; %s; reserve %.2f %.2f\n",
			f.philly, seed+1, 100*p.Best, weightsText(&m.Order), m.reserve.Slack, m.reserve.Run)
	}
	test := all[f.philly]
	with := orderOver(models, func(m *orderPolicy) float64 { return orderRun(test, m, true) })
	without := orderOver(models, func(m *orderPolicy) float64 { return orderRun(test, m, false) })
	start := orderStart()
	a := orderRun(test, start, true)
	b := orderRun(test, start, false)
	fmt.Fprintf(out, "%-12s %-26s %10s %10s %20s\n", "cluster", "knows", "untrained", "learned", "least .. most")
	fmt.Fprintf(out, "%-12s %-26s %10.0f %s\n", test.name, "QSSF's noisy estimates", a, with)
	fmt.Fprintf(out, "%-12s %-26s %10.0f %s\n", test.name, "only jobs that ended", b, without)
	lessThan(out, "order-"+short(f.philly)+"-qssf", with.median, 0.9*f.qssf)
	for name, v := range f.also {
		lessThan(out, "order-"+short(f.philly)+"-"+name, with.median, v)
	}
	lessThan(out, "order-"+short(f.philly)+"-no-estimates", without.median, f.fitFirst)
	if f.muri != "" {
		return f.runMuri(out, dir, models)
	}
	fmt.Fprintln(out)
	return nil
}

// runMuri replays Muri's trace with iterations lengthened and each start
// costing what Muri's simulator has it cost.
func (f orderFold) runMuri(out io.Writer, dir string, models []*orderPolicy) error {
	jobs, err := readTrace(filepath.Join(dir, "muri", f.muri+".csv"), trace.Muri)
	if err != nil {
		return err
	}
	work, err := peer.FromMuri(jobs)
	if err != nil {
		return err
	}
	for i := range work {
		work[i].Run = work[i].Iterations*work[i].IterSeconds + work[i].Restart
	}
	draws := make([]cluster, orderSeeds)
	for seed := range draws {
		draws[seed] = cluster{f.muri, peer.Machine{Nodes: 8, GPUs: 8}, estimated(work, uint64(seed)+1)}
	}
	i := 0
	got := orderOver(models, func(m *orderPolicy) float64 { i++; return orderRun(draws[i-1], m, true) })
	start := orderRun(draws[0], orderStart(), true)
	fmt.Fprintf(out, "%-12s %-26s %10.0f %s\n", f.muri, "noisy estimates, 5 draws", start, got)
	lessThan(out, "order-muri-"+f.muri, got.median, f.tiresias)
	fmt.Fprintln(out)
	return nil
}

func short(name string) string { s, _, _ := strings.Cut(name, "_"); return s }

func weightsText(n *agent.Net) string {
	var parts []string
	for i, name := range n.Inputs {
		parts = append(parts, fmt.Sprintf("%s %+.2f", name, n.Layers[0].W[i]))
	}
	return strings.Join(parts, ", ")
}
