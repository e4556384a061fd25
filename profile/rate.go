// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"cmp"
	"math"
	"slices"
	"time"

	"rifling/slurm"
)

// point is how fast a job ran in one interval, by several measures.
type point struct {
	At       time.Time
	Moved    float64 // bytes per second and GPU on the links of the collectives
	PCIe     float64 // bytes per second and GPU on PCIe where there is no NVLink
	Activity float64 // compute activity
	Source   Source  // of Activity
	Share    float64 // of the time, that went to communication between nodes, 0..1
	Shared   bool    // Moved is an estimate
	// Throttled: the clocks were held down for most of the interval.
	Throttled bool
}

// pointOf makes a point of an interval's sums. In a data-parallel run a GPU
// moves the same bytes an iteration wherever the GPUs are: on NVLink where the
// job is on one node, and, added up over the GPUs of a node, on its NIC where
// it is on several. So bytes over GPUs is the same number for the same
// iterations per second.
func pointOf(r *run, t sums, share float64) point {
	p := point{
		At: t.at, Source: t.source, Shared: t.shared || t.gpuShared,
		Throttled: t.throttled > 0.5,
	}
	switch {
	case r.GPUs == 1:
	case r.spread():
		p.Moved = t.net / t.gpus
		p.Share = share
	default:
		p.Moved = t.nvlink / t.gpus
	}
	if r.GPUs > 1 && !t.nvlinkSeen {
		p.PCIe = t.pcie / t.gpus
	}
	// Utilization counts waiting for others as busy, so it is no rate but for
	// a GPU that is alone.
	if t.source != SourceUtilization || r.GPUs == 1 {
		p.Activity = t.compute / t.gpus
	}
	return p
}

func (p point) idle() bool { return p.Moved == 0 && p.PCIe == 0 && p.Activity < idleBelow }

// measure is a way to tell how fast a job runs.
type measure func(point) float64

func moved(p point) float64    { return p.Moved }
func pcie(p point) float64     { return p.PCIe }
func activity(p point) float64 { return p.Activity }

// alone is Moved as it would be without communication between nodes, by
// iteration time = compute time + communication time: too low where others
// slow the network down, too high where communication hides behind computing.
func alone(p point) float64 { return p.Moved / (1 - min(p.Share, 0.95)) }

// runRate is what is kept of one run's rates: typical values over the run.
type runRate struct {
	JobID    slurm.JobID
	Start    time.Time
	At       time.Time
	Nodes    int
	Few      bool
	Class    string
	Source   Source
	Shared   bool
	Moved    float64
	Alone    float64
	PCIe     float64
	Activity float64
}

// keepRates bounds the runs kept of a family, those on few nodes and those on
// more each, so that neither crowds the other out.
const keepRates = 16

// addRate takes a run's rates in, or renews them.
func (f *family) addRate(r *run) {
	rate := runRate{
		JobID: r.JobID, Start: r.Start, At: r.Whole[len(r.Whole)-1].At,
		Nodes: len(r.Nodes), Few: r.Few, Class: r.Class, Source: r.Source, Shared: r.shared(),
		Moved: r.typical(moved), Alone: r.typical(alone), PCIe: r.typical(pcie), Activity: r.typical(activity),
	}
	f.Rates = slices.DeleteFunc(f.Rates, rate.sameRun)
	f.Rates = append(f.Rates, rate)
	slices.SortFunc(f.Rates, func(a, b runRate) int {
		return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.JobID, b.JobID), a.Start.Compare(b.Start))
	})
	kept := 0
	for _, o := range f.Rates {
		if o.Few == rate.Few {
			kept++
		}
	}
	if kept > keepRates {
		i := slices.IndexFunc(f.Rates, func(o runRate) bool { return o.Few == rate.Few })
		f.Rates = slices.Delete(f.Rates, i, i+1)
	}
}

func (a runRate) sameRun(b runRate) bool {
	return a.JobID == b.JobID && a.Start.Equal(b.Start) && a.Nodes == b.Nodes
}

// typical is the run's rate by a measure. Intervals with the clocks held down
// are left out where there are enough others: heat on one node must not lower
// the best that the family is known to reach.
func (r *run) typical(m measure) float64 {
	if steady := r.steady(); len(steady) >= minSteady {
		return typical(values(steady, m))
	}
	return typical(values(r.Whole, m))
}

// minSteady is how many intervals with free clocks stand for a run.
const minSteady = 4

func (r *run) steady() []point {
	if !slices.ContainsFunc(r.Whole, func(p point) bool { return p.Throttled }) {
		return r.Whole
	}
	out := make([]point, 0, len(r.Whole))
	for _, p := range r.Whole {
		if !p.Throttled {
			out = append(out, p)
		}
	}
	return out
}

func values(points []point, m measure) []float64 {
	out := make([]float64, len(points))
	for i, p := range points {
		out[i] = m(p)
	}
	return out
}

// shared reports whether most of the run's Moved are estimates.
func (r *run) shared() bool {
	n := 0
	for _, p := range r.Whole {
		if p.Shared {
			n++
		}
	}
	return 2*n > len(r.Whole)
}

// yardstick is what a run's rate is measured by.
type yardstick struct {
	measure measure
	best    float64
	most    int // bound of the count: what stands behind best
}

// scale is one measure of a run and the value of other runs that it compares with.
type scale struct {
	measure measure
	of      func(runRate) float64
}

