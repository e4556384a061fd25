// SPDX-License-Identifier: Apache-2.0

package policy

import (
	"cmp"
	"slices"

	"rifling/slurm"
)

// placer is a baseline that has one order of nodes for each job and takes them
// in that order; it never waits. Exclusions choose nodes, not GPUs per node:
// inside the set Slurm's fit decides, so of an open request the order says on
// which nodes it lands and how many they are, not its parts.
type placer struct {
	name string
	// rank orders the hosts, the first to be taken first.
	rank func(f *fit) []string
	// again draws anew: the last cycle's set is kept as long as the job could
	// start there, or it would be written anew in every cycle.
	keep bool
}

// Decide places each job that could start now on the first nodes in rank.
func (p placer) Decide(in Input) Plan {
	return decide(p.name, in, false, func(b *board, j *slurm.Job, d *Decision) map[string]int {
		f, ok := b.fit(j)
		if !ok || severalTasks(j) {
			d.Reason = notModelled
			return nil
		}
		leave := f.slurmFit(f.hosts)
		d.Reason = p.name + ": nothing it could use is free"
		if leave == nil {
			return nil
		}
		if last := in.Previous[j.ID]; p.keep && last.Action == Place && Within(last.Candidates, f.hosts) {
			if got := f.slurmFit(last.Candidates); got != nil {
				return p.place(f, d, got, last.Candidates)
			}
		}
		shape := f.take(p.rank(f))
		if shape == nil {
			return leave
		}
		return p.place(f, d, shape, f.around(shape, f.hosts))
	})
}

func (p placer) place(f *fit, d *Decision, shape map[string]int, set []string) map[string]int {
	d.Reason = p.name + ": " + f.b.words(shape)
	if set != nil {
		d.Action, d.Candidates, d.Target = Place, set, keys(shape)
	}
	return shape
}

// take is the shape that Slurm's fit makes over the first nodes of the order
// on which the job can start; nil when there are none.
func (f *fit) take(order []string) map[string]int {
	var set []string
	for _, n := range order {
		if f.now[n] < max(1, f.r.perNode) {
			continue
		}
		set = append(set, n)
		if f.r.perNode > 0 && len(set) < f.need {
			continue
		}
		if shape := f.slurmFit(set); shape != nil {
			return shape
		}
	}
	return nil
}

// Spread is the baseline that shares the load out: a request with fixed GPUs
// per node goes to the emptiest nodes, an open one to as many nodes as can be.
func Spread() Policy {
	return placer{name: "spread", rank: func(f *fit) []string {
		if f.r.open() {
			return f.sorted(func(n string) float64 { return float64(f.now[n]) })
		}
		return f.sorted(func(n string) float64 { return -float64(f.b.free[n]) })
	}}
}

// Random is the baseline that places anywhere, drawn from the input's source.
// A set that was drawn stays until the job can no longer start there.
func Random() Policy {
	return placer{name: "random", keep: true, rank: func(f *fit) []string {
		out := slices.Clone(f.hosts)
		f.b.in.Rand.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
		return out
	}}
}

// BestFit is the baseline that leaves the fewest GPUs free on the nodes it
// takes: one node where one serves the job, else the fullest nodes first. It
// never waits. Unlike Packed it does not leave scattered starts to Slurm, whose
// own fit takes the emptiest nodes first.
func BestFit() Policy {
	return placer{name: "best-fit", rank: func(f *fit) []string {
		whole := func(n string) bool { return f.now[n] >= f.share }
		packs := f.pick(f.hosts, f.need, f.share) != nil
		return f.sorted(func(n string) float64 {
			if packs && !whole(n) {
				return 1e6 + float64(f.b.free[n])
			}
			return float64(f.b.free[n])
		})
	}}
}

// Balance is the baseline in the manner of distributed resource schedulers:
// it takes the nodes with the lowest mean of six utilizations: GPUs, CPUs,
// memory, the NIC (a communication-bound job across nodes uses it), jobs per
// GPU, and GPUs held by communication-bound jobs.
func Balance() Policy {
	return placer{name: "balance", rank: func(f *fit) []string { return f.sorted(f.b.utilization) }}
}

// utilization is the mean of six parts in use of a node, 0..1.
func (b *board) utilization(name string) float64 {
	n := b.node[name]
	gpus := float64(max(1, n.GPUs))
	comm := 0.0
	for _, j := range b.runs[name] {
		if b.in.Profiles[j.ID].CommBound {
			comm += float64(gpusOn(j, name))
		}
	}
	nic := 0.0
	if b.busy[name] {
		nic = 1
	}
	sum := clamp((gpus-float64(b.free[name]))/gpus, 0) +
		clamp(float64(n.CPUsUsed)/float64(max(1, n.CPUs)), 0) +
		clamp(float64(n.MemUsedMB)/float64(max(1, n.MemoryMB)), 0) +
		nic + clamp(float64(len(b.runs[name]))/gpus, 0) + clamp(comm/gpus, 0)
	return sum / 6
}

// sorted is the hosts by ascending key, ties in their own order.
func (f *fit) sorted(key func(n string) float64) []string {
	out := slices.Clone(f.hosts)
	slices.SortStableFunc(out, func(a, b string) int { return cmp.Compare(key(a), key(b)) })
	return out
}
