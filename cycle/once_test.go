// SPDX-License-Identifier: Apache-2.0

package cycle

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"rifling/policy"
	"rifling/slurm"
)

func gpuJob(id slurm.JobID, gpus int) slurm.Job {
	return slurm.Job{ID: id, MinNodes: 1, MaxNodes: 1, Tasks: 1, Request: slurm.GPURequest{PerNode: gpus}}
}

// partlyBusy is a cluster where one node is partly taken, so that packing has
// something to choose.
func partlyBusy() *fakeCluster {
	c := newFakeCluster(4, 8)
	c.submit(gpuJob(1, 6))
	c.start(1, "b")
	return c
}

func TestSteeringNarrowsAPendingJob(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	user := gpuJob(7, 2)
	user.ExcludedNodes = []string{"d"}
	c.submit(user)
	rep := once(t, newLoop(t, c, r))
	if rep.Decisions != 1 || rep.Owned != 1 {
		t.Fatalf("report %+v, want one decision and one owned job", rep)
	}
	if got := c.jobs[7].ExcludedNodes; !slices.Contains(got, "d") || slices.Contains(got, "b") || len(got) < 2 {
		t.Errorf("excluded %v: want the user's d and more, but not b, the fullest that serves the job", got)
	}
	if o := r.owners[7]; !slices.Equal(o.UserExclude, []string{"d"}) || o.ExpiresAt.IsZero() {
		t.Errorf("owner record %+v", o)
	}
}

func TestObserveSendsNothingAndDecidesTheSame(t *testing.T) {
	var plans [2][]policy.Decision
	for i, mode := range []string{Observe, Steer} {
		c, r := partlyBusy(), newFakeRecorder()
		c.submit(gpuJob(7, 2))
		l := newLoop(t, c, r)
		l.Mode = mode
		once(t, l)
		if mode == Observe && c.posts != 0 {
			t.Errorf("%d writes in observe mode", c.posts)
		}
		plans[i] = r.records[0].Plan.Decisions
	}
	if a, b := fmt.Sprintf("%+v", plans[0]), fmt.Sprintf("%+v", plans[1]); a != b {
		t.Errorf("observing decides otherwise than steering:\n%s\n%s", a, b)
	}
}

func TestQuietCycleWritesNothing(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	l := newLoop(t, c, r)
	once(t, l)
	posts := c.posts
	for range 5 {
		c.now = c.now.Add(15 * time.Second)
		once(t, l)
	}
	if c.posts != posts {
		t.Errorf("%d writes in cycles in which nothing changed", c.posts-posts)
	}
}

func TestOwnershipIsRenewedBeforeItEnds(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	l := newLoop(t, c, r)
	for range 100 {
		once(t, l)
		c.now = c.now.Add(15 * time.Second)
		if o := r.owners[7]; !o.ExpiresAt.After(c.now) {
			t.Fatalf("at %v the record had ended at %v", c.now, o.ExpiresAt)
		}
	}
}

func TestJobThatStartsBetweenPollAndWriteIsLeftAlone(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	c.onRead = func(j *slurm.Job) { j.State.Base = "RUNNING" }
	rep := once(t, newLoop(t, c, r))
	if c.posts != 0 || len(rep.Results) != 1 || rep.Results[0].Outcome != policy.Skipped {
		t.Errorf("%d writes, results %+v", c.posts, rep.Results)
	}
	if len(r.owners) != 0 {
		t.Errorf("owner records %v of a job that was never touched", r.owners)
	}
}

func TestTroubleEndsTheBatch(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	for id := slurm.JobID(7); id < 12; id++ {
		c.submit(gpuJob(id, 2))
	}
	c.onWrite = func(int) error { return fmt.Errorf("slurmctld: %w", slurm.ErrBusy) }
	rep := once(t, newLoop(t, c, r))
	if c.posts != 1 {
		t.Errorf("%d writes to a slurmctld that backs off", c.posts)
	}
	for _, res := range rep.Results[1:] {
		if res.Outcome != policy.Skipped {
			t.Errorf("job %d: %s, want skipped", res.Change.Update.JobID, res.Outcome)
		}
	}
}

