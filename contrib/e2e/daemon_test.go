// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/contrib/labrun"
	"rifling/slurm"
	"rifling/store"
)

// daemon starts riflingd; at the test's end it is stopped and, where the test
// failed, its last words are logged.
func daemon(t *testing.T, o labrun.DaemonOptions) *labrun.Daemon {
	t.Helper()
	config := labrun.Paced(1.0 / compression)
	// Exploring is for learning; here each decision must be the expected one.
	maps.Copy(config, map[string]any{"agent.epsilon": 0, "agent.epsilon-min": 0, "interval": "500ms", "limits.ttl": "1m", "limits.max-wait": "10m"})
	maps.Copy(config, o.Config)
	o.Config = config
	d, err := theLab.StartDaemon(within(t, 40*time.Second), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if d.Running() {
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
		}
		if t.Failed() {
			lines := strings.Split(strings.TrimSpace(d.Log()), "\n")
			t.Logf("riflingd's log ends:\n%s", strings.Join(lines[max(0, len(lines)-25):], "\n"))
		}
		if err := d.Remove(); err != nil {
			t.Error(err)
		}
	})
	return d
}

// scene is a full cluster, one GPU free on each node, and two jobs that wait in
// it. The first leaves its shape open and has wishes of its own; the second was
// submitted later and stands higher.
type scene struct {
	fillers    map[string]string // job by node
	avoid      string            // the node that the first job's user excludes
	own, later string            // jobs
}

func setScene(t *testing.T) scene {
	t.Helper()
	nodes := theLab.NodeNames()
	if len(nodes) < 8 {
		t.Skipf("needs a lab of 8 nodes, this one has %d", len(nodes))
	}
	// What an earlier test cancelled may still be completing.
	queue := func(ctx context.Context) (string, error) { return theLab.Exec(ctx, "squeue", "-h") }
	if _, err := labrun.Wait(within(t, time.Minute), "an empty queue", queue, func(out string) bool { return out == "" }); err != nil {
		t.Fatal(err)
	}
	s := scene{avoid: nodes[7], fillers: map[string]string{}}
	for _, n := range nodes {
		s.fillers[n] = submit(t, "dave", sleeper, "--job-name=filler", "--nodelist="+n, "--nodes=1",
			fmt.Sprintf("--gres=gpu:%d", theLab.GPUs-1), "--time=120", "--output=/dev/null")
	}
	for _, id := range s.fillers {
		waitJob(t, id, "filler to run", func(f labrun.Fields) bool { return f.State() == "RUNNING" })
	}
	request := []string{"--nodes=1-4", fmt.Sprintf("--gpus=%d", theLab.GPUs), "--time=30", "--output=/dev/null"}
	s.own = submit(t, "alice", sleeper, append(request, "--job-name=own", "--exclude="+s.avoid, "--nice=40", "--comment=please keep")...)
	time.Sleep(1100 * time.Millisecond) // submission times are whole seconds
	s.later = submit(t, "alice", sleeper, append(request, "--job-name=later")...)
	return s
}

// alone cancels the second job, so that the first is next.
func (s scene) alone(t *testing.T) {
	t.Helper()
	if err := theLab.Cancel(within(t, 30*time.Second), s.later); err != nil {
		t.Fatal(err)
	}
}

// free sets a node free.
func (s scene) free(t *testing.T, node string) {
	t.Helper()
	if err := theLab.Cancel(within(t, 30*time.Second), s.fillers[node]); err != nil {
		t.Fatal(err)
	}
}

// excluded returns a job's exclude list as scontrol shows it.
func excluded(t *testing.T, f labrun.Fields) []string {
	t.Helper()
	text := f["ExcNodeList"]
	if text == "(null)" {
		text = ""
	}
	nodes, err := slurm.ExpandHosts(text)
	if err != nil {
		t.Fatal(err)
	}
	return nodes
}

