// SPDX-License-Identifier: Apache-2.0

//go:build lab

package sacct_test

import (
	"bufio"
	"bytes"
	"context"
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

	"rifling/slurm"
	"rifling/slurm/rest"
	"rifling/slurm/sacct"
)

// These tests run against a real Slurm that contrib/lab/lab.sh brought up:
//
//	LAB_ENV_FILE=/var/lib/rifling-lab/24.11/lab.env go test -tags lab ./slurm/sacct
//
// They submit jobs as alice, all named hist-*, and cancel them at the end.

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

// script is lab.sh, for this lab.
func (l *lab) script() string { return filepath.Join("..", "..", "contrib", "lab", "lab.sh") }

func (l *lab) sh(user, line string) (string, error) {
	args := []string{"exec", "sh", "-c", line}
	if user != "root" {
		args = []string{"as", user, "sh", "-c", line}
	}
	out, err := exec.Command(l.script(), args...).CombinedOutput()
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
func (l *lab) submit(options, wrap string) slurm.JobID {
	l.t.Helper()
	out := l.must("alice", "cd /tmp && sbatch --parsable -o /dev/null "+options+" --wrap "+wrap)
	lines := strings.Split(out, "\n")
	n, err := strconv.ParseUint(lines[len(lines)-1], 10, 32)
	if err != nil {
		l.t.Fatalf("sbatch %s: %s", options, out)
	}
	return slurm.JobID(n)
}

func (l *lab) client() *rest.Client {
	l.t.Helper()
	c, err := rest.New(rest.Options{URL: l.env["LAB_REST_URL"], TokenFile: l.env["LAB_TOKEN_FILE"], User: l.env["LAB_JWT_USER"]})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(c.Close)
	return c
}

func (l *lab) command() *sacct.Command {
	return &sacct.Command{Argv: []string{l.script(), "exec", "env", "SLURM_TIME_FORMAT=%s", "sacct"}}
}

// runs reads all of a range.
func (l *lab) runs(s sacct.Source, from, to time.Time) []slurm.PastJob {
	l.t.Helper()
	var out []slurm.PastJob
	err := s.PastJobs(context.Background(), from, to, slurm.PastSink{
		Run: func(j *slurm.PastJob) error { out = append(out, *j); return nil },
		Odd: func(reason, where string) { l.t.Errorf("odd: %s: %s", reason, where) },
	})
	if err != nil {
		l.t.Fatalf("%T: %v (hint: %s)", s, err, slurm.HintOf(err))
	}
	slices.SortFunc(out, func(a, b slurm.PastJob) int {
		return cmp2(int64(a.ID)-int64(b.ID), a.Submit.Unix()-b.Submit.Unix())
	})
	return out
}

func cmp2(a, b int64) int {
	switch {
	case a < 0 || a == 0 && b < 0:
		return -1
	case a == 0 && b == 0:
		return 0
	}
	return 1
}

// TestBothWaysAgree runs jobs of every kind and reads them by sacct and by
// slurmrestd, as a whole and cut by windows through the middle of runs.
func TestBothWaysAgree(t *testing.T) {
	l := needLab(t)
	t.Setenv("LAB", l.env["LAB_NAME"])
	t.Setenv("SLURM", l.env["LAB_RELEASE"])
	begin := time.Now().Add(-2 * time.Second)
	t.Cleanup(func() { l.sh("root", "scancel -u alice") })

	plain := l.submit("-J hist-plain --gres=gpu:a100:1 -t 5", "'sleep 8'")
	failed := l.submit("-J hist-failed", "'exit 3'")
	killed := l.submit("-J hist-killed", "'kill -9 $$'")
	array := l.submit("-J hist-array --gpus=1 -a 1-4%2 -t 1:00", "'sleep 2'")
	odd := l.submit(`-J "$(printf 'hist|a\037b\tc\nd \303\244 \377 "q"')" --gres=gpu:1`, `"$(printf 'sleep 1\ntrue')"`)
	again := l.submit("-J hist-requeue --requeue --gres=gpu:1", "'sleep 60'")
	het := l.submit("-J hist-het -n1 --gres=gpu:1 : -n1", "'sleep 2'")
	long := l.submit("-J hist-long --gres=gpu:1 -t UNLIMITED -p gpu", "'sleep 600'")
	time.Sleep(12 * time.Second)
	l.must("root", fmt.Sprintf("scontrol requeue %d; sleep 1; scancel %d", again, again))
	time.Sleep(8 * time.Second)

	client, command := l.client(), l.command()
	end := time.Now().Add(10 * time.Minute) // a requeued job is eligible in two minutes only
	bySacct, byREST := l.runs(command, begin, end), l.runs(client, begin, end)
	t.Logf("%s: %d runs by sacct, %d by slurmrestd %s", l.env["LAB_RELEASE"], len(bySacct), len(byREST), fmt.Sprint(client.Release()))
	if diff := cmp.Diff(toCompare(bySacct, client), toCompare(byREST, client)); diff != "" {
		t.Errorf("sacct and slurmrestd differ (-sacct +slurmrestd):\n%s", diff)
	}
	// The rows of steps, which a site with gres/gpuutil is asked for, change
	// nothing in the runs.
	steps := l.command()
	steps.Usage = true
	if diff := cmp.Diff(toCompare(bySacct, client), toCompare(l.runs(steps, begin, end), client)); diff != "" {
		t.Errorf("with and without steps (-without +with):\n%s", diff)
	}
	find := func(id slurm.JobID) (out []slurm.PastJob) {
		for _, j := range bySacct {
			if j.ID == id || j.ArrayJobID == id || j.HetJobID == id {
				out = append(out, j)
			}
		}
		return out
	}
	if j := find(plain); len(j) != 1 || j[0].GPUs != 1 || j[0].TimeLimit != 5*time.Minute || j[0].Elapsed < 7*time.Second || len(j[0].Nodes) != 1 {
		t.Errorf("plain: %+v", j)
	}
	if j := find(failed); len(j) != 1 || j[0].ExitCode != 3 || j[0].State.Base != "FAILED" {
		t.Errorf("failed: %+v", j)
	}
	if j := find(killed); len(j) != 1 || j[0].ExitCode != 128+9 {
		t.Errorf("killed: %+v", j)
	}
	if j := find(array); len(j) < 4 || j[0].ArrayTaskID < 1 {
		t.Errorf("array: %+v", j)
	}
	if j := find(odd); len(j) != 1 || !strings.Contains(j[0].Name, "hist|a\x1fb\tc\nd ä") {
		t.Errorf("odd name: %+v", j)
	}
	if j := find(again); len(j) != 2 || j[0].State.Base != "REQUEUED" || j[1].State.Base != "CANCELLED" || !j[1].Start.IsZero() {
		t.Errorf("requeued: %+v", j)
	}
	if j := find(het); len(j) != 2 {
		t.Errorf("het: %+v", j)
	}
	if j := find(long); len(j) != 1 || !j[0].Unlimited || j[0].Final() {
		t.Errorf("long: %+v", j)
	}

	// Windows through the middle of runs show the same runs, whole.
	cut := find(plain)[0].Start.Add(4 * time.Second)
	for name, s := range map[string]sacct.Source{"sacct": command, "slurmrestd": client} {
		late := l.runs(s, cut, end)
		i := slices.IndexFunc(late, func(j slurm.PastJob) bool { return j.ID == plain })
		if i < 0 {
			t.Errorf("%s: a window that begins within a run does not show it", name)
			continue
		}
		if got, want := late[i].Start, find(plain)[0].Start; !got.Equal(want) {
			t.Errorf("%s: the run begins at %s in a window, at %s as a whole", name, got, want)
		}
		if late[i].Elapsed != find(plain)[0].Elapsed {
			t.Errorf("%s: the run took %s in a window, %s as a whole", name, late[i].Elapsed, find(plain)[0].Elapsed)
		}
	}
}

// toCompare leaves out what a way does not tell, and what goes on.
func toCompare(in []slurm.PastJob, c *rest.Client) []slurm.PastJob {
	out := slices.Clone(in)
	for i := range out {
		j := &out[i]
		if c.Release().REST < 40 {
			// v0.0.38 has no submit line, says SUCCESS of every exit code that is no
			// signal's, and null for a limit that is none.
			j.Command, j.Unlimited = "", false
			if j.ExitCode < 128 {
				j.ExitCode = 0
			}
		}
		if !j.Final() {
			j.Elapsed = 0
		}
		// sacct writes ` for " and ? for bytes that are no UTF-8.
		j.Name, j.Command = plainText(j.Name), plainText(j.Command)
	}
	return out
}

func plainText(s string) string {
	return strings.NewReplacer("`", `"`, "?", "\uFFFD").Replace(s)
}

func TestNoDatabase(t *testing.T) {
	l := needLab(t)
	t.Setenv("LAB", l.env["LAB_NAME"])
	t.Setenv("SLURM", l.env["LAB_RELEASE"])
	// A copy of the configuration that leads to a slurmdbd which is not there.
	l.must("root", `mkdir -p /tmp/nodbd && cp -r /lab/etc/. /tmp/nodbd/ && echo AccountingStoragePort=1 >> /tmp/nodbd/slurm.conf`)
	c := &sacct.Command{Argv: []string{l.script(), "exec", "env", "SLURM_TIME_FORMAT=%s", "SLURM_CONF=/tmp/nodbd/slurm.conf", "sacct"}}
	err := c.PastJobs(context.Background(), time.Now().Add(-time.Hour), time.Now(), slurm.PastSink{
		Run: func(*slurm.PastJob) error { return nil }, Odd: func(string, string) {},
	})
	if err == nil || slurm.HintOf(err) == "" {
		t.Errorf("sacct without slurmdbd: %v (hint: %s)", err, slurm.HintOf(err))
	}
	t.Logf("%v\nhint: %s", err, slurm.HintOf(err))
}
