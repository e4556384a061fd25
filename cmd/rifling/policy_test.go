// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"rifling/policy"
)

// policyFile writes a policy and returns its name and version.
func (s *site) policyFile(change func(*policy.File)) (name, version string) {
	s.t.Helper()
	m := policy.PlainModel()
	m.Order.Layers[0].W[0] = -0.5
	f := policy.File{Kind: policy.KindLearned, Model: &m, Training: policy.TrainRecord{
		At: t0, Release: "1.0", Data: "generated lists", TrainSeeds: []uint64{1, 2}, TestSeeds: []uint64{1000001}, Objective: policy.DefaultObjective(),
		Test: []policy.Figure{{Policy: "slurm", Lists: 5, Cost: policy.Mean{Mean: 1}}, {Policy: "learned", Lists: 5, Cost: policy.Mean{Mean: 0.9, SE: 0.02}}},
	}}
	if change != nil {
		change(&f)
	}
	b, v, err := f.Encode()
	if err != nil {
		s.t.Fatal(err)
	}
	name = filepath.Join(s.dir, v+".json")
	if err := os.WriteFile(name, b, 0o600); err != nil {
		s.t.Fatal(err)
	}
	return name, v
}

// says runs the program and looks for words on either output.
func (s *site) says(code int, words string, args ...string) string {
	s.t.Helper()
	got, out, errs := s.run(args...)
	if got != code || !strings.Contains(out+errs, words) {
		s.t.Errorf("rifling %s: status %d, want %d, saying %q:\n%s%s", strings.Join(args, " "), got, code, words, out, errs)
	}
	return out
}

func TestTheLifeOfAPolicy(t *testing.T) {
	s := newSite(t)
	st := s.writer()
	file, v := s.policyFile(nil)
	s.says(0, "no trained policy is kept", "policy", "list")
	s.says(0, v+" is kept", "policy", "add", file)
	list := s.says(0, v, "policy", "list")
	for _, want := range []string{"decides  rifling, as configured", "candidate", "0.900 ±0.020", "generated lists"} {
		if !strings.Contains(list, want) {
			t.Errorf("the list lacks %q:\n%s", want, list)
		}
	}
	show := s.says(0, "predicted run time: holds it back", "policy", "show", v[:5])
	for _, want := range []string{"policy     " + v + ", kind learned", "training 1 to 2; test 1000001", "jct=1", "candidate, by "} {
		if !strings.Contains(show, want) {
			t.Errorf("show lacks %q:\n%s", want, show)
		}
	}
	s.says(1, "no recorded evaluation on held-out data", "policy", "promote", v)
	s.says(1, "hint: rifling policy evaluate "+v, "policy", "promote", v)
	s.says(1, "next stage is observe", "policy", "promote", v, "--to", "live")
	e := policy.Evaluation{At: s.now, Version: v, Against: "rifling", By: "ada", Data: "generated", Pairs: 8, HeldOut: true, Cost: policy.Span{Mean: -0.1, Low: -0.15, High: -0.05}}
	if err := st.SaveEvaluation(t.Context(), e); err != nil {
		t.Fatal(err)
	}
	s.says(0, v+" is now in the stage observe", "policy", "promote", v, "--why", "better on eight lists")
	s.says(1, "observed on 0 jobs", "policy", "promote", v)
	s.says(0, "in the stage share, by force", "policy", "promote", v, "--force", "--share", "0.25")
	s.says(0, "for 25 % of the jobs", "policy", "list")
	show = s.says(0, "share of 25 %, by force", "policy", "show", v)
	if !strings.Contains(show, "better on eight lists") || !strings.Contains(show, "better than rifling: cost -10.0 % [-15.0, -5.0]") {
		t.Errorf("show lacks why, or the evaluation:\n%s", show)
	}
	s.says(1, "0 jobs of its share have ended", "policy", "promote", v)
	s.says(0, "decides  rifling, as configured", "policy", "rollback", "--why", "enough")
	s.says(1, "no trained policy decides anything", "policy", "rollback")
	s.says(0, "rolled-back", "policy", "list")
}

func TestEveryInputHasWords(t *testing.T) {
	for _, name := range slices.Concat(policy.PlaceInputs, policy.OrderInputs) {
		if inputWords[name] == "" {
			t.Errorf("policy show has no words for the input %s", name)
		}
	}
}

func TestPoliciesThatCannotBeUsed(t *testing.T) {
	s := newSite(t)
	s.writer()
	file, v := s.policyFile(nil)
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	bad := filepath.Join(s.dir, "bad.json")
	if err := os.WriteFile(bad, []byte(strings.Replace(string(b), "-0.5", "-0.6", 1)), 0o600); err != nil {
		t.Fatal(err)
	}
	s.says(1, "hash does not fit", "policy", "show", bad)
	s.says(1, "hash does not fit", "policy", "add", bad)
	s.says(1, "is not kept here", "policy", "show", "ffff")
	s.says(1, "is not kept here", "policy", "promote", v)
	s.says(2, "--share", "policy", "promote", v, "--share", "2")
	s.says(2, "accepts 1 arg", "policy", "add")
	s.says(1, "no such file", "policy", "add", filepath.Join(s.dir, "none.json"))
}