// steered waits until scontrol shows the first job narrowed beyond what its
// user wrote, and returns it.
func steered(t *testing.T, s scene) labrun.Fields {
	t.Helper()
	return waitJob(t, s.own, "exclusions by rifling", func(f labrun.Fields) bool { return len(excluded(t, f)) > 1 })
}

// offset returns the points that sprio shows for rifling's lever on this
// release: the site factor, or what nice adds.
func offset(t *testing.T, id string) string {
	t.Helper()
	m, err := theLab.Sprio(within(t, 30*time.Second), id)
	if err != nil {
		t.Fatal(err)
	}
	if older("23.11") {
		return m["NICE"]
	}
	return m["SITE"]
}

func TestSteerSetsExclusionsAndOffset(t *testing.T) {
	s := setScene(t)
	before := offset(t, s.own)
	daemon(t, labrun.DaemonOptions{Mode: "steer"})
	f := steered(t, s)
	t.Logf("scontrol show job %s: ExcNodeList=%s Priority=%s Nice=%s", s.own, f["ExcNodeList"], f["Priority"], f["Nice"])

	if got := excluded(t, f); !slices.Contains(got, s.avoid) {
		t.Errorf("the user's own exclusion of %s is gone: %v", s.avoid, got)
	} else if len(got) >= len(theLab.NodeNames())-1 {
		t.Errorf("fewer nodes are left than the job needs and one for slack: excluded %v", got)
	}
	after, err := labrun.Wait(within(t, time.Minute), "an offset in sprio", func(context.Context) (string, error) {
		return offset(t, s.own), nil
	}, func(v string) bool { return v != before })
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("sprio of job %s: offset lever %s, was %s", s.own, after, before)
	// First come, first served: the earlier job now leads the later one.
	leads := func(context.Context) ([2]string, error) {
		return [2]string{job(t, s.own)["Priority"], job(t, s.later)["Priority"]}, nil
	}
	_, err = labrun.Wait(within(t, 30*time.Second), "the earlier job to lead", leads, func(p [2]string) bool {
		return len(p[0]) > len(p[1]) || len(p[0]) == len(p[1]) && p[0] > p[1]
	})
	if err != nil {
		t.Error(err)
	}
}

// A node comes free that the decision did not name: Slurm by itself starts the
// job there; steered, the job waits and runs where it was meant to.
func TestJobRunsWhereDecided(t *testing.T) {
	running := func(f labrun.Fields) bool { return f.State() == "RUNNING" }
	t.Run("Slurm by itself", func(t *testing.T) {
		s := setScene(t)
		s.alone(t)
		other := theLab.NodeNames()[1]
		s.free(t, other)
		if f := waitJob(t, s.own, "start", running); f["NodeList"] != other {
			t.Errorf("without rifling the job runs on %s, not on %s that came free", f["NodeList"], other)
		}
	})
	t.Run("steered", func(t *testing.T) {
		s := setScene(t)
		// One decision stands for the whole test.
		d := daemon(t, labrun.DaemonOptions{Mode: "steer", Config: map[string]any{"interval": "2m", "limits.ttl": "10m"}})
		steered(t, s)
		decided := lastDecision(t, d, s.own)
		t.Logf("decided: %s, candidates %v: %s", decided.Action, decided.Candidates, decided.Reason)
		meant := decided.Candidates[0]
		i := slices.IndexFunc(theLab.NodeNames(), func(n string) bool { return n != s.avoid && !slices.Contains(decided.Candidates, n) })
		if i < 0 {
			t.Fatalf("the decision leaves out no node: %v", decided.Candidates)
		}
		other := theLab.NodeNames()[i]
		s.alone(t)
		s.free(t, other)
		time.Sleep(8 * time.Second) // the main scheduler runs every 5 s, backfill every 2 s
		if f := job(t, s.own); f.State() != "PENDING" {
			t.Fatalf("the job is %s on %s, which the decision did not name", f.State(), f["NodeList"])
		}
		s.free(t, meant)
		if f := waitJob(t, s.own, "start", running); f["NodeList"] != meant {
			t.Errorf("the job runs on %s, decided was %s", f["NodeList"], meant)
		}
	})
}

