// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/sim"
)

// How far the model may be from what a real slurmctld did.
const (
	fidelityWait     = 0.05 // mean queueing delay
	fidelityMakespan = 0.02
	fidelityOrder    = 0.95 // rank correlation of start times, at least
)

// slurmFidelity runs every list of $RIFLING_SHARED/traces/slurm_ground_truth
// through Slurm's model and prints it beside what a real slurmctld did with it.
func slurmFidelity(ctx context.Context, out io.Writer) error {
	files, err := filepath.Glob(filepath.Join(sharedDir(), "traces", "slurm_ground_truth", "*.csv"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		fmt.Fprintln(out, "skipped: no recorded lists; set RIFLING_SHARED to the folder that holds traces/")
		return nil
	}
	fmt.Fprintf(out, "%-28s %-9s %5s %10s %10s %13s %10s %10s %7s %6s %8s\n", "list", "run time", "jobs",
		"wait real", "wait sim", "diff (sd)", "span real", "span sim", "diff", "order", "|dstart|")
	var bars []string
	for _, file := range files {
		if err := ctx.Err(); err != nil {
			return err
		}
		truth, err := readTruth(file)
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		for _, measured := range []bool{true, false} {
			f, sd, err := truth.overPhases(measured)
			if err != nil {
				return err
			}
			name := filepath.Base(file)
			how := map[bool]string{true: "measured", false: "trace"}[measured]
			fmt.Fprintf(out, "%-28s %-9s %5d %10.1f %10.1f %+6.1f%% (%3.1f) %10.0f %10.0f %+6.2f%% %6.4f %8.0f\n", name, how,
				len(truth.rows), f.waitReal, f.waitSim, 100*f.wait(), 100*sd, f.spanReal, f.spanSim, 100*f.span(), f.order, f.shift)
			verdict := "ok"
			if math.Abs(f.wait()) > fidelityWait || math.Abs(f.span()) > fidelityMakespan || f.order < fidelityOrder {
				verdict = "short"
			}
			bars = append(bars, fmt.Sprintf("bar: slurm-fidelity/%s/%s value=%+.1f%%,%+.2f%%,%.3f target=%.0f%%,%.0f%%,%.2f %s",
				name, how, 100*f.wait(), 100*f.span(), f.order, 100*fidelityWait, 100*fidelityMakespan, fidelityOrder, verdict))
		}
	}
	for _, b := range bars {
		fmt.Fprintln(out, b)
	}
	return nil
}

// fidelityPhases are the places in a minute at which the simulation begins, in
// seconds: the records do not tell it, slurmctld rounds by it, and its backfill
// passes fall differently.
var fidelityPhases = []int{0, 7, 13, 20, 26, 33, 39, 46, 52, 59}

// overPhases is the mean over the phases, with the standard deviation of the
// relative difference in waiting.
func (t *truth) overPhases(measured bool) (mean *fidelityOf, sd float64, err error) {
	mean = &fidelityOf{}
	n, square := float64(len(fidelityPhases)), 0.0
	for _, phase := range fidelityPhases {
		f, err := t.compare(measured, time.Duration(phase)*time.Second)
		if err != nil {
			return nil, 0, err
		}
		square += f.wait() * f.wait() / n
		mean.waitReal, mean.waitSim = f.waitReal, mean.waitSim+f.waitSim/n
		mean.spanReal, mean.spanSim = f.spanReal, mean.spanSim+f.spanSim/n
		mean.order, mean.shift = mean.order+f.order/n, mean.shift+f.shift/n
	}
	return mean, math.Sqrt(max(0, square-mean.wait()*mean.wait())), nil
}

// truthRow is one job of a list as a real slurmctld ran it; seconds.
type truthRow struct {
	gpus                     int
	user, account, partition string
	nice                     int64
	duration, limit          float64
	submit, start, end       float64
	simStart, simEnd         float64
}

type truth struct {
	nodes, each int
	rows        []truthRow
	settings    sim.SlurmSettings
	partitions  []sim.PartitionSpec
	users       []sim.UserSpec
	topology    bool
}

var truthName = regexp.MustCompile(`_(\d+)x(\d+)\.csv$`)

func readTruth(file string) (*truth, error) {
	size := truthName.FindStringSubmatch(file)
	if size == nil {
		return nil, fmt.Errorf("its name does not end in _NODESxGPUS.csv")
	}
	t := &truth{settings: recorded()}
	if err := t.readConf(strings.TrimSuffix(file, ".csv") + ".conf"); err != nil {
		return nil, err
	}
	t.nodes, _ = strconv.Atoi(size[1])
	t.each, _ = strconv.Atoi(size[2])
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	records, err := csv.NewReader(f).ReadAll()
	if err != nil {
		return nil, err
	}
	col := map[string]int{}
	for i, name := range records[0] {
		col[name] = i
	}
	for line, rec := range records[1:] {
		var r truthRow
		for name, into := range map[string]*float64{
			"duration": &r.duration, "limit": &r.limit, "submit_real": &r.submit, "start_real": &r.start, "end_real": &r.end,
		} {
			i, ok := col[name]
			if !ok {
				return nil, fmt.Errorf("no column %q", name)
			}
			if *into, err = strconv.ParseFloat(rec[i], 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", line+2, err)
			}
		}
		if r.gpus, err = strconv.Atoi(rec[col["gpus"]]); err != nil {
			return nil, fmt.Errorf("line %d: %w", line+2, err)
		}
		for name, into := range map[string]*string{"user": &r.user, "account": &r.account, "partition": &r.partition} {
			if i, ok := col[name]; ok {
				*into = rec[i]
			}
		}
		if i, ok := col["nice"]; ok {
			if r.nice, err = strconv.ParseInt(rec[i], 10, 64); err != nil {
				return nil, fmt.Errorf("line %d: %w", line+2, err)
			}
		}
		t.rows = append(t.rows, r)
	}
	return t, nil
}

// startOverhead is what a job took longer than its work on the accelerated
// slurmctld; endDelay is how long its cores then stayed taken.
const (
	startOverhead = 2300 * time.Millisecond
	endDelay      = time.Second
)

// recorded are the settings of the slurm.conf that lies beside the lists.
func recorded() sim.SlurmSettings {
	s := sim.DefaultSlurm()
	s.Basic, s.Cores = true, true
	s.MinInterval, s.Depth, s.BackfillDepth = 2*time.Second, 1000, 1000
	s.BackfillWindow = 20160 * time.Minute
	return s
}

// readConf takes the settings from the slurm.conf of a recording of contrib/
// labtrace, which lies beside it; lists without one were made under recorded().
func (t *truth) readConf(path string) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if t.settings, t.partitions, err = sim.ParseSlurmConf(f); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	t.topology = true
	// The lab's accounts: contrib/lab.
	t.users = []sim.UserSpec{{Name: "root", Account: "root"}, {Name: "rifling", Account: "research"},
		{Name: "alice", Account: "research"}, {Name: "bob", Account: "research"},
		{Name: "carol", Account: "teaching"}, {Name: "dave", Account: "teaching"}}
	return nil
}

