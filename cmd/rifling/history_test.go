// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"rifling/slurm"
	"rifling/slurm/sacct"
	"rifling/slurm/slurmtest"
)

// pastOf makes runs that ended one an hour before t0.
func pastOf(n int) []slurm.PastJob {
	var out []slurm.PastJob
	for i := range n {
		end := t0.Add(-time.Duration(i+1) * time.Hour)
		out = append(out, slurm.PastJob{
			ID: slurm.JobID(100 + i), ArrayTaskID: -1, Name: "train", User: []string{"ada", "bob"}[i%2], Account: "lab",
			Cluster: "lab", Partition: "gpu", State: slurm.State{Base: "COMPLETED"},
			Submit: end.Add(-time.Hour), Eligible: end.Add(-time.Hour), Start: end.Add(-30 * time.Minute), End: end,
			Elapsed: 30 * time.Minute, GPUs: 4, NodeCount: 1, Nodes: []string{"gpu01"}, CPUs: 8, GPUUtil: -1, GPUMemory: -1,
		})
	}
	return out
}

// PastJobs makes the cluster in memory one with accounting.
func (f *fakeSlurm) PastJobs(_ context.Context, from, to time.Time, sink slurm.PastSink) error {
	if f.account != nil {
		return f.account
	}
	for _, j := range pastOf(100) {
		if j.Eligible.Before(to) && !j.End.Before(from) {
			if err := sink.Run(&j); err != nil {
				return err
			}
		}
	}
	return nil
}

func TestHistoryImport(t *testing.T) {
	s := newSite(t)
	s.writer().Close()
	s.now = t0
	want := func(args, stdout, stderr string, code int) {
		t.Helper()
		c, out, errs := s.run(strings.Fields(args)...)
		if c != code || !strings.Contains(out, stdout) || !strings.Contains(errs, stderr) {
			t.Errorf("rifling %s: exit %d\n%s%s", args, c, out, errs)
		}
	}
	want("history status", "none: `rifling history import", "", exitOK)
	want("history import --from rest --since now-30hours --until now-10hours", "21 runs read in 0 s: 21 new, 0 changed, 0 known before", "", exitOK)
	want("history import --from rest --since now-30hours --until now-10hours --again", ": 0 new, 0 changed, 21 known before", "", exitOK)
	// All but the last day is known by now.
	want("history import --from rest --since now-30hours", ": 9 new, 0 changed, 15 known before", "", exitOK)
	want("history import --from rest --since now-90hours --until now-60hours", "31 new", "", exitOK)
	code, out, _ := s.run("history", "status")
	if code != exitOK {
		t.Errorf("status: exit %d", code)
	}
	golden(t, "history-status", out)
	if _, out, _ = s.run("history", "status", "--json"); !strings.Contains(out, `"gpu_runs": 61`) || !strings.Contains(out, `"gaps": [
    {`) {
		t.Errorf("status --json:\n%s", out)
	}

	file := filepath.Join(s.dir, "dump")
	b := []byte(slurmtest.SacctHeader("|"))
	for _, j := range pastOf(70) {
		b = slurmtest.AppendSacctRow(b, &j, "|")
	}
	if err := os.WriteFile(file, append(b, "7|cut off\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	want("history import --from "+file, "70 runs read", "", exitOK)
	want("history import --from "+file, "odd: row cut off, left out: 1 time, first line 72:", "", exitOK)
}

func TestHistoryImportSaysWhatIsWrong(t *testing.T) {
	s := newSite(t)
	s.now = t0
	want := func(args, fails, hint string, code int) {
		t.Helper()
		c, out, errs := s.run(strings.Fields(args)...)
		if c != code || out != "" || !strings.Contains(errs, fails) || !strings.Contains(errs, hint) {
			t.Errorf("rifling %s: exit %d\n%s%s", args, c, out, errs)
		}
	}
	want("history", "history needs a verb", "rifling history import", exitUsage)
	want("history import --from rest", "there is no database yet", "start riflingd once", exitFailed)
	s.writer().Close()
	want("history import --since yesteryear", "--since", "now-7days", exitUsage)
	want("history import --since now --until now-1hour", "is empty", "", exitUsage)
	want("history import --from /no/such/file", "no such file", "--from takes", exitFailed)
	want("history import --from rest extra", "unknown command", "", exitUsage)
	s.slurm.account = slurm.WithHint(errors.New("slurmdbd is away"), "start it")
	want("history import --from rest", "slurmdbd is away", "start it", exitFailed)
	t.Setenv("PATH", s.dir)
	want("history import --from sacct", "executable file not found", "--from rest", exitFailed)
	if err := os.WriteFile(filepath.Join(s.dir, "sacct"), []byte("#!/bin/sh\necho 'sacct: error: Slurm accounting storage is disabled' >&2\nexit 1\n"), 0o700); err != nil { //nolint:gosec // a program
		t.Fatal(err)
	}
	want("history import", "storage is disabled", "keeps no accounting", exitFailed)
}

func TestProgressLine(t *testing.T) {
	now := t0
	var out bytes.Buffer
	p := newProgress(&out, func() time.Time { return now })
	p.tell(sacct.Summary{Rows: 1})
	if p.end(); out.Len() > 0 {
		t.Errorf("no terminal, yet: %q", out.String())
	}
	p.out = &out
	now = now.Add(10 * time.Second)
	p.tell(sacct.Summary{Rows: 250_000, Done: 10 * time.Hour, Whole: 40 * time.Hour})
	now = now.Add(100 * time.Millisecond) // too soon
	p.tell(sacct.Summary{Rows: 260_000, Done: 10 * time.Hour, Whole: 40 * time.Hour})
	if got := out.String(); got != "\r250000 runs, 25000 a second, 25 % of the time range, 30 s left" {
		t.Errorf("%q", got)
	}
	if p.end(); !strings.HasSuffix(out.String(), " \r") {
		t.Errorf("the line stays: %q", out.String())
	}
}
