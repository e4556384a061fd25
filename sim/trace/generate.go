// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"rifling/sim"
)

// Arrivals is how the submissions of generated jobs lie in time.
type Arrivals string

// The ways to arrive.
const (
	Poisson Arrivals = "poisson" // at random, alike at all hours
	Day     Arrivals = "day"     // at random, more of them in the evening than in the morning
	AtOnce  Arrivals = "at-once" // all at 0
)

// AllArrivals lists them.
var AllArrivals = []Arrivals{Poisson, Day, AtOnce}

// Generator makes a workload for sites without a trace. Run times, sizes and
// the shape of the day are fitted to the four Philly virtual clusters of 2017
// (Microsoft, CC-BY-4.0; 3,638 jobs), limits to RICC-2010 (Parallel Workloads
// Archive); a test repeats the fits. What no trace at hand tells is chosen:
// see docs/design/workloads.md.
type Generator struct {
	Seed uint64
	Jobs int
	GPUs int     // of the cluster; no job asks for more
	Node int     // GPUs of a node, for jobs that fix their nodes; 0: 8
	Load float64 // GPU time asked for over the GPU time from first to last submission
	// Arrivals; empty: Poisson.
	Arrivals Arrivals
	Mix      Mix // empty: equal parts
	// Open is the part of the jobs with several GPUs that leave open on how
	// many nodes they run, 0..1.
	Open  float64
	Users int // 0: one for each 25 jobs, from 5 to 200
	// Longest cuts run times; 0: 31 days, the longest of the Philly jobs. A few
	// very long jobs are most of the GPU time, so that few jobs at a high load
	// need not wait at all.
	Longest time.Duration
}

// sizes are the parts of the Philly jobs by GPUs.
var sizes = []struct {
	gpus int
	part float64
}{{1, 0.6429}, {2, 0.0476}, {4, 0.2026}, {8, 0.0957}, {16, 0.0030}, {32, 0.0082}}

// lnRun is the mean and the standard deviation of the logarithm of the Philly
// run times in seconds, of jobs with one GPU and with several.
var lnRun = [2][2]float64{{6.90, 2.61}, {10.39, 2.33}}

// shortest and longest run time of the Philly jobs.
const shortest, longest = 9 * time.Second, 31 * 24 * time.Hour

// dayAmplitude and dayPeak are the first harmonic of the Philly submissions
// over the hours of the day by the trace's clock.
const dayAmplitude, dayPeak = 0.321, 21.96

// withinFamily is the part of the variance of the logarithm of run times that
// lies within one user's jobs of the same name. Chosen: no GPU trace at hand
// has names.
const withinFamily = 0.3

// jobsPerFamily is how many jobs of the same kind there are on average. Chosen.
const jobsPerFamily = 8

// family is what makes two jobs the same work.
type family struct {
	user, group, name, model string
	gpus, nodes              int
	ln                       float64 // mean of the logarithm of its run times
}

// Generate makes the jobs, sorted by submit time. The same settings give the
// same jobs.
func (g Generator) Generate() ([]Job, error) {
	if err := g.check(); err != nil {
		return nil, err
	}
	rng := rand.New(rand.NewPCG(g.Seed, 0x7ace))
	families, err := g.families(rng)
	if err != nil {
		return nil, err
	}
	jobs := make([]Job, g.Jobs)
	for i := range jobs {
		f := families[rng.IntN(len(families))]
		sd := lnRun[min(1, f.gpus-1)][1] * math.Sqrt(withinFamily)
		run := g.clamp(math.Exp(f.ln + sd*rng.NormFloat64()))
		jobs[i] = Job{
			ID: strconv.Itoa(i + 1), GPUs: f.gpus, Nodes: f.nodes, Milli: 1000, Duration: run, Limit: DrawLimit(rng, run),
			User: f.user, Group: f.group, Name: f.name, Model: f.model, Wait: -1, Estimate: math.NaN(), Completed: true,
		}
	}
	g.arrive(rng, jobs)
	return jobs, nil
}

