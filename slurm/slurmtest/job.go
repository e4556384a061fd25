// SPDX-License-Identifier: Apache-2.0

package slurmtest

import (
	"fmt"
	"time"

	"rifling/slurm"
)

// Now is the instant that everything is built around, by slurmctld's clock.
var Now = time.Unix(1_796_100_000, 0)

// JobBuilder builds a slurm.Job step by step.
type JobBuilder struct{ j slurm.Job }

// Job starts with a pending job of alice's on one node of partition gpu, one
// hour long, submitted ten minutes before Now, that asks for no GPU.
func Job(id slurm.JobID) *JobBuilder {
	return &JobBuilder{slurm.Job{
		ID: id, Name: fmt.Sprintf("job%d", id), User: "alice", UserID: 2001, Account: "research",
		Partition: "gpu", QOS: "normal", WorkDir: "/home/alice",
		State: slurm.State{Base: "PENDING"}, Reason: "Priority",
		SubmitTime: Now.Add(-10 * time.Minute), EligibleTime: Now.Add(-10 * time.Minute),
		TimeLimit: time.Hour, Priority: 1000, ArrayTaskID: -1,
		MinNodes: 1, Tasks: 1, CPUs: 1,
	}}
}

// Obj returns the job.
func (b *JobBuilder) Obj() slurm.Job { return b.j }

// Pending makes the job wait; it is the default.
func (b *JobBuilder) Pending() *JobBuilder {
	b.j.State, b.j.Nodes, b.j.NodeGPUs = slurm.State{Base: "PENDING"}, nil, nil
	return b
}

// Running starts the job five minutes before Now on the given nodes, with its
// GPUs spread over them as evenly as they go.
func (b *JobBuilder) Running(nodes ...string) *JobBuilder {
	b.j.State, b.j.Reason = slurm.State{Base: "RUNNING"}, "None"
	b.j.StartTime = Now.Add(-5 * time.Minute)
	b.j.EndTime = b.j.StartTime.Add(b.j.TimeLimit)
	b.j.Nodes, b.j.MinNodes = nodes, len(nodes)
	b.j.NodeGPUs = spread(b.j.Total(), nodes)
	return b
}

// spread deals n GPUs out to the nodes.
func spread(n int, nodes []string) map[string]int {
	if n == 0 || len(nodes) == 0 {
		return nil
	}
	out := map[string]int{}
	for i := range n {
		out[nodes[i%len(nodes)]]++
	}
	return out
}

// Done ends the job with the given state, such as COMPLETED, at Now.
func (b *JobBuilder) Done(state string) *JobBuilder {
	b.j.State, b.j.Reason, b.j.EndTime = slurm.State{Base: state}, "None", Now
	b.j.NodeGPUs = nil
	return b
}

// State sets the state's words as they are.
func (b *JobBuilder) State(base string, flags ...string) *JobBuilder {
	b.j.State = slurm.State{Base: base, Flags: flags}
	return b
}

// GPUs asks for GPUs in all (--gpus).
func (b *JobBuilder) GPUs(n int) *JobBuilder { b.j.Request.PerJob = n; return b }

// GPUsPerNode asks for GPUs on each node (--gpus-per-node, --gres).
func (b *JobBuilder) GPUsPerNode(n int) *JobBuilder { b.j.Request.PerNode = n; return b }

// GPUsPerTask asks for GPUs for each task (--gpus-per-task).
func (b *JobBuilder) GPUsPerTask(n, tasks int) *JobBuilder {
	b.j.Request.PerTask, b.j.Tasks = n, tasks
	return b
}

// GPUType names the type of the GPUs.
func (b *JobBuilder) GPUType(t string) *JobBuilder { b.j.Request.Type = t; return b }

// Nodes asks for a range of nodes (-N least-most); most 0 sets no upper bound.
func (b *JobBuilder) Nodes(least, most int) *JobBuilder {
	b.j.MinNodes, b.j.MaxNodes = least, most
	return b
}

// Mem asks for memory on each node (--mem), in MiB.
func (b *JobBuilder) Mem(mib int64) *JobBuilder { b.j.MemPerNodeMB = mib; return b }

// MemPerCPU asks for memory by the CPU (--mem-per-cpu), in MiB.
func (b *JobBuilder) MemPerCPU(mib int64) *JobBuilder { b.j.MemPerCPUMB = mib; return b }

// Name sets the job's name.
func (b *JobBuilder) Name(s string) *JobBuilder { b.j.Name = s; return b }

// User sets the user's name.
func (b *JobBuilder) User(s string) *JobBuilder { b.j.User = s; return b }