// scales lists the measures in the order in which they are trusted for a run.
func (r *run) scales() []scale {
	bytes := scale{moved, func(o runRate) float64 {
		if o.Shared {
			return 0 // an estimate is no reference
		}
		return o.Moved
	}}
	onPCIe := scale{pcie, func(o runRate) float64 { return o.PCIe }}
	computing := scale{activity, func(o runRate) float64 {
		if o.Source != r.Source {
			return 0
		}
		return o.Activity
	}}
	if r.shared() {
		return []scale{onPCIe, computing, bytes}
	}
	return []scale{bytes, onPCIe, computing}
}

// yardstick returns what the run's rate is measured by: the best of its family
// where that was seen on as few nodes as may be, by a measure that both have;
// else what the model makes of the runs seen. ok is false where neither says
// anything, as for the first run of a job that does not communicate.
func (b *Book) yardstick(r *run) (y yardstick, ok bool) {
	f := b.families[r.ID]
	if f == nil || len(r.Whole) == 0 {
		return yardstick{}, false
	}
	for _, s := range r.scales() {
		if !slices.ContainsFunc(r.Whole, func(p point) bool { return s.measure(p) > 0 }) {
			continue
		}
		best, others, few := b.bestOf(f, r, s.of)
		if others > 0 && few && best > 0 {
			return yardstick{s.measure, best, math.MaxInt}, true
		}
	}
	return b.model(f, r)
}

// bestOf returns the best rate of a family: of each number of nodes a high
// quantile that leaves the greatest out (one odd run must not set the scale),
// of those the greatest.
func (b *Book) bestOf(f *family, r *run, of func(runRate) float64) (best float64, others int, few bool) {
	byNodes := map[int][]float64{}
	for _, o := range f.Rates {
		v := of(o)
		if v <= 0 || o.Class != r.Class || b.now.Sub(o.At) > 4*b.opts.HalfLife {
			continue
		}
		byNodes[o.Nodes] = append(byNodes[o.Nodes], v)
		few = few || o.Few
		if o.JobID != r.JobID || !o.Start.Equal(r.Start) {
			others++
		}
	}
	for _, v := range byNodes {
		best = max(best, lowQuantile(v, 0.9))
	}
	return best, others, few
}

// model measures a run by what it would do without communication between
// nodes. A run on one node whose links were seen is its own best then. The
// count is bounded by the number of runs, for no interval more makes the model
// any truer.
func (b *Book) model(f *family, r *run) (yardstick, bool) {
	if r.GPUs == 1 || len(r.Whole) < b.opts.MinSamples {
		return yardstick{}, false
	}
	if r.typical(moved) > 0 {
		best, others, _ := b.bestOf(f, r, func(o runRate) float64 { return o.Alone })
		return yardstick{moved, best, 1 + others}, best > 0
	}
	if best := r.typical(pcie); best > 0 && !r.spread() {
		return yardstick{pcie, best, 1}, true
	}
	return yardstick{}, false
}

// npr is the mean of the points' rates over the best, each cut to 1.
func (y yardstick) npr(points []point) float64 {
	sum := 0.0
	for _, p := range points {
		sum += min(1, y.measure(p)/y.best)
	}
	return sum / float64(len(points))
}

// spread is the standard error of npr: that of the mean of the points, and
// where fewer runs than points stand behind the yardstick, of that many.
func (y yardstick) spread(points []point) float64 {
	n := len(points)
	if n < 2 {
		return 0
	}
	mean, sum := y.npr(points), 0.0
	for _, p := range points {
		d := min(1, y.measure(p)/y.best) - mean
		sum += d * d
	}
	return math.Sqrt(sum / float64(n-1) / float64(max(1, min(n, y.most))))
}

// Rate returns the recent NPR of a job that runs, or that ended not longer
// than Options.KeepEnded ago. count is the number of intervals behind it; where
// no other placement of its family was seen and only a model stands behind it,
// count is no more than the number of runs. Not ok: no evidence.
func (b *Book) Rate(id slurm.JobID) (npr float64, count int, ok bool) {
	npr, _, count = b.rate(id)
	return npr, count, count > 0
}

// rate is Rate with its standard error; count 0 means no evidence.
func (b *Book) rate(id slurm.JobID) (npr, sd float64, count int) {
	r := b.runs[id]
	if r == nil {
		return 0, 0, 0
	}
	y, ok := b.yardstick(r)
	if !ok {
		return 0, 0, 0
	}
	end := b.now
	if !r.Ended.IsZero() {
		end = r.Ended
	}
	from := end.Add(-b.opts.RateWindow)
	i := slices.IndexFunc(r.Recent, func(p point) bool { return !p.At.Before(from) })
	if i < 0 {
		return 0, 0, 0
	}
	points := r.Recent[i:]
	return y.npr(points), y.spread(points), min(len(points), y.most)
}

// MeanNPR is Rate over the whole run so far; count 0 means no evidence.
func (b *Book) MeanNPR(id slurm.JobID) (npr float64, count int) {
	r := b.runs[id]
	if r == nil {
		return 0, 0
	}
	y, ok := b.yardstick(r)
	if !ok {
		return 0, 0
	}
	return y.npr(r.Whole), min(r.Seen, y.most)
}

// ANPR returns the GPU-weighted mean of the recent NPR of the snapshot's
// running jobs that have one, and how many GPUs those hold.
func (b *Book) ANPR(s *slurm.Snapshot) (anpr float64, gpus int) {
	sum := 0.0
	for i := range s.Jobs {
		if j := &s.Jobs[i]; j.Running() {
			if npr, _, ok := b.Rate(j.ID); ok {
				sum += npr * float64(j.Total())
				gpus += j.Total()
			}
		}
	}
	if gpus == 0 {
		return 0, 0
	}
	return sum / float64(gpus), gpus
}
