// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"fmt"
	"iter"
	"math"
	"slices"
	"time"
)

// State is the simulated cluster as a scheduler sees and changes it.
type State struct {
	c   *cluster
	now time.Duration

	pending, running jobList
	ends             endHeap
	wakes            []time.Duration // ascending
	changed          Change
	arrived, gone    []*JobState // that joined the queue, or ended, since the last pass
	starts           int         // of jobs, in all
	version          int
	err              error
	affected         []*JobState // scratch of rates
}

// Now is the time of the simulation.
func (st *State) Now() time.Duration { return st.now }

// Pending goes through the waiting jobs in the order of their arrival; those
// that came back to the queue stand at its end. Starting jobs meanwhile is
// allowed.
func (st *State) Pending() iter.Seq[*JobState] { return st.pending.all }

// PendingLen is the number of waiting jobs.
func (st *State) PendingLen() int { return st.pending.live }

// Arrived lists the jobs that came into the queue since the last Pass, new ones
// and those that came back.
func (st *State) Arrived() []*JobState { return st.arrived }

// Gone lists the jobs whose run ended since the last Pass.
func (st *State) Gone() []*JobState { return st.gone }

// Running goes through the running jobs in the order of their starts.
func (st *State) Running() iter.Seq[*JobState] { return st.running.all }

// RunningLen is the number of running jobs.
func (st *State) RunningLen() int { return st.running.live }

// Spec is the cluster's description.
func (st *State) Spec() *Spec { return &st.c.spec }

// Nodes is the number of nodes.
func (st *State) Nodes() int { return len(st.c.free) }

// FreeGPUs returns the GPUs that are free on node n, 0 when it is down.
func (st *State) FreeGPUs(n int) int {
	if !st.c.up[n] {
		return 0
	}
	return int(st.c.free[n])
}

// GPUs returns the GPUs of node n.
func (st *State) GPUs(n int) int { return int(st.c.gpus[n]) }

// Up reports whether node n is in service.
func (st *State) Up(n int) bool { return st.c.up[n] }

// TotalGPUs and InUse count the GPUs of the cluster and those that jobs hold.
func (st *State) TotalGPUs() int { return st.c.totalGPUs }

// InUse counts the GPUs that jobs hold.
func (st *State) InUse() int { return st.c.inUse }

// NodesWith returns the nodes in service that have exactly gpus GPUs free. It
// is the state's own: read it, do not change it.
func (st *State) NodesWith(gpus int) NodeSet { return st.c.byFree[gpus] }

// MostGPUs is the size of the largest node.
func (st *State) MostGPUs() int { return st.c.most }

// CPUs and FreeCPUs are the processors of node n and those not taken.
func (st *State) CPUs(n int) int { return int(st.c.cpus[n]) }

// FreeCPUs returns the processors of node n that no job holds.
func (st *State) FreeCPUs(n int) int { return int(st.c.freeCPUs[n]) }

// Version grows whenever a job comes, starts or ends, or a node goes or comes
// back; State.Update does not count.
func (st *State) Version() int { return st.version }

// Leaf returns the index of the node's leaf switch.
func (st *State) Leaf(n int) int { return int(st.c.leaf[n]) }

// Contenders returns how many jobs on node n load its NIC so that others feel it.
func (st *State) Contenders(n int) int { return int(st.c.contenders[n]) }

// PartitionOf returns the job's partition.
func (st *State) PartitionOf(j *JobState) *PartitionSpec {
	return &st.c.partitions[j.part].PartitionSpec
}

// Serves returns how many of the job's GPUs node n could take over now, by the
// job's request, its partition, its excluded nodes and what is free; 0 for none.
func (st *State) Serves(j *JobState, n int) int {
	if !st.c.up[n] || !st.c.partitions[j.part].nodes.Has(n) || j.Excluded != nil && j.Excluded.Has(n) {
		return 0
	}
	if t := j.Request.GPUType; t != "" && st.c.spec.Nodes[n].GPUType != t {
		return 0
	}
	return st.c.serves(j, n, st.c.free[n], st.c.freeCPUs[n])
}

// Wake asks for a call of Pass at the given time, or at once when that is past.
func (st *State) Wake(at time.Duration) {
	at = max(at, st.now)
	i, found := slices.BinarySearch(st.wakes, at)
	if !found {
		st.wakes = slices.Insert(st.wakes, i, at)
	}
}

// fail keeps the first thing that a scheduler did wrong; Run returns it.
func (st *State) fail(format string, args ...any) {
	if st.err == nil {
		st.err = fmt.Errorf(format, args...)
	}
}