// lastDecision reads the newest decision on a job from the daemon's history.
func lastDecision(t *testing.T, d *labrun.Daemon, id string) *store.Decision {
	t.Helper()
	st, err := store.OpenReadOnly(d.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	n, err := strconv.ParseUint(id, 10, 32)
	if err != nil {
		t.Fatal(err)
	}
	story, err := st.Story(within(t, 10*time.Second), slurm.JobID(n))
	if err != nil {
		t.Fatal(err)
	}
	if story.Job.Decision == nil {
		t.Fatalf("no decision on job %s", id)
	}
	return story.Job.Decision
}

// volatile are fields that Slurm moves by itself while a job waits.
var volatile = []string{
	"Priority", "StartTime", "EndTime", "LastSchedEval", "SchedNodeList", "AccrueTime", "Reason", "Deadline",
	"PreemptEligibleTime", "SuspendTime", "Scheduler", "EligibleTime", "RunTime",
}

// words is a job's record without the volatile fields.
func words(t *testing.T, id string) labrun.Fields {
	t.Helper()
	f := job(t, id)
	for _, k := range volatile {
		delete(f, k)
	}
	return f
}

// Whatever ends rifling's work, each job's record in Slurm is afterwards what
// its user made it: own exclude list, nice, hold.
func TestUserValuesComeBack(t *testing.T) {
	endings := []struct {
		name string
		end  func(t *testing.T, d *labrun.Daemon)
	}{
		{"clean stop", func(t *testing.T, d *labrun.Daemon) {
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
		}},
		{"rifling release without the daemon", func(t *testing.T, d *labrun.Daemon) {
			d.Kill9()
			if out, err := d.Rifling(within(t, time.Minute), "release"); err != nil {
				t.Errorf("%v\n%s", err, out)
			}
		}},
		{"kill -9 and restart", func(t *testing.T, d *labrun.Daemon) {
			d.Kill9()
			if err := d.Start(within(t, 40*time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second) // some cycles, steering again
			if err := d.Stop(); err != nil {
				t.Error(err)
			}
		}},
		{"kill -9 and restart in observe mode", func(t *testing.T, d *labrun.Daemon) {
			d.Kill9()
			if err := d.Reconfigure(labrun.DaemonOptions{Mode: "observe"}); err != nil {
				t.Fatal(err)
			}
			if err := d.Start(within(t, 40*time.Second)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(3 * time.Second)
		}},
	}
	for _, e := range endings {
		t.Run(e.name, func(t *testing.T) {
			s := setScene(t)
			held := submit(t, "bob", sleeper, "--hold", "--job-name=held", "--gres=gpu:2", "--exclude="+s.avoid, "--nice=7", "--output=/dev/null")
			jobs := []string{s.own, s.later, held}
			before := map[string]labrun.Fields{}
			for _, id := range jobs {
				before[id] = words(t, id)
			}
			d := daemon(t, labrun.DaemonOptions{Mode: "steer"})
			steered(t, s)
			if diff := cmp.Diff(before[held], words(t, held)); diff != "" {
				t.Errorf("the held job was touched (-want +got):\n%s", diff)
			}
			e.end(t, d)
			for _, id := range jobs {
				if diff := cmp.Diff(before[id], words(t, id)); diff != "" {
					t.Errorf("job %s is not as its user left it (-want +got):\n%s", id, diff)
				}
				if !older("23.11") && job(t, id)["Priority"] != "0" {
					if got := offset(t, id); got != "0" {
						t.Errorf("job %s keeps the site factor %s", id, got)
					}
				}
			}
		})
	}
}