type fidelityOf struct {
	waitReal, waitSim, spanReal, spanSim, order, shift float64
}

func (f *fidelityOf) wait() float64 { return f.waitSim/f.waitReal - 1 }
func (f *fidelityOf) span() float64 { return f.spanSim/f.spanReal - 1 }

func (t *truth) compare(measured bool, phase time.Duration) (*fidelityOf, error) {
	spec := sim.Spec{EndDelay: endDelay, Partitions: t.partitions, Users: t.users}
	for i := range t.nodes {
		n := sim.NodeSpec{Name: fmt.Sprintf("n%d", i+1), GPUs: t.each}
		if t.topology {
			n.CPUs, n.Leaf = 2*t.each, fmt.Sprintf("leaf%d", 1+2*i/t.nodes)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	if !measured {
		spec.StartOverhead = startOverhead
	}
	order := make([]int, len(t.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.rows[a].submit, t.rows[b].submit) })
	k := 0
	source := func() (sim.Job, bool) {
		if k == len(order) {
			return sim.Job{}, false
		}
		r := &t.rows[order[k]]
		k++
		j := sim.Job{Submit: seconds(r.submit), Limit: seconds(r.limit), Work: seconds(r.duration),
			User: r.user, Account: r.account, Partition: r.partition, Nice: r.nice}
		if measured {
			j.Work = seconds(r.end - r.start)
		}
		j.Request = sim.Request{GPUs: r.gpus, MaxNodes: 1}
		if r.gpus > t.each {
			j.Request = sim.Request{GPUsPerNode: t.each, MinNodes: r.gpus / t.each}
		}
		return j, true
	}
	settings := t.settings
	settings.Phase = phase
	engine, err := sim.NewEngine(spec, sim.NewSlurm(settings), source, func(r *sim.Result) {
		row := &t.rows[order[r.Seq]]
		row.simStart, row.simEnd = r.Start.Seconds(), r.End.Seconds()
	})
	if err != nil {
		return nil, err
	}
	if _, err := engine.Run(); err != nil {
		return nil, err
	}
	return t.fidelity(), nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

func (t *truth) fidelity() *fidelityOf {
	f := &fidelityOf{}
	n := float64(len(t.rows))
	var recorded, simulated, shifts []float64
	first := math.Inf(1)
	for _, r := range t.rows {
		f.waitReal += (r.start - r.submit) / n
		f.waitSim += (r.simStart - r.submit) / n
		first = min(first, r.submit)
		f.spanReal, f.spanSim = max(f.spanReal, r.end), max(f.spanSim, r.simEnd)
		recorded, simulated = append(recorded, r.start), append(simulated, r.simStart)
		shifts = append(shifts, math.Abs(r.start-r.simStart))
	}
	f.spanReal -= first
	f.spanSim -= first
	f.order = pearson(rankOf(recorded), rankOf(simulated))
	slices.Sort(shifts)
	f.shift = shifts[len(shifts)/2]
	return f
}

// rankOf gives the places of the values, equal ones sharing theirs.
func rankOf(v []float64) []float64 {
	idx := make([]int, len(v))
	for i := range idx {
		idx[i] = i
	}
	slices.SortFunc(idx, func(a, b int) int { return cmp.Compare(v[a], v[b]) })
	out := make([]float64, len(v))
	for i := 0; i < len(idx); {
		k := i
		for k < len(idx) && v[idx[k]] == v[idx[i]] {
			k++
		}
		for _, at := range idx[i:k] {
			out[at] = float64(i+k-1) / 2
		}
		i = k
	}
	return out
}

func pearson(a, b []float64) float64 {
	n := float64(len(a))
	var sa, sb, saa, sbb, sab float64
	for i := range a {
		sa, sb = sa+a[i], sb+b[i]
		saa, sbb, sab = saa+a[i]*a[i], sbb+b[i]*b[i], sab+a[i]*b[i]
	}
	return (sab - sa*sb/n) / math.Sqrt((saa-sa*sa/n)*(sbb-sb*sb/n))
}
