// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"time"

	"rifling/agent"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// fakeCluster is Slurm as far as the loop sees it. It keeps site factors, which
// the real one does not show, so that tests can check them.
type fakeCluster struct {
	now     time.Time
	rel     slurm.Release
	nodes   []slurm.Node
	jobs    map[slurm.JobID]*slurm.Job
	factor  map[slurm.JobID]int64
	posts   int
	onWrite func(n int) error    // before the n-th write: an error keeps it away, errLost makes it first
	onRead  func(*slurm.Job)     // when one job is read again
	odd     map[slurm.JobID]bool // jobs whose records cannot be read in a list
}

// errLost stands for a write that was made and whose answer was lost.
var errLost = errors.New("connection reset by peer")

func newFakeCluster(nodes, gpus int) *fakeCluster {
	c := &fakeCluster{
		now: noon, rel: slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42},
		jobs: map[slurm.JobID]*slurm.Job{}, factor: map[slurm.JobID]int64{},
	}
	for i := range nodes {
		c.nodes = append(c.nodes, slurm.Node{
			Name: string(rune('a' + i)), GPUs: gpus, CPUs: 64, MemoryMB: 1 << 20,
			State: slurm.State{Base: "IDLE"}, Leaf: "s1",
		})
	}
	return c
}

func (c *fakeCluster) submit(j slurm.Job) *slurm.Job {
	j.Partition, j.State.Base, j.SubmitTime, j.ArrayTaskID = "gpu", "PENDING", c.now, -1
	if j.Priority == 0 && !j.Held {
		j.Priority = 100
	}
	c.jobs[j.ID] = &j
	return &j
}

func (c *fakeCluster) start(id slurm.JobID, nodes ...string) {
	j := c.jobs[id]
	each := j.Total() / len(nodes)
	j.State.Base, j.Nodes, j.StartTime, j.NodeGPUs = "RUNNING", nodes, c.now, map[string]int{}
	for _, n := range nodes {
		j.NodeGPUs[n] = each
	}
}

func (c *fakeCluster) Snapshot(context.Context) (*slurm.Snapshot, error) {
	s := &slurm.Snapshot{TakenAt: c.now, Release: c.rel, Nodes: slices.Clone(c.nodes)}
	p := slurm.Partition{Name: "gpu", Up: true}
	for i := range s.Nodes {
		p.Nodes = append(p.Nodes, s.Nodes[i].Name)
	}
	s.Partitions = []slurm.Partition{p}
	for _, id := range sortedKeys(c.jobs) {
		if c.odd[id] {
			continue
		}
		j := *c.jobs[id]
		for n, g := range j.NodeGPUs {
			if j.Running() {
				s.Node(n).GPUsUsed += g
			}
		}
		s.Jobs = append(s.Jobs, j)
	}
	return s, nil
}

func (c *fakeCluster) Job(_ context.Context, id slurm.JobID) (slurm.Job, error) {
	j, ok := c.jobs[id]
	if !ok {
		return slurm.Job{}, slurm.ErrGone
	}
	if c.onRead != nil {
		c.onRead(j)
	}
	return *j, nil
}

func (c *fakeCluster) Update(_ context.Context, u slurm.Update) error {
	c.posts++
	var err error
	if c.onWrite != nil {
		if err = c.onWrite(c.posts); err != nil && !errors.Is(err, errLost) {
			return err
		}
	}
	j, ok := c.jobs[u.JobID]
	if !ok {
		return slurm.ErrGone
	}
	if !j.Pending() && (u.ExcludedNodes != nil || u.RequiredNodes != nil) {
		return slurm.ErrStarted
	}
	if u.ExcludedNodes != nil {
		j.ExcludedNodes = *u.ExcludedNodes
	}
	if u.SiteFactor != nil {
		j.Priority += *u.SiteFactor - c.factor[j.ID]
		c.factor[j.ID] = *u.SiteFactor
	}
	if u.Nice != nil {
		j.Priority -= *u.Nice - j.Nice
		j.Nice = *u.Nice
	}
	return err
}

// fakeRecorder keeps in memory what the store keeps in SQLite, and can fail.
type fakeRecorder struct {
	owners   map[slurm.JobID]policy.Owner
	records  []policy.Record
	results  [][]policy.Result
	episodes map[slurm.JobID]policy.Episode
	blobs    map[string][]byte
	table    []policy.QEntry
	failAt   string // name of the call that fails
}

