// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

// told returns what a release tells of a snapshot.
func told(s *slurm.Snapshot) *slurm.Snapshot {
	out := *s
	out.Jobs = slices.Clone(s.Jobs)
	for i := range out.Jobs {
		j := &out.Jobs[i]
		if s.Release.REST < 40 {
			j.Cron = false
		}
		if s.Release.REST < 42 {
			j.Switches = 0
		}
		if j.Pending() {
			j.EndTime = time.Time{}
		}
	}
	out.Partitions = slices.Clone(s.Partitions)
	for i := range out.Partitions {
		if s.Release.REST >= 40 && s.Release.REST < 43 {
			out.Partitions[i].Default = false
		}
	}
	return &out
}

var sameSnapshot = cmp.Options{
	cmpopts.EquateEmpty(),
	cmpopts.IgnoreFields(slurm.Node{}, "Leaf"), // by Options.Topology
}

func TestSnapshotReadsWhatIsThere(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		want := queue(r).Obj()
		c, _ := client(t, slurmtest.NewServer(t, want), Options{})
		if diff := cmp.Diff(told(want), mustSnapshot(t, c), sameSnapshot); diff != "" {
			t.Errorf("snapshot (-want +got):\n%s", diff)
		}
	})
}

// drawJob is any job that the builders can make.
func drawJob(t *rapid.T, id slurm.JobID) *slurmtest.JobBuilder {
	b := slurmtest.Job(id).
		User(rapid.SampledFrom([]string{"alice", "bob", "carol"}).Draw(t, "user")).
		Priority(rapid.Int64Range(1, 1<<32-3).Draw(t, "priority")).
		Nice(rapid.Int64Range(-1<<31+3, 1<<31-3).Draw(t, "nice")).
		Switches(rapid.IntRange(0, 3).Draw(t, "switches")).
		TimeLimit(time.Duration(rapid.IntRange(1, 1<<20).Draw(t, "minutes")) * time.Minute)
	if rapid.Bool().Draw(t, "exclusive") {
		b.Exclusive()
	}
	b.Mem(rapid.Int64Range(0, 1<<20).Draw(t, "memory"))
	n, way := rapid.IntRange(1, 16).Draw(t, "gpus"), rapid.IntRange(0, 3).Draw(t, "way")
	if way < 3 && rapid.Bool().Draw(t, "type") {
		b.GPUType("a100")
	}
	switch way {
	case 0:
		b.GPUs(n)
	case 1:
		b.GPUsPerNode(n).Nodes(2, 2)
	case 2:
		b.GPUsPerTask(n, 3)
	}
	switch rapid.IntRange(0, 9).Draw(t, "kind") {
	case 0:
		b.Held()
	case 1:
		b.BadConstraints()
	case 2:
		b.Array("1-9%3")
	case 3:
		b.Exclude("gpu01", "gpu02", "gpu07")
	case 4:
		b.Running("gpu02", "gpu03")
	case 5:
		b.Unlimited()
	case 6:
		b.Cron().Restarts(4)
	case 7:
		b.Het()
	case 8:
		b.Require("gpu05").Features("nvlink")
	}
	return b
}

// TestSnapshotKeepsEveryJob draws clusters, lets the fake server write them in
// each release's shapes, and reads them back.
func TestSnapshotKeepsEveryJob(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		rapid.Check(t, func(rt *rapid.T) {
			b := slurmtest.Snapshot().Release(r).Nodes("gpu[01-08]", 16)
			for id := range rapid.IntRange(1, 6).Draw(rt, "jobs") {
				b.Jobs(drawJob(rt, slurm.JobID(id+1)))
			}
			want := b.Obj()
			c, _ := client(t, slurmtest.NewServer(t, want), Options{})
			if diff := cmp.Diff(told(want), mustSnapshot(t, c), sameSnapshot); diff != "" {
				rt.Fatalf("snapshot (-want +got):\n%s", diff)
			}
		})
	})
}

