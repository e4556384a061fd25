// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
)

// Pod is a request for one node of a cluster that shares GPUs.
type Pod struct {
	CPU   int    // thousandths
	MiB   int    // memory
	GPUs  int    // 0 for none
	Milli int    // of each GPU, in thousandths; below 1000 only for one GPU
	Types string // GPU types that it takes, with | between; empty: any
}

// milli is what the pod takes of all GPUs.
func (p Pod) milli() int { return p.GPUs * p.Milli }

// shares reports whether the pod takes a part of one GPU.
func (p Pod) shares() bool { return p.GPUs == 1 && p.Milli < whole }

// whole is one GPU, in thousandths.
const whole = 1000

// Host is a node of a cluster that shares GPUs.
type Host struct {
	CPU, MiB, GPUs int // CPU in thousandths
	Type           string
}

// host is a node with what is free on it.
type host struct {
	*Host
	cpu     int
	mib     int
	left    []int // thousandths of each GPU
	total   int   // sum of left
	classes [6]int
}

// class is what clustering tells pods apart by: a share, 1, 2, 4, 8 GPUs, other.
func class(p Pod) int {
	switch {
	case p.shares():
		return 0
	case p.GPUs <= 2:
		return p.GPUs
	case p.GPUs == 4, p.GPUs == 8:
		return p.GPUs/4 + 2
	}
	return 5
}

// serves reports whether the pod fits the host now.
func (h *host) serves(p Pod) bool {
	if h.cpu < p.CPU || h.mib < p.MiB {
		return false
	}
	if p.GPUs == 0 {
		return true
	}
	if !h.accepts(p) {
		return false
	}
	n := 0
	for _, l := range h.left {
		if l >= p.Milli {
			n++
		}
	}
	return n >= p.GPUs
}

func (h *host) accepts(p Pod) bool {
	if p.Types == "" {
		return true
	}
	return h.Type != "" && slices.Contains(strings.Split(p.Types, "|"), h.Type)
}

// put places the pod: its share on GPU gpu, or whole GPUs, the first free ones.
func (h *host) put(p Pod, gpu int) {
	h.cpu -= p.CPU
	h.mib -= p.MiB
	h.total -= p.milli()
	if p.GPUs > 0 {
		h.classes[class(p)]++
	}
	if p.shares() {
		h.left[gpu] -= p.Milli
		return
	}
	for i, n := 0, p.GPUs; n > 0; i++ {
		if h.left[i] == whole {
			h.left[i] = 0
			n--
		}
	}
}

// Inflation fills a cluster as FGD's experiments do: all pods in random order,
// with pods drawn from them appended, or some removed, until they ask for
// Load times the GPUs there are. None ever ends. Hosts have a random order that
// decides between equal scores: their Kubernetes takes the name that sorts
// first, and their program renames the hosts. The result is the share of the
// GPUs that is given away when that much has come.
type Inflation struct {
	Hosts []Host
	Pods  []Pod
	Load  float64
}

// kind is one sort of pods, of which there are few.
type kind struct {
	Pod
	share float64 // of all pods, among the typical ones
}

// filling is one run.
type filling struct {
	in     Inflation
	policy *PodPolicy
	rng    *rand.Rand
	hosts  []host
	kinds  []kind
	typed  []kind // the typical ones
	scores [][]verdict
}

// verdict is a score that holds until something is placed on the host.
type verdict struct {
	known, fits bool
	gpu         int
	score       int
}

