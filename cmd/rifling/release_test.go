// SPDX-License-Identifier: Apache-2.0

package main

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"rifling/policy"
	"rifling/slurm"
)

// owningSite has three jobs with something set: 1 pending, 2 running, 3 gone.
func owningSite(t *testing.T) *site {
	s := newSite(t)
	r := record(t0, pendingJob(1), pendingJob(2), pendingJob(3))
	var results []policy.Result
	for id := slurm.JobID(1); id <= 3; id++ {
		c := exclude(id, "gpu02", "gpu04")
		r.Changes = append(r.Changes, c)
		results = append(results, applied1(c))
	}
	s.cycle(r, results...)
	one, two := pendingJob(1), runningJob(2, "gpu01")
	one.ExcludedNodes, two.ExcludedNodes = []string{"gpu02", "gpu04"}, []string{"gpu02", "gpu04"}
	s.slurm.snap.Jobs = []slurm.Job{one, two}
	return s
}

func (s *site) owned() []slurm.JobID {
	s.t.Helper()
	st := s.writer()
	defer st.Close()
	owners, err := st.Owners(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	var out []slurm.JobID
	for _, o := range owners {
		out = append(out, o.JobID)
	}
	return out
}

func TestReleaseGivesJobsBack(t *testing.T) {
	s := owningSite(t)
	code, out, errs := s.run("release")
	if code != 0 || errs != "" {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	for id, want := range map[string]string{"1  ok": "excluded_nodes=gpu04, site_factor=+0", "2  ok": "site_factor=+0", "3  skipped": "gone from Slurm"} {
		if got := lines(out, id); !strings.Contains(got, want) {
			t.Errorf("line %q is %q, want %q in it", id, got, want)
		}
	}
	if !strings.Contains(out, "note: riflingd is running in mode steer") {
		t.Errorf("no warning that the daemon will set it anew:\n%s", out)
	}
	if d := cmp.Diff([]string{"gpu04"}, s.slurm.snap.Job(1).ExcludedNodes); d != "" {
		t.Errorf("exclude list of job 1 (-want +got):\n%s", d)
	}
	// The running job may come back requeued with its exclusions.
	if d := cmp.Diff([]slurm.JobID{2}, s.owned()); d != "" {
		t.Errorf("owned (-want +got):\n%s", d)
	}
	// Again: nothing more to write to job 1, and the history tells of it.
	if _, out, _ = s.run("explain", "1"); !strings.Contains(out, "by rifling release") {
		t.Errorf("the story does not tell of the release:\n%s", out)
	}
}

func TestReleaseLeavesAUsersNewerWord(t *testing.T) {
	s := owningSite(t)
	s.slurm.snap.Job(1).ExcludedNodes = []string{"gpu03"}
	if code, out, errs := s.run("release", "1"); code != 0 {
		t.Fatalf("exit %d, %q, %q", code, out, errs)
	}
	if d := cmp.Diff([]string{"gpu03"}, s.slurm.snap.Job(1).ExcludedNodes); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestReleaseOfNamedJobsLeavesTheOthers(t *testing.T) {
	s := owningSite(t)
	code, out, _ := s.run("release", "1", "99")
	if code != 0 || !strings.Contains(out, "99  ok       rifling has set nothing on it") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if d := cmp.Diff([]slurm.JobID{2, 3}, s.owned()); d != "" {
		t.Errorf("owned (-want +got):\n%s", d)
	}
}

func TestADryRunChangesNothing(t *testing.T) {
	s := owningSite(t)
	code, out, _ := s.run("release", "--dry-run")
	if code != 0 || !strings.Contains(lines(out, "1  would"), "excluded_nodes=gpu04") {
		t.Errorf("exit %d:\n%s", code, out)
	}
	if len(s.slurm.snap.Job(1).ExcludedNodes) != 2 || len(s.owned()) != 3 {
		t.Error("something was written")
	}
}

func TestReleaseThatFailsKeepsTheRecordAndSaysSo(t *testing.T) {
	s := owningSite(t)
	s.slurm.refuse[1] = slurm.ErrDenied
	code, out, errs := s.run("release")
	if code != 1 || errs != "" || !strings.Contains(lines(out, "1  failed"), "permission denied") ||
		!strings.Contains(out, "1 of 3 jobs could not be taken back") {
		t.Errorf("exit %d, stderr %q:\n%s", code, errs, out)
	}
	if d := cmp.Diff([]slurm.JobID{1, 2}, s.owned()); d != "" {
		t.Errorf("owned (-want +got):\n%s", d)
	}
}

func TestReleaseNeedsSlurm(t *testing.T) {
	s := owningSite(t)
	s.slurm.connect = slurm.WithHint(slurm.ErrUnreachable, "is slurmrestd running?")
	code, _, errs := s.run("release")
	if code != 1 || !strings.Contains(errs, "hint: is slurmrestd running?") || len(s.owned()) != 3 {
		t.Errorf("exit %d, %q", code, errs)
	}
}

func TestStaleTakesBackOnlyWhatOutlivedItsTime(t *testing.T) {
	tests := map[string]struct {
		slurmClock time.Duration // after t0
		silence    time.Duration // of the daemon
		owned      int
		say        string
	}{
		"alive and renewed":      {slurmClock: time.Minute, owned: 3, say: "nothing is stale"},
		"alive, but not renewed": {slurmClock: 11 * time.Minute, owned: 1},
		"silent for the TTL":     {slurmClock: time.Minute, silence: 11 * time.Minute, owned: 1},
		"silent for less":        {slurmClock: time.Minute, silence: 9 * time.Minute, owned: 3, say: "nothing is stale"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := owningSite(t)
			s.slurm.snap.TakenAt = t0.Add(tc.slurmClock)
			s.now = s.now.Add(tc.silence)
			code, out, errs := s.run("release", "--stale")
			if code != 0 || errs != "" || !strings.Contains(out, tc.say) {
				t.Errorf("exit %d, %q, %q", code, out, errs)
			}
			if n := len(s.owned()); n != tc.owned {
				t.Errorf("%d owned after it, want %d:\n%s", n, tc.owned, out)
			}
		})
	}
}

// The watchdog's part of the stranded-job case: the daemon died right after
// its write, and Slurm then called the job impossible.
func TestStaleTakesBackWhatSlurmCallsImpossible(t *testing.T) {
	strand := func(j *slurm.Job) { j.Reason, j.Priority = "BadConstraints", 0 }
	tests := map[string]struct {
		silence time.Duration
		what    func(*slurm.Job)
		back    bool
	}{
		"stranded, the daemon silent for 46 s":      {silence: 46 * time.Second, what: strand, back: true},
		"stranded, the daemon alive: it does so":    {silence: 10 * time.Second, what: strand},
		"priority 0 and not held":                   {silence: 46 * time.Second, what: func(j *slurm.Job) { j.Priority = 0 }, back: true},
		"held by its user: the time to live counts": {silence: 46 * time.Second, what: func(j *slurm.Job) { j.Priority, j.Held = 0, true }},
		"waits as before":                           {silence: 46 * time.Second, what: func(*slurm.Job) {}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := owningSite(t)
			tc.what(s.slurm.snap.Job(1))
			s.now = s.now.Add(tc.silence)
			if code, out, errs := s.run("release", "--stale"); code != 0 || errs != "" {
				t.Fatalf("exit %d, %q, %q", code, out, errs)
			}
			want := []string{"gpu02", "gpu04"}
			if tc.back {
				want = []string{"gpu04"}
			}
			if d := cmp.Diff(want, s.slurm.snap.Job(1).ExcludedNodes); d != "" {
				t.Errorf("exclude list (-want +got):\n%s", d)
			}
			st := s.writer()
			defer st.Close()
			owners, err := st.Owners(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if shunned := owners[0].Shunned != ""; shunned != tc.back {
				t.Errorf("record %+v: the next daemon must keep away from a job that was stranded", owners[0])
			}
		})
	}
}

func TestStaleBeforeTheFirstRunIsNoError(t *testing.T) {
	s := newSite(t)
	code, out, errs := s.run("release", "--stale")
	if code != 0 || errs != "" || !strings.Contains(out, "there is no database") {
		t.Errorf("exit %d, %q, %q", code, out, errs)
	}
}
