// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rifling/sim"
)

// family is work that its user submits again and again: the same program on
// the same number of GPUs, asked for in the same way, with other
// hyper-parameters.
type family struct {
	user  User
	name  string
	model sim.Model
	gpus  int
	form  Form
	work  time.Duration // mean
}

// share is an item and how many there are of it, relative to the others.
type share[T any] struct {
	item   T
	weight float64
}

// sizes are GPU counts of families. Small jobs are most frequent and large
// ones use most GPU time, as on the clusters whose traces are public.
func sizes(o Options) []share[int] {
	g := o.GPUsPerNode
	if len(o.Sizes) > 0 {
		out := make([]share[int], 0, len(o.Sizes))
		for _, s := range o.Sizes {
			if s.GPUs <= g*o.MaxNodes {
				out = append(out, share[int]{s.GPUs, s.Weight})
			}
		}
		return out
	}
	all := []share[int]{{1, 0.26}, {2, 0.20}, {max(1, g/2), 0.24}, {g, 0.20}, {2 * g, 0.10}}
	return slices.DeleteFunc(all, func(s share[int]) bool { return s.item > g*o.MaxNodes })
}

// forms are the ways in which families of one GPU, or of more, ask for them.
func forms(o Options, gpus int) []share[Form] {
	fixed := []share[Form]{{Gres, 0.78}, {PerNode, 0.12}, {Typed, 0.10}}
	if gpus < 2 || o.OpenShare <= 0 {
		return fixed
	}
	for i := range fixed {
		fixed[i].weight *= 1 - o.OpenShare
	}
	return append(fixed, share[Form]{Gpus, o.OpenShare / 2}, share[Form]{Range, o.OpenShare / 4}, share[Form]{PerTask, o.OpenShare / 4})
}

// makeFamilies makes one family for every four jobs, at least one per model.
// Models, sizes and forms are dealt out rather than drawn, so that two seeds
// differ in who does what when, not in how much of each there is.
func makeFamilies(rng *rand.Rand, o Options, known []sim.Model) []family {
	n := min(o.Jobs, max(len(known), o.Jobs/4))
	equal := make([]share[sim.Model], len(known))
	for i, m := range known {
		equal[i] = share[sim.Model]{m, 1}
	}
	models, gpus := deal(rng, n, equal), deal(rng, n, sizes(o))
	one, many := deal(rng, n, forms(o, 1)), deal(rng, n, forms(o, 2))
	projects := []string{"finetune", "pretrain", "ablation", "sweep", "baseline", "eval", "repro", "night"}
	fs := make([]family, n)
	for i := range fs {
		fs[i] = family{
			user:  o.Users[rng.IntN(len(o.Users))],
			name:  fmt.Sprintf("%s-%s", models[i].Name, projects[rng.IntN(len(projects))]),
			model: models[i],
			gpus:  gpus[i],
			form:  many[i],
			work:  scaleLog(rng, o.MeanWork, o.Spread, o.Tail),
		}
		if fs[i].gpus > o.GPUsPerNode && !pays(o, models[i], fs[i].gpus, 2) {
			fs[i].gpus = o.GPUsPerNode
		}
		if fs[i].gpus == 1 {
			fs[i].form = one[i]
		}
	}
	return fs
}

// pays tells whether a user would run the model across that many nodes by
// choice: at no less than half of the speed inside one.
func pays(o Options, m sim.Model, gpus, nodes int) bool {
	return rate(o, m, gpus, nodes) >= sim.PackedRate(m, gpus)/2
}

// deal returns n items with each item's count as near to its share as whole
// numbers allow, in random order; every item comes at least once where n
// allows (the method of Sainte-Laguë).
func deal[T any](rng *rand.Rand, n int, items []share[T]) []T {
	given := make([]int, len(items))
	out := make([]T, 0, n)
	for len(out) < n {
		next := 0
		for i := range items {
			if items[i].weight*float64(2*given[next]+1) > items[next].weight*float64(2*given[i]+1) {
				next = i
			}
		}
		given[next]++
		out = append(out, items[next].item)
	}
	rng.Shuffle(n, func(i, j int) { out[i], out[j] = out[j], out[i] })
	return out
}