func (g *Generator) check() error {
	switch {
	case g.Jobs < 1:
		return fmt.Errorf("%d jobs cannot be generated", g.Jobs)
	case g.GPUs < 1:
		return fmt.Errorf("a cluster of %d GPUs cannot run jobs", g.GPUs)
	case !(g.Load > 0) && g.Arrivals != AtOnce:
		return fmt.Errorf("an offered load of %v cannot be", g.Load)
	case g.Longest < 0 || g.Longest > 0 && g.Longest < shortest:
		return fmt.Errorf("run times up to %v cannot be; the shortest are %v", g.Longest, shortest)
	case g.Open < 0 || g.Open > 1:
		return fmt.Errorf("a part of %v of the jobs cannot be", g.Open)
	case g.Arrivals != "" && !slices.Contains(AllArrivals, g.Arrivals):
		return fmt.Errorf("arrivals %q: there are %v", g.Arrivals, AllArrivals)
	}
	if g.Node == 0 {
		g.Node = 8
	}
	return nil
}

// families draws the kinds of jobs. Their sizes are dealt out, not drawn, so
// that few families have the right parts too.
func (g *Generator) families(rng *rand.Rand) ([]family, error) {
	n := max(1, (g.Jobs+jobsPerFamily-1)/jobsPerFamily)
	users := g.Users
	if users == 0 {
		users = min(200, max(5, g.Jobs/25))
	}
	zipf := rand.NewZipf(rng, 1.2, 3, uint64(users-1))
	out := make([]family, n)
	for i, at := range rng.Perm(n) {
		f := &out[i]
		f.gpus = min(g.GPUs, sizeAt((float64(at)+0.5)/float64(n)))
		u := zipf.Uint64()
		f.user, f.group = fmt.Sprintf("user%02d", u+1), fmt.Sprintf("group%d", u%5+1)
		m, err := g.Mix.Draw(rng)
		if err != nil {
			return nil, err
		}
		if f.model = "none"; m != nil {
			f.model = m.Name
		}
		f.name = fmt.Sprintf("%s-%d", f.model, i+1)
		fit := lnRun[min(1, f.gpus-1)]
		f.ln = fit[0] + fit[1]*math.Sqrt(1-withinFamily)*rng.NormFloat64()
		if open := f.gpus > 1 && rng.Float64() < g.Open; !open {
			f.nodes = (f.gpus + g.Node - 1) / g.Node
		}
	}
	return out, nil
}

func sizeAt(q float64) int {
	for _, s := range sizes {
		if q -= s.part; q < 0 {
			return s.gpus
		}
	}
	return sizes[len(sizes)-1].gpus
}

func (g *Generator) clamp(seconds float64) time.Duration {
	most := longest
	if g.Longest > 0 {
		most = g.Longest
	}
	seconds = min(max(seconds, shortest.Seconds()), most.Seconds())
	return time.Duration(seconds) * time.Second
}

// arrive spreads the submissions over the time that gives the load.
func (g *Generator) arrive(rng *rand.Rand, jobs []Job) {
	if g.Arrivals == AtOnce {
		return
	}
	asked := 0.0
	for i := range jobs {
		asked += jobs[i].Duration.Seconds() * float64(jobs[i].GPUs)
	}
	span := asked / (g.Load * float64(g.GPUs))
	at, sum := make([]float64, len(jobs)), 0.0
	for i := range at {
		at[i] = sum
		sum += rng.ExpFloat64()
	}
	for i := range at {
		t := 0.0
		if last := at[len(at)-1]; last > 0 {
			t = at[i] / last * span
		}
		if g.Arrivals == Day {
			t = dayTime(t)
		}
		jobs[i].Submit, _ = Seconds(math.Round(t))
	}
}

// dayTime bends even time so that the rate of what happens follows the day:
// it inverts the integral of 1 + a cos(2 pi (t - peak)) by bisection.
func dayTime(t float64) float64 {
	const day = 86400.0
	const peak = dayPeak / 24
	bent := func(x float64) float64 { // x in days
		return x + dayAmplitude/(2*math.Pi)*(math.Sin(2*math.Pi*(x-peak))+math.Sin(2*math.Pi*peak))
	}
	whole, part := math.Modf(t / day)
	lo, hi := 0.0, 1.0
	for range 40 {
		mid := (lo + hi) / 2
		if bent(mid) < part {
			lo = mid
		} else {
			hi = mid
		}
	}
	return (whole + lo) * day
}

