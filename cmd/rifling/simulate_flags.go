// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"rifling/sim"
	"rifling/sim/run"
	"rifling/sim/trace"
	"rifling/slurm"
)

// generateFlags describe work that is made up.
type generateFlags struct {
	jobs, users   int
	arrivals, mix string
	open          float64
	longest       time.Duration
}

func (g *generateFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&g.jobs, "jobs", 1000, "jobs")
	g.addShape(cmd)
}

func (g *generateFlags) addShape(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.IntVar(&g.users, "users", 0, "users of generated jobs; 0: one for each 25 jobs, 5 to 200")
	fl.StringVar(&g.arrivals, "arrivals", string(trace.Poisson), "when generated jobs come: poisson, day or at-once")
	fl.Float64Var(&g.open, "open", 0.35, "part of the generated jobs with several GPUs that leave their nodes open")
	fl.DurationVar(&g.longest, "longest", 0, "longest run time of generated jobs, e.g. 24h (default 744h, the longest of the Philly jobs)")
	fl.StringVar(&g.mix, "mix", "", "parts of communication-bound, middling and compute-bound jobs, e.g. comm=0.3,between=0.4,compute=0.3 (default equal parts), or none: placement changes no speed")
}

func (g *generateFlags) parts() (trace.Mix, error) {
	if g.mix == "" {
		return trace.Mix{}, nil
	}
	m, err := trace.ParseMix(g.mix)
	if err != nil {
		return m, slurm.WithHint(usageError{err}, "write --mix comm=0.3,between=0.4,compute=0.3, or --mix none")
	}
	return m, nil
}

func (g *generateFlags) generate(nodes []sim.NodeSpec, seed uint64, load float64) ([]trace.Job, error) {
	mix, err := g.parts()
	if err != nil {
		return nil, err
	}
	most := 0
	for i := range nodes {
		most = max(most, nodes[i].GPUs)
	}
	jobs, err := trace.Generator{
		Seed: seed, Jobs: g.jobs, GPUs: clusterGPUs(nodes), Node: most, Load: load, Arrivals: trace.Arrivals(g.arrivals),
		Mix: mix, Open: g.open, Users: g.users, Longest: g.longest,
	}.Generate()
	if err != nil {
		return nil, usageError{err}
	}
	return jobs, nil
}

// simFlags describe a simulation: the cluster, the work and Slurm's settings.
type simFlags struct {
	generateFlags
	traceFlags
	made                  bool // --generate
	nodes, conf           string
	leaf                  int
	gbit                  float64
	shape, limits         string
	overhead, every       time.Duration
	noise                 float64
	blind                 bool
	from                  string // of the cluster, for the words
	raw                   []trace.Job
	kind                  trace.Format
	spec                  sim.Spec
	settings              sim.SlurmSettings
	parsed                trace.Mix
	notes                 []string // what an admin must know, once
	clusterGPUs, nodeGPUs int
}

func (s *simFlags) add(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.BoolVar(&s.made, "generate", false, "make the jobs up in place of reading a trace (see rifling trace generate)")
	fl.IntVar(&s.jobs, "jobs", 0, "how many jobs to generate (default 1000), or the first so many of the trace")
	s.addShape(cmd)
	s.traceFlags.add(cmd)
	s.addCluster(cmd)
	fl.StringVar(&s.shape, "shape", string(run.Told), "how a trace's jobs ask for nodes: told, open or fewest")
	fl.StringVar(&s.limits, "limits", string(run.LimitsTold), "time limits of a trace's jobs: told (drawn where the trace has none), drawn, exact or none")
}

func (s *simFlags) addCluster(cmd *cobra.Command) {
	fl := cmd.Flags()
	fl.StringVar(&s.nodes, "nodes", "", "cluster, NODESxGPUS[:TYPE] and more of them after commas (default 8x8)")
	fl.StringVar(&s.conf, "slurm-conf", "", "take scheduling, GPU nodes and partitions from this slurm.conf")
	fl.IntVar(&s.leaf, "leaf", 0, "nodes under each leaf switch; 0: no switches")
	fl.Float64Var(&s.gbit, "net-gbit", 50, "speed of a node's network in Gb/s")
	fl.DurationVar(&s.overhead, "overhead", 0, "time that a job holds its GPUs before its work begins")
	fl.DurationVar(&s.every, "interval", 15*time.Second, "time between two cycles of rifling")
	fl.Float64Var(&s.noise, "noise", 0, "noise of the simulated counters, as standard deviation of their logarithm")
	fl.BoolVar(&s.blind, "blind", false, "no counters: policies know accounting alone")
}

// prepare reads what does not change from run to run.
func (s *simFlags) prepare(cmd *cobra.Command, list []string) error {
	if s.made == (len(list) > 0) {
		return slurm.WithHint(usageError{errors.New("give a trace, or --generate")},
			"usage: %s, or %s --generate --jobs 500", cmd.UseLine(), cmd.CommandPath())
	}
	if err := s.choices(); err != nil {
		return err
	}
	if err := s.cluster(); err != nil {
		return err
	}
	if s.made {
		if s.jobs == 0 {
			s.jobs = 1000
		}
		return nil
	}
	s.maxGPUs = s.clusterGPUs
	jobs, rep, kind, err := s.read(cmd, list[0])
	if err != nil {
		return err
	}
	s.notes = append(s.notes, leftOut(rep)...)
	if s.jobs > 0 && len(jobs) > s.jobs {
		jobs = jobs[:s.jobs]
	}
	if len(jobs) == 0 {
		return slurm.WithHint(fmt.Errorf("%s has no job that this cluster of %d GPUs could run", list[0], s.clusterGPUs), "rifling trace inspect shows what it holds; --nodes gives a larger cluster")
	}
	s.raw, s.kind = jobs, kind
	return nil
}