func newFakeRecorder() *fakeRecorder {
	return &fakeRecorder{
		owners: map[slurm.JobID]policy.Owner{}, episodes: map[slurm.JobID]policy.Episode{}, blobs: map[string][]byte{},
	}
}

var errDisk = errors.New("disk full")

func (r *fakeRecorder) fails(call string) error {
	if r.failAt == call {
		return errDisk
	}
	return nil
}

func (r *fakeRecorder) Owners(context.Context) ([]policy.Owner, error) {
	var out []policy.Owner
	for _, id := range sortedKeys(r.owners) {
		out = append(out, r.owners[id])
	}
	return out, r.fails("Owners")
}

func (r *fakeRecorder) Begin(_ context.Context, rec policy.Record) (int64, error) {
	if err := r.fails("Begin"); err != nil {
		return 0, err
	}
	r.records = append(r.records, rec)
	for _, id := range rec.Forget {
		delete(r.owners, id)
	}
	for _, c := range rec.Changes {
		if c.Kind == policy.KindSet {
			r.owners[c.Update.JobID] = c.Owner
		}
	}
	for _, o := range rec.Renew {
		r.owners[o.JobID] = o
	}
	return int64(len(r.records)), nil
}

func (r *fakeRecorder) End(_ context.Context, _ int64, results []policy.Result, _ time.Duration) error {
	if err := r.fails("End"); err != nil {
		return err
	}
	r.results = append(r.results, results)
	for _, res := range results {
		id := res.Change.Update.JobID
		switch {
		case res.Owner != nil && res.Owner.SetAt.IsZero():
			delete(r.owners, id)
		case res.Owner != nil:
			r.owners[id] = *res.Owner
		case res.Outcome == policy.Applied:
			r.owners[id] = res.Change.Owner
		}
	}
	return nil
}

func (r *fakeRecorder) SaveEpisodes(_ context.Context, eps []policy.Episode) error {
	for _, e := range eps {
		r.episodes[e.JobID] = e
	}
	return r.fails("SaveEpisodes")
}

func (r *fakeRecorder) SaveGroups(context.Context, time.Time, []profile.Group) error {
	return r.fails("SaveGroups")
}

func (r *fakeRecorder) SaveTable(_ context.Context, _ time.Time, e []policy.QEntry) error {
	r.table = e
	return r.fails("SaveTable")
}

func (r *fakeRecorder) SaveState(_ context.Context, name string, blob []byte) error {
	r.blobs[name] = blob
	return r.fails("SaveState")
}

func (r *fakeRecorder) LoadState(_ context.Context, name string) ([]byte, error) {
	return r.blobs[name], r.fails("LoadState")
}

func (r *fakeRecorder) LoadTable(context.Context) ([]policy.QEntry, error) {
	return r.table, r.fails("LoadTable")
}

// tb is what the helpers need of a test, of testing's or of rapid's.
type tb interface {
	Helper()
	Fatal(args ...any)
	Context() context.Context
}

// newLoop starts a loop that steers, with Q-learning and no chance.
func newLoop(t tb, c Cluster, r Recorder) *Loop {
	t.Helper()
	p := agent.DefaultParams()
	p.Epsilon, p.EpsilonMin = 0, 0
	l := &Loop{
		Cluster: c, Recorder: r, Book: profile.NewBook(profile.DefaultOptions()), Mode: Steer, Tau: time.Hour,
		Policy: &policy.Rifling{Table: agent.NewTable(p), FCFS: true, Prior: policy.RulePrior, PriorWeight: 3},
		Limits: policy.Limits{
			Depth: 50, SlackNodes: 1, MaxOffset: 1000, MaxWait: time.Hour, MaxChanges: 50, TTL: 10 * time.Minute,
		},
		Log: slog.New(slog.DiscardHandler), Clock: func() time.Time { return noon },
	}
	if err := l.Start(t.Context()); err != nil {
		t.Fatal(err)
	}
	return l
}

func once(t tb, l *Loop) Report {
	t.Helper()
	rep, err := l.Once(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return rep
}
