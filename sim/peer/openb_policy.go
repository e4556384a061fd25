// SPDX-License-Identifier: Apache-2.0

package peer

import "math"

// PodPolicy chooses a host for a pod, and a GPU for one that shares.
type PodPolicy struct {
	Name string
	// score is from 0 to 100, in whole points as the Kubernetes scheduler
	// compares them; gpu is -1 to leave the choice to choose.
	score  func(f *filling, h *host, p Pod) (points, gpu int)
	choose func(f *filling, h *host, p Pod) int
	// anyHost takes any host that fits, whatever the scores.
	anyHost bool
}

// The largest host that scores are relative to, in FGD's experiments.
const (
	mostCPU = 128000
	mostGPU = 8000
)

// FGD lists the policies of FGD's comparison (USENIX ATC 2023,
// github.com/hkust-adsl/kubernetes-scheduler-simulator).
func FGD() []*PodPolicy {
	return []*PodPolicy{
		{Name: "random", score: scoreNothing, choose: chooseAny, anyHost: true},
		{Name: "dot product", score: scoreDotProduct, choose: chooseFullest},
		{Name: "clustering", score: scoreClustering, choose: chooseFullest},
		{Name: "packing", score: scorePacking, choose: chooseFullest},
		{Name: "best-fit", score: scoreBestFit, choose: chooseFullest},
		{Name: "FGD", score: scoreFragmentation, choose: chooseFullest},
	}
}

func scoreNothing(*filling, *host, Pod) (points, gpu int) { return 0, -1 }

// scoreDotProduct prefers hosts of which what is free is least like what is
// asked for.
func scoreDotProduct(_ *filling, h *host, p Pod) (points, gpu int) {
	dot := float64(h.cpu)/mostCPU*float64(p.CPU)/mostCPU + float64(h.total)/mostGPU*float64(p.milli())/mostGPU
	return int(100 * (1 - dot/2)), -1
}

// scoreClustering prefers hosts with pods of the same number of GPUs, alone
// before among others, then empty hosts, then the rest.
func scoreClustering(_ *filling, h *host, p Pod) (points, gpu int) {
	if p.GPUs == 0 {
		return 0, -1
	}
	classes := 0
	for _, n := range h.classes {
		if n > 0 {
			classes++
		}
	}
	fill := 25 * (mostGPU - h.total) / mostGPU
	switch {
	case h.classes[class(p)] > 0 && classes == 1:
		return fill + 75, -1
	case h.classes[class(p)] > 0:
		return fill + 50, -1
	case classes == 0:
		return fill + 25, -1
	}
	return fill, -1
}

// scorePacking prefers GPUs in use, then free GPUs of hosts in use.
func scorePacking(_ *filling, h *host, p Pod) (points, gpu int) {
	if p.GPUs == 0 {
		return 0, -1
	}
	idle := 0
	for _, l := range h.left {
		if l == whole {
			idle++
		}
	}
	if idle == h.GPUs {
		return max(33-idle, idle), -1
	}
	if !p.shares() {
		return max(50-p.GPUs, 33), -1
	}
	left := h.left[chooseFullest(nil, h, p)]
	if left == whole {
		return 49, -1
	}
	return max(100-left/100, 50), -1
}

func scoreBestFit(_ *filling, h *host, p Pod) (points, gpu int) {
	rest := float64(h.cpu-p.CPU)/mostCPU*0.5 + float64(h.total-p.milli())/mostGPU*0.5
	return int(100 * (1 - rest)), -1
}

// scoreFragmentation prefers what adds least to the expected fragments.
func scoreFragmentation(f *filling, h *host, p Pod) (points, gpu int) {
	before := f.fragments(h)
	after := func(gpu int) int {
		left := append(make([]int, 0, 8), h.left...)
		trial := host{Host: h.Host, cpu: h.cpu, left: left, total: h.total}
		trial.put(p, gpu)
		return int(100 / (1 + math.Exp((f.fragments(&trial)-before)/1000)))
	}
	if !p.shares() {
		return after(-1), -1
	}
	points, gpu = 0, -1
	for i, l := range h.left {
		if l < p.Milli || i > 0 && l == h.left[i-1] {
			continue // the same as the one before it
		}
		if s := after(i); gpu < 0 || s > points {
			points, gpu = s, i
		}
	}
	return points, gpu
}

// fragments is how much of the host's free GPUs a typical pod cannot use, in
// thousandths: all of it for a pod without GPUs or one that does not fit, and
// what is free of GPUs that are too full for it.
func (f *filling) fragments(h *host) float64 {
	if h.total == 0 {
		return 0
	}
	sum := 0.0
	for i := range f.typed {
		k := &f.typed[i]
		if k.GPUs == 0 || h.cpu < k.CPU || !h.accepts(k.Pod) {
			sum += k.share * float64(h.total)
			continue
		}
		tooFull, n := 0, 0
		for _, l := range h.left {
			if l < k.Milli {
				tooFull += l
			} else {
				n++
			}
		}
		if n < k.GPUs {
			tooFull = h.total
		}
		sum += k.share * float64(tooFull)
	}
	return sum
}

// chooseFullest takes the GPU with the least left that is enough.
func chooseFullest(_ *filling, h *host, p Pod) int {
	best := -1
	for i, l := range h.left {
		if l >= p.Milli && (best < 0 || l < h.left[best]) {
			best = i
		}
	}
	return best
}

func chooseAny(f *filling, h *host, p Pod) int {
	best, n := -1, 0
	for i, l := range h.left {
		if l >= p.Milli {
			if n++; f.rng.IntN(n) == 0 {
				best = i
			}
		}
	}
	return best
}
