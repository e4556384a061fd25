// SPDX-License-Identifier: Apache-2.0

package rest

import (
	"errors"
	"net/http"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"rifling/slurm"
	"rifling/slurm/slurmtest"
)

func TestUpdateTakesEffectAndIsTakenBack(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, _ := client(t, srv, Options{})
		before := mustSnapshot(t, c).Job(2)
		lists := [][]string{{"gpu01", "gpu02", "gpu03", "gpu08"}, {"gpu08"}, {}}
		for _, want := range lists {
			if err := c.Update(t.Context(), slurm.Update{JobID: 2, ExcludedNodes: &want}); err != nil {
				t.Fatal(fmtErr(err))
			}
			if got := mustSnapshot(t, c).Job(2).ExcludedNodes; !slices.Equal(got, want) {
				t.Errorf("excludes %v, want %v", got, want)
			}
		}
		for _, offset := range []int64{500, -500, 0} {
			u := slurm.Update{JobID: 2, SiteFactor: &offset}
			if !r.HasSiteFactor() {
				u = slurm.Update{JobID: 2, Nice: ptr(-offset)}
			}
			if err := c.Update(t.Context(), u); err != nil {
				t.Fatal(fmtErr(err))
			}
			j := mustSnapshot(t, c).Job(2)
			if j.Priority != before.Priority+offset {
				t.Errorf("priority %d, want %d", j.Priority, before.Priority+offset)
			}
			if !r.HasSiteFactor() && j.Nice != -offset {
				t.Errorf("nice %d, want %d", j.Nice, -offset)
			}
		}
		if got := c.Stats().Posts; got != 6 || len(srv.Posts()) != 6 {
			t.Errorf("%d posts counted, %d received, want 6", got, len(srv.Posts()))
		}
	})
}

func TestUpdateRefusedBeforeItIsSent(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2205).Obj())
	c, _ := client(t, srv, Options{})
	for name, u := range map[string]slurm.Update{
		"site factor on v0.0.38":     {JobID: 2, SiteFactor: ptr(int64(5))},
		"nice beyond its range":      {JobID: 2, Nice: ptr(int64(1 << 31))},
		"nice that reads as NO_VAL":  {JobID: 2, Nice: ptr(int64(1<<31 - 2))},
		"nice below its range":       {JobID: 2, Nice: ptr(int64(-1 << 31))},
		"no job":                     {Nice: ptr(int64(1))},
		"mixed with a good exclude ": {JobID: 2, SiteFactor: ptr(int64(5)), ExcludedNodes: &[]string{"gpu01"}},
	} {
		if err := c.Update(t.Context(), u); !errors.Is(err, slurm.ErrUnsafe) {
			t.Errorf("%s: %s, want ErrUnsafe", name, fmtErr(err))
		}
	}
	if err := c.Update(t.Context(), slurm.Update{JobID: 2}); err != nil {
		t.Errorf("empty update: %v", err)
	}
	if n := len(srv.Posts()); n != 0 {
		t.Errorf("%d posts, want none", n)
	}
}

