// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"compress/gzip"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// cutGzip compresses the rows and loses the end.
func cutGzip(t *testing.T, text string) string {
	t.Helper()
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	for i := range 4000 {
		if i == 0 {
			fmt.Fprint(z, text)
		}
		fmt.Fprintf(z, "x%d,%d,1,%d,1\n", i, 10+i, i%977+1)
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.String()[:b.Len()*2/3]
}

// Each way in which a trace can be bad is counted and named by its line, and
// refused when --strict is set.
func TestTraceNamesWhatCannotBeRight(t *testing.T) {
	const head = "job,submit_s,gpus,duration_s,noisy_gpu_seconds_estimate\n"
	const good = "a,1,8,10,80\n"
	const own = "job,submit_s,gpus,duration_s,user,milli\n"
	for name, tc := range map[string]struct {
		text string
		args []string
		want string // on the page
		line string // where strict stops
	}{
		"negative duration":       {head + good + "b,2,8,-5,1\n", nil, "left out   negative duration: 1 row, line 3", "line 3"},
		"unsorted":                {head + good + "b,0,8,5,1\n", nil, "unsorted   1 row submitted before the row above", "line 3"},
		"duplicates":              {head + good + "a,2,8,5,1\na,3,8,5,1\n", nil, "left out   job id seen before: 2 rows, line 3, 4", "line 3"},
		"larger than the cluster": {head + good + "b,2,65,5,1\n", []string{"--fit"}, "left out   larger than the cluster: 1 row, line 3", "line 3"},
		"wrong columns":           {head + good + "b,2,8\n", nil, "left out   wrong number of columns: 1 row, line 3", "line 3"},
		"gzip cut short":          {cutGzip(t, head+good), nil, "left out   the stream is cut short here: 1 row, line ", "the stream is cut short here"},
		"mixed time zones": {own + "a,2026-01-01T10:00:00+01:00,1,5,u,1000\nb,2026-01-01T09:30:00,1,5,u,1000\n", nil,
			"left out   column submit_s is no instant with a time zone: 1 row, line 3", "line 3"},
		"zones that are told": {own + "a,2026-01-01T10:00:00+01:00,1,5,u,1000\nb,2026-01-01T09:30:00Z,1,5,u,1000\n", nil,
			"span       30 min", ""},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSite(t)
			path := filepath.Join(s.dir, "trace")
			if err := os.WriteFile(path, []byte(tc.text), 0o600); err != nil {
				t.Fatal(err)
			}
			args := append([]string{"trace", "inspect", path}, tc.args...)
			code, out, errs := s.run(args...)
			if code != exitOK || !strings.Contains(out, tc.want) {
				t.Errorf("exit %d, want a line %q:\n%s%s", code, tc.want, out, errs)
			}
			code, out, errs = s.run(append(args, "--strict")...)
			switch {
			case tc.line == "" && code != exitOK:
				t.Errorf("strict refuses a good trace: %s", errs)
			case tc.line != "" && (code != exitFailed || !strings.Contains(errs, tc.line) || !strings.Contains(errs, "hint: ") || out != ""):
				t.Errorf("strict: exit %d, want an error that names %s:\n%s%s", code, tc.line, out, errs)
			}
		})
	}
}

// What import, cut, scale and generate write, inspect and themselves read back.
func TestTraceVerbsGoTogether(t *testing.T) {
	s := newSite(t)
	at := func(n string) string { return filepath.Join(s.dir, n) }
	must := func(want string, args ...string) {
		t.Helper()
		code, out, errs := s.run(append([]string{"trace"}, args...)...)
		if code != exitOK || !strings.Contains(out+errs, want) {
			t.Errorf("%v: exit %d, want %q in\n%s%s", args, code, want, out, errs)
		}
	}
	must("200 jobs written", "generate", "--jobs", "200", "--load", "0.7", "-O", at("g.csv"))
	must("0.700 of 64 GPUs", "inspect", at("g.csv"))
	must("load on 64 GPUs 1.400, was 0.700", "scale", "--load", "1.4", at("g.csv"), "-O", at("h.csv"))
	must("1.400 of 64 GPUs", "inspect", at("h.csv"))
	must("load on 32 GPUs 0.700, was 1.400", "scale", "--factor", "2", "--nodes", "4x8", at("g.csv"), "-O", at("i.csv"))
	must("50 of 200 jobs kept", "cut", "--jobs", "50", at("g.csv"), "-O", at("c.csv"))
	must("rows       50, 50 jobs", "inspect", at("c.csv"))
	must("50 jobs written", "import", at("c.csv"), "-O", at("d.csv"))
	must("5 jobs written", "generate", "--jobs", "5", "--arrivals", "at-once", "-O", at("o.csv"))
	must("all jobs come at once", "inspect", at("o.csv"))
	for name, args := range map[string][]string{
		"no verb": {}, "no such verb": {"bend"}, "no load": {"scale", at("g.csv")}, "both": {"scale", "--load", "1", "--factor", "1", at("g.csv")},
		"odd format": {"inspect", "--format", "xls", at("g.csv")}, "odd nodes": {"inspect", "--nodes", "8", at("g.csv")},
		"odd mix": {"generate", "--mix", "fast=1"}, "odd arrivals": {"generate", "--arrivals", "never"}, "empty cut": {"cut", "--from", "2h", "--to", "1h", at("g.csv")},
		"odd time": {"cut", "--from", "soon", at("g.csv")}, "no file": {"inspect"},
	} {
		if code, out, errs := s.run(append([]string{"trace"}, args...)...); code != exitUsage || !strings.Contains(errs, "hint: ") || out != "" {
			t.Errorf("%s: exit %d, want %d and a hint:\n%s%s", name, code, exitUsage, out, errs)
		}
	}
	if code, _, errs := s.run("trace", "scale", "--load", "1", at("o.csv")); code != exitFailed || !strings.Contains(errs, "all jobs come at once") {
		t.Errorf("scaling jobs that come at once: exit %d, %s", code, errs)
	}
}

func TestGenerateGivesTheSameBytes(t *testing.T) {
	s := newSite(t)
	_, one, _ := s.run("trace", "generate", "--jobs", "300", "--seed", "7")
	_, two, _ := s.run("trace", "generate", "--jobs", "300", "--seed", "7")
	_, other, _ := s.run("trace", "generate", "--jobs", "300", "--seed", "8")
	if one == "" || one != two || one == other {
		t.Errorf("same seed: equal %v; other seed: equal %v", one == two, one == other)
	}
}
