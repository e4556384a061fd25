// SPDX-License-Identifier: Apache-2.0

package sim

// enter works out the speed of a job that starts, and slows those that it now
// shares NICs with.
func (st *State) enter(j *JobState) {
	j.contends = len(j.Alloc) > 1 && st.c.contends(j)
	if len(j.Alloc) > 1 {
		for _, a := range j.Alloc {
			st.c.spanning[a.Node] = append(st.c.spanning[a.Node], j)
			if j.contends {
				st.c.contenders[a.Node]++
			}
		}
	}
	j.Rate = st.c.rate(j)
	if j.contends {
		st.reRate(j)
	}
}

// leave is the end of a job's traffic.
func (st *State) leave(j *JobState) {
	if len(j.Alloc) < 2 {
		return
	}
	for _, a := range j.Alloc {
		s := st.c.spanning[a.Node]
		for i := range s {
			if s[i] == j {
				s = append(s[:i], s[i+1:]...)
				break
			}
		}
		st.c.spanning[a.Node] = s
		if j.contends {
			st.c.contenders[a.Node]--
		}
	}
	if j.contends {
		st.reRate(j)
	}
}

// reRate brings the speed and the end of each other job on the job's nodes up
// to date.
func (st *State) reRate(j *JobState) {
	seen := st.affected[:0]
	for _, a := range j.Alloc {
		for _, o := range st.c.spanning[a.Node] {
			if o == j || o.Status != Running || contains(seen, o) {
				continue
			}
			seen = append(seen, o)
			rate := st.c.rate(o)
			if rate == o.Rate {
				continue
			}
			st.progress(o)
			o.Rate = rate
			st.setEnd(o)
			o.endAt = o.End
			if o.pos >= 0 {
				st.ends.fix(o.pos)
			}
		}
	}
	st.affected = seen
}

func contains(list []*JobState, j *JobState) bool {
	for _, o := range list {
		if o == j {
			return true
		}
	}
	return false
}

// rate is Rate over PackedRate for the job where it runs, 1 at best, without
// their maps: a test holds them together.
func (c *cluster) rate(j *JobState) float64 {
	m, total := j.Model, j.GPUs
	best := m.ComputeSeconds
	if total > 1 {
		best += m.IntraSeconds
	}
	if len(j.Alloc) < 2 || best <= 0 {
		return 1
	}
	own := int32(0)
	if j.contends {
		own = 1
	}
	comm, ring := 0.0, RingBytes(*m, total)
	for _, a := range j.Alloc {
		if a.GPUs > 1 {
			comm = max(comm, m.IntraSeconds)
		}
		if int(a.GPUs) < total {
			sharers := float64(1 + c.contenders[a.Node] - own)
			comm = max(comm, ring*m.Law.Load(int(a.GPUs), len(j.Alloc))*sharers/c.nic[a.Node])
		}
	}
	return best / (m.ComputeSeconds + comm)
}

// contends is Contends for the job where it runs, at the slowest of its NICs.
func (c *cluster) contends(j *JobState) bool {
	slowest := c.nic[j.Alloc[0].Node]
	for _, a := range j.Alloc {
		slowest = min(slowest, c.nic[a.Node])
	}
	m, total := j.Model, j.GPUs
	comm, ring := 0.0, RingBytes(*m, total)
	for _, a := range j.Alloc {
		if a.GPUs > 1 {
			comm = max(comm, m.IntraSeconds)
		}
		if int(a.GPUs) < total {
			comm = max(comm, ring*m.Law.Load(int(a.GPUs), len(j.Alloc))/slowest)
		}
	}
	return comm >= ContendShare*(m.ComputeSeconds+comm)
}

// Traffic is what counters would show of a running job with a model: the part
// of the time in which its GPUs compute, 0..1, and the bytes per second that
// pass each of its GPUs. Both are 0 before its work begins.
func (st *State) Traffic(j *JobState) (compute, bytesPerGPU float64) {
	if j.Model == nil || st.now < j.begins {
		return 0, 0
	}
	iterations := j.Rate * PackedRate(*j.Model, j.GPUs)
	return min(1, iterations*j.Model.ComputeSeconds), iterations * RingBytes(*j.Model, j.GPUs)
}

// Shares reports whether another job holds GPUs on the node.
func (st *State) Shares(n int) bool { return len(st.c.holds[n]) > 1 }
