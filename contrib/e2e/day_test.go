// SPDX-License-Identifier: Apache-2.0

//go:build lab

package e2e

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"rifling/contrib/labrun"
	"rifling/contrib/workload"
	"rifling/slurm"
	"rifling/store"
)

// daySpeed is how many times faster than time the day passes.
const daySpeed = 40

// TestADayOfObserving lets riflingd observe a busy Slurm that runs 40 times
// faster than time, through a proxy that counts: not one POST may be sent, and
// decisions must be recorded all the while. RIFLING_E2E_DAY is the length by
// Slurm's clock; half an hour unless said otherwise.
func TestADayOfObserving(t *testing.T) {
	length, err := time.ParseDuration(cmp.Or(os.Getenv("RIFLING_E2E_DAY"), "30m"))
	if err != nil {
		t.Fatal(err)
	}
	ctx := within(t, length/daySpeed+5*time.Minute)
	name := fmt.Sprintf("day-%s-%d", theLab.Release, os.Getpid())
	lab, err := labrun.Start(ctx, labrun.Options{Release: theLab.Release, Name: name, Speed: daySpeed, Log: os.Stderr})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := lab.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	if err := lab.SetCompression(daySpeed); err != nil {
		t.Fatal(err)
	}
	proxy, err := labrun.NewProxy(lab.RESTURL)
	if err != nil {
		t.Fatal(err)
	}
	defer proxy.Close()
	d, err := lab.StartDaemon(ctx, labrun.DaemonOptions{Mode: "observe", URL: proxy.URL})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Remove()
	collectors, err := lab.StartCollectors(ctx, d, nil)
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	t.Cleanup(func() {
		if !stopped { // the test ended before its end
			_ = errors.Join(collectors.Stop(), d.Stop())
		}
	})
	// As many jobs as keep a queue, of a third of the time up to two hours: a list
	// of the generator holds about 5 GPU hours an hour of mean work. Each process
	// of a job costs, 40 times faster than time; so one node a job.
	// In a short day all come at once, or a machine that is slow to submit them
	// would never see a queue.
	work, bursts := min(2*time.Hour, length/3), 0
	if length < 2*time.Hour {
		bursts = 1
	}
	jobs, err := workload.Generate(1, workload.Options{
		Jobs: int(1.2 * float64(lab.Nodes*lab.GPUs) / 5 * float64(length) / float64(work)), Load: 1.2, MeanWork: work, MaxNodes: 1, Bursts: bursts,
	})
	if err != nil {
		t.Fatal(err)
	}
	campaign := &labrun.Campaign{Lab: lab, Jobs: jobs, Compression: daySpeed}
	began := clock(ctx, t, lab)
	live, stop := context.WithTimeout(ctx, length/daySpeed)
	defer stop()
	if err := campaign.Submit(live); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Fatal(err)
	}
	<-live.Done()
	passed := clock(ctx, t, lab).Sub(began)
	stopped = true
	if err := errors.Join(collectors.Stop(), d.Stop()); err != nil {
		t.Error(err)
	}
	checkObserved(t, d, proxy, passed, length)
}

func checkObserved(t *testing.T, d *labrun.Daemon, proxy *labrun.Proxy, passed, length time.Duration) {
	t.Helper()
	s, err := store.OpenReadOnly(d.Database)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	seen, err := s.Jobs(t.Context(), store.Filter{})
	if err != nil {
		t.Fatal(err)
	}
	decisions, acted := 0, 0
	for _, j := range seen {
		story, err := s.Story(t.Context(), j.ID)
		if err != nil {
			t.Fatal(err)
		}
		decisions += len(story.Decisions)
		if len(story.Changes) > 0 || story.Owner != nil {
			t.Errorf("job %d: changes %v or an owner record %v in observe mode", j.ID, story.Changes, story.Owner)
		}
		for _, dec := range story.Decisions {
			if dec.Action != "leave" {
				acted++
			}
		}
	}
	posts := proxy.Count(http.MethodPost) + proxy.Count(http.MethodPut) + proxy.Count(http.MethodDelete) + proxy.Count(http.MethodPatch)
	t.Logf("Slurm %s: %s by Slurm's clock, %d GETs, %d writes, %d jobs, %d decisions recorded, %d of them other than leave",
		theLab.Release, passed.Round(time.Minute), proxy.Count(http.MethodGet), posts, len(seen), decisions, acted)
	if posts != 0 {
		t.Errorf("%d writes in observe mode: %v", posts, proxy.Counts())
	}
	if passed < length*9/10 {
		t.Errorf("only %s passed, want %s", passed, length)
	}
	if acted == 0 {
		t.Error("nothing was decided that would have changed anything")
	}
}

// TestObservingDecidesAsSteering runs one cycle in each mode on the same
// waiting jobs and compares what was recorded.
func TestObservingDecidesAsSteering(t *testing.T) {
	sc := setScene(t)
	var got [2]map[string]string
	for i, mode := range []string{"observe", "steer"} {
		d, err := theLab.PrepareDaemon(labrun.DaemonOptions{Mode: mode, Config: map[string]any{
			"agent.epsilon": 0, "agent.epsilon-min": 0, "listen.address": "",
		}})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = d.Remove() })
		out, err := exec.CommandContext(within(t, time.Minute), theLab.Bin("riflingd"), "--config", d.ConfigFile, "--once").CombinedOutput()
		if err != nil {
			t.Fatalf("riflingd --once: %v\n%s", err, out)
		}
		got[i] = decided(t, d.Database, sc.own, sc.later)
	}
	if diff := gocmp.Diff(got[1], got[0]); diff != "" {
		t.Errorf("observing decides otherwise (-steering +observing):\n%s", diff)
	}
	if len(got[0]) != 2 {
		t.Errorf("decisions %v, want one for each waiting job", got[0])
	}
}

// decided returns the last decision on each job, written as one line.
func decided(t *testing.T, database string, ids ...string) map[string]string {
	t.Helper()
	s, err := store.OpenReadOnly(database)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := map[string]string{}
	for _, text := range ids {
		id, err := strconv.ParseUint(text, 10, 32)
		if err != nil {
			t.Fatal(err)
		}
		story, err := s.Story(t.Context(), slurm.JobID(id))
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range story.Decisions {
			out[text] = fmt.Sprintf("%s on %v offset %d in %q", d.Action, d.Candidates, d.Offset, d.State)
		}
	}
	return out
}

// clock reads the lab's time.
func clock(ctx context.Context, t *testing.T, lab *labrun.Lab) time.Time {
	t.Helper()
	out, err := lab.Exec(ctx, "date", "+%s")
	if err != nil {
		t.Fatal(err)
	}
	sec, err := strconv.ParseInt(strings.TrimSpace(out), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	return time.Unix(sec, 0)
}
