// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/cmd/internal/config"
	"rifling/policy"
	"rifling/profile"
	"rifling/slurm"
	"rifling/slurm/rest"
	"rifling/store"
)

var update = flag.Bool("update", false, "rewrite the golden pages")

// t0 is slurmctld's clock at the first cycle; the host's agrees.
var t0 = time.Date(2026, 12, 1, 5, 0, 0, 0, time.UTC)

// site is an installation in a folder of its own.
type site struct {
	t     *testing.T
	now   time.Time
	dir   string
	slurm *fakeSlurm
	extra string // more lines of configuration
	// command answers for Slurm's commands; nil: there are none here.
	command commandFunc
	asker   func() (Asker, error)

	host    string // stands for the root directory
	onlyTCP bool   // nothing serves on a unix socket
}

func newSite(t *testing.T) *site {
	t.Helper()
	return &site{t: t, now: t0.Add(10 * time.Second), dir: t.TempDir(), host: t.TempDir(), slurm: newFakeSlurm()}
}

func (s *site) db() string { return filepath.Join(s.dir, "rifling.db") }

// run calls the program in this process.
func (s *site) run(args ...string) (code int, stdout, stderr string) {
	s.t.Helper()
	conf := filepath.Join(s.dir, "rifling.yaml")
	text := "database: " + s.db() + "\n" + s.extra
	if err := os.WriteFile(conf, []byte(text), 0o600); err != nil {
		s.t.Fatal(err)
	}
	env := Env{
		Now:     func() time.Time { return s.now },
		Connect: func(*config.Config) (Slurm, error) { return s.slurm, nil },
		Run:     s.command,
		Asker:   s.asker,
	}
	var out, errs bytes.Buffer
	code = Main(context.Background(), append([]string{"--config", conf}, args...), &out, &errs, env)
	return code, out.String(), errs.String()
}

// writer opens the database as the daemon does.
func (s *site) writer() *store.Store {
	s.t.Helper()
	st, err := store.Open(s.db(), store.Options{Now: func() time.Time { return s.now }})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { st.Close() })
	return st
}

// cycle records one cycle and moves the host's clock to it.
func (s *site) cycle(r policy.Record, results ...policy.Result) {
	s.t.Helper()
	s.now = r.At.Add(2 * time.Second)
	st := s.writer()
	defer st.Close()
	n, err := st.Begin(context.Background(), r)
	if err != nil {
		s.t.Fatal(err)
	}
	if err := st.End(context.Background(), n, results, 80*time.Millisecond); err != nil {
		s.t.Fatal(err)
	}
	s.now = r.At.Add(10 * time.Second)
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got), -update rewrites:\n%s", path, d)
	}
}

// fakeSlurm is a cluster in memory that behaves: updates change its jobs.
type fakeSlurm struct {
	snap    slurm.Snapshot
	connect error
	account error
	user    string
	level   string
	clock   time.Time
	refuse  map[slurm.JobID]error
}

func newFakeSlurm() *fakeSlurm {
	f := &fakeSlurm{user: "rifling", level: "Operator", clock: t0.Add(10 * time.Second), refuse: map[slurm.JobID]error{}}
	f.snap = slurm.Snapshot{TakenAt: f.clock, Cluster: "lab", Release: slurm.Release{Major: 24, Minor: 11, Micro: 5, REST: 42}}
	p := slurm.Partition{Name: "gpu", Up: true, Default: true}
	for i := range 4 {
		name := fmt.Sprintf("gpu%02d", i+1)
		p.Nodes = append(p.Nodes, name)
		f.snap.Nodes = append(f.snap.Nodes, slurm.Node{Name: name, State: slurm.State{Base: "IDLE"}, GPUs: 8, Leaf: fmt.Sprintf("leaf%d", i/2)})
	}
	f.snap.Partitions = []slurm.Partition{p}
	return f
}

func (f *fakeSlurm) Connect(context.Context) (slurm.Release, error) { return f.snap.Release, f.connect }
func (f *fakeSlurm) Diag(context.Context) (rest.Diag, error)        { return rest.Diag{At: f.clock}, nil }
func (f *fakeSlurm) Accounting(context.Context) error               { return f.account }
func (f *fakeSlurm) Close()                                         {}

func (f *fakeSlurm) AdminLevel(context.Context) (string, string, error) {
	return f.user, f.level, f.account
}