func TestNoChangeKeepsTheQueue(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, _ := client(t, srv, Options{})
		first := mustSnapshot(t, c)
		srv.Advance(10 * time.Second)
		mustSnapshot(t, c)
		for range 3 {
			srv.Advance(10 * time.Second)
			before := c.Stats()
			s := mustSnapshot(t, c)
			if diff := cmp.Diff(first.Jobs, s.Jobs, cmpopts.EquateEmpty()); diff != "" {
				t.Fatalf("jobs (-first +later):\n%s", diff)
			}
			if len(s.Nodes) != 8 || len(s.Partitions) != 1 {
				t.Fatalf("%d nodes, %d partitions", len(s.Nodes), len(s.Partitions))
			}
			want := 3
			if r.REST < 45 {
				want = 2 // nodes are read whole
			}
			if got := c.Stats().NoChange - before.NoChange; got != want {
				t.Errorf("%d lists unchanged, want %d", got, want)
			}
		}
		if s := mustSnapshot(t, c); s.TakenAt != slurmtest.Now.Add(40*time.Second) {
			t.Errorf("taken at %v, want slurmctld's clock", s.TakenAt)
		}
	})
}

// TestEveryChangeIsSeen changes the cluster in the same second as the last
// poll, and later.
func TestEveryChangeIsSeen(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		for _, pause := range []time.Duration{0, time.Second, time.Minute} {
			srv := slurmtest.NewServer(t, queue(r).Obj())
			c, _ := client(t, srv, Options{})
			mustSnapshot(t, c)
			srv.Advance(pause)
			srv.Change(func(s *slurm.Snapshot) { s.Job(3).Priority = 77; s.Node("gpu04").State.Flags = []string{"DRAIN"} })
			s := mustSnapshot(t, c)
			if s.Job(3).Priority != 77 || s.Node("gpu04").Usable() {
				t.Errorf("after %v: priority %d, node %v", pause, s.Job(3).Priority, s.Node("gpu04").State)
			}
			srv.Advance(pause)
			srv.Run(3, "gpu02", "gpu03")
			srv.Remove(5)
			s = mustSnapshot(t, c)
			if !s.Job(3).Running() || s.Job(5) != nil || s.Node("gpu02").GPUsUsed == 0 {
				t.Errorf("after %v: %+v", pause, s.Job(3))
			}
		}
	})
}

func TestQueueThatEmptiesIsEmpty(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, _ := client(t, srv, Options{})
		mustSnapshot(t, c)
		srv.Advance(time.Minute)
		srv.Change(func(s *slurm.Snapshot) { s.Jobs = nil })
		if s := mustSnapshot(t, c); len(s.Jobs) != 0 {
			t.Errorf("%d jobs, want none", len(s.Jobs))
		}
	})
}

// TestEveryVersionTakesUpdateTime: v0.0.38 reads plain seconds only, v0.0.40
// and 41 refuse them.
func TestEveryVersionTakesUpdateTime(t *testing.T) {
	for _, r := range []slurm.Release{release(22, 5, 8), release(23, 11, 5), release(24, 5, 3), release(24, 11, 5), release(25, 11, 0)} {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, _ := client(t, srv, Options{})
		mustSnapshot(t, c)
		srv.Advance(time.Minute)
		mustSnapshot(t, c)
		srv.Advance(time.Minute)
		mustSnapshot(t, c)
		if s := c.Stats(); len(s.Errors) > 0 || s.NoChange < 2 {
			t.Errorf("%v: %+v", r, s)
		}
	}
	t.Run("a release that refuses it", func(t *testing.T) {
		srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
		srv.Fail(slurmtest.Fault{Path: "update_time", Status: 422, Number: 9202, Times: -1})
		c, _ := client(t, srv, Options{})
		mustSnapshot(t, c)
		srv.Advance(time.Minute)
		if s := mustSnapshot(t, c); len(s.Jobs) != 5 {
			t.Errorf("%d jobs", len(s.Jobs))
		}
	})
}

