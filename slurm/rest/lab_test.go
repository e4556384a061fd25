// SPDX-License-Identifier: Apache-2.0

//go:build lab

package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"rifling/slurm"
)

// These tests run against a real Slurm that contrib/lab/lab.sh brought up:
//
//	LAB_ENV_FILE=/var/lib/rifling-lab/24.11/lab.env go test -tags lab ./slurm/rest
//
// They submit jobs as alice, all named rest-*, and cancel them at the end.

type lab struct {
	t   testing.TB
	env map[string]string
}

func needLab(t testing.TB) *lab {
	t.Helper()
	file := os.Getenv("LAB_ENV_FILE")
	if file == "" {
		t.Skip("LAB_ENV_FILE names no lab: see contrib/lab/README.md")
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	l := &lab{t: t, env: map[string]string{}}
	for s := bufio.NewScanner(bytes.NewReader(text)); s.Scan(); {
		if key, value, ok := strings.Cut(s.Text(), "="); ok {
			l.env[key] = value
		}
	}
	return l
}

// client connects over TCP with a token, or over the unix socket without one.
func (l *lab) client(way string) *Client {
	l.t.Helper()
	o := Options{URL: l.env["LAB_REST_URL"], TokenFile: l.env["LAB_TOKEN_FILE"], User: l.env["LAB_JWT_USER"]}
	if way == "socket" {
		o = Options{URL: "unix://" + l.env["LAB_REST_SOCKET"]}
	}
	text, err := os.ReadFile(l.env["LAB_TOPOLOGY"])
	if err != nil {
		l.t.Fatal(err)
	}
	if o.Topology, err = slurm.ParseTopology(string(text)); err != nil {
		l.t.Fatal(err)
	}
	c, err := New(o)
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

// sh runs a command line in the lab.
func (l *lab) sh(user, line string) (string, error) {
	args := []string{"exec", "sh", "-c", line}
	if user != "root" {
		args = []string{"as", user, "sh", "-c", line}
	}
	cmd := exec.Command(filepath.Join("..", "..", "contrib", "lab", "lab.sh"), args...)
	cmd.Env = append(os.Environ(), "LAB="+l.env["LAB_NAME"], "SLURM="+l.env["LAB_RELEASE"])
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (l *lab) must(user, line string) string {
	l.t.Helper()
	out, err := l.sh(user, line)
	if err != nil {
		l.t.Fatalf("%s: %v\n%s", line, err, out)
	}
	return out
}

// submit submits a job as alice and returns its id.
func (l *lab) submit(options string) slurm.JobID {
	l.t.Helper()
	out := l.must("alice", "cd /tmp && sbatch --parsable -J rest-test -o /dev/null "+options+" --wrap 'sleep 900'")
	lines := strings.Split(out, "\n")
	n, err := strconv.ParseUint(lines[len(lines)-1], 10, 32)
	if err != nil {
		l.t.Fatalf("sbatch %s: %s", options, out)
	}
	return slurm.JobID(n)
}

func (l *lab) cleanUp() {
	l.t.Cleanup(func() {
		if out, err := l.sh("root", "scancel -u alice -n rest-test; scancel -u alice -n rest-het"); err != nil {
			l.t.Errorf("clean up: %v %s", err, out)
		}
	})
}

// eventually tries until f is content or ten seconds have passed.
func eventually(t testing.TB, what string, f func() error) {
	t.Helper()
	var err error
	for range 40 {
		if err = f(); err == nil {
			return
		}
		time.Sleep(250 * time.Millisecond)
	}
	t.Fatalf("%s: %v", what, err)
}

// running submits a job that starts at once.
func (l *lab) running(c *Client, options string) slurm.JobID {
	l.t.Helper()
	id := l.submit(options + " -t 20")
	eventually(l.t, "the job starts", func() error {
		if j, err := c.Job(context.Background(), id); err != nil || !j.Running() {
			return fmt.Errorf("%v %v %v", j.State, j.Reason, err)
		}
		return nil
	})
	return id
}

func TestLabSnapshot(t *testing.T) {
	l := needLab(t)
	for _, way := range []string{"tcp", "socket"} {
		t.Run(way, func(t *testing.T) {
			c := l.client(way)
			ctx := context.Background()
			s, err := c.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			if got := fmt.Sprintf("v0.0.%d", s.Release.REST); got != l.env["LAB_REST_VERSION"] {
				t.Errorf("speaks %s, want %s", got, l.env["LAB_REST_VERSION"])
			}
			if !strings.HasPrefix(s.Release.String(), l.env["LAB_RELEASE"]) || s.Cluster != l.env["LAB_CLUSTER"] {
				t.Errorf("release %v, cluster %q", s.Release, s.Cluster)
			}
			if len(s.Odd) > 0 {
				t.Errorf("odd records: %v", s.Odd)
			}
			nodes, _ := strconv.Atoi(l.env["LAB_NODES"])
			gpus, _ := strconv.Atoi(l.env["LAB_GPUS"])
			if len(s.Nodes) != nodes || s.Nodes[0].GPUs != gpus || s.Nodes[0].GPUType != "a100" || s.Nodes[0].Leaf != "leaf1" || s.Nodes[0].MemoryMB != 64000 {
				t.Errorf("nodes: %+v", s.Nodes)
			}
			p := s.Partition("gpu")
			if p == nil || !p.Up || len(p.Nodes) != nodes || p.MaxTime != 7*24*time.Hour || p.PriorityTier != 1 {
				t.Errorf("partition: %+v", p)
			}
			user, level, err := c.AdminLevel(ctx)
			if way == "tcp" && (err != nil || user != "rifling" || level != "Operator") {
				t.Errorf("AdminLevel: %q %q %v", user, level, err)
			}
			if err := c.Accounting(ctx); err != nil {
				t.Errorf("Accounting: %v", err)
			}
			clock, err := strconv.ParseInt(l.must("root", "date +%s"), 10, 64)
			d, err2 := c.Diag(ctx)
			if err != nil || err2 != nil || d.At.Unix() < clock || d.At.Unix() > clock+60 {
				t.Errorf("slurmctld's clock is %v, date in the lab before said %v (%v %v)", d.At, time.Unix(clock, 0), err, err2)
			}
		})
	}
}

// TestLabVersions reads the same cluster in every version that the server has.
func TestLabVersions(t *testing.T) {
	l := needLab(t)
	l.cleanUp()
	c := l.client("tcp")
	l.submit("--exclusive=user -N1-2 --gpus=2 -t 10 --begin=now+3hours")
	held := l.submit("--array=1-3 --gpus=1 -t 10 --hold")
	l.must("root", fmt.Sprintf("scontrol update jobid=%d nice=-7", held))
	l.submit("-n1 -t 10")
	first := mustSnapshot(t, c)
	for _, v := range Versions() {
		c := l.client("tcp")
		c.opt.Version = v
		if _, err := c.Connect(context.Background()); errors.Is(err, slurm.ErrUnknownVersion) {
			continue
		} else if err != nil {
			t.Fatal(err)
		}
		var diff string
		eventually(t, fmt.Sprintf("v0.0.%d tells the same", v), func() error {
			first = mustSnapshot(t, l.client("tcp"))
			s := mustSnapshot(t, c)
			if len(s.Odd) > 0 {
				return fmt.Errorf("odd: %v", s.Odd)
			}
			s.Jobs = slices.Clone(s.Jobs)
			for i := range s.Jobs {
				if i >= len(first.Jobs) {
					break
				}
				if v == 45 { // see exclusive
					s.Jobs[i].Exclusive = first.Jobs[i].Exclusive
				}
				if v < 42 {
					s.Jobs[i].Switches = first.Jobs[i].Switches
				}
			}
			diff = cmp.Diff(first, s, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(slurm.Snapshot{}, "TakenAt", "Release"), cmpopts.IgnoreFields(slurm.Partition{}, "Default"))
			if diff != "" {
				return errors.New(diff)
			}
			return nil
		})
		t.Logf("v0.0.%d tells the same of %d jobs", v, len(first.Jobs))
	}
}

// TestLabNoChange checks that a quiet cluster costs no full read of its jobs,
// and that each kind of change is seen.
func TestLabNoChange(t *testing.T) {
	l := needLab(t)
	l.cleanUp()
	c := l.client("tcp")
	ctx := context.Background()
	held := l.submit("--hold --gpus=1 -t 10")
	read := func() slurm.Job {
		t.Helper()
		s, err := c.Snapshot(ctx)
		if err != nil {
			t.Fatal(err)
		}
		if j := s.Job(held); j != nil {
			return *j
		}
		t.Fatalf("job %d is missing from %d jobs", held, len(s.Jobs))
		return slurm.Job{}
	}
	read()
	quiet := 0
	for range 8 {
		time.Sleep(1100 * time.Millisecond)
		before := c.Stats()
		read()
		quiet += c.Stats().NoChange - before.NoChange
	}
	t.Logf("%d of 24 lists were unchanged", quiet)
	if quiet == 0 {
		t.Error("no list was ever reported as unchanged")
	}
	for _, change := range []struct {
		line string
		seen func(slurm.Job) bool
	}{
		{"nice=33", func(j slurm.Job) bool { return j.Nice == 33 }},
		{"nice=-7", func(j slurm.Job) bool { return j.Nice == -7 }},
		{"excnodelist=gpu01", func(j slurm.Job) bool { return slices.Equal(j.ExcludedNodes, []string{"gpu01"}) }},
		{"timelimit=7", func(j slurm.Job) bool { return j.TimeLimit == 7*time.Minute }},
		{"comment=x", func(j slurm.Job) bool { return j.Comment == "x" }},
	} {
		l.must("root", fmt.Sprintf("scontrol update jobid=%d %s", held, change.line))
		if j := read(); !change.seen(j) {
			t.Errorf("%s is not seen at once: %+v", change.line, j)
		}
	}
}

// TestLabCacheIsTrue polls with one client through starts, ends, changes and
// recomputed priorities, and compares each poll with what a new client reads.
func TestLabCacheIsTrue(t *testing.T) {
	l := needLab(t)
	l.cleanUp()
	c := l.client("tcp")
	waiting := l.submit("-N" + l.env["LAB_NODES"] + " --gpus-per-node=" + l.env["LAB_GPUS"] + " -t 30")
	parked := l.submit("--begin=now+2hours --gpus=1 -t 10")
	changes := []string{
		fmt.Sprintf("scontrol update jobid=%d nice=3", parked), fmt.Sprintf("scontrol hold %d", waiting), "true", "true",
		"scontrol update nodename=gpu02 state=drain reason=test", fmt.Sprintf("scontrol update jobid=%d excnodelist=gpu03", parked),
		"true", "scontrol update nodename=gpu02 state=resume", fmt.Sprintf("scontrol release %d", waiting), "true",
		fmt.Sprintf("scancel %d", waiting), "true", "true", fmt.Sprintf("scontrol update jobid=%d nice=0", parked), "true",
	}
	for i := range 30 {
		l.must("root", changes[i%len(changes)]+" || true")
		if i%4 == 0 {
			l.sh("alice", "cd /tmp && sbatch -J rest-test -o /dev/null --gpus=1 -t 1 --wrap 'sleep 3'")
		}
		eventually(t, "cached and fresh agree", func() error {
			got := mustSnapshot(t, c)
			want := mustSnapshot(t, l.client("tcp"))
			if again := mustSnapshot(t, l.client("tcp")); !cmp.Equal(want.Jobs, again.Jobs, cmpopts.EquateEmpty()) {
				return errors.New("the cluster changes as it is read")
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty(), cmpopts.IgnoreFields(slurm.Snapshot{}, "TakenAt")); diff != "" {
				return fmt.Errorf("cache (-fresh +cached):\n%s", diff)
			}
			return nil
		})
		time.Sleep(2500 * time.Millisecond)
	}
	s := c.Stats()
	t.Logf("%d lists unchanged, %d read whole", s.NoChange, s.FullReads)
}

func TestLabUpdate(t *testing.T) {
	l := needLab(t)
	for _, way := range []string{"tcp", "socket"} {
		t.Run(way, func(t *testing.T) {
			l := &lab{t: t, env: l.env}
			l.cleanUp()
			c := l.client(way)
			ctx := context.Background()
			running := l.running(c, "-n1")
			id := l.submit("--begin=now+2hours --exclude=gpu08 --gpus=1 -t 10")
			array := l.submit("--begin=now+2hours --array=1-4%2 --gpus=1 -t 10")
			read := func(id slurm.JobID) slurm.Job {
				t.Helper()
				j, err := c.Job(ctx, id)
				if err != nil {
					t.Fatal(err)
				}
				return j
			}
			update := func(u slurm.Update) {
				t.Helper()
				if err := c.Update(ctx, u); err != nil {
					t.Fatalf("update %+v: %v", u, err)
				}
			}
			for _, job := range []slurm.JobID{id, array} {
				want := []string{"gpu01", "gpu02", "gpu08"}
				update(slurm.Update{JobID: job, ExcludedNodes: &want})
				if got := read(job).ExcludedNodes; !slices.Equal(got, want) {
					t.Errorf("job %d excludes %v, want %v", job, got, want)
				}
				update(slurm.Update{JobID: job, ExcludedNodes: &[]string{}})
				if got := read(job).ExcludedNodes; len(got) > 0 {
					t.Errorf("job %d still excludes %v", job, got)
				}
			}
			r := c.Release()
			for _, offset := range []int64{1000, -1000, 0} {
				before := read(id)
				if r.HasSiteFactor() {
					update(slurm.Update{JobID: id, SiteFactor: &offset})
				} else {
					update(slurm.Update{JobID: id, Nice: &offset})
					if got := read(id).Nice; got != offset {
						t.Errorf("nice is %d, want %d", got, offset)
					}
				}
				if offset > 0 && r.HasSiteFactor() {
					eventually(t, "priority rises", func() error {
						if got := read(id).Priority; got < before.Priority+offset-200 {
							return fmt.Errorf("%d, was %d", got, before.Priority)
						}
						return nil
					})
				}
			}
			one := int64(1)
			if err := c.Update(ctx, slurm.Update{JobID: id, SiteFactor: &one}); !r.HasSiteFactor() && !errors.Is(err, slurm.ErrUnsafe) {
				t.Errorf("site factor on 38: %v, want ErrUnsafe", err)
			}
			for _, tt := range []struct {
				name string
				u    slurm.Update
				want error
			}{
				{"a job that has started", slurm.Update{JobID: running, ExcludedNodes: &[]string{"gpu01"}}, slurm.ErrStarted},
				{"an unknown job", slurm.Update{JobID: 9999999, ExcludedNodes: &[]string{"gpu01"}}, slurm.ErrGone},
				{"an unknown node", slurm.Update{JobID: id, ExcludedNodes: &[]string{"nowhere"}}, slurm.ErrRejected},
				{"an unknown node for an array", slurm.Update{JobID: array, ExcludedNodes: &[]string{"nowhere"}}, slurm.ErrRejected},
			} {
				if err := c.Update(ctx, tt.u); !errors.Is(err, tt.want) {
					t.Errorf("%s: %v, want %v", tt.name, err, tt.want)
				}
			}
			l.arrayWithRunningTask(c)
			if _, err := c.Job(ctx, 9999999); !errors.Is(err, slurm.ErrGone) {
				t.Errorf("read an unknown job: %v, want ErrGone", err)
			}
			l.must("root", fmt.Sprintf("scancel %d", running))
			eventually(t, "the job ends", func() error {
				if err := c.Update(ctx, slurm.Update{JobID: running, ExcludedNodes: &[]string{"gpu01"}}); !errors.Is(err, slurm.ErrGone) {
					return fmt.Errorf("%v, want ErrGone", err)
				}
				return nil
			})
		})
	}
}

// TestLabImpossibleIsNotHeld excludes a node that the job cannot do without:
// slurmctld sets its priority to 0, which is not the user's hold.
func TestLabImpossibleIsNotHeld(t *testing.T) {
	l := needLab(t)
	l.cleanUp()
	c := l.client("tcp")
	ctx := context.Background()
	l.running(c, "--exclusive -N1")
	id := l.submit("-N" + l.env["LAB_NODES"] + " -t 5")
	if err := c.Update(ctx, slurm.Update{JobID: id, ExcludedNodes: &[]string{"gpu01"}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "slurmctld calls it impossible", func() error {
		j, err := c.Job(ctx, id)
		if j.Held {
			t.Fatalf("held: %+v", j)
		}
		if err != nil || j.Reason != "BadConstraints" {
			return fmt.Errorf("%s, priority %d, %v", j.Reason, j.Priority, err)
		}
		return nil
	})
	if err := c.Update(ctx, slurm.Update{JobID: id, ExcludedNodes: &[]string{}}); err != nil {
		t.Fatal(err)
	}
	eventually(t, "taking back recovers it", func() error {
		j, err := c.Job(ctx, id)
		if err != nil || j.Priority == 0 || j.Reason == "BadConstraints" {
			return fmt.Errorf("%s, priority %d, %v", j.Reason, j.Priority, err)
		}
		return nil
	})
}

// arrayWithRunningTask changes the pending tasks of an array of which one runs.
func (l *lab) arrayWithRunningTask(c *Client) {
	l.t.Helper()
	ctx := context.Background()
	id := l.submit("--array=1-4%1 -n1 -t 10")
	eventually(l.t, "one task starts", func() error {
		s, err := c.Snapshot(ctx)
		if err != nil {
			return err
		}
		for i := range s.Jobs {
			if s.Jobs[i].ArrayJobID == id && s.Jobs[i].Running() {
				return nil
			}
		}
		return fmt.Errorf("none of %d jobs", len(s.Jobs))
	})
	err := c.Update(ctx, slurm.Update{JobID: id, ExcludedNodes: &[]string{"gpu02"}})
	s := mustSnapshot(l.t, c)
	for i := range s.Jobs {
		j := &s.Jobs[i]
		if j.ArrayJobID != id {
			continue
		}
		if excluded := len(j.ExcludedNodes) > 0; excluded != j.Pending() {
			l.t.Errorf("task %d (%v) excludes %v after %v", j.ArrayTaskID, j.State, j.ExcludedNodes, err)
		}
	}
	l.t.Logf("array with a running task: %v", err)
}
