// SPDX-License-Identifier: Apache-2.0

package profile

import (
	"testing"

	"rifling/slurm"
)

func TestNormalizeName(t *testing.T) {
	tests := map[string]struct{ in, want string }{
		"a plain name":                       {"bert", "bert"},
		"case and separators":                {"My_Train.Job v2", "my-train"},
		"the number of a model stays":        {"resnet50", "resnet50"},
		"sizes of a model stay":              {"llama-7b-ft", "llama-7b-ft"},
		"a trailing number goes":             {"train_17", "train"},
		"a date goes":                        {"train-2026-03-01", "train"},
		"a time stamp goes":                  {"train-20260301T120000Z", "train"},
		"a hash goes":                        {"train-9f8e7d6", "train"},
		"a word that is all letters stays":   {"facade-deadbeef", "facade-deadbeef"},
		"settings go":                        {"vit_lr0.001_bs64_seed=3", "vit"},
		"so do settings apart from a number": {"vit-lr-1e-3-fold-2", "vit"},
		"a power of ten at a setting goes":   {"vit_lr1e-4", "vit"},
		"a UUID goes":                        {"train-550e8400-e29b-41d4-a716-446655440000", "train"},
		"a run of an experiment tracker":     {"train-3k9x2m1q", "train"},
		"a model with two numbers stays":     {"mixtral8x7b", "mixtral8x7b"},
		"a date with its month goes":         {"eval-12mar2026_mar12", "eval"},
		"a pipe and shell words":             {"some_job . | grep hot", "some-grep-hot"},
		"blanks and line breaks":             {"  train\t7\n", "train"},
		"an array's task":                    {"sweep_[3-7%2]", "sweep"},
		"nothing is left":                    {"job-12345", "-"},
		"no name":                            {"", "-"},
		"other scripts":                      {"Обучение_7", "обучение"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if got := NormalizeName(tt.in); got != tt.want {
				t.Errorf("NormalizeName(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

func FuzzNormalizeName(f *testing.F) {
	for _, s := range []string{"", "a/b", "train-2026", "İstanbul", "\xff\xfe", "x=1e-3"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		once := NormalizeName(s)
		if once == "" {
			t.Fatal("empty")
		}
		if twice := NormalizeName(once); twice != once {
			t.Fatalf("NormalizeName(%q) = %q, and of that %q", s, once, twice)
		}
	})
}

func TestIdentify(t *testing.T) {
	base := func() *job { return newJob(1) }
	key := func(j *job) string { return identify(&j.Job).String() }
	if got, want := key(base()), "ann/vision/resnet50/train-sh/g4"; got != want {
		t.Errorf("key = %q, want %q", got, want)
	}
	same := map[string]func(*job){
		"another id":                func(j *job) { j.ID = 2 },
		"other settings in a name":  func(j *job) { j.Name = "resnet50_lr0.3-seed7" },
		"other arguments":           func(j *job) { j.Command = "/home/ann/train.sh --lr 0.2" },
		"another folder":            func(j *job) { j.Command = "/scratch/x/train.sh" },
		"the same GPUs, other ways": func(j *job) { j.Request = slurm.GPURequest{PerNode: 2}; j.MinNodes = 2 },
	}
	for name, change := range same {
		j := base()
		if change(j); key(j) != key(base()) {
			t.Errorf("%s: key = %q, want the same family", name, key(j))
		}
	}
	other := map[string]func(*job){
		"another user":    func(j *job) { j.User = "bob" },
		"another account": func(j *job) { j.Account = "nlp" },
		"another name":    func(j *job) { j.Name = "resnet18" },
		"another script":  func(j *job) { j.Command = "/home/ann/eval.sh" },
		"more GPUs":       func(j *job) { j.Request.PerJob = 8 },
	}
	for name, change := range other {
		j := base()
		if change(j); key(j) == key(base()) {
			t.Errorf("%s: key = %q, want another family", name, key(j))
		}
	}
}
