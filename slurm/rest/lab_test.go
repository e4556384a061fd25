// SPDX-License-Identifier: Apache-2.0

//go:build lab

package rest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

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
	l.t.Cleanup(func() { l.sh("root", "scancel -u alice -n rest-test,rest-het") })
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
func (l *lab) running(c *Client) slurm.JobID {
	l.t.Helper()
	id := l.submit("-n1 -t 20")
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

func TestLabUpdate(t *testing.T) {
	l := needLab(t)
	for _, way := range []string{"tcp", "socket"} {
		t.Run(way, func(t *testing.T) {
			l := &lab{t: t, env: l.env}
			l.cleanUp()
			c := l.client(way)
			ctx := context.Background()
			running := l.running(c)
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

func TestLabTokens(t *testing.T) {
	l := needLab(t)
	file := func(t *testing.T, text string) string {
		name := filepath.Join(t.TempDir(), "token")
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return name
	}
	short := strings.TrimPrefix(l.must("root", "scontrol token username=rifling lifespan=1"), "SLURM_JWT=")
	alice := strings.TrimPrefix(l.must("root", "scontrol token username=alice lifespan=600"), "SLURM_JWT=")
	time.Sleep(3 * time.Second)
	for _, tt := range []struct{ name, token, hint string }{
		{"expired", short, "ended at"},
		{"no JWT", "nonsense", "was refused"},
		{"signed by another", l.forge(), "was refused"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			c, err := New(Options{URL: l.env["LAB_REST_URL"], TokenFile: file(t, tt.token), User: "rifling"})
			if err != nil {
				t.Fatal(err)
			}
			_, err = c.Snapshot(context.Background())
			if !errors.Is(err, slurm.ErrAuth) || !strings.Contains(slurm.HintOf(err), tt.hint) {
				t.Errorf("%v (%s), want ErrAuth and %q", err, slurm.HintOf(err), tt.hint)
			}
			if strings.Contains(fmt.Sprint(err, slurm.HintOf(err)), tt.token) {
				t.Errorf("the error shows the token: %v", err)
			}
		})
	}
	t.Run("none", func(t *testing.T) {
		c, _ := New(Options{URL: l.env["LAB_REST_URL"]})
		if _, err := c.Snapshot(context.Background()); !errors.Is(err, slurm.ErrAuth) {
			t.Errorf("%v, want ErrAuth", err)
		}
	})
	t.Run("a plain user may not steer others", func(t *testing.T) {
		l := &lab{t: t, env: l.env}
		l.cleanUp()
		id := l.submit("--hold --gpus=1 -t 10")
		c, _ := New(Options{URL: l.env["LAB_REST_URL"], TokenFile: file(t, alice)})
		nice := int64(-50)
		if err := c.Update(context.Background(), slurm.Update{JobID: id, Nice: &nice}); !errors.Is(err, slurm.ErrDenied) {
			t.Errorf("%v, want ErrDenied", err)
		}
	})
}

// forge returns a JWT of the right shape with a signature by nobody.
func (l *lab) forge() string {
	raw, err := os.ReadFile(l.env["LAB_TOKEN_FILE"])
	if err != nil {
		l.t.Fatal(err)
	}
	parts := strings.Split(strings.TrimPrefix(strings.TrimSpace(string(raw)), "SLURM_JWT="), ".")
	return parts[0] + "." + parts[1] + "." + strings.Repeat("A", len(parts[2]))
}

var scontrolField = regexp.MustCompile(`(?:^|\s)([A-Z][A-Za-z:/]*)=`)

// scontrol reads "scontrol show job" as fields by record.
func (l *lab) scontrol() map[slurm.JobID]map[string]string {
	out := map[slurm.JobID]map[string]string{}
	for line := range strings.SplitSeq(l.must("root", "scontrol -o -d show job"), "\n") {
		at := scontrolField.FindAllStringSubmatchIndex(line, -1)
		f := map[string]string{}
		for i, m := range at {
			end := len(line)
			if i+1 < len(at) {
				end = at[i+1][0]
			}
			key := line[m[2]:m[3]]
			if _, seen := f[key]; !seen { // Nodes= comes again for each node
				f[key] = strings.TrimSpace(line[m[1]:end])
			}
		}
		if id, err := strconv.ParseUint(f["JobId"], 10, 32); err == nil {
			out[slurm.JobID(id)] = f
		}
	}
	return out
}

func TestLabScontrol(t *testing.T) {
	l := needLab(t)
	l.cleanUp()
	c := l.client("tcp")
	first := l.submit("--gpus=2 -t 10")
	for _, options := range []string{
		"-N2 --gpus-per-node=a100:1 -t 10", "-n3 --gpus-per-task=1 -t 10", "-N1 --gres=gpu:a100:2 -t 10",
		"-N1-3 --gpus=3 -t 10", "-N1-3 --gpus=12 -t 30", "--exclusive -N1 --gpus=1 -t 10", "--exclusive=user -N1 --gpus=1 -t 10",
		"-n1 -t 10", "--array=1-6%2 --gpus=1 -t 10", "--array=1-3 -N2 --gpus-per-node=8 -t 20", "--hold --gpus=1 -t 10",
		fmt.Sprintf("--dependency=afterany:%d --gpus=1 -t 10", first), fmt.Sprintf("--hold --dependency=afterok:%d --gpus=1", first),
		"--begin=now+3600 --gpus=1 -t 10", "--switches=1@5 -N2 --gpus=2 -t 10", "--nodelist=gpu03 --gpus=1 -t 10",
		"--exclude=gpu01,gpu02 --gpus=1 -t 10", "--gpus=1 -t UNLIMITED", "--gpus=1", "-p gpu,short --gpus=1 -t 5",
		"-N8 --gpus-per-node=8 -t 1-02:03:00 --nice=17 --comment hello", "--oversubscribe --gpus=1 -t 10",
		"--sockets-per-node=2 --gpus-per-socket=1 -t 10",
	} {
		if out, err := l.sh("alice", "cd /tmp && sbatch --parsable -J rest-test -o /dev/null "+options+" --wrap 'sleep 900'"); err != nil {
			t.Errorf("sbatch %s: %s", options, out)
		}
	}
	l.must("alice", `cd /tmp && printf '#!/bin/sh\nsleep 900\n' >rest.sh && sbatch -J rest-het -o /dev/null -t 10 -N1 --gpus=1 : -N1 --gpus=1 rest.sh && sbatch -J rest-test -o /dev/null -t 10 --gpus=1 rest.sh a b`)
	var differ map[string]string
	for range 6 {
		differ = map[string]string{}
		s, err := c.Snapshot(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		want := l.scontrol()
		compared := 0
		for id, f := range want {
			j := s.Job(id)
			if j == nil {
				differ[fmt.Sprint(id)] = "missing"
				continue
			}
			for key, pair := range fieldsOf(j, f) {
				compared++
				if pair[0] != pair[1] {
					differ[fmt.Sprintf("%d %s", id, key)] = fmt.Sprintf("%q, scontrol %q", pair[0], pair[1])
				}
			}
		}
		t.Logf("%d jobs, %d fields compared, %d differ", len(want), compared, len(differ))
		if len(differ) == 0 {
			return
		}
		time.Sleep(time.Second)
	}
	for _, key := range slices.Sorted(maps.Keys(differ)) {
		t.Errorf("%s: %s", key, differ[key])
	}
}

// fieldsOf pairs what the client decoded with what scontrol prints.
func fieldsOf(j *slurm.Job, f map[string]string) map[string][2]string {
	null := func(s string) string {
		if s == "(null)" || s == "N/A" || s == "Unknown" || s == "None" {
			return ""
		}
		return s
	}
	hosts := func(s string) string {
		list, _ := slurm.ExpandHosts(null(s))
		return strings.Join(list, ",")
	}
	when := func(at time.Time) string {
		if at.IsZero() {
			return ""
		}
		return at.UTC().Format("2006-01-02T15:04:05")
	}
	user, _, _ := strings.Cut(f["UserId"], "(")
	least, most, ranged := strings.Cut(f["NumNodes"], "-")
	if !ranged {
		most = least
	}
	limit := f["TimeLimit"]
	if limit == "Partition_Limit" {
		limit = "01:00:00"
	}
	got := "UNLIMITED"
	if !j.Unlimited {
		got = slurm.FormatDuration(j.TimeLimit)
	}
	dependency, _, _ := strings.Cut(null(f["Dependency"]), "(")
	out := map[string][2]string{
		"name":       {j.Name, f["JobName"]},
		"user":       {j.User, user},
		"account":    {j.Account, f["Account"]},
		"qos":        {j.QOS, f["QOS"]},
		"partition":  {j.Partition, f["Partition"]},
		"priority":   {fmt.Sprint(j.Priority), f["Priority"]},
		"nice":       {fmt.Sprint(j.Nice), f["Nice"]},
		"state":      {j.State.Base, f["JobState"]},
		"restarts":   {fmt.Sprint(j.Restarts), f["Restarts"]},
		"limit":      {got, limit},
		"submit":     {when(j.SubmitTime), null(f["SubmitTime"])},
		"eligible":   {when(j.EligibleTime), null(f["EligibleTime"])},
		"required":   {strings.Join(j.RequiredNodes, ","), hosts(f["ReqNodeList"])},
		"excluded":   {strings.Join(j.ExcludedNodes, ","), hosts(f["ExcNodeList"])},
		"nodes":      {strings.Join(j.Nodes, ","), hosts(f["NodeList"])},
		"least":      {fmt.Sprint(j.MinNodes), least},
		"cpus":       {fmt.Sprint(j.CPUs), f["NumCPUs"]},
		"tasks":      {fmt.Sprint(j.Tasks), f["NumTasks"]},
		"features":   {j.Features, null(f["Features"])},
		"comment":    {j.Comment, null(f["Comment"])},
		"dir":        {j.WorkDir, f["WorkDir"]},
		"array":      {fmt.Sprint(j.ArrayJobID), cmpOr(f["ArrayJobId"], "0")},
		"het":        {fmt.Sprint(j.Het), fmt.Sprint(f["HetJobId"] != "")},
		"held":       {fmt.Sprint(j.Held), fmt.Sprint(f["JobState"] == "PENDING" && f["Priority"] == "0" && f["Reason"] != "BadConstraints")},
		"dependency": {strings.SplitN(j.Dependency, "(", 2)[0], dependency},
		"reserved":   {j.Reservation, null(f["Reservation"])},
	}
	if reason := null(f["Reason"]); reason != strings.ReplaceAll(j.Description, " ", "_") {
		out["reason"] = [2]string{null(j.Reason), reason}
	}
	if tasks := f["NumTasks"]; tasks == "N/A" {
		out["tasks"] = [2]string{fmt.Sprint(j.Tasks), "0"}
	}
	if j.Pending() && j.MaxNodes > 0 {
		out["most"] = [2]string{fmt.Sprint(j.MaxNodes), most}
	}
	if j.ArrayTaskID >= 0 {
		out["task"] = [2]string{fmt.Sprint(j.ArrayTaskID), f["ArrayTaskId"]}
	} else {
		out["tasks string"] = [2]string{j.ArrayTaskString, f["ArrayTaskId"]}
	}
	switch over := f["OverSubscribe"]; {
	case f["Exclusive"] != "":
		out["exclusive"] = [2]string{fmt.Sprint(j.Exclusive), fmt.Sprint(f["Exclusive"] != "NO")}
	default:
		out["exclusive"] = [2]string{fmt.Sprint(j.Exclusive), fmt.Sprint(over == "NO" || over == "USER" || over == "MCS")}
	}
	for _, way := range []struct {
		key string
		n   int
	}{
		{"TresPerJob", j.Request.PerJob}, {"TresPerNode", j.Request.PerNode},
		{"TresPerTask", j.Request.PerTask}, {"TresPerSocket", j.Request.PerSocket},
	} {
		text := f[way.key]
		digits := text[strings.LastIndexAny(text, ":=")+1:]
		out[way.key] = [2]string{fmt.Sprint(way.n), cmpOr(digits, "0")}
	}
	if j.Running() && j.WantsGPU() {
		t, _ := slurm.ParseTRES(cmpOr(f["AllocTRES"], f["TRES"]))
		out["gpus"] = [2]string{fmt.Sprint(j.Total()), fmt.Sprint(t.GPUs())}
	}
	return out
}

func cmpOr(a, b string) string {
	if a == "" {
		return b
	}
	return a
}
