// SPDX-License-Identifier: Apache-2.0

package run

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"rifling/sim"
	"rifling/slurm"
)

// cluster shows the simulation as slurmrestd would show a real Slurm. It
// satisfies cycle.Cluster.
type cluster struct {
	st   *sim.State
	cfg  Config
	live map[slurm.JobID]*sim.JobState // as of the last snapshot
	done []slurm.Job                   // ended since the last snapshot
	// What never changes.
	nodes      []slurm.Node
	partitions []slurm.Partition
}

func newCluster(cfg Config) *cluster {
	c := &cluster{cfg: cfg, live: map[slurm.JobID]*sim.JobState{}}
	var all []string
	for _, n := range cfg.Spec.Nodes {
		cpus := n.CPUs
		if cpus == 0 {
			cpus = n.GPUs
		}
		c.nodes = append(c.nodes, slurm.Node{Name: n.Name, GPUs: n.GPUs, GPUType: n.GPUType, CPUs: cpus, Leaf: n.Leaf})
		all = append(all, n.Name)
	}
	specs := cfg.Spec.Partitions
	if len(specs) == 0 {
		specs = []sim.PartitionSpec{{Name: "gpu"}}
	}
	for i, p := range specs {
		nodes := p.Nodes
		if len(nodes) == 0 {
			nodes = all
		}
		c.partitions = append(c.partitions, slurm.Partition{
			Name: p.Name, Nodes: nodes, Up: true, Default: i == 0, PriorityTier: p.Tier, MaxTime: p.MaxTime,
		})
	}
	return c
}

func (c *cluster) at(t time.Duration) time.Time { return c.cfg.Zero.Add(t) }

// Snapshot shows the cluster now. Jobs that ended are shown once.
func (c *cluster) Snapshot(context.Context) (*slurm.Snapshot, error) {
	s := &slurm.Snapshot{
		TakenAt: c.at(c.st.Now()), Cluster: "simulated", Release: c.cfg.Release,
		Nodes: slices.Clone(c.nodes), Partitions: c.partitions,
	}
	for i := range s.Nodes {
		n := &s.Nodes[i]
		n.GPUsUsed = n.GPUs - c.st.FreeGPUs(i)
		n.CPUsUsed = n.CPUs - c.st.FreeCPUs(i)
		switch {
		case !c.st.Up(i):
			n.State, n.GPUsUsed = slurm.State{Base: "DOWN"}, 0
		case n.GPUsUsed == 0:
			n.State.Base = "IDLE"
		case n.GPUsUsed == n.GPUs:
			n.State.Base = "ALLOCATED"
		default:
			n.State.Base = "MIXED"
		}
	}
	clear(c.live)
	s.Jobs = make([]slurm.Job, 0, c.st.PendingLen()+c.st.RunningLen()+len(c.done))
	s.Jobs = append(s.Jobs, c.done...)
	c.done = c.done[:0]
	for j := range c.st.Pending() {
		c.live[j.ID] = j
		s.Jobs = append(s.Jobs, c.job(j))
	}
	for j := range c.st.Running() {
		c.live[j.ID] = j
		s.Jobs = append(s.Jobs, c.job(j))
	}
	slices.SortFunc(s.Jobs, func(a, b slurm.Job) int { return cmp.Compare(a.ID, b.ID) })
	// A job that failed, was shown as ended and waits again is one record.
	s.Jobs = slices.CompactFunc(s.Jobs, func(a, b slurm.Job) bool { return a.ID == b.ID })
	return s, nil
}

// Job reads one job again: it is gone when it does not wait or run.
func (c *cluster) Job(_ context.Context, id slurm.JobID) (slurm.Job, error) {
	j, ok := c.live[id]
	if !ok || j.Status != sim.Pending && j.Status != sim.Running {
		return slurm.Job{}, slurm.ErrGone
	}
	return c.job(j), nil
}

// Update changes a job as slurmctld would.
func (c *cluster) Update(_ context.Context, u slurm.Update) error {
	j, ok := c.live[u.JobID]
	switch {
	case !ok || j.Status != sim.Pending && j.Status != sim.Running:
		return slurm.ErrGone
	case u.RequiredNodes != nil:
		return fmt.Errorf("exact node lists are not simulated: %w", slurm.ErrRejected)
	case j.Status == sim.Running && (u.ExcludedNodes != nil || u.Nice != nil):
		return slurm.ErrStarted
	}
	if err := c.st.Update(j, u.ExcludedNodes, u.SiteFactor, u.Nice); err != nil {
		return fmt.Errorf("%w: %w", slurm.ErrRejected, err)
	}
	return nil
}

// job is the record that slurmctld would give.
func (c *cluster) job(j *sim.JobState) slurm.Job {
	out := c.record(&j.Job)
	out.TimeLimit, out.Unlimited = j.Bound, j.Bound <= 0
	out.Priority, out.Nice, out.Restarts = max(1, j.Priority), j.NiceNow, j.Restarts
	out.ExcludedNodes = c.st.NodeNames(j.Excluded)
	out.State.Base, out.Reason = "PENDING", "Priority"
	if j.Status == sim.Running {
		out.State.Base, out.Reason = "RUNNING", ""
		out.StartTime = c.at(j.Start)
		if j.Bound > 0 {
			out.EndTime = c.at(j.Start + j.Bound)
		}
		c.place(&out, j.Alloc)
	}
	return out
}

func (c *cluster) place(out *slurm.Job, on []sim.Alloc) {
	out.Nodes, out.NodeGPUs = make([]string, len(on)), make(map[string]int, len(on))
	for i, a := range on {
		name := c.nodes[a.Node].Name
		out.Nodes[i] = name
		out.NodeGPUs[name] = int(a.GPUs)
	}
	out.MinNodes = len(on)
}

// record is what a job's request says.
func (c *cluster) record(j *sim.Job) slurm.Job {
	out := slurm.Job{
		ID: j.ID, Name: j.Name, User: j.User, Account: j.Account, Partition: j.Partition, QOS: j.QOS, Comment: j.Comment,
		SubmitTime: c.at(j.Submit), EligibleTime: c.at(j.Submit), ArrayJobID: j.ArrayID, ArrayTaskID: -1,
		MinNodes: max(1, j.Request.MinNodes), MaxNodes: j.Request.MaxNodes, Tasks: 1, Exclusive: j.Request.Exclusive,
		CPUs:    j.Request.CPUs,
		Request: slurm.GPURequest{PerJob: j.Request.GPUs, PerNode: j.Request.GPUsPerNode, Type: j.Request.GPUType},
	}
	if out.Partition == "" {
		out.Partition = c.partitions[0].Name
	}
	if j.ArrayID != 0 {
		out.ArrayTaskID = j.ArrayTask
	}
	if out.CPUs == 0 {
		out.CPUs = j.Request.Total()
	}
	if j.Request.GPUsPerNode > 0 && out.MaxNodes == 0 {
		out.MaxNodes = out.MinNodes
	}
	return out
}

// ended keeps a result for the next snapshot.
func (c *cluster) ended(r *sim.Result) {
	if r.Outcome == sim.Impossible {
		return
	}
	out := c.record(&r.Job)
	out.State.Base = map[sim.Outcome]string{
		sim.Completed: "COMPLETED", sim.TimedOut: "TIMEOUT", sim.Failed: "FAILED",
	}[r.Outcome]
	out.TimeLimit, out.Unlimited = r.Limit, r.Limit <= 0
	out.StartTime, out.EndTime, out.Restarts = c.at(r.Start), c.at(r.End), r.Restarts
	c.place(&out, r.Alloc)
	c.done = append(c.done, out)
}
