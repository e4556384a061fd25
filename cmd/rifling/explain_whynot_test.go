// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"
)

func TestWhyNotANode(t *testing.T) {
	tests := map[string]struct {
		job, node string
		scontrol  string // what it says; empty: it does not answer
		want      []string
	}{
		"kept away, and free": {job: "11", node: "gpu02", scontrol: "NodeName=gpu02 Gres=gpu:a100:8(S:0-1) GresUsed=gpu:a100:3(IDX:0-2) State=MIXED Partitions=gpu",
			want: []string{"rifling keeps it from there: it is for packing it on the fewest nodes on gpu[01,03]", "Slurm says that it is MIXED, with 5 of 8 GPUs free, in partition gpu", "job 20 of ada ran there (8 GPUs on gpu02), until 2026-12-01 09:01:00 at the latest"}},
		"the user's own":         {job: "11", node: "gpu04", want: []string{"its user excludes gpu04", "job 30_3 of ada ran there"}},
		"meant":                  {job: "11", node: "gpu01", want: []string{"is among the nodes that are meant, gpu01"}},
		"allowed":                {job: "11", node: "gpu03", want: []string{"is among the nodes left to it, gpu[01,03]", "does not need it now"}},
		"not in force":           {job: "10", node: "gpu03", want: []string{"would keep it from there, but that is not in force", "packing it on the fewest nodes could have used it (1 node): valued -0.02, against -0.10 of waiting for a better place"}},
		"hands off":              {job: "12", node: "gpu01", want: []string{"rifling leaves this job alone (it is held)"}},
		"no decision":            {job: "13", node: "gpu01", want: []string{"rifling has decided nothing on this job"}},
		"it runs there":          {job: "20", node: "gpu02", want: []string{"it runs there"}},
		"of another partition":   {job: "13", node: "cpu01", scontrol: "NodeName=cpu01 State=IDLE Partitions=cpu", want: []string{"with 0 of 0 GPUs free", "the job asks for partition gpu, of which cpu01 is no part"}},
		"an answer that is odd":  {job: "13", node: "gpu01", scontrol: "what?", want: []string{"no GPU job ran there that riflingd knows of"}},
		"hostile words of Slurm": {job: "13", node: "gpu01", scontrol: "State=\x1b[2JIDLE Partitions=gpu", want: []string{`\x1b[2JIDLE`}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			s := busySite(t)
			s.command = func(_ context.Context, name string, args ...string) (string, error) {
				if name != "scontrol" || args[len(args)-1] != tc.node {
					t.Errorf("ran %s %q", name, args)
				}
				if tc.scontrol == "" {
					return "", errors.New("scontrol: no answer within 3s")
				}
				return tc.scontrol, nil
			}
			code, out, errs := s.run("explain", tc.job, "--why-not", tc.node)
			_, part, _ := strings.Cut(out, "\nWhy not "+tc.node+"\n")
			part, _, _ = strings.Cut(part, "\n\n")
			for _, w := range tc.want {
				if code != 0 || !strings.Contains(part, w) {
					t.Errorf("exit %d, stderr %q, want %q in\n%s", code, errs, w, part)
				}
			}
			if strings.Contains(out, "\x1b") {
				t.Error("an escape sequence got through")
			}
		})
	}
}

func TestWhyNotANodeThatIsNone(t *testing.T) {
	s := busySite(t)
	s.command = func(context.Context, string, ...string) (string, error) {
		return "Node gpu99 not found", errors.New("exit status 1")
	}
	for node, want := range map[string]struct {
		code int
		text string
	}{"gpu99": {1, `Slurm knows no node "gpu99"`}, "gpu[01-02]": {2, "no name of one node"}, "-x": {2, "no name of one node"}, "a b": {2, "no name of one node"}} {
		code, out, errs := s.run("explain", "11", "--why-not="+node)
		if code != want.code || out != "" || !strings.Contains(errs, want.text) || !strings.Contains(errs, "hint: ") {
			t.Errorf("%s: exit %d, %q, %q", node, code, out, errs)
		}
	}
}

// What programs read holds the same as the text, in fields.
func TestExplainAsJSON(t *testing.T) {
	s := busySite(t)
	code, out, errs := s.run("explain", "11", "--json", "--why-not", "gpu02")
	var got struct {
		JobID     string `json:"job_id"`
		Sentence  string
		Decisions []struct {
			Action     string
			Candidates []string
			Considered []struct{ Value float64 }
		}
		Set  *struct{ Expires time.Time }
		Next []string
	}
	if err := json.Unmarshal([]byte(out), &got); code != 0 || err != nil {
		t.Fatalf("exit %d, %v, %q", code, err, errs)
	}
	if got.JobID != "11" || len(got.Decisions) != 1 || got.Decisions[0].Action != "pack" || len(got.Decisions[0].Candidates) != 2 ||
		len(got.Decisions[0].Considered) != 3 || got.Set == nil || !got.Set.Expires.Equal(t0.Add(10*time.Minute)) || len(got.Next) < 2 {
		t.Errorf("got %+v", got)
	}
	if text := "Job 11 \"train\" of ada waits (nothing that it could use is free), and rifling is for packing it on the fewest nodes (gpu[01,03])."; got.Sentence != text {
		t.Errorf("got %q, want %q", got.Sentence, text)
	}
	if !strings.Contains(out, `"heading": "Why not gpu02"`) {
		t.Error("the question about a node is not in the evidence")
	}
}