// Account sets the account.
func (b *JobBuilder) Account(s string) *JobBuilder { b.j.Account = s; return b }

// Partition sets the partition, or several, comma separated.
func (b *JobBuilder) Partition(s string) *JobBuilder { b.j.Partition = s; return b }

// QOS sets the quality of service.
func (b *JobBuilder) QOS(s string) *JobBuilder { b.j.QOS = s; return b }

// Comment sets the job's comment.
func (b *JobBuilder) Comment(s string) *JobBuilder { b.j.Comment = s; return b }

// Command sets the batch script and its arguments.
func (b *JobBuilder) Command(s string) *JobBuilder { b.j.Command = s; return b }

// Reason sets why the job waits.
func (b *JobBuilder) Reason(s string) *JobBuilder { b.j.Reason = s; return b }

// Priority sets the priority.
func (b *JobBuilder) Priority(n int64) *JobBuilder { b.j.Priority = n; return b }

// Nice sets the nice value.
func (b *JobBuilder) Nice(n int64) *JobBuilder { b.j.Nice = n; return b }

// Held makes the user hold the job.
func (b *JobBuilder) Held() *JobBuilder {
	b.j.Held, b.j.Priority, b.j.Reason = true, 0, "JobHeldUser"
	return b
}

// BadConstraints makes slurmctld call the job impossible.
func (b *JobBuilder) BadConstraints() *JobBuilder {
	b.j.Priority, b.j.Reason = 0, "BadConstraints"
	return b
}

// Dependency makes the job wait for another.
func (b *JobBuilder) Dependency(s string) *JobBuilder {
	b.j.Dependency, b.j.Reason = s, "Dependency"
	return b
}

// Begin sets the time before which the job must not start.
func (b *JobBuilder) Begin(t time.Time) *JobBuilder {
	b.j.EligibleTime, b.j.Reason = t, "BeginTime"
	return b
}

// Reservation puts the job in a reservation.
func (b *JobBuilder) Reservation(s string) *JobBuilder { b.j.Reservation = s; return b }

// Require names the nodes that the job must have (--nodelist).
func (b *JobBuilder) Require(nodes ...string) *JobBuilder { b.j.RequiredNodes = nodes; return b }

// Exclude names the nodes that the job must not have (--exclude).
func (b *JobBuilder) Exclude(nodes ...string) *JobBuilder { b.j.ExcludedNodes = nodes; return b }

// Features sets the constraint (-C).
func (b *JobBuilder) Features(s string) *JobBuilder { b.j.Features = s; return b }

// Exclusive asks for whole nodes.
func (b *JobBuilder) Exclusive() *JobBuilder { b.j.Exclusive = true; return b }

// Switches asks for at most n leaf switches.
func (b *JobBuilder) Switches(n int) *JobBuilder { b.j.Switches = n; return b }

// TimeLimit sets the limit.
func (b *JobBuilder) TimeLimit(d time.Duration) *JobBuilder { b.j.TimeLimit = d; return b }

// Unlimited removes the limit.
func (b *JobBuilder) Unlimited() *JobBuilder {
	b.j.TimeLimit, b.j.Unlimited = 0, true
	return b
}

// Submitted sets when the job was submitted and became eligible.
func (b *JobBuilder) Submitted(t time.Time) *JobBuilder {
	b.j.SubmitTime, b.j.EligibleTime = t, t
	return b
}

// Started sets the start, and the end by the limit.
func (b *JobBuilder) Started(t time.Time) *JobBuilder {
	b.j.StartTime, b.j.EndTime = t, t.Add(b.j.TimeLimit)
	return b
}

// Array makes the record that of an array's pending tasks, such as "1-6%2".
func (b *JobBuilder) Array(tasks string) *JobBuilder {
	b.j.ArrayJobID, b.j.ArrayTaskID, b.j.ArrayTaskString = b.j.ID, -1, tasks
	_, b.j.ArrayMaxTasks, _, _ = slurm.ParseTasks(tasks)
	return b
}

// Task makes the job one task of an array.
func (b *JobBuilder) Task(array slurm.JobID, task int64) *JobBuilder {
	b.j.ArrayJobID, b.j.ArrayTaskID = array, task
	return b
}

// Het makes the job a component of a heterogeneous one.
func (b *JobBuilder) Het() *JobBuilder { b.j.Het = true; return b }

// Cron makes the job one of scrontab's.
func (b *JobBuilder) Cron() *JobBuilder { b.j.Cron = true; return b }

// Restarts sets how often the job was requeued.
func (b *JobBuilder) Restarts(n int) *JobBuilder { b.j.Restarts = n; return b }