func TestRejectedJobIsNotTriedAgainEachCycle(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	c.onWrite = func(int) error { return fmt.Errorf("2018: %w", slurm.ErrRejected) }
	l := newLoop(t, c, r)
	passes(t, l, c, 10)
	if c.posts != 1 || r.owners[7].Shunned == "" {
		t.Errorf("%d writes in ten cycles, record %+v; want one write, then hands off", c.posts, r.owners[7])
	}
}

// A take-back that Slurm rejects is tried again, but not in each cycle.
func TestRejectedTakeBackIsTriedAgainInTime(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	l := newLoop(t, c, r)
	once(t, l)
	c.jobs[7].Held = true // hands off, so it must be given back
	rejects := true
	c.posts = 0
	c.onWrite = func(int) error {
		if rejects {
			return fmt.Errorf("2018: %w", slurm.ErrRejected)
		}
		return nil
	}
	passes(t, l, c, 10)
	if c.posts != 1 {
		t.Errorf("%d writes in ten cycles", c.posts)
	}
	rejects = false
	passes(t, l, c, 60)
	if got := c.jobs[7].ExcludedNodes; len(got) != 0 {
		t.Errorf("%v is still excluded a quarter of an hour after Slurm takes changes again", got)
	}
}

func TestNothingIsWrittenThatIsNotRecordedFirst(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	l := newLoop(t, c, r)
	r.failAt = "Begin"
	if _, err := l.Once(t.Context()); !errors.Is(err, errDisk) {
		t.Fatalf("error %v, want the recorder's", err)
	}
	if c.posts != 0 {
		t.Errorf("%d writes though the plan could not be recorded", c.posts)
	}
}

func TestStrandedByAChangeIsTakenBackAtOnce(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	c.onRead = func(j *slurm.Job) {
		if len(j.ExcludedNodes) > 0 {
			j.Reason, j.Priority = "BadConstraints", 0
		}
	}
	l := newLoop(t, c, r)
	once(t, l)
	if got := c.jobs[7].ExcludedNodes; len(got) != 0 {
		t.Fatalf("still excluded: %v", got)
	}
	c.onRead, c.jobs[7].Reason, c.jobs[7].Priority = nil, "Priority", 100
	posts := c.posts
	for range 3 {
		once(t, l)
	}
	if c.posts != posts {
		t.Errorf("the job was touched again after it had been made impossible")
	}
}

func TestCleanStopGivesEverythingBack(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	user := gpuJob(7, 2)
	user.ExcludedNodes, user.Nice = []string{"d"}, 3
	c.submit(user)
	l := newLoop(t, c, r)
	once(t, l)
	if _, err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if j := c.jobs[7]; !slices.Equal(j.ExcludedNodes, []string{"d"}) || j.Nice != 3 || c.factor[7] != 0 {
		t.Errorf("after the stop: exclude %v nice %d site factor %d", j.ExcludedNodes, j.Nice, c.factor[7])
	}
	if len(r.owners) != 0 {
		t.Errorf("owner records left: %v", r.owners)
	}
}