func TestScorersGoOutToONNXAndBack(t *testing.T) {
	s := newSite(t)
	s.writer()
	file, v := s.policyFile(nil)
	dir, out := filepath.Join(s.dir, "onnx"), filepath.Join(s.dir, "back.json")
	s.says(0, "order.onnx", "policy", "export", file, "--onnx", dir)
	s.says(1, "never overwritten", "policy", "export", file, "--onnx", dir)
	s.says(0, "from 2 models", "policy", "import", "--onnx", dir, "-o", out)
	s.says(1, "never overwritten", "policy", "import", "--onnx", dir, "-o", out)
	before, _, err := readPolicyFile(file)
	if err != nil {
		t.Fatal(err)
	}
	after, _, err := readPolicyFile(out)
	if err != nil {
		t.Fatal(err)
	}
	if after.Training.Parent != v || len(after.Model.Order.Params()) != len(before.Model.Order.Params()) {
		t.Errorf("parent %s, want %s", after.Training.Parent, v)
	}
	for i, w := range before.Model.Order.Params() {
		if after.Model.Order.Params()[i] != w {
			t.Fatalf("weight %d came back as %v, it was %v", i, after.Model.Order.Params()[i], w)
		}
	}
	// The wrong scorer in a place.
	b, err := os.ReadFile(filepath.Join(dir, "place.onnx"))
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "order.onnx"), b, 0o600); err != nil {
		t.Fatal(err)
	}
	s.says(1, `it is the scorer "place", not order`, "policy", "import", "--onnx", dir, "-o", out+"2")
}

// tiny is a training that takes a second.
func (s *site) tiny(more ...string) []string {
	return append([]string{
		"train", "--generate", "--jobs", "25", "--nodes", "2x4", "--interval", "5m", "--longest", "2h", "--open", "1",
		"--train-lists", "2", "--test-lists", "2", "--each", "1", "--population", "4", "--workers", "2",
	}, more...)
}

func TestTraining(t *testing.T) {
	s := newSite(t)
	s.writer()
	at := func(name string) string { return filepath.Join(s.dir, name) }
	whole := s.says(0, "that the training has not seen", s.tiny("--generations", "3", "-o", at("whole.json"))...)
	for _, want := range []string{"slurm", "strict", "rule", "learned", "Means over 2 lists"} {
		if !strings.Contains(whole, want) {
			t.Errorf("the table lacks %q:\n%s", want, whole)
		}
	}
	s.says(1, "never overwritten", s.tiny("-o", at("whole.json"))...)
	// A search that was broken off finds what it would have found.
	s.says(0, "", s.tiny("--generations", "2", "-o", at("part.json"), "--resume", at("state"))...)
	s.says(0, "", s.tiny("--generations", "3", "-o", at("rest.json"), "--resume", at("state"))...)
	a, _, err := readPolicyFile(at("whole.json"))
	if err != nil {
		t.Fatal(err)
	}
	b, _, err := readPolicyFile(at("rest.json"))
	if err != nil {
		t.Fatal(err)
	}
	for i, w := range a.Model.Order.Params() {
		if b.Model.Order.Params()[i] != w {
			t.Fatalf("weight %d is %v after a break, %v without", i, b.Model.Order.Params()[i], w)
		}
	}
	s.says(1, "other settings", s.tiny("--generations", "3", "-o", at("x.json"), "--resume", at("state"), "--open", "0.5")...)
	s.says(0, "against slurm", "policy", "evaluate", at("whole.json"), "--generate", "--jobs", "25", "--nodes", "2x4", "--interval", "5m", "--lists", "2", "--against", "slurm")
}

func TestTrainingAsAJobArray(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(s.dir, "array")
	s.says(0, "sbatch", s.tiny("--slurm", dir, "--tasks", "2")...)
	script, err := os.ReadFile(filepath.Join(dir, "train.sbatch"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"--array=0-1", "--search-seed=$((1 + SLURM_ARRAY_TASK_ID))", "--jobs=25", "--resume="} {
		if !strings.Contains(string(script), want) {
			t.Errorf("the script lacks %q:\n%s", want, script)
		}
	}
	s.says(1, "holds no part", "train", "--collect", dir)
	for i, x := range []float64{0.95, 0.9} {
		name, _ := s.policyFile(func(f *policy.File) {
			f.Training.Train = []policy.Figure{{Policy: "learned", Lists: 2, Cost: policy.Mean{Mean: x}}}
		})
		if err := os.Rename(name, filepath.Join(dir, "part-"+string(rune('0'+i))+".json")); err != nil {
			t.Fatal(err)
		}
	}
	out := s.says(0, "is the best of 2", "train", "--collect", dir, "-o", filepath.Join(s.dir, "best.json"))
	f, v, err := readPolicyFile(filepath.Join(s.dir, "best.json"))
	if err != nil || f.Training.Train[0].Cost.Mean != 0.9 || !strings.Contains(out, v+" is the best") {
		t.Errorf("%v:\n%s", err, out)
	}
}