// Run fills the cluster once and returns the allocated share of all GPUs in
// per cent, the mean over all arrivals while what has come rounds to Load.
func (in Inflation) Run(policy *PodPolicy, rng *rand.Rand) (float64, error) {
	f := &filling{in: in, policy: policy, rng: rng}
	totalGPUs := 0
	for _, i := range rng.Perm(len(in.Hosts)) {
		h := host{Host: &in.Hosts[i], cpu: in.Hosts[i].CPU, mib: in.Hosts[i].MiB, total: in.Hosts[i].GPUs * whole}
		for range in.Hosts[i].GPUs {
			h.left = append(h.left, whole)
		}
		f.hosts = append(f.hosts, h)
		totalGPUs += in.Hosts[i].GPUs
	}
	if totalGPUs == 0 {
		return 0, fmt.Errorf("no GPUs in %d hosts", len(in.Hosts))
	}
	f.kinds = kindsOf(in.Pods)
	index := map[Pod]int{}
	for i, k := range f.kinds {
		index[k.Pod] = i
	}
	f.typed = typical(in.Pods)
	f.scores = make([][]verdict, len(f.hosts))
	for i := range f.scores {
		f.scores[i] = make([]verdict, len(f.kinds))
	}
	perCent := float64(totalGPUs) * whole / 100
	arrived, used, sum, n := 0, 0, 0.0, 0
	for _, p := range f.arrivals(totalGPUs * whole) {
		arrived += p.milli()
		if f.place(index[p]) {
			used += p.milli()
		}
		if math.RoundToEven(float64(arrived)/perCent) == math.RoundToEven(100*in.Load) {
			sum += float64(used) / perCent
			n++
		}
	}
	if n == 0 {
		return 0, fmt.Errorf("the pods never come to %.0f %% of the GPUs", 100*in.Load)
	}
	return sum / float64(n), nil
}

// arrivals returns the pods in the order in which they come.
func (f *filling) arrivals(milli int) []Pod {
	pods := slices.Clone(f.in.Pods)
	f.rng.Shuffle(len(pods), func(i, j int) { pods[i], pods[j] = pods[j], pods[i] })
	asked, most := 0, f.in.Load*float64(milli)
	for _, p := range pods {
		asked += p.milli()
	}
	for float64(asked) > most && len(pods) > 0 {
		i := f.rng.IntN(len(pods))
		asked -= pods[i].milli()
		pods = slices.Delete(pods, i, i+1)
	}
	for len(f.in.Pods) > 0 && float64(asked) < most {
		p := f.in.Pods[f.rng.IntN(len(f.in.Pods))]
		if float64(asked+p.Milli) > most {
			break
		}
		asked += p.milli()
		pods = append(pods, p)
	}
	return pods
}

// kindsOf lists the kinds of pods, the most frequent first.
func kindsOf(pods []Pod) []kind {
	count := map[Pod]float64{}
	for _, p := range pods {
		count[p]++
	}
	var kinds []kind
	for p, n := range count {
		kinds = append(kinds, kind{p, n / float64(len(pods))})
	}
	slices.SortFunc(kinds, func(a, b kind) int {
		return cmp.Or(cmp.Compare(b.share, a.share), cmp.Compare(b.CPU, a.CPU), cmp.Compare(b.Milli, a.Milli),
			cmp.Compare(b.GPUs, a.GPUs), cmp.Compare(b.Types, a.Types), cmp.Compare(b.MiB, a.MiB))
	})
	return kinds
}

// typicalShare is how much of the pods the typical kinds stand for.
const typicalShare = 0.95

// typical returns the most frequent kinds, memory aside, of which the shares
// then make one.
func typical(pods []Pod) []kind {
	pods = slices.Clone(pods)
	for i := range pods {
		pods[i].MiB = 0
	}
	kinds := kindsOf(pods)
	sum, n := 0.0, 0
	for n < len(kinds) && sum < typicalShare {
		sum += kinds[n].share
		n++
	}
	for i := range kinds[:n] {
		kinds[i].share /= sum
	}
	return kinds[:n]
}

// place puts a pod on the host with the highest score, the first of equal
// ones, or on any that it fits; false when it fits none.
func (f *filling) place(k int) bool {
	best, fits := -1, 0
	for i := range f.hosts {
		v := &f.scores[i][k]
		if !v.known {
			*v = verdict{known: true, fits: f.hosts[i].serves(f.kinds[k].Pod)}
			if v.fits {
				v.score, v.gpu = f.policy.score(f, &f.hosts[i], f.kinds[k].Pod)
			}
		}
		if !v.fits {
			continue
		}
		fits++
		switch {
		case best < 0, v.score > f.scores[best][k].score, f.policy.anyHost && f.rng.IntN(fits) == 0:
			best = i
		}
	}
	if best < 0 {
		return false
	}
	h, p := &f.hosts[best], f.kinds[k].Pod
	gpu := f.scores[best][k].gpu
	if p.shares() && gpu < 0 {
		gpu = f.policy.choose(f, h, p)
	}
	h.put(p, gpu)
	clear(f.scores[best])
	return true
}