func (s *simFlags) choices() (err error) {
	shapes := []run.Shape{run.Told, run.Open, run.Fewest}
	limits := []run.LimitKind{run.LimitsTold, run.LimitsDrawn, run.LimitsExact, run.LimitsNone}
	switch {
	case s.shape != "" && !slices.Contains(shapes, run.Shape(s.shape)):
		return usageError{fmt.Errorf("--shape %q: use one of %v", s.shape, shapes)}
	case s.limits != "" && !slices.Contains(limits, run.LimitKind(s.limits)):
		return usageError{fmt.Errorf("--limits %q: use one of %v", s.limits, limits)}
	case s.overhead < 0 || s.every < time.Second || s.noise < 0 || s.jobs < 0:
		return usageError{errors.New("--overhead, --noise and --jobs cannot be negative, and --interval not below 1s")}
	}
	s.parsed, err = s.parts()
	return err
}

// cluster builds the simulated machines from --slurm-conf and --nodes; the
// latter goes before.
func (s *simFlags) cluster() error {
	s.settings = sim.DefaultSlurm()
	s.spec = sim.Spec{StartOverhead: s.overhead}
	if s.conf != "" {
		if err := s.readConf(); err != nil {
			return err
		}
	}
	if len(s.spec.Nodes) == 0 || s.nodes != "" {
		if s.nodes == "" {
			s.nodes = "8x8"
		}
		nodes, err := run.Nodes(s.nodes, s.leaf, s.gbit)
		if err != nil {
			return slurm.WithHint(usageError{err}, "e.g. --nodes 8x8 --leaf 4 --net-gbit 50")
		}
		s.spec.Nodes, s.spec.Partitions, s.from = nodes, nil, s.nodes
	}
	s.measure()
	return nil
}

func (s *simFlags) measure() {
	s.clusterGPUs, s.nodeGPUs = clusterGPUs(s.spec.Nodes), 0
	for i := range s.spec.Nodes {
		s.nodeGPUs = max(s.nodeGPUs, s.spec.Nodes[i].GPUs)
	}
}

func (s *simFlags) readConf() error {
	f, err := os.Open(s.conf)
	if err != nil {
		return slurm.WithHint(fmt.Errorf("--slurm-conf: %w", err), "give a slurm.conf that this user can read")
	}
	defer f.Close()
	c, err := run.ReadSlurmConf(f)
	if err != nil {
		return fmt.Errorf("%s: %w", s.conf, err)
	}
	if len(c.Nodes) == 0 && s.nodes == "" {
		return slurm.WithHint(fmt.Errorf("%s names no nodes with GPUs", s.conf), "give the nodes with --nodes")
	}
	run.Wire(c.Nodes, s.leaf, s.gbit)
	s.settings, s.spec.Nodes, s.spec.Partitions, s.from = c.Settings, c.Nodes, c.Partitions, s.conf
	return nil
}

// words describe the cluster.
func (s *simFlags) words() string {
	text := fmt.Sprintf("%s, %s (%s), network %g Gb/s", count(len(s.spec.Nodes), "node", "nodes"), count(s.clusterGPUs, "GPU", "GPUs"), s.from, s.gbit)
	if s.leaf > 0 {
		text += fmt.Sprintf(", %d nodes a leaf switch", s.leaf)
	}
	return text
}

// generatedLoad is the offered load of generated work when none is asked for:
// high enough that jobs wait.
const generatedLoad = 0.8

// work makes the jobs of one seed and load; load 0 leaves a trace as it is.
func (s *simFlags) work(seed uint64, load float64) ([]sim.Job, run.JobNotes, float64, error) {
	raw := s.raw
	var err error
	switch {
	case s.made:
		if load == 0 {
			load = generatedLoad
		}
		raw, err = s.generate(s.spec.Nodes, seed, load)
	case load > 0:
		raw = slices.Clone(raw)
		var factor float64
		if factor, err = stretchFor(raw, s.clusterGPUs, load); err == nil {
			trace.Stretch(raw, factor)
		}
	}
	if err != nil {
		return nil, run.JobNotes{}, 0, err
	}
	jobs, notes, err := run.Jobs(raw, run.JobOptions{
		Seed: seed, Mix: s.parsed, Shape: run.Shape(s.shape), Limits: run.LimitKind(s.limits), NodeGPUs: s.nodeGPUs,
		Partitions: s.spec.Partitions,
	})
	return jobs, notes, trace.Load(raw, s.clusterGPUs), err
}

// mostSkipped is how many cycles in a row are left out at most while nothing
// changes: as many as with the daemon's interval.
const mostSkipped = 20

// config is the simulation of one seed.
func (s *simFlags) config(seed uint64) run.Config {
	c := run.Default(s.spec)
	c.Slurm, c.Seed, c.Interval, c.Noise, c.Blind = s.settings, seed, s.every, s.noise, s.blind
	c.MaxSkip = max(c.MaxSkip, mostSkipped*s.every)
	return c
}

// loadWords writes an offered load.
func loadWords(l float64) string {
	if math.IsInf(l, 0) || math.IsNaN(l) {
		return "at once"
	}
	return fmt.Sprintf("%.2f", l)
}