// TestClockThatJumps sets slurmctld's clock back, as a backup controller or an
// administrator may: the conditional reads mean nothing then.
func TestClockThatJumps(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	c, _ := client(t, srv, Options{})
	mustSnapshot(t, c)
	srv.Advance(-time.Hour)
	srv.Change(func(s *slurm.Snapshot) { s.Job(3).Priority = 77 })
	if got := mustSnapshot(t, c).Job(3).Priority; got != 77 {
		t.Errorf("priority %d, want the new one", got)
	}
}

func TestListsAreReadWholeFromTimeToTime(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	c, _ := client(t, srv, Options{})
	mustSnapshot(t, c)
	srv.Advance(fullEvery)
	before := c.Stats().FullReads
	mustSnapshot(t, c)
	if got := c.Stats().FullReads - before; got != 3 {
		t.Errorf("%d lists read whole, want 3", got)
	}
}

// TestOddRecordIsLeftOut corrupts one record at a time.
func TestOddRecordIsLeftOut(t *testing.T) {
	const good = `{"job_id":1,"job_state":["PENDING"]}`
	for _, tt := range []struct{ name, record, odd string }{
		{"no id", `{"job_state":["PENDING"]}`, "jobs: job_id: missing"},
		{"no state", `{"job_id":7}`, "jobs: job_state: missing"},
		{"a list for a job", `[]`, "jobs: not an object"},
		{"a word for a number", `{"job_id":7,"job_state":"PENDING","priority":"high"}`, "jobs: priority: not a number"},
		{"an object without a number", `{"job_id":7,"job_state":"PENDING","priority":{}}`, "jobs: priority: not a number object"},
		{"a truncated request", `{"job_id":7,"job_state":"PENDING","tres_per_node":"gpu:h100:1,shard:h10"}`, `jobs: tres_per_node: gres "shard:h10": no count`},
		{"a broken host list", `{"job_id":7,"job_state":"PENDING","excluded_nodes":"gpu[01-"}`, ""},
		{"a negative count", `{"job_id":7,"job_state":"PENDING","node_count":-5}`, "jobs: node_count: out of range"},
		{"a time in another age", `{"job_id":7,"job_state":"PENDING","submit_time":99999999999999}`, "jobs: submit_time: out of range"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
			srv.Fail(slurmtest.Fault{Path: "/jobs", Times: -1, Body: `{"jobs":[` + good + `,` + tt.record + `,{"job_id":9,"job_state":["RUNNING","EXPEDITING"]}],"errors":[]}`})
			c, _ := client(t, srv, Options{})
			s := mustSnapshot(t, c)
			if len(s.Jobs) != 2 || s.Job(1) == nil || s.Job(9) == nil {
				t.Errorf("jobs %+v, want 1 and 9", s.Jobs)
			}
			if len(s.Odd) != 1 || tt.odd != "" && s.Odd[tt.odd] != 1 {
				t.Errorf("odd %v, want %q", s.Odd, tt.odd)
			}
		})
	}
}

func TestOddKindsAreBounded(t *testing.T) {
	var records []string
	for i := range 3 * maxOdd {
		records = append(records, fmt.Sprintf(`{"job_id":%d,"job_state":"PENDING","tres_per_job":"gpu:x:y%d:z"}`, i+1, i))
	}
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	srv.Fail(slurmtest.Fault{Path: "/jobs", Body: `{"jobs":[` + strings.Join(records, ",") + `]}`})
	c, _ := client(t, srv, Options{})
	s := mustSnapshot(t, c)
	total := 0
	for _, n := range s.Odd {
		total += n
	}
	if len(s.Odd) != maxOdd+1 || total != 3*maxOdd || len(s.Jobs) != 0 {
		t.Errorf("%d kinds, %d records, %d jobs", len(s.Odd), total, len(s.Jobs))
	}
}

