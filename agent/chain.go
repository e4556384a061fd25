// SPDX-License-Identifier: Apache-2.0

package agent

import (
	"math"
	"slices"
)

// Sequences predicts how long runs take from runs that ended, without being
// told whose they are: users submit the same work again and again, so a run
// mostly takes as long as its neighbours in the order of submission among runs
// of its kind. Each kind is a hidden chain of run times, of which what ended is
// known, what still runs is known to have taken at least so long, and anything
// else that is told of a run, such as a noisy estimate, is a likelihood. What
// is believed of a run follows from all of it, in both directions.
type Sequences struct {
	params SequenceParams
	kernel []float64
	all    []float64 // runs that ended, by cell, smoothed
	kinds  map[string]*kind
	order  []*kind
}

// SequenceParams say how alike neighbours are.
type SequenceParams struct {
	// Near is the chance that a run submitted right after another of its kind
	// takes as long as that one, Far that of one submitted long after; 0..1.
	Near, Far float64
	// Memory is the gap in seconds after which 1/e of the difference between
	// Near and Far is left, > 0.
	Memory float64
	// Width is the mean absolute difference of the logarithms of two run times
	// that are alike, > 0.
	Width float64
}

// DefaultSequenceParams were fitted to the likelihood of run times in public
// traces: docs/design/learned.md.
func DefaultSequenceParams() SequenceParams {
	return SequenceParams{Near: 0.95, Far: 0.2, Memory: 3600, Width: 0.3}
}

// The grid of run times: cells of equal width on a log scale from 1 s.
const (
	runCells = 54
	runStep  = 0.3
)

// Belief is a distribution over run times.
type Belief []float64

func cellRun(k int) float64 { return math.Exp(runStep * float64(k)) }

func runCell(run float64) int {
	return min(runCells-1, max(0, int(math.Round(math.Log(max(1, run))/runStep))))
}

// Mean is the expected run time in seconds.
func (b Belief) Mean() float64 {
	sum := 0.0
	for k, p := range b {
		sum += p * cellRun(k)
	}
	return sum
}

// MeanLog is the expected natural logarithm of the run time.
func (b Belief) MeanLog() float64 {
	sum := 0.0
	for k, p := range b {
		sum += p * runStep * float64(k)
	}
	return sum
}

// Quantile is the run time in seconds that the run does not exceed with chance
// q, to within a cell.
func (b Belief) Quantile(q float64) float64 {
	sum := 0.0
	for k, p := range b {
		if sum += p; sum >= q {
			return cellRun(k)
		}
	}
	return cellRun(runCells - 1)
}

// Left is the expected rest of a run of which so many seconds are over.
func (b Belief) Left(over float64) float64 {
	sum, weight := 0.0, 0.0
	for k, p := range b {
		if run := cellRun(k); run > over {
			sum += p * (run - over)
			weight += p
		}
	}
	if weight < 1e-9 {
		return over / 2 // it has outlived all that was believed
	}
	return sum / weight
}

// SequenceRun is one run in the sequence of its kind.
type SequenceRun struct {
	// Belief is as of the last Update; a run that has ended keeps its last.
	Belief Belief
	at     float64
	told   []float64 // likelihood by cell; nil: nothing was told
	began  float64
	state  runState
	cell   int // of one that ended
	kind   *kind
}

type runState uint8

const (
	runWaits runState = iota
	runRuns
	runEnded
)

type kind struct {
	runs  []*SequenceRun
	ended []float64 // as all
	first int       // the first that has not ended
	dirty bool
}

// NewSequences returns sequences without runs.
func NewSequences(p SequenceParams) *Sequences {
	s := &Sequences{params: p, all: make([]float64, runCells), kinds: map[string]*kind{}}
	w := int(math.Ceil(3 * p.Width / runStep))
	sum := 0.0
	for d := -w; d <= w; d++ {
		v := math.Exp(-math.Abs(float64(d)) * runStep / p.Width)
		s.kernel = append(s.kernel, v)
		sum += v
	}
	for i := range s.kernel {
		s.kernel[i] /= sum
	}
	return s
}

// Add takes in a run of a kind that was submitted at a time in seconds, not
// before the one added last. told, when not nil, is the likelihood of what was
// told of it, by its run time in seconds.
func (s *Sequences) Add(name string, at float64, told func(run float64) float64) *SequenceRun {
	k := s.kinds[name]
	if k == nil {
		k = &kind{ended: make([]float64, runCells)}
		s.kinds[name] = k
		s.order = append(s.order, k)
	}
	r := &SequenceRun{at: at, kind: k}
	if told != nil {
		r.told = make([]float64, runCells)
		for c := range r.told {
			const parts = 5 // of a cell: what was told may be sharper than it
			for p := range parts {
				r.told[c] += told(math.Exp(runStep * (float64(c) + (float64(p)+0.5)/parts - 0.5)))
			}
		}
	}
	k.runs = append(k.runs, r)
	k.dirty = true
	return r
}

// Start says that the run began at a time in seconds.
func (r *SequenceRun) Start(at float64) { r.state, r.began, r.kind.dirty = runRuns, at, true }

