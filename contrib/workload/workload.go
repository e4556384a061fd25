// SPDX-License-Identifier: Apache-2.0

// Package workload makes lists of emulated training jobs as the users of a
// small GPU cluster submit them: repeated families of runs whose names carry
// hyper-parameters, GPUs asked for in all the ways that sbatch offers (most of
// them for one node), loose time limits, and more work than the cluster can
// take at once. A list depends on its seed and options only, and nothing in it
// knows of rifling.
//
// All durations are emulated time, the time that the jobs' users would see. A
// lab that runs the jobs compressed divides by its compression.
package workload

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"time"

	"rifling/sim"
)

// DefaultModels are a communication-bound model, one in between and a
// compute-bound one.
var DefaultModels = []string{"bert", "resnet50", "resnet50-large"}

// Form is a way to ask for GPUs.
type Form string

// The forms, by the options that ask. Gpus, Range and PerTask leave the number
// of nodes to Slurm where more than one GPU is asked for; the others fix it.
const (
	Gres    Form = "--gres"
	Typed   Form = "--gres typed"
	PerNode Form = "--gpus-per-node"
	Gpus    Form = "--gpus"
	Range   Form = "-N1-N --gpus"
	PerTask Form = "--gpus-per-task"
)

// Options shape a list. Zero values mean the default that is named.
type Options struct {
	Jobs        int // default 60
	Nodes       int // default 8
	GPUsPerNode int // default 8
	// Load is the GPU time that arriving jobs need at their best over the GPU
	// time that the cluster has while they arrive. Default 1.2: contended.
	Load float64
	// MeanWork is the mean run time of a job at its best. Default one hour.
	MeanWork time.Duration
	// Spread is the standard deviation of the logarithm of run times between
	// families; within a family it is a third of that. Default 0.6.
	Spread float64
	// Tail is how many times longer or shorter than the mean a family's or a
	// job's run time may be: log-normal draws are cut there. Default 4.
	Tail float64
	// Sizes are the GPU counts of families with their weights, as they are on a
	// known cluster. Default: one, two, half a node, one and two nodes.
	Sizes []Size
	// OpenShare is the share of the jobs with more than one GPU that leave the
	// number of nodes open. Default 0.3; negative means none.
	OpenShare float64
	// Bursts is the number of moments at which jobs arrive together; 0 means
	// that they arrive one by one (a Poisson process), 1 all at the start.
	Bursts int
	// MaxNodes bounds the nodes that one job needs. Default 2.
	MaxNodes int
	// Site is the seed of the families: two lists of one site have the same
	// families, submitted at other times and in other numbers, as two weeks of
	// one cluster have. 0 makes the families from the list's own seed.
	Site uint64
	// GPUType is the type that typed requests name. Default "a100".
	GPUType string
	// NICBytesPerSecond is the speed of a node's NIC, which decides how long a
	// job of several nodes runs. Default sim.DefaultNICBytesPerSecond.
	NICBytesPerSecond float64
	Models            []string // names of sim.Models; default DefaultModels
	Users             []User   // default Users()
}

// Size is a number of GPUs and how often jobs ask for it, relative to the others.
type Size struct {
	GPUs   int
	Weight float64
}

// User is an ordinary user and the account that their jobs are charged to.
type User struct {
	Name, Account string
}

// Job is one job as its user submits it.
type Job struct {
	Name       string
	User       string
	Account    string
	Family     int // index of the family that it repeats
	Model      string
	Iterations int
	GPUs       int // in all
	Form       Form
	Request    []string // sbatch's options for nodes and GPUs
	// Open tells that the request leaves the number of nodes to Slurm.
	Open   bool
	Submit time.Duration // after the start of the list
	Work   time.Duration // run time alone in the best shape that the request permits
	Limit  time.Duration
	// Fewest and Most bound the nodes that the request permits.
	Fewest, Most int
}

func (o Options) withDefaults() Options {
	o.Jobs = cmp.Or(o.Jobs, 60)
	o.Nodes = cmp.Or(o.Nodes, 8)
	o.GPUsPerNode = cmp.Or(o.GPUsPerNode, 8)
	o.Load = cmp.Or(o.Load, 1.2)
	o.MeanWork = cmp.Or(o.MeanWork, time.Hour)
	o.Spread = cmp.Or(o.Spread, 0.6)
	o.Tail = cmp.Or(o.Tail, 4)
	o.OpenShare = cmp.Or(o.OpenShare, 0.3)
	o.MaxNodes = min(cmp.Or(o.MaxNodes, 2), o.Nodes)
	o.GPUType = cmp.Or(o.GPUType, "a100")
	o.NICBytesPerSecond = cmp.Or(o.NICBytesPerSecond, sim.DefaultNICBytesPerSecond)
	if len(o.Models) == 0 {
		o.Models = DefaultModels
	}
	if len(o.Users) == 0 {
		o.Users = Users()
	}
	return o
}

