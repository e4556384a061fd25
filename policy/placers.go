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
	rank func(f *fit) []int
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
		leave := f.slurmFit(f.all)
		d.Reason = p.name + ": nothing it could use is free"
		if leave == nil {
			return nil
		}
		if last := in.Previous[j.ID]; p.keep && last.Action == Place {
			if set, ok := f.places(last.Candidates); ok && len(set) > 0 {
				if got := f.slurmFit(set); got != nil {
					return p.place(f, d, got, set)
				}
			}
		}
		shape := f.take(p.rank(f))
		if shape == nil {
			return leave
		}
		return p.place(f, d, shape, f.around(shape, f.all))
	})
}

func (p placer) place(f *fit, d *Decision, shape map[string]int, set []int) map[string]int {
	d.Reason = p.name + ": " + f.b.words(shape)
	if set != nil {
		d.Action, d.Candidates, d.Target = Place, f.names(set), keys(shape)
	}
	return shape
}

// take is the shape that Slurm's fit makes over the first nodes of the order
// on which the job can start; nil when there are none.
func (f *fit) take(order []int) map[string]int {
	var set []int
	for _, h := range order {
		if f.now[h] < max(1, f.r.perNode) {
			continue
		}
		set = append(set, h)
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
	return placer{name: "spread", rank: func(f *fit) []int {
		if f.r.open() {
			return f.sorted(func(h int) float64 { return float64(f.now[h]) })
		}
		return f.sorted(func(h int) float64 { return -float64(f.free[h]) })
	}}
}

// Random is the baseline that places anywhere, drawn from the input's source.
// A set that was drawn stays until the job can no longer start there.
func Random() Policy {
	return placer{name: "random", keep: true, rank: func(f *fit) []int {
		out := slices.Clone(f.all)
		f.b.in.Rand.Shuffle(len(out), func(i, k int) { out[i], out[k] = out[k], out[i] })
		return out
	}}
}

// BestFit is the baseline that leaves the fewest GPUs free on the nodes it
// takes: one node where one serves the job, else the fullest nodes first. It
// never waits. Unlike Packed it does not leave scattered starts to Slurm, whose
// own fit takes the emptiest nodes first.
func BestFit() Policy {
	return placer{name: "best-fit", rank: func(f *fit) []int {
		whole := func(h int) bool { return f.now[h] >= f.share }
		packs := f.pick(f.all, f.need, f.share) != nil
		return f.sorted(func(h int) float64 {
			if packs && !whole(h) {
				return 1e6 + float64(f.free[h])
			}
			return float64(f.free[h])
		})
	}}
}

// Balance is the baseline in the manner of distributed resource schedulers:
// it takes the nodes with the lowest mean of six utilizations: GPUs, CPUs,
// memory, the NIC (a communication-bound job across nodes uses it), jobs per
// GPU, and GPUs held by communication-bound jobs.
func Balance() Policy {
	return placer{name: "balance", rank: func(f *fit) []int { return f.sorted(func(h int) float64 { return f.b.utilization(f.hosts[h]) }) }}
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
func (f *fit) sorted(key func(h int) float64) []int {
	keys := make([]float64, len(f.all))
	for _, h := range f.all {
		keys[h] = key(h)
	}
	out := slices.Clone(f.all)
	slices.SortStableFunc(out, func(a, b int) int { return cmp.Compare(keys[a], keys[b]) })
	return out
}