// scaleLog returns mean times a log-normal factor with mean 1, cut to tail
// times and its inverse.
func scaleLog(rng *rand.Rand, mean time.Duration, sigma, tail float64) time.Duration {
	f := math.Exp(sigma*rng.NormFloat64() - sigma*sigma/2)
	return time.Duration(float64(mean) * min(tail, max(1/tail, f)))
}

// shape is what a request says about nodes.
type shape struct {
	fewest, most int // nodes
	open         bool
}

// pickShape draws the shape of a job. A fixed one takes the fewest nodes, but
// one job in six of those of at least half a node is asked for on two nodes
// all the same, as users do who once waited long for a whole one.
func pickShape(rng *rand.Rand, o Options, f family) shape {
	gpus := f.gpus
	fewest := (gpus + o.GPUsPerNode - 1) / o.GPUsPerNode
	s := shape{fewest: fewest, most: fewest}
	switch f.form {
	case Gpus, Range, PerTask:
		s.most = min(o.Nodes, max(fewest+1, 4), gpus)
		s.open = s.most > s.fewest
	default:
		half := fewest == 1 && gpus >= max(2, o.GPUsPerNode/2) && gpus%2 == 0 && o.MaxNodes > 1
		if half && pays(o, f.model, gpus, 2) && rng.IntN(6) == 0 {
			s = shape{fewest: 2, most: 2}
		}
	}
	return s
}

// request writes a shape as sbatch's options.
func request(o Options, form Form, gpus int, s shape) []string {
	each := gpus / s.fewest
	switch form {
	case Typed:
		return []string{fmt.Sprintf("--nodes=%d", s.fewest), fmt.Sprintf("--gres=gpu:%s:%d", o.GPUType, each)}
	case PerNode:
		return []string{fmt.Sprintf("--nodes=%d", s.fewest), fmt.Sprintf("--gpus-per-node=%d", each)}
	case Gpus:
		return []string{fmt.Sprintf("--gpus=%d", gpus)}
	case Range:
		return []string{fmt.Sprintf("--nodes=%d-%d", s.fewest, s.most), fmt.Sprintf("--gpus=%d", gpus)}
	case PerTask:
		return []string{fmt.Sprintf("--ntasks=%d", gpus), "--gpus-per-task=1"}
	default:
		return []string{fmt.Sprintf("--nodes=%d", s.fewest), fmt.Sprintf("--gres=gpu:%d", each)}
	}
}

// rate is the model's iterations per second, alone on equal parts over that
// many nodes.
func rate(o Options, m sim.Model, gpus, nodes int) float64 {
	byNode := map[string]int{}
	for i := range gpus {
		byNode[fmt.Sprint(i%nodes)]++
	}
	return sim.Rate(m, byNode, func(string) (float64, int) { return o.NICBytesPerSecond, 1 })
}

// job makes the family's next job. Its name carries what differs, as users'
// names do.
func (f family) job(rng *rand.Rand, o Options, serial int) Job {
	s := pickShape(rng, o, f)
	best := rate(o, f.model, f.gpus, s.fewest)
	work := scaleLog(rng, f.work, o.Spread/3, o.Tail)
	steps := max(1, int(work.Seconds()*best))
	// Halves over two nodes load a NIC most of all even shapes.
	slowest := best / rate(o, f.model, f.gpus, min(s.most, max(2, s.fewest)))
	rates := []string{"1e-3", "3e-4", "1e-4", "3e-5", "1e-5"}
	return Job{
		Name:       fmt.Sprintf("%s-lr%s-s%d", f.name, rates[rng.IntN(len(rates))], 100+serial),
		User:       f.user.Name,
		Account:    f.user.Account,
		Model:      f.model.Name,
		Iterations: steps,
		GPUs:       f.gpus,
		Form:       f.form,
		Request:    request(o, f.form, f.gpus, s),
		Open:       s.open,
		Fewest:     s.fewest,
		Most:       s.most,
		Work:       time.Duration(float64(steps) / best * float64(time.Second)),
		Limit:      limit(rng, work, slowest),
	}
}

// limit is what a user writes after --time: two to five times the work, and
// room for the slowest placement where the request leaves one open, in whole
// half hours.
func limit(rng *rand.Rand, work time.Duration, slowest float64) time.Duration {
	factor := max(2+3*rng.Float64(), 1.5*slowest)
	const step = 30 * time.Minute
	l := time.Duration(factor * float64(work))
	return (l + step - 1).Truncate(step)
}