// End says how long the run took, in seconds.
func (s *Sequences) End(r *SequenceRun, took float64) {
	r.state, r.cell, r.kind.dirty = runEnded, runCell(took), true
	for d := -3; d <= 3; d++ {
		if c := r.cell + d; c >= 0 && c < runCells {
			w := math.Exp(-0.5*float64(d*d)) / 2.5066
			s.all[c] += w
			r.kind.ended[c] += w
		}
	}
}

// Update brings the beliefs of all runs that have not ended to now.
func (s *Sequences) Update(now float64) {
	for _, k := range s.order {
		for k.first < len(k.runs) && k.runs[k.first].state == runEnded {
			k.first++
		}
		if !k.dirty || k.first == len(k.runs) {
			continue
		}
		k.dirty = false
		prior := s.prior(k)
		for a := k.first; a < len(k.runs); {
			if k.runs[a].state == runEnded {
				a++
				continue
			}
			b := a
			for b < len(k.runs) && k.runs[b].state != runEnded {
				b++
			}
			s.segment(k, a, b, now, prior)
			a = b
		}
	}
}

// prior is what is believed of a run without neighbours: what ended of its
// kind, of all kinds where that is little, and something near an hour at first.
func (s *Sequences) prior(k *kind) Belief {
	p := make(Belief, runCells)
	for c := range p {
		z := (runStep*float64(c) - 8) / 2.5
		p[c] = math.Exp(-0.5 * z * z)
	}
	normalize(p)
	mix := func(weight float64, counts []float64) {
		sum := 0.0
		for _, n := range counts {
			sum += n
		}
		for c := range p {
			p[c] = (weight*p[c] + counts[c]) / (weight + sum)
		}
	}
	mix(2, s.all)
	mix(3, k.ended)
	return p
}

func normalize(p []float64) {
	sum := 0.0
	for _, v := range p {
		sum += v
	}
	for c := range p {
		if sum > 0 {
			p[c] /= sum
		} else {
			p[c] = 1 / float64(len(p)) // what was told contradicts itself
		}
	}
}

// segment works out what is believed of the runs a to b-1, none of which has
// ended, between two that have.
func (s *Sequences) segment(k *kind, a, b int, now float64, prior Belief) {
	known := make([][]float64, b-a)
	var into []float64 // message from the run before
	if a > 0 {
		into = s.forward(point(k.runs[a-1].cell), s.alike(k, a), prior)
	} else {
		into = prior
	}
	for i := a; i < b; i++ {
		if i > a {
			into = s.forward(k.runs[i-1].Belief, s.alike(k, i), prior)
		}
		r := k.runs[i]
		known[i-a] = r.known(now)
		r.Belief = times(into, known[i-a])
		normalize(r.Belief)
	}
	var back []float64
	if b < len(k.runs) {
		back = s.backward(point(k.runs[b].cell), s.alike(k, b), prior)
	}
	for i := b - 1; i >= a; i-- {
		r := k.runs[i]
		from := known[i-a]
		if back != nil {
			r.Belief = times(r.Belief, back)
			normalize(r.Belief)
			from = times(from, back)
			normalize(from)
		}
		if i > a {
			back = s.backward(from, s.alike(k, i), prior)
		}
	}
}

// alike is the chance that run i takes as long as the one before it.
func (s *Sequences) alike(k *kind, i int) float64 {
	gap := k.runs[i].at - k.runs[i-1].at
	return s.params.Far + (s.params.Near-s.params.Far)*math.Exp(-gap/s.params.Memory)
}

// known is the likelihood of what is known of the run itself.
func (r *SequenceRun) known(now float64) []float64 {
	out := slices.Clone(r.told)
	if out == nil {
		out = make([]float64, runCells)
		for c := range out {
			out[c] = 1
		}
	}
	if r.state == runRuns {
		for c := 0; c < runCells-1 && runStep*(float64(c)+0.5) < math.Log(max(1, now-r.began)); c++ {
			out[c] = 0
		}
	}
	return out
}

func point(cell int) []float64 {
	out := make([]float64, runCells)
	out[cell] = 1
	return out
}

func times(a, b []float64) []float64 {
	out := make([]float64, len(a))
	for c := range a {
		out[c] = a[c] * b[c]
	}
	return out
}

// forward is the distribution of a run's time after one with this one.
func (s *Sequences) forward(from []float64, alike float64, prior Belief) []float64 {
	out := make([]float64, runCells)
	w := len(s.kernel) / 2
	for c, v := range from {
		if v == 0 {
			continue
		}
		for d, q := range s.kernel {
			if t := c + d - w; t >= 0 && t < runCells {
				out[t] += v * q * alike
			}
		}
	}
	for c := range out {
		out[c] += (1 - alike) * prior[c]
	}
	return out
}

// backward is the likelihood of a run's time, given that of the one after it.
func (s *Sequences) backward(from []float64, alike float64, prior Belief) []float64 {
	out := make([]float64, runCells)
	w := len(s.kernel) / 2
	other := 0.0
	for c, v := range from {
		other += prior[c] * v
	}
	for c := range out {
		for d, q := range s.kernel {
			if t := c + d - w; t >= 0 && t < runCells {
				out[c] += q * from[t] * alike
			}
		}
		out[c] += (1 - alike) * other
	}
	return out
}