// TestFailedPollIsNoQueue checks that what is no answer is an error, and that
// the next good poll is right again.
func TestFailedPollIsNoQueue(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault slurmtest.Fault
		want  error
	}{
		{"half a body", slurmtest.Fault{Half: true}, slurm.ErrUnreachable},
		{"connection dropped, again and again", slurmtest.Fault{Drop: true, Times: 2}, slurm.ErrUnreachable},
		{"half a body that claims to be whole", slurmtest.Fault{Body: `{"jobs":[{"job_id":1`}, slurm.ErrUnreachable},
		{"a login page", slurmtest.Fault{Body: "<html>log in</html>", ContentType: "text/html"}, slurm.ErrUnreachable},
		{"no list", slurmtest.Fault{Body: `{"errors":[]}`, Times: 2}, slurm.ErrUnreachable},
		{"null for a list", slurmtest.Fault{Body: `{"jobs":null,"errors":[]}`, Times: 2}, slurm.ErrUnreachable},
		{"errors beside an empty list and 200", slurmtest.Fault{Status: 200, Text: "Something is wrong", Times: 2}, slurm.ErrRejected},
		{"expired token", slurmtest.Fault{Status: 511, Number: 1007, Text: "Protocol authentication error"}, slurm.ErrAuth},
		{"slurmctld backs off", slurmtest.Fault{Status: 502, Number: 1804}, slurm.ErrBusy},
		{"gateway", slurmtest.Fault{Status: 504, Body: "upstream timed out", ContentType: "text/plain"}, slurm.ErrBusy},
		{"rate limit", slurmtest.Fault{Status: 429, Body: "slow down", ContentType: "text/plain"}, slurm.ErrBusy},
		{"plain 500", slurmtest.Fault{Status: 500, Number: -1, Text: "Unspecified error"}, slurm.ErrBusy},
		{"moved", slurmtest.Fault{Status: 302, Body: "elsewhere", ContentType: "text/plain", Times: 2}, slurm.ErrRejected},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
			c, _ := client(t, srv, Options{MaxRetries: -1})
			mustSnapshot(t, c)
			srv.Advance(time.Minute)
			srv.Change(func(s *slurm.Snapshot) { s.Job(3).Priority = 77 })
			tt.fault.Path = "/jobs"
			srv.Fail(tt.fault)
			s, err := c.Snapshot(t.Context())
			if s != nil || !errors.Is(err, tt.want) {
				t.Fatalf("%v, %s; want %v", s, fmtErr(err), tt.want)
			}
			if got := mustSnapshot(t, c).Job(3).Priority; got != 77 {
				t.Errorf("priority %d after the fault, want 77", got)
			}
		})
	}
}

func TestJobIsReadAfresh(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Jobs(slurmtest.Job(11).GPUs(1).Task(4, 1).Running("gpu05")).Obj())
		c, _ := client(t, srv, Options{})
		for _, id := range []slurm.JobID{2, 4, 11} {
			j, err := c.Job(t.Context(), id)
			if err != nil || j.ID != id {
				t.Errorf("job %d: %+v, %v", id, j, err)
			}
		}
		if _, err := c.Job(t.Context(), 99); !errors.Is(err, slurm.ErrGone) {
			t.Errorf("unknown job: %s, want ErrGone", fmtErr(err))
		}
	})
}

// TestOddJobIsNotGone matters to whoever owns changes on it.
func TestOddJobIsNotGone(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	srv.Fail(slurmtest.Fault{Path: "/job/7", Body: `{"jobs":[{"job_id":7,"job_state":["PENDING"],"tres_per_job":"gpu:a:b:c"}]}`})
	c, _ := client(t, srv, Options{})
	if _, err := c.Job(t.Context(), 7); err == nil || errors.Is(err, slurm.ErrGone) {
		t.Errorf("%v, want an error that is not ErrGone", err)
	}
}