// Start starts a waiting job on the nodes given, each once. The GPUs must be
// free and their sum must be the job's: a breach ends the simulation with an
// error. CPUs that are 0 are filled in from the request.
func (st *State) Start(j *JobState, on []Alloc) {
	if j.Status != Pending {
		st.fail("job %d was started while it was not pending", j.ID)
		return
	}
	total := 0
	j.Alloc = make([]Alloc, len(on))
	copy(j.Alloc, on)
	for i := range j.Alloc {
		a := &j.Alloc[i]
		if a.CPUs == 0 {
			a.CPUs = j.cpusFor(int(a.GPUs))
			if j.Request.Exclusive {
				a.CPUs = st.c.cpus[a.Node]
			}
		}
		total += int(a.GPUs)
		if a.GPUs < 1 || !st.c.up[a.Node] || st.c.free[a.Node] < a.GPUs || st.c.freeCPUs[a.Node] < a.CPUs {
			st.fail("job %d was given %d GPUs and %d CPUs on %s, which has %d and %d free", j.ID, a.GPUs, a.CPUs,
				st.c.spec.Nodes[a.Node].Name, st.FreeGPUs(int(a.Node)), st.c.freeCPUs[a.Node])
			return
		}
		st.c.take(j, *a)
	}
	if total != j.GPUs {
		st.fail("job %d asked for %d GPUs and was given %d", j.ID, j.GPUs, total)
	}
	st.starts++
	st.c.holders++
	st.pending.remove(j)
	st.running.add(j)
	j.Status, j.Start = Running, st.now
	if j.FirstRun < 0 {
		j.FirstRun = st.now
	}
	j.begins = st.now + st.c.spec.StartOverhead + j.penalty
	j.LastAt, j.doneBefore = j.begins, j.Done
	j.Rate = 1
	if j.Model != nil {
		st.enter(j)
	}
	st.setEnd(j)
	j.endAt = j.End
	st.ends.push(j)
}

// setEnd works out when and how the present run will end if nothing changes.
func (st *State) setEnd(j *JobState) {
	left := j.Work - j.Done
	from := max(st.now, j.begins)
	switch {
	case left <= 0:
		j.End = from
	case j.Rate == 1:
		j.End = from + left
	case j.Rate <= 0:
		j.End = math.MaxInt64
	default:
		j.End = from + time.Duration(math.Ceil(float64(left)/j.Rate))
	}
	j.how = Completed
	if !st.c.spec.IgnoreLimits && j.Bound > 0 && j.Start+j.Bound < j.End {
		j.End, j.how = j.Start+j.Bound, TimedOut
	}
	if j.FailAfter > 0 && j.Restarts == 0 && j.Start+j.FailAfter-j.Ran < j.End {
		j.End, j.how = max(st.now, j.Start+j.FailAfter-j.Ran), Failed
	}
}

// Preempt takes a running job off its nodes and puts it back into the queue
// with its progress. cost is how long its next run holds GPUs before the work
// goes on, beyond Spec.StartOverhead.
//
// Slurm's own jobs are never preempted by rifling: this is for peers whose
// published results rest on it.
func (st *State) Preempt(j *JobState, cost time.Duration) {
	if j.Status != Running {
		st.fail("job %d was preempted while it was not running", j.ID)
		return
	}
	st.progress(j)
	st.stop(j)
	st.release(j)
	j.Preempted++
	j.penalty = cost
	st.requeue(j)
}

// progress books the work done since the last time.
func (st *State) progress(j *JobState) {
	if st.now <= j.LastAt {
		return
	}
	ran := st.now - j.LastAt
	if j.Rate != 1 {
		ran = time.Duration(float64(ran) * j.Rate)
	}
	j.Done = min(j.Work, j.Done+ran)
	j.LastAt = st.now
}

// stop ends the run: the job leaves the list of running jobs and the heap.
func (st *State) stop(j *JobState) {
	st.running.remove(j)
	if j.pos >= 0 {
		st.ends.remove(j)
	}
	st.gone = append(st.gone, j)
	j.Ran += st.now - j.Start
	if j.Model != nil {
		st.leave(j)
	}
}

// release gives the job's GPUs back.
func (st *State) release(j *JobState) {
	for _, a := range j.Alloc {
		st.c.give(j, a)
	}
	st.c.holders--
	st.changed |= Freed
}

func (st *State) requeue(j *JobState) {
	j.Status = Pending
	st.pending.add(j)
	st.arrived = append(st.arrived, j)
	st.changed |= Requeued
}

// Update changes what slurmctld would keep on a waiting job: its exclude list,
// as a whole, its site factor and its nice value. Nil leaves a value alone.
func (st *State) Update(j *JobState, exclude *[]string, siteFactor, nice *int64) error {
	if exclude != nil {
		set, err := st.c.setOf(*exclude)
		if err != nil {
			return fmt.Errorf("job %d: %w", j.ID, err)
		}
		j.Excluded = set
	}
	if siteFactor != nil {
		j.SiteFactor = *siteFactor
	}
	if nice != nil {
		j.NiceNow = *nice
	}
	st.changed |= Updated
	st.Wake(st.now)
	return nil
}

// NodeNames returns the names of a set's nodes in their order; nil for nil.
func (st *State) NodeNames(s NodeSet) []string {
	var out []string
	if s != nil {
		for n := range s.All() {
			out = append(out, st.c.spec.Nodes[n].Name)
		}
	}
	return out
}

// setOf turns names into a set; nil for none.
func (c *cluster) setOf(names []string) (NodeSet, error) {
	if len(names) == 0 {
		return nil, nil
	}
	s := NewNodeSet(len(c.free))
	for _, name := range names {
		n, ok := c.index[name]
		if !ok {
			return nil, fmt.Errorf("there is no node %q", name)
		}
		s.Add(n)
	}
	return s, nil
}
