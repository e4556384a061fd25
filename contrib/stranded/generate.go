// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"math/rand/v2"
	"strings"
)

// generator draws requests as users may write them, for a cluster of nodes
// with gpus each.
type generator struct {
	rand        *rand.Rand
	nodes, gpus int
}

func newGenerator(seed uint64, nodes, gpus int) *generator {
	return &generator{rand: rand.New(rand.NewPCG(seed, 2)), nodes: nodes, gpus: gpus}
}

// maybe adds one of the options with the given chance.
func (g *generator) maybe(args []string, chance float64, options ...string) []string {
	if g.rand.Float64() >= chance {
		return args
	}
	return append(args, options[g.rand.IntN(len(options))])
}

// request draws one request: GPUs in one of the ways that sbatch has, and
// options beside it.
func (g *generator) request() []string {
	var args []string
	switch g.rand.IntN(4) {
	case 0:
		args = append(args, fmt.Sprintf("--gpus=%d", 1+g.rand.IntN(2*g.gpus)))
		args = g.maybe(args, 0.6, "--nodes=1-2", "--nodes=1-3", "--nodes=2-4", "--nodes=1-4", "--nodes=2")
	case 1:
		args = append(args, fmt.Sprintf("--gpus-per-node=%d", 1+g.rand.IntN(g.gpus)))
		args = g.maybe(args, 0.6, "--nodes=1", "--nodes=2", "--nodes=1-3", "--nodes=2-3")
	case 2:
		args = append(args, "--gpus-per-task=1", fmt.Sprintf("--ntasks=%d", 1+g.rand.IntN(g.gpus)))
		args = g.maybe(args, 0.5, "--nodes=1-3", "--nodes=2", "--nodes=1-2")
	case 3:
		args = append(args, fmt.Sprintf("--gres=gpu:%d", 1+g.rand.IntN(g.gpus)))
		args = g.maybe(args, 0.6, "--nodes=1", "--nodes=2", "--nodes=1-3")
	}
	args = g.maybe(args, 0.5, "--cpus-per-gpu=1", "--cpus-per-gpu=2", "--cpus-per-task=2")
	args = g.maybe(args, 0.6, "--mem=100", "--mem=2000", "--mem-per-gpu=50", "--mem-per-cpu=50")
	args = g.maybe(args, 0.5, "--switches=1", "--switches=1@5", "--switches=2")
	args = g.maybe(args, 0.5, "--exclusive", "--exclusive=user")
	args = g.maybe(args, 0.15, "--constraint=old", "--constraint=old&small", "--constraint=[old*1]", "--prefer=old")
	args = g.maybe(args, 0.15, "--licenses=matlab:1", "--licenses=matlab:4")
	args = g.maybe(args, 0.15, "--deadline=now+2days", "--begin=now")
	args = g.maybe(args, 0.15, "--ntasks-per-node=1", "--tmp=1", "--overcommit", "--spread-job", "--contiguous")
	return append(args, fmt.Sprintf("--time=%d:%02d:00", 1+g.rand.IntN(5), g.rand.IntN(60)))
}

// narrow draws which nodes to keep: at least need, fewer than all. With leaf
// they are one end of the list, which is a leaf switch, and one more node, as a
// placement under one switch with its slack is.
func (g *generator) narrow(open []string, need int, leaf bool) []string {
	keep := need
	if len(open)-1 > need {
		keep += g.rand.IntN(len(open) - need)
	}
	order := g.rand.Perm(len(open))
	if half := len(open) / 2; leaf && half+1 >= need && half > 0 {
		keep = half + 1
		for i := range half {
			order[i] = i
		}
		order[half] = half + g.rand.IntN(len(open)-half)
		if g.rand.IntN(2) == 0 {
			for i := range keep {
				order[i] = len(open) - 1 - order[i]
			}
		}
	}
	keep = min(keep, len(open))
	out := make([]string, 0, keep)
	for _, i := range order[:keep] {
		out = append(out, open[i])
	}
	return out
}

// option is the name of an option without its value.
func option(arg string) string {
	name, _, _ := strings.Cut(arg, "=")
	return name
}
