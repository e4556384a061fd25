// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"fmt"
	"math"
	"testing"
	"time"

	"rifling/slurm"
)

var t0 = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

const (
	tick      = 15 * time.Second
	nicSpeed  = 6.25e9
	linkSpeed = 300e9 // NVLink per GPU
)

// job builds a job record of one user's training of 4 GPUs.
type job struct{ slurm.Job }

func newJob(id slurm.JobID) *job {
	return &job{slurm.Job{
		ID: id, Name: "resnet50", User: "ann", Account: "vision", Partition: "gpu",
		Command: "/home/ann/train.sh --lr 0.1", TimeLimit: 4 * time.Hour, MinNodes: 1,
		State: slurm.State{Base: "PENDING"}, SubmitTime: t0,
		Request: slurm.GPURequest{PerJob: 4},
	}}
}

func (j *job) named(name string) *job { j.Name = name; return j }
func (j *job) of(user string) *job    { j.User = user; return j }
func (j *job) gpus(n int) *job        { j.Request = slurm.GPURequest{PerJob: n}; return j }

// on starts the job with g GPUs on each of the nodes.
func (j *job) on(start time.Time, g int, nodes ...string) *job {
	j.State.Base, j.StartTime, j.Nodes = "RUNNING", start, nodes
	j.EndTime = start.Add(j.TimeLimit)
	j.MinNodes = len(nodes)
	j.NodeGPUs = map[string]int{}
	for _, n := range nodes {
		j.NodeGPUs[n] = g
	}
	return j
}

func (j *job) ended(state string, took time.Duration) *job {
	if j.StartTime.IsZero() {
		j.on(t0, 4, "n1")
	}
	j.State.Base, j.EndTime = state, j.StartTime.Add(took)
	return j
}

// snapshot makes a cluster of 8 nodes with 8 GPUs each.
func snapshot(at time.Time, jobs ...*job) *slurm.Snapshot {
	s := &slurm.Snapshot{TakenAt: at}
	p := slurm.Partition{Name: "gpu", Up: true}
	for i := 1; i <= 8; i++ {
		name := fmt.Sprintf("n%d", i)
		s.Nodes = append(s.Nodes, slurm.Node{Name: name, GPUs: 8, GPUType: "a100", State: slurm.State{Base: "MIXED"}})
		p.Nodes = append(p.Nodes, name)
	}
	s.Partitions = []slurm.Partition{p}
	for _, j := range jobs {
		s.Jobs = append(s.Jobs, j.Job)
	}
	return s
}

// work is a data-parallel training by the design's speed model.
type work struct {
	compute time.Duration // of one iteration
	bytes   float64       // of the gradients
}

// run returns what collectors see of the work while it runs as the job's
// record says, at what share of its NICs, and its iterations per second.
func (w work) run(j *job, share float64) (perNode func(at time.Time) []Sample, rate float64) {
	k, g := float64(j.Total()), 0.0
	for _, n := range j.NodeGPUs {
		g = max(g, float64(n))
	}
	ring := 0.0
	if k > 1 {
		ring = w.bytes * 2 * (k - 1) / k
	}
	comm := 0.0
	if len(j.Nodes) > 1 {
		comm = ring * g / (nicSpeed * share)
	}
	rate = 1 / (w.compute.Seconds() + comm)
	return func(at time.Time) []Sample {
		var out []Sample
		for _, n := range j.Nodes {
			g := j.NodeGPUs[n]
			s := Sample{
				JobID: j.ID, Node: n, At: at, Interval: tick, GPUs: g, Source: SourceGPM,
				Compute:     rate * w.compute.Seconds(),
				NVLinkSpeed: linkSpeed * float64(g), NetSpeed: nicSpeed,
			}
			if len(j.Nodes) > 1 {
				s.NetRate = rate * ring * float64(g)
			} else {
				s.NVLinkRate = rate * ring * float64(g)
			}
			out = append(out, s)
		}
		return out
	}, rate
}

// feed runs the job for n intervals from its start, with one snapshot each.
func feed(t testing.TB, b *Book, j *job, n int, samples func(time.Time) []Sample) (end time.Time) {
	t.Helper()
	for i := 1; i <= n; i++ {
		end = j.StartTime.Add(time.Duration(i) * tick)
		b.Track(snapshot(end, j))
		if got := b.Add(samples(end)); len(got) > 0 {
			t.Fatalf("Add refused %v", got)
		}
	}
	return end
}

func newBook(t testing.TB) *Book {
	t.Helper()
	o := DefaultOptions()
	if err := o.Validate(); err != nil {
		t.Fatal(err)
	}
	return NewBook(o)
}

func near(t testing.TB, what string, got, want, tolerance float64) {
	t.Helper()
	if !(math.Abs(got-want) <= tolerance) {
		t.Errorf("%s = %v, want %v within %v", what, got, want, tolerance)
	}
}