func (f *fakeSlurm) Snapshot(context.Context) (*slurm.Snapshot, error) {
	if f.connect != nil {
		return nil, f.connect
	}
	out := f.snap
	out.Jobs = append([]slurm.Job(nil), f.snap.Jobs...)
	return &out, nil
}

func (f *fakeSlurm) Job(_ context.Context, id slurm.JobID) (slurm.Job, error) {
	if j := f.snap.Job(id); j != nil {
		return *j, nil
	}
	return slurm.Job{}, slurm.ErrGone
}

func (f *fakeSlurm) Update(_ context.Context, u slurm.Update) error {
	if err := f.refuse[u.JobID]; err != nil {
		return err
	}
	j := f.snap.Job(u.JobID)
	if j == nil {
		return slurm.ErrGone
	}
	if u.ExcludedNodes != nil {
		j.ExcludedNodes = *u.ExcludedNodes
	}
	return nil
}

// pendingJob waits since five minutes before t0.
func pendingJob(id slurm.JobID) slurm.Job {
	return slurm.Job{
		ID: id, Name: "train", User: "ada", Account: "lab", Partition: "gpu", QOS: "normal",
		State: slurm.State{Base: "PENDING"}, Reason: "Resources", ArrayTaskID: -1,
		SubmitTime: t0.Add(-5 * time.Minute), EligibleTime: t0.Add(-5 * time.Minute),
		StartTime: t0.Add(time.Hour), TimeLimit: 4 * time.Hour, Priority: 4000,
		MinNodes: 1, Request: slurm.GPURequest{PerJob: 8, Type: "a100"},
	}
}

func runningJob(id slurm.JobID, nodes ...string) slurm.Job {
	j := pendingJob(id)
	j.State, j.Reason = slurm.State{Base: "RUNNING"}, "None"
	j.StartTime, j.EndTime = t0.Add(time.Minute), t0.Add(4*time.Hour)
	j.Nodes, j.MinNodes = nodes, len(nodes)
	return j
}

func endedJob(id slurm.JobID, state string, nodes ...string) slurm.Job {
	j := runningJob(id, nodes...)
	j.State = slurm.State{Base: state}
	j.EndTime = t0.Add(61 * time.Minute)
	return j
}

func packed(id slurm.JobID) policy.Decision {
	return policy.Decision{
		JobID: id, Action: policy.Pack, State: "g0 n1 open one nic0 q2", Candidates: []string{"gpu01", "gpu03"},
		Target: []string{"gpu01"}, Offset: 300, Value: -0.02,
		Reason: "the job is communication-bound (group 0); packing on 1 node is valued highest",
		Considered: []policy.Option{
			{Action: policy.Leave, Shape: "2 nodes", Value: -0.4, Visits: 3},
			{Action: policy.Pack, Nodes: []string{"gpu01", "gpu03"}, Shape: "1 node", Value: -0.02, Visits: 12},
			{Action: policy.Wait, Value: -0.1, Note: "a better shape is expected at 05:20:00 UTC"},
		},
	}
}

func waiting(id slurm.JobID) policy.Decision {
	d := packed(id)
	d.Action, d.State, d.Target, d.Offset = policy.Wait, "g0 n1 open scattered nic1 q2", nil, 0
	d.Candidates = []string{"gpu02", "gpu04"}
	d.Reason = "the job is communication-bound (group 0); waiting is valued highest: a better shape is expected at 05:20:00 UTC"
	d.Deadline = t0.Add(2 * time.Hour)
	return d
}

func skipped(id slurm.JobID, why string) policy.Decision {
	return policy.Decision{JobID: id, Action: policy.Leave, Skipped: why, Reason: "left alone: " + why}
}

func exclude(id slurm.JobID, nodes ...string) policy.Change {
	offset := int64(300)
	return policy.Change{
		Kind: policy.KindSet, Why: "pack", Update: slurm.Update{JobID: id, ExcludedNodes: &nodes, SiteFactor: &offset},
		Owner: policy.Owner{JobID: id, UserExclude: []string{"gpu04"}, SetExclude: nodes, SetSiteFactor: &offset,
			SetAt: t0, ExpiresAt: t0.Add(10 * time.Minute)},
	}
}

func applied1(c policy.Change) policy.Result {
	return policy.Result{Change: c, Outcome: policy.Applied, Owner: &c.Owner}
}