// lnSlack is the mean and the standard deviation of the logarithm of limit over
// run time of RICC's jobs that completed and ran for a minute or more.
var lnSlack = [2]float64{3.49, 1.83}

// mostLimit is where drawn limits end unless the job runs longer: what many
// sites allow. Chosen.
const mostLimit = 7 * 24 * time.Hour

// DrawLimit draws the time limit that a user gives a job that will run so long:
// always more than it, in whole minutes.
func DrawLimit(rng *rand.Rand, run time.Duration) time.Duration {
	slack := max(1.1, math.Exp(lnSlack[0]+lnSlack[1]*rng.NormFloat64()))
	limit := min(run.Seconds()*slack, max(mostLimit.Seconds(), run.Seconds()*1.1))
	return time.Duration(math.Ceil(limit/60)) * time.Minute
}

// Mix is the parts of the jobs that are communication-bound, in between and
// compute-bound; they need not sum to 1. All zero: equal parts. None: placement
// does not change any job's speed.
type Mix struct {
	Comm, Between, Compute float64
	None                   bool
}

// ParseMix reads "comm=0.3,between=0.4,compute=0.3", or "none".
func ParseMix(s string) (Mix, error) {
	var m Mix
	if s == "none" {
		return Mix{None: true}, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
		v, err := strconv.ParseFloat(value, 64)
		if err != nil || v < 0 || math.IsInf(v, 0) || math.IsNaN(v) {
			return m, fmt.Errorf("mix %q: %q is no part of the jobs", s, part)
		}
		switch name {
		case "comm":
			m.Comm = v
		case "between":
			m.Between = v
		case "compute":
			m.Compute = v
		default:
			return m, fmt.Errorf("mix %q: the classes are comm, between and compute", s)
		}
	}
	if m.Comm+m.Between+m.Compute == 0 {
		return m, fmt.Errorf("mix %q leaves no jobs", s)
	}
	return m, nil
}

// String writes the mix as ParseMix reads it.
func (m Mix) String() string {
	if m.None {
		return "none"
	}
	m = m.full()
	return fmt.Sprintf("comm=%.3g,between=%.3g,compute=%.3g", m.Comm, m.Between, m.Compute)
}

func (m Mix) full() Mix {
	if sum := m.Comm + m.Between + m.Compute; sum > 0 {
		return Mix{Comm: m.Comm / sum, Between: m.Between / sum, Compute: m.Compute / sum}
	}
	return Mix{Comm: 1. / 3, Between: 1. / 3, Compute: 1. / 3}
}

// Draw draws a model of the mix: first the class, then one of the class's
// models. Nil for None.
func (m Mix) Draw(rng *rand.Rand) (*sim.Model, error) {
	if m.None {
		return nil, nil
	}
	const classes = 3
	if len(sim.Models)%classes != 0 {
		return nil, fmt.Errorf("%d models are no three classes alike", len(sim.Models))
	}
	m = m.full()
	each := len(sim.Models) / classes
	class, x := 2, rng.Float64()
	switch {
	case x < m.Comm:
		class = 0
	case x < m.Comm+m.Between:
		class = 1
	}
	return &sim.Models[class*each+rng.IntN(each)], nil
}

// Load is the offered load of jobs on a cluster with that many GPUs: the GPU
// time that they take over what there is from the first submission to the
// last; infinite when all come at once.
func Load(jobs []Job, gpus int) float64 {
	if len(jobs) == 0 || gpus < 1 {
		return 0
	}
	first, last, asked := jobs[0].Submit, jobs[0].Submit, 0.0
	for i := range jobs {
		first, last = min(first, jobs[i].Submit), max(last, jobs[i].Submit)
		asked += jobs[i].Duration.Seconds() * float64(jobs[i].GPUs)
	}
	return asked / (float64(gpus) * (last - first).Seconds())
}

// Stretch multiplies the time between submissions: below 1 raises the load.
func Stretch(jobs []Job, factor float64) {
	if len(jobs) == 0 {
		return
	}
	first := jobs[0].Submit
	for i := range jobs {
		jobs[i].Submit = first + time.Duration(float64(jobs[i].Submit-first)*factor)
	}
}