// Users returns the ordinary users of the lab.
func Users() []User {
	return []User{{"alice", "research"}, {"bob", "research"}, {"carol", "teaching"}, {"dave", "teaching"}}
}

// Generate makes the list for a seed, ordered by time of submission. It fails
// when a model is unknown.
func Generate(seed uint64, o Options) ([]Job, error) {
	o = o.withDefaults()
	models := make([]sim.Model, len(o.Models))
	for i, name := range o.Models {
		m, ok := sim.FindModel(name)
		if !ok {
			return nil, fmt.Errorf("workload: model %q is unknown", name)
		}
		models[i] = m
	}
	rng := rand.New(rand.NewPCG(seed, 1))
	families := makeFamilies(rand.New(rand.NewPCG(cmp.Or(o.Site, seed), 2)), o, models)
	jobs := make([]Job, o.Jobs)
	var gpuTime time.Duration
	for i := range jobs {
		// Every family comes once before any comes again, so even a short list
		// has all models in it.
		f := i
		if i >= len(families) {
			f = pickFamily(rng, len(families))
		}
		jobs[i] = families[f].job(rng, o, i)
		jobs[i].Family = f
		gpuTime += jobs[i].Work * time.Duration(jobs[i].GPUs)
	}
	rng.Shuffle(len(jobs), func(i, j int) { jobs[i], jobs[j] = jobs[j], jobs[i] })
	window := time.Duration(float64(gpuTime) / float64(o.Nodes*o.GPUsPerNode) / o.Load)
	for i, at := range arrivals(rng, len(jobs), window, o.Bursts) {
		jobs[i].Submit = at
	}
	return jobs, nil
}

// arrivals returns n moments in [0, window], ascending. Sorted uniform moments
// are what a Poisson process looks like when its count is known.
func arrivals(rng *rand.Rand, n int, window time.Duration, bursts int) []time.Duration {
	at := make([]time.Duration, n)
	for i := range at {
		if bursts > 0 {
			at[i] = window * time.Duration(i*bursts/n) / time.Duration(bursts)
		} else {
			at[i] = time.Duration(rng.Float64() * float64(window)).Round(time.Second)
		}
	}
	slices.Sort(at)
	if n > 0 && bursts == 0 {
		first := at[0]
		for i := range at {
			at[i] -= first
		}
	}
	return at
}

// pickFamily draws a family; the first ones are repeated most, as the work of
// a few projects fills most clusters.
func pickFamily(rng *rand.Rand, n int) int {
	total := 0.0
	for i := range n {
		total += math.Pow(float64(i+1), -0.7)
	}
	u := rng.Float64() * total
	for i := range n {
		if u -= math.Pow(float64(i+1), -0.7); u < 0 {
			return i
		}
	}
	return n - 1
}

// Stats says what a list consists of.
type Stats struct {
	Jobs        int
	OpenJobs    int           // jobs whose request leaves the number of nodes open
	GPUTime     time.Duration // GPUs x work, summed
	OpenGPUTime time.Duration
	Window      time.Duration // from the first to the last submission
	ByModel     map[string]int
	ByForm      map[Form]int
	Families    int
}

// OpenShare returns the share of jobs with an open shape, 0..1.
func (s Stats) OpenShare() float64 { return float64(s.OpenJobs) / float64(max(1, s.Jobs)) }

// Describe counts a list.
func Describe(jobs []Job) Stats {
	s := Stats{Jobs: len(jobs), ByModel: map[string]int{}, ByForm: map[Form]int{}}
	families := map[int]bool{}
	for i := range jobs {
		j := &jobs[i]
		t := j.Work * time.Duration(j.GPUs)
		s.GPUTime += t
		if j.Open {
			s.OpenJobs++
			s.OpenGPUTime += t
		}
		s.ByModel[j.Model]++
		s.ByForm[j.Form]++
		s.Window = max(s.Window, j.Submit)
		families[j.Family] = true
	}
	s.Families = len(families)
	return s
}

// String is one line about the list.
func (s Stats) String() string {
	return fmt.Sprintf("%d jobs of %d families and %d models, %.0f GPU hours, %.0f %% with an open shape (%.0f %% of the GPU time)",
		s.Jobs, s.Families, len(s.ByModel), s.GPUTime.Hours(), 100*s.OpenShare(),
		100*float64(s.OpenGPUTime)/float64(max(1, s.GPUTime)))
}
