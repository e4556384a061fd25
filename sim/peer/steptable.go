// SPDX-License-Identifier: Apache-2.0

package peer

import (
	"cmp"
	"slices"
	"strconv"
)

// StepTable has the measured times of one program's iterations, by placement
// and by the batch on each GPU.
type StepTable struct {
	placed map[string][]stepTime // by placement, the smallest of its rotations
	sized  map[int]map[int][]stepTime
}

// stepTime is one measurement, in seconds; sync is the communicating part.
type stepTime struct {
	batch      float64
	step, sync float64
}

// Add takes a measurement in: of a placement such as "22" when it is told, by
// nodes and GPUs alone otherwise.
func (s *StepTable) Add(placement string, nodes, gpus int, batch, step, sync float64) {
	m := stepTime{batch, step, sync}
	if placement != "" {
		if s.placed == nil {
			s.placed = map[string][]stepTime{}
		}
		s.placed[placement] = append(s.placed[placement], m)
		nodes, gpus = len(placement), 0
		for _, c := range placement {
			gpus += int(c - '0')
		}
	}
	if s.sized == nil {
		s.sized = map[int]map[int][]stepTime{}
	}
	if s.sized[nodes] == nil {
		s.sized[nodes] = map[int][]stepTime{}
	}
	s.sized[nodes][gpus] = append(s.sized[nodes][gpus], m)
}

// At returns step and communicating time in seconds of a placement, by GPUs per
// node. What was not measured is interpolated: between the batches, then
// between numbers of GPUs, then of nodes; beyond the ends it is that of the end.
func (s *StepTable) At(gpusByNode []int, batch float64) (step, sync float64) {
	if of, ok := s.placed[placementName(gpusByNode)]; ok {
		m := byBatch(of, batch)
		return m.step, m.sync
	}
	gpus := 0
	for _, g := range gpusByNode {
		gpus += g
	}
	m := between(keys(s.sized), len(gpusByNode), func(nodes int) stepTime {
		of := s.sized[nodes]
		return between(keys(of), gpus, func(g int) stepTime { return byBatch(of[g], batch) })
	})
	return m.step, m.sync
}

// placementName is the smallest rotation of the parts.
func placementName(gpusByNode []int) string {
	best := ""
	for i := range gpusByNode {
		name := ""
		for j := range gpusByNode {
			name += strconv.Itoa(gpusByNode[(i+j)%len(gpusByNode)])
		}
		if best == "" || name < best {
			best = name
		}
	}
	return best
}

func keys[V any](m map[int]V) []int {
	var out []int
	for k := range m {
		out = append(out, k)
	}
	slices.Sort(out)
	return out
}

// between interpolates linearly between the neighbours of x.
func between(at []int, x int, of func(int) stepTime) stepTime {
	i, _ := slices.BinarySearch(at, x)
	switch {
	case i == len(at):
		return of(at[len(at)-1])
	case at[i] == x, i == 0:
		return of(at[i])
	}
	return mix(of(at[i-1]), of(at[i]), float64(x-at[i-1])/float64(at[i]-at[i-1]))
}

// byBatch interpolates between batches, over the mean of each.
func byBatch(of []stepTime, batch float64) stepTime {
	sum, n := map[float64]stepTime{}, map[float64]float64{}
	for _, m := range of {
		v := sum[m.batch]
		sum[m.batch] = stepTime{m.batch, v.step + m.step, v.sync + m.sync}
		n[m.batch]++
	}
	var all []stepTime
	for b, v := range sum {
		all = append(all, stepTime{b, v.step / n[b], v.sync / n[b]})
	}
	slices.SortFunc(all, func(a, b stepTime) int { return cmp.Compare(a.batch, b.batch) })
	i := slices.IndexFunc(all, func(m stepTime) bool { return m.batch >= batch })
	switch {
	case i < 0:
		return all[len(all)-1]
	case i == 0:
		return all[0]
	}
	return mix(all[i-1], all[i], (batch-all[i-1].batch)/(all[i].batch-all[i-1].batch))
}

func mix(a, b stepTime, share float64) stepTime {
	return stepTime{step: a.step + (b.step-a.step)*share, sync: a.sync + (b.sync-a.sync)*share}
}
