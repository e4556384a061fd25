// SPDX-License-Identifier: Apache-2.0

package run

import (
	"crypto/sha256"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"rifling/agent"
	"rifling/cycle"
	"rifling/policy"
	"rifling/sim"
)

// nodes is a cluster of n nodes with 8 GPUs, four under each leaf switch.
func nodes(n int) sim.Spec {
	var s sim.Spec
	for i := range n {
		s.Nodes = append(s.Nodes, sim.NodeSpec{Name: fmt.Sprintf("gpu%02d", i), GPUs: 8, CPUs: 16, Leaf: fmt.Sprint("s", i/4)})
	}
	s.StartOverhead = 2 * time.Second
	return s
}

// work draws jobs for 8-GPU nodes that ask in several ways, as many GPU seconds
// in an hour as load tells of a cluster with that many GPUs.
func work(seed uint64, jobs, gpus int, load float64) []sim.Job {
	rng := rand.New(rand.NewPCG(seed, 1))
	var out []sim.Job
	at := 0.0
	for i := range jobs {
		g := 1 << rng.IntN(5)
		run := 300 + rng.ExpFloat64()*2400
		at += rng.ExpFloat64() * 6.2 * 2700 / (load * float64(gpus))
		j := sim.Job{
			Name: fmt.Sprint("job", rng.IntN(12)), User: fmt.Sprint("u", rng.IntN(6)), Account: "a",
			Submit: time.Duration(at * float64(time.Second)), Work: time.Duration(run * float64(time.Second)),
			Model: &sim.Models[rng.IntN(len(sim.Models))],
		}
		j.Limit = time.Duration(float64(j.Work) * (1.5 + 3*rng.Float64())).Round(time.Minute)
		switch {
		case g <= 8 && i%3 == 0:
			j.Request = sim.Request{GPUsPerNode: g}
		case g > 8 && i%2 == 0:
			j.Request = sim.Request{GPUsPerNode: 8, MinNodes: g / 8}
		default:
			j.Request = sim.Request{GPUs: g}
		}
		out = append(out, j)
	}
	return out
}

func source(jobs []sim.Job) sim.Source {
	return func() (sim.Job, bool) {
		if len(jobs) == 0 {
			return sim.Job{}, false
		}
		j := jobs[0]
		jobs = jobs[1:]
		return j, true
	}
}

func rifling() policy.Policy {
	p := agent.DefaultParams()
	return &policy.Rifling{Table: agent.NewTable(p), FCFS: true, Prior: policy.RulePrior, PriorWeight: 3}
}

// wanted is how many jobs each simulation runs.
const wanted = 100

// simulate returns the run's figures and a hash of its results.
func simulate(t *testing.T, p policy.Policy, seed uint64, change func(*Config)) (sim.Summary, Report, string) {
	t.Helper()
	cfg := Default(nodes(8))
	cfg.Policy, cfg.Seed = p, seed
	if change != nil {
		change(&cfg)
	}
	var c sim.Collector
	h := sha256.New()
	rep, err := Run(t.Context(), cfg, source(work(seed, wanted, 64, 0.9)), func(r *sim.Result) {
		c.Add(r)
		fmt.Fprintln(h, r.ID, r.Start, r.End, r.Alloc, r.NPR)
		if r.Start < r.Submit {
			t.Errorf("job %d started before it was submitted", r.ID)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	s := c.Summary(64, rep.Stats)
	if s.Jobs != wanted {
		t.Errorf("%d jobs ended, want %d", s.Jobs, wanted)
	}
	return s, rep, fmt.Sprintf("%x", h.Sum(nil))
}

// The loop is the daemon's; the policy that changes nothing must change nothing.
func TestThePolicyThatDoesNothingLeavesSlurmAlone(t *testing.T) {
	_, _, alone := simulate(t, nil, 1, nil)
	_, rep, watched := simulate(t, policy.Slurm{}, 1, nil)
	if alone != watched {
		t.Error("results differ though nothing was written")
	}
	if rep.Writes != 0 || rep.Cycles == 0 || rep.Decisions == 0 {
		t.Errorf("cycles %d, decisions %d, writes %d", rep.Cycles, rep.Decisions, rep.Writes)
	}
	_, rep, observed := simulate(t, rifling(), 1, func(c *Config) { c.Mode = cycle.Observe })
	if alone != observed || rep.Writes != 0 {
		t.Errorf("observing, rifling wrote %d times", rep.Writes)
	}
}

func TestPoliciesSteer(t *testing.T) {
	before, _, alone := simulate(t, nil, 1, nil)
	t.Logf("slurm:   JCT %.0f wait %.0f ANPR %.3f util %.3f frag %.2f", before.MeanJCT, before.MeanWait, before.ANPR, before.Utilization, before.Fragmentation)
	for name, p := range map[string]policy.Policy{"pack": policy.Packed{}, "rifling": rifling()} {
		s, rep, hash := simulate(t, p, 1, nil)
		t.Logf("%s: JCT %.0f wait %.0f ANPR %.3f util %.3f frag %.2f; %+v", name, s.MeanJCT, s.MeanWait, s.ANPR, s.Utilization, s.Fragmentation, rep)
		if hash == alone || rep.Writes == 0 {
			t.Errorf("%s changed nothing (%d writes)", name, rep.Writes)
		}
		if rep.Failed > 0 {
			t.Errorf("%s: Slurm refused %d changes", name, rep.Failed)
		}
		if name == "rifling" && rep.Learned == 0 {
			t.Error("rifling learned nothing")
		}
	}
}

func TestTheSameSeedGivesTheSameBytes(t *testing.T) {
	noisy := func(c *Config) { c.Noise = 0.2 }
	_, _, first := simulate(t, rifling(), 3, noisy)
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	_, _, second := simulate(t, rifling(), 3, noisy)
	if first != second {
		t.Error("two runs of the same seed differ")
	}
	if _, _, other := simulate(t, rifling(), 4, noisy); other == first {
		t.Error("another seed gives the same results")
	}
}

// Leaving cycles out in which nothing changed must not change much: what
// differs is when counters become known and when set limits are renewed.
func TestSkippingCycles(t *testing.T) {
	every, all, _ := simulate(t, policy.Packed{}, 2, func(c *Config) { c.MaxSkip = c.Interval })
	some, rep, _ := simulate(t, policy.Packed{}, 2, nil)
	t.Logf("every cycle: %d, JCT %.0f; %d and %d left out, JCT %.0f", all.Cycles, every.MeanJCT, rep.Cycles, rep.Skipped, some.MeanJCT)
	if rep.Cycles >= all.Cycles || rep.Skipped == 0 {
		t.Errorf("%d cycles of %d", rep.Cycles, all.Cycles)
	}
	if r := some.MeanJCT / every.MeanJCT; r < 0.97 || r > 1.03 {
		t.Errorf("mean JCT is %.3f of that with every cycle", r)
	}
}