// TestUpdateIsSentAgainOnlyWhenItCannotHaveArrived is about changes that must
// not be made twice, or behind the caller's back.
func TestUpdateIsSentAgainOnlyWhenItCannotHaveArrived(t *testing.T) {
	for _, tt := range []struct {
		name  string
		fault slurmtest.Fault
		again bool
		want  error
	}{
		{"rate limit", slurmtest.Fault{Status: 429, Body: "slow down", ContentType: "text/plain"}, true, nil},
		{"slurmrestd overloaded", slurmtest.Fault{Status: 503, Body: "busy", ContentType: "text/plain"}, true, nil},
		{"slurmctld not reached", slurmtest.Fault{Status: 502, Number: 1800}, true, nil},
		{"slurmctld backs off", slurmtest.Fault{Status: 502, Number: 1804}, true, nil},
		{"answer of slurmctld lost", slurmtest.Fault{Status: 504, Number: 1802}, false, slurm.ErrBusy},
		{"gateway timed out", slurmtest.Fault{Status: 504, Body: "timed out", ContentType: "text/plain"}, false, slurm.ErrBusy},
		{"answer cut short", slurmtest.Fault{Half: true}, false, slurm.ErrUnreachable},
		{"connection dropped", slurmtest.Fault{Drop: true}, false, slurm.ErrUnreachable},
		{"rejected", slurmtest.Fault{Status: 500, Number: 2014}, false, slurm.ErrRejected},
		{"denied", slurmtest.Fault{Status: 500, Number: 2002}, false, slurm.ErrDenied},
		{"held", slurmtest.Fault{Status: 500, Number: 2042}, false, slurm.ErrHeld},
		{"gone", slurmtest.Fault{Status: 404, Number: 2017}, false, slurm.ErrGone},
		{"finished", slurmtest.Fault{Status: 500, Number: 2021}, false, slurm.ErrGone},
		{"in transition", slurmtest.Fault{Status: 500, Number: 2020}, false, slurm.ErrBusy},
		{"error on 200", slurmtest.Fault{Status: 200, Number: 2073}, false, slurm.ErrStarted},
		{"error on 200 without a number", slurmtest.Fault{Status: 200, Text: "something"}, false, slurm.ErrRejected},
		{"a task refused, as a warning", slurmtest.Fault{Body: `{"errors":[],"warnings":[{"description":"Job update resulted in non-zero return-code[2073]: Job is no longer pending execution"}]}`}, false, slurm.ErrStarted},
		{"a task refused, as a result", slurmtest.Fault{Body: `{"errors":[],"warnings":[],"results":[{"job_id":4,"error_code":0},{"job_id":9,"error_code":2002,"error":"Access denied"}]}`}, false, slurm.ErrDenied},
	} {
		t.Run(tt.name, func(t *testing.T) {
			srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
			c, naps := client(t, srv, Options{})
			mustSnapshot(t, c)
			tt.fault.Method = http.MethodPost
			srv.Fail(tt.fault)
			err := c.Update(t.Context(), slurm.Update{JobID: 3, ExcludedNodes: &[]string{"gpu01"}})
			if !errors.Is(err, tt.want) {
				t.Errorf("%s, want %v", fmtErr(err), tt.want)
			}
			if again := len(*naps) > 0; again != tt.again {
				t.Errorf("sent again: %v, want %v", again, tt.again)
			}
		})
	}
}

func TestDeniedSaysWhatToDo(t *testing.T) {
	srv := slurmtest.NewServer(t, queue(slurm2411).Obj())
	srv.Fail(slurmtest.Fault{Method: http.MethodPost, Status: 500, Number: 2002, Text: "Access/permission denied"})
	c, _ := client(t, srv, Options{User: "rifling"})
	err := c.Update(t.Context(), slurm.Update{JobID: 3, ExcludedNodes: &[]string{"gpu01"}})
	const want = "the user needs AdminLevel=Operator: sacctmgr modify user rifling set adminlevel=operator"
	if got := slurm.HintOf(err); got != want {
		t.Errorf("hint %q, want %q", got, want)
	}
}

// TestUpdateBodyIsWhatSlurmReadsBack sends any list and offset through each
// release's shapes.
func TestUpdateBodyIsWhatSlurmReadsBack(t *testing.T) {
	onEach(t, func(t *testing.T, r slurm.Release) {
		srv := slurmtest.NewServer(t, queue(r).Obj())
		c, _ := client(t, srv, Options{})
		nodes := mustSnapshot(t, c).JobNodes(&slurm.Job{Partition: "gpu"})
		rapid.Check(t, func(rt *rapid.T) {
			hosts := rapid.SliceOfDistinct(rapid.SampledFrom(nodes), rapid.ID).Draw(rt, "hosts")
			slices.Sort(hosts)
			nice := rapid.Int64Range(-farthest, farthest).Draw(rt, "nice")
			u := slurm.Update{JobID: 3, ExcludedNodes: &hosts, Nice: &nice}
			if r.HasSiteFactor() {
				u.SiteFactor = ptr(rapid.Int64Range(-farthest, farthest).Draw(rt, "site"))
			}
			if err := c.Update(t.Context(), u); err != nil {
				rt.Fatal(fmtErr(err))
			}
			j, err := c.Job(t.Context(), 3)
			if err != nil || !slices.Equal(j.ExcludedNodes, hosts) || j.Nice != nice {
				rt.Fatalf("%+v, %v; want %v and %d", j, err, hosts, nice)
			}
			if u.SiteFactor != nil && srv.SiteFactor(3) != *u.SiteFactor {
				rt.Fatalf("site factor %d, want %d", srv.SiteFactor(3), *u.SiteFactor)
			}
		})
	})
}
