// SPDX-License-Identifier: Apache-2.0

package sim

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// calculate brings all priorities up to date, every PriorityCalcPeriod.
func (m *SlurmModel) calculate() {
	s := &m.Settings
	if s.Basic || s.Calc <= 0 {
		return
	}
	at := m.st.now.Truncate(s.Calc)
	if at <= m.calcAt {
		return
	}
	m.usage.decay(m.st, at)
	m.calcAt = at
	if m.st.pending.live == 0 {
		return
	}
	m.squeeze()
	for _, j := range m.queue {
		j.looked = true // by the pass that followed its submission
		m.setPriority(j)
	}
	m.sort()
}

// basicTop is where priority/basic starts counting down.
const basicTop = 1 << 40

// setPriority works out the job's priority: priority/basic gives each job one
// less than the one before, priority/multifactor the weighted sum of factors
// between 0 and 1, plus the site factor, less nice, and never less than 1.
func (m *SlurmModel) setPriority(j *JobState) {
	s := &m.Settings
	if s.Basic {
		j.Priority = basicTop - int64(j.Seq) - j.NiceNow
		return
	}
	c := m.st.c
	sum := 0.0
	if w := s.Weights.Age; w > 0 && s.MaxAge > 0 {
		age := max(m.calcAt, 0) - j.Submit
		sum += w * min(1, max(0, float64(age)/float64(s.MaxAge)))
	}
	if w := s.Weights.FairShare; w > 0 {
		sum += w * m.usage.factor(j)
	}
	if w := s.Weights.JobSize; w > 0 {
		least, _ := j.nodeRange()
		size := (float64(least)/float64(len(c.free)) + float64(m.sizeCPUs(j, least))/float64(c.totalCPUs)) / 2
		if s.FavorSmall {
			size = 1 - size
		}
		sum += w * size
	}
	if w := s.Weights.Partition; w > 0 && c.fac > 0 {
		sum += w * float64(c.partitions[j.part].JobFactor) / float64(c.fac)
	}
	if q, ok := c.qos[j.QOS]; ok && c.maxQOS > 0 {
		sum += s.Weights.QOS * float64(c.spec.QOS[q].Priority) / float64(c.maxQOS)
	}
	j.Priority = max(1, int64(sum)+j.SiteFactor-j.NiceNow)
}

// sizeCPUs is what the job size factor counts. slurmctld knows how many CPUs come
// with the GPUs of a job once it has looked for a place for it; until then it
// counts those that the job asks for by themselves, one a node if none.
func (m *SlurmModel) sizeCPUs(j *JobState, nodes int) int {
	switch {
	case j.Request.CPUs > 0:
		return j.Request.CPUs
	case j.looked || m.Settings.Cores:
		return j.GPUs
	}
	return nodes
}

// usage is what slurmctld keeps of users: their faded use of the cluster for
// fair share, and what runs of theirs now for limits.
type usage struct {
	c        *cluster
	halfLife time.Duration
	fair     bool
	at       time.Duration // of the last fading
	index    map[userKey]int
	users    []user
	accounts map[string]int
	used     []float64 // by account, GPU seconds, faded
	ranks    []int
	qos      map[qosUser]*running
	arrays   map[int64]int // running tasks by array, of arrays with a limit
}

type userKey struct{ account, name string }

type user struct {
	account int
	used    float64 // GPU seconds, faded
	factor  float64
}

type qosUser struct {
	qos  int
	user string
}

type running struct{ jobs, gpus int }

func (u *usage) init(c *cluster, s SlurmSettings) {
	*u = usage{
		c: c, halfLife: s.HalfLife, fair: !s.Basic && s.Weights.FairShare > 0,
		index: map[userKey]int{}, accounts: map[string]int{}, qos: map[qosUser]*running{}, arrays: map[int64]int{},
	}
	for _, known := range c.spec.Users {
		u.know(userKey{known.Account, known.Name})
	}
}

