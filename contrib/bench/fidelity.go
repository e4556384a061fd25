// SPDX-License-Identifier: Apache-2.0

package main

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rifling/sim"
)

// How far the model may be from what a real slurmctld did.
const (
	fidelityWait     = 0.05 // mean queueing delay
	fidelityMakespan = 0.02
	fidelityOrder    = 0.95 // rank correlation of start times, at least
)

// slurmFidelity runs every recorded list through Slurm's model and prints it
// beside what a real slurmctld did with it.
func slurmFidelity(ctx context.Context, out io.Writer) error {
	recordings, err := truthFiles(out)
	if err != nil {
		return err
	}
	fmt.Fprintf(out, "%-45s %-9s %5s %9s %9s %14s %8s %8s %7s %6s %8s\n", "recording", "run time", "jobs",
		"wait real", "wait sim", "diff (sd)", "span real", "span sim", "diff", "order", "|dstart|")
	var bars []string
	for _, t := range recordings {
		for _, measured := range []bool{true, false} {
			if err := ctx.Err(); err != nil {
				return err
			}
			f, err := t.overVariants(measured)
			if err != nil {
				return err
			}
			how := map[bool]string{true: "measured", false: "trace"}[measured]
			if measured {
				t.sim = f
			}
			fmt.Fprintf(out, "%-45s %-9s %5d %9.1f %9.1f %+6.1f%% (%4.1f) %9.0f %8.0f %+6.2f%% %6.4f %8.0f\n", t.name, how,
				len(t.rows), f.waitReal, f.waitSim, 100*f.wait(), 100*f.sd, f.spanReal, f.spanSim, 100*f.span(), f.order, f.shift)
			bars = append(bars, f.bar(t.name+"/"+how))
		}
	}
	bars = append(bars, betweenRecordings(out, recordings)...)
	for _, b := range bars {
		fmt.Fprintln(out, b)
	}
	return nil
}

func (f *fidelityOf) bar(name string) string {
	verdict := "ok"
	if math.Abs(f.wait()) > fidelityWait || math.Abs(f.span()) > fidelityMakespan || f.order < fidelityOrder {
		verdict = "short"
	}
	return fmt.Sprintf("bar: slurm-fidelity/%s value=%+.1f%%,%+.2f%%,%.3f target=%.0f%%,%.0f%%,%.2f %s",
		name, 100*f.wait(), 100*f.span(), f.order, 100*fidelityWait, 100*fidelityMakespan, fidelityOrder, verdict)
}

// betweenRecordings holds the recordings of one and the same list against one
// another, and their mean against the model's: what several slurmctlds differ by
// is what no model of them can know.
func betweenRecordings(out io.Writer, recordings []*truth) (bars []string) {
	byList := map[string][]*truth{}
	var lists []string
	for _, t := range recordings {
		if byList[t.list] == nil {
			lists = append(lists, t.list)
		}
		byList[t.list] = append(byList[t.list], t)
	}
	fmt.Fprintf(out, "\n%-45s %9s %14s %9s %7s %9s %7s %16s\n", "list, all recordings of it", "recorded", "wait real (sd)",
		"wait sim", "diff", "span diff", "order", "real to real")
	for _, list := range lists {
		same := byList[list]
		if len(same) < 2 {
			continue
		}
		mean, n, square := &fidelityOf{}, float64(len(same)), 0.0
		for _, t := range same {
			mean.add(t.sim, n)
			square += t.sim.waitReal * t.sim.waitReal / n
		}
		sd := math.Sqrt(max(0, square-mean.waitReal*mean.waitReal)*n/(n-1)) / mean.waitReal
		fmt.Fprintf(out, "%-45s %9d %8.1f (%3.1f%%) %9.1f %+6.1f%% %+8.2f%% %7.4f %16.4f\n", list, len(same), mean.waitReal, 100*sd,
			mean.waitSim, 100*mean.wait(), 100*mean.span(), mean.order, orderBetween(same))
		bars = append(bars, mean.bar(list+"/mean-of-recordings"))
	}
	return bars
}

// orderBetween is the mean rank correlation of the start times of any two of
// the recordings.
func orderBetween(same []*truth) float64 {
	sum, pairs := 0.0, 0.0
	for i := range same {
		for k := range i {
			sum += pearson(rankOf(same[i].starts()), rankOf(same[k].starts()))
			pairs++
		}
	}
	return sum / pairs
}

func (t *truth) starts() []float64 {
	var out []float64
	for _, r := range t.rows {
		out = append(out, r.start)
	}
	return out
}

// variant is one of the worlds that a recording, which tells whole seconds and
// not what slurmctld's threads did when, leaves possible.
type variant struct {
	phase    time.Duration // of the clock in the minute when the simulation begins
	endDelay time.Duration // how long the GPUs of an ended job stay taken
	seed     uint64        // of the parts of seconds; 0: none
}

// overVariants is the mean over the variants, with the standard deviation of
// the relative difference in waiting.
func (t *truth) overVariants(measured bool) (mean *fidelityOf, err error) {
	mean = &fidelityOf{}
	n, square := float64(len(t.variants)), 0.0
	for _, v := range t.variants {
		f, err := t.compare(measured, v)
		if err != nil {
			return nil, err
		}
		square += f.wait() * f.wait() / n
		mean.add(f, n)
	}
	mean.sd = math.Sqrt(max(0, square-mean.wait()*mean.wait()))
	return mean, nil
}

// add takes in one of n figures of a mean.
func (f *fidelityOf) add(o *fidelityOf, n float64) {
	f.waitReal, f.waitSim = f.waitReal+o.waitReal/n, f.waitSim+o.waitSim/n
	f.spanReal, f.spanSim = f.spanReal+o.spanReal/n, f.spanSim+o.spanSim/n
	f.order, f.shift = f.order+o.order/n, f.shift+o.shift/n
}

type fidelityOf struct {
	waitReal, waitSim, spanReal, spanSim, order, shift float64
	sd                                                 float64 // of the relative difference in waiting
}

func (f *fidelityOf) wait() float64 { return f.waitSim/f.waitReal - 1 }
func (f *fidelityOf) span() float64 { return f.spanSim/f.spanReal - 1 }

func (t *truth) compare(measured bool, v variant) (*fidelityOf, error) {
	spec := sim.Spec{EndDelay: v.endDelay, Partitions: t.partitions, Users: t.users}
	for i := range t.nodes {
		n := sim.NodeSpec{Name: fmt.Sprintf("n%d", i+1), GPUs: t.each}
		if t.topology {
			n.CPUs, n.Leaf = 2*t.each, fmt.Sprintf("leaf%d", 1+2*i/t.nodes)
		}
		spec.Nodes = append(spec.Nodes, n)
	}
	if !measured {
		spec.StartOverhead = t.overhead
	}
	order := make([]int, len(t.rows))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(t.rows[a].submit, t.rows[b].submit) })
	k, rng, last := 0, rand.New(rand.NewPCG(v.seed, 3)), time.Duration(0)
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
		if v.seed > 0 {
			j.Work += seconds(rng.Float64() - 0.5)
			last = max(last, j.Submit+seconds(rng.Float64()))
			j.Submit = last
		}
		j.Request = sim.Request{GPUs: r.gpus, MaxNodes: 1}
		switch {
		case r.open:
			j.Request = sim.Request{GPUs: r.gpus}
		case r.gpus > t.each:
			j.Request = sim.Request{GPUsPerNode: t.each, MinNodes: r.gpus / t.each}
		}
		return j, true
	}
	settings := t.settings
	settings.Phase = v.phase
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