func TestOddRecordIsNotAJobThatIsGone(t *testing.T) {
	c, r := partlyBusy(), newFakeRecorder()
	c.submit(gpuJob(7, 2))
	l := newLoop(t, c, r)
	once(t, l)
	c.odd = map[slurm.JobID]bool{7: true}
	once(t, l)
	if len(r.owners) != 1 {
		t.Fatal("the owner record of a job that is only unreadable was dropped")
	}
	if _, err := l.Stop(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := c.jobs[7].ExcludedNodes; len(got) != 0 {
		t.Errorf("after the stop %v is still excluded", got)
	}
}

// world is a cluster whose users, jobs and daemon do what they like.
type world struct {
	t    *rapid.T
	c    *fakeCluster
	r    *fakeRecorder
	l    *Loop
	next slurm.JobID
	want map[slurm.JobID]slurm.Job // the users' own words
}

func (w *world) submit(*rapid.T) {
	if len(w.c.jobs) > 8 {
		return
	}
	w.next++
	j := gpuJob(w.next, rapid.IntRange(1, 8).Draw(w.t, "gpus"))
	if rapid.Bool().Draw(w.t, "open") {
		j.MaxNodes, j.Request = 0, slurm.GPURequest{PerJob: rapid.IntRange(1, 16).Draw(w.t, "gpus")}
	}
	j.Nice = int64(rapid.IntRange(0, 3).Draw(w.t, "nice"))
	if rapid.Bool().Draw(w.t, "excludes") {
		j.ExcludedNodes = []string{rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(w.t, "node")}
	}
	w.want[j.ID] = *w.c.submit(j)
}

func (w *world) anyJob() *slurm.Job {
	if len(w.c.jobs) == 0 {
		return nil
	}
	return w.c.jobs[rapid.SampledFrom(sortedKeys(w.c.jobs)).Draw(w.t, "job")]
}

func (w *world) userEdits(*rapid.T) {
	j := w.anyJob()
	if j == nil || !j.Pending() {
		return
	}
	list := []string{rapid.SampledFrom([]string{"a", "b", "c"}).Draw(w.t, "node")}
	if o := w.r.owners[j.ID]; policy.SameNodes(list, o.SetExclude) || policy.SameNodes(list, o.PrevExclude) {
		return // nobody could tell the user's word from rifling's
	}
	j.ExcludedNodes = list
	e := w.want[j.ID]
	e.ExcludedNodes = list
	w.want[j.ID] = e
}

func (w *world) startOrRequeue(*rapid.T) {
	j := w.anyJob()
	switch {
	case j == nil:
	case j.Pending():
		w.c.start(j.ID, "c")
	default:
		j.State.Base, j.Nodes, j.NodeGPUs = "PENDING", nil, nil
	}
}

func (w *world) end(*rapid.T) {
	if j := w.anyJob(); j != nil && j.Running() {
		delete(w.c.jobs, j.ID)
	}
}

func (w *world) cycle(*rapid.T) {
	w.c.now = w.c.now.Add(15 * time.Second)
	w.c.posts = 0
	fault := rapid.SampledFrom([]error{nil, nil, slurm.ErrBusy, slurm.ErrRejected, slurm.ErrStarted, errLost}).Draw(w.t, "fault")
	at := rapid.IntRange(1, 4).Draw(w.t, "at write")
	w.c.onWrite = func(n int) error {
		if n == at {
			return fault
		}
		return nil
	}
	if _, err := w.l.Once(w.t.Context()); err != nil {
		w.t.Fatal(err)
	}
	w.c.onWrite = nil
}

// crash kills the daemon between the record of a plan and its results, after
// some of the writes, and starts another.
func (w *world) crash(t *rapid.T) {
	w.c.posts = 0
	at := rapid.IntRange(1, 4).Draw(t, "crash at write")
	func() {
		defer func() { _ = recover() }()
		w.c.onWrite = func(n int) error {
			if n >= at {
				panic("kill -9")
			}
			return nil
		}
		_, _ = w.l.Once(t.Context()) // it may end before the kill
	}()
	w.c.onWrite = nil
	w.l = newLoop(t, w.c, w.r)
	w.l.Limits.MaxChanges = 100
}

// Whatever users do, whatever fails, and whenever the daemon dies: after a
// release every pending job is as its user left it.
func TestUsersWordIsWhatRemains(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{t: t, c: newFakeCluster(4, 8), r: newFakeRecorder(), next: 6, want: map[slurm.JobID]slurm.Job{}}
		w.c.rel = rapid.SampledFrom([]slurm.Release{w.c.rel, {Major: 22, Minor: 5, REST: 38}}).Draw(t, "release")
		w.l = newLoop(t, w.c, w.r)
		t.Repeat(map[string]func(*rapid.T){
			"submit": w.submit, "user edits": w.userEdits, "start or requeue": w.startOrRequeue,
			"end": w.end, "cycle": w.cycle, "crash": w.crash,
		})
		w.release()
	})
}

func (w *world) release() {
	owners, err := w.r.Owners(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	if _, err := Release(w.t.Context(), w.c, owners); err != nil {
		w.t.Fatal(err)
	}
	for id, j := range w.c.jobs {
		want := w.want[id]
		if w.c.factor[id] != 0 {
			w.t.Fatalf("site factor of job %d is %d after the release", id, w.c.factor[id])
		}
		if j.Pending() && (!policy.SameNodes(j.ExcludedNodes, want.ExcludedNodes) || j.Nice != want.Nice) {
			w.t.Fatalf("job %d: exclude %v nice %d, its user's word is %v and %d (record %+v)",
				id, j.ExcludedNodes, j.Nice, want.ExcludedNodes, want.Nice, w.r.owners[id])
		}
	}
}