// add makes the job's user known. Somebody who never ran anything is first.
func (u *usage) add(j *JobState) {
	if u.fair {
		u.know(userKey{j.Account, j.User})
	}
}

func (u *usage) know(key userKey) {
	if _, ok := u.index[key]; ok {
		return
	}
	a, ok := u.accounts[key.account]
	if !ok {
		a = len(u.used)
		u.accounts[key.account] = a
		u.used = append(u.used, 0)
	}
	u.index[key] = len(u.users)
	u.users = append(u.users, user{account: a, factor: 1})
}

func (u *usage) factor(j *JobState) float64 {
	return u.users[u.index[userKey{j.Account, j.User}]].factor
}

// decay fades what was used and adds what ran since, then ranks the users.
func (u *usage) decay(st *State, at time.Duration) {
	if !u.fair {
		return
	}
	fade := 1.0
	if u.halfLife > 0 {
		fade = math.Exp2(-float64(at-u.at) / float64(u.halfLife))
	}
	for i := range u.users {
		u.users[i].used *= fade
	}
	for i := range u.used {
		u.used[i] *= fade
	}
	for j := range st.Running() {
		u.charge(j, at)
	}
	u.at = at
	u.rank()
}

// charge books the job's GPU time since the last fading.
func (u *usage) charge(j *JobState, until time.Duration) {
	from := max(j.Start, u.at)
	if until <= from {
		return
	}
	used := (until - from).Seconds() * float64(j.GPUs)
	i, ok := u.index[userKey{j.Account, j.User}]
	if ok {
		u.users[i].used += used
		u.used[u.users[i].account] += used
	}
}

// rank is the Fair Tree algorithm with equal shares: the account that used
// least first, within it the user who used least; the factor is the rank over
// the number of users.
func (u *usage) rank() {
	u.ranks = u.ranks[:0]
	for i := range u.users {
		u.ranks = append(u.ranks, i)
	}
	order := func(a, b int) int {
		x, y := &u.users[a], &u.users[b]
		return cmp.Or(cmp.Compare(u.used[x.account], u.used[y.account]), cmp.Compare(x.used, y.used))
	}
	slices.SortStableFunc(u.ranks, order)
	n := float64(len(u.ranks))
	for r, i := range u.ranks {
		u.users[i].factor = (n - float64(r)) / n
		if r > 0 && order(u.ranks[r-1], i) == 0 {
			u.users[i].factor = u.users[u.ranks[r-1]].factor
		}
	}
}

// start and end count what runs.
func (u *usage) start(j *JobState) { u.count(j, 1) }

func (u *usage) end(j *JobState, now time.Duration) {
	u.count(j, -1)
	if u.fair {
		u.charge(j, now)
	}
}

func (u *usage) count(j *JobState, by int) {
	if j.ArrayMax > 0 {
		u.arrays[int64(j.ArrayID)] += by
	}
	q, ok := u.c.qos[j.QOS]
	if !ok || u.c.spec.QOS[q].MaxGPUsPerUser == 0 && u.c.spec.QOS[q].MaxJobsPerUser == 0 {
		return
	}
	key := qosUser{q, j.User}
	r := u.qos[key]
	if r == nil {
		r = &running{}
		u.qos[key] = r
	}
	r.jobs += by
	r.gpus += by * j.GPUs
}

// allows reports whether limits of its QOS and its array let the job start now.
func (u *usage) allows(j *JobState) bool {
	if j.ArrayMax > 0 && u.arrays[int64(j.ArrayID)] >= j.ArrayMax {
		return false
	}
	q, ok := u.c.qos[j.QOS]
	if !ok {
		return true
	}
	spec := &u.c.spec.QOS[q]
	r := u.qos[qosUser{q, j.User}]
	if r == nil {
		r = &running{}
	}
	return (spec.MaxJobsPerUser == 0 || r.jobs < spec.MaxJobsPerUser) &&
		(spec.MaxGPUsPerUser == 0 || r.gpus+j.GPUs <= spec.MaxGPUsPerUser)
}