func record(at time.Time, jobs ...slurm.Job) policy.Record {
	r := policy.Record{
		At: at, Mode: "steer", Seed: 1, Jobs: jobs, Plan: policy.Plan{Policy: "rifling", At: at},
		GPUs: 32, GPUsUsed: 24, ANPR: 0.875, ANPRGPUs: 24, Profiles: map[slurm.JobID]profile.Profile{},
	}
	for _, j := range jobs {
		r.Profiles[j.ID] = profile.Profile{JobID: j.ID, Group: profile.GroupUnknown, Level: profile.LevelNone}
	}
	return r
}

func knownProfile(id slurm.JobID) profile.Profile {
	return profile.Profile{
		JobID: id, Family: "ada/lab/train/8", GPUs: 8, LogCC: -0.7, Count: 40, Var: 0.02, Level: profile.LevelFamily,
		Group: 0, CommBound: true, RunTime: 90 * time.Minute, RunTimeLevel: profile.LevelFamily,
	}
}

// busySite has one job of each kind that the verbs must tell apart.
func busySite(t *testing.T) *site {
	s := newSite(t)
	array := pendingJob(30)
	array.ArrayJobID, array.ArrayTaskString, array.Name = 30, "4-6%2", "sweep"
	held := pendingJob(12)
	held.Reason, held.User, held.Account = "JobHeldUser", "bob", "physics"
	odd := pendingJob(14)
	odd.Name, odd.Request = "evil\x1b[2Jname|x", slurm.GPURequest{PerNode: 4}
	odd.MinNodes, odd.MaxNodes = 2, 2
	r := record(t0, pendingJob(10), pendingJob(11), held, pendingJob(13), odd, runningJob(20, "gpu02"), array)
	r.Profiles[10], r.Profiles[11] = knownProfile(10), knownProfile(11)
	r.Plan.Decisions = []policy.Decision{waiting(10), packed(11), skipped(12, "it is held"), skipped(30, "tasks of its array run already")}
	r.Changes = []policy.Change{exclude(11, "gpu02", "gpu04"), exclude(10, "gpu01", "gpu03")}
	failed := policy.Result{Change: r.Changes[1], Outcome: policy.Failed, Detail: "permission denied", Owner: &policy.Owner{JobID: 10}}
	s.cycle(r, applied1(r.Changes[0]), failed)

	task := runningJob(31, "gpu03", "gpu04")
	task.ArrayJobID, task.ArrayTaskID, task.Name = 30, 3, "sweep"
	r = record(t0.Add(time.Minute), pendingJob(10), pendingJob(11), held, pendingJob(13), odd, runningJob(20, "gpu02"), array, task)
	r.Profiles[10], r.Profiles[11] = knownProfile(10), knownProfile(11)
	r.Plan.Decisions = []policy.Decision{waiting(10), packed(11), skipped(12, "it is held"), skipped(30, "tasks of its array run already")}
	r.Samples = []profile.Sample{{JobID: 20, Node: "gpu02", At: t0.Add(50 * time.Second)}}
	r.Odd = map[string]int{"job: odd gres": 1}
	s.cycle(r)
	st := s.writer()
	groups := []profile.Group{{Index: 0, Center: -0.7, Spread: 0.2, Members: 1}, {Index: 1, Center: 2.5, Spread: 0.5, Members: 4}}
	if err := st.SaveGroups(context.Background(), t0, groups); err != nil {
		t.Fatal(err)
	}
	err := st.SaveTable(context.Background(), t0, []policy.QEntry{
		{State: "g0 n1 open one nic0 q2", Action: "leave", Value: -0.4, Visits: 3, Var: 0.01, Changed: t0},
		{State: "g0 n1 open one nic0 q2", Action: "pack", Value: -0.02, Visits: 12, Var: 0.0004, Changed: t0},
		{State: "g? n+ fixed none nic2 q0", Action: "wait", Value: -0.1, Visits: 1},
	})
	if err != nil {
		t.Fatal(err)
	}
	st.Close()
	return s
}

// lines returns the lines of text that hold the word.
func lines(text, word string) string {
	var out []string
	for l := range strings.SplitSeq(text, "\n") {
		if strings.Contains(l, word) {
			out = append(out, l)
		}
	}
	return strings.Join(out, "\n")
}
