// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func generate(t testing.TB, seed uint64, o Options) []Job {
	t.Helper()
	jobs, err := Generate(seed, o)
	if err != nil {
		t.Fatal(err)
	}
	return jobs
}

func TestSameSeedSameList(t *testing.T) {
	a, b, c := generate(t, 7, Options{}), generate(t, 7, Options{}), generate(t, 8, Options{})
	if diff := cmp.Diff(a, b); diff != "" {
		t.Errorf("the same seed gave two lists:\n%s", diff)
	}
	if cmp.Equal(a, c) {
		t.Error("two seeds gave the same list")
	}
}

func TestOneSiteHasTheSameFamiliesInEveryList(t *testing.T) {
	who := func(seed uint64) map[int]string {
		families := map[int]string{}
		for _, j := range generate(t, seed, Options{Site: 5}) {
			families[j.Family] = j.User + " " + j.Model + " " + string(j.Form)
		}
		return families
	}
	if diff := cmp.Diff(who(1), who(2)); diff != "" {
		t.Errorf("families of one site differ:\n%s", diff)
	}
	if cmp.Equal(generate(t, 1, Options{Site: 5}), generate(t, 2, Options{Site: 5})) {
		t.Error("two lists of one site are the same")
	}
}

func TestUnknownModel(t *testing.T) {
	if _, err := Generate(1, Options{Models: []string{"bert", "berta"}}); err == nil || !strings.Contains(err.Error(), "berta") {
		t.Errorf("err = %v, want one that names the model", err)
	}
}

// A list must be worth a comparison: all models, most jobs for one node, some
// open, several users, families that repeat, and the load that was asked for.
func TestListIsWhatUsersSubmit(t *testing.T) {
	for seed := range uint64(20) {
		jobs := generate(t, seed, Options{Jobs: 80})
		s := Describe(jobs)
		if len(s.ByModel) != 3 {
			t.Errorf("seed %d: models %v, want all three", seed, s.ByModel)
		}
		if s.Families != 20 {
			t.Errorf("seed %d: %d families, want 20", seed, s.Families)
		}
		if share := s.OpenShare(); share < 0.02 || share > 0.6 {
			t.Errorf("seed %d: open share %.2f, want some and not most", seed, share)
		}
		if s.ByForm[Gres] < len(jobs)/4 {
			t.Errorf("seed %d: %d of %d jobs by --gres, want it to be the usual way", seed, s.ByForm[Gres], len(jobs))
		}
		users := map[string]bool{}
		for _, j := range jobs {
			users[j.User] = true
		}
		if len(users) < 3 {
			t.Errorf("seed %d: users %v, want several", seed, users)
		}
		// the last arrival of n falls short of the window's end by about 1/n
		load := s.GPUTime.Seconds() / (64 * s.Window.Seconds())
		if load < 1.15 || load > 1.45 {
			t.Errorf("seed %d: load %.2f, want about 1.2", seed, load)
		}
	}
}

func TestEveryJobFitsItsCluster(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		o := Options{
			Jobs:        rapid.IntRange(1, 120).Draw(t, "jobs"),
			Nodes:       rapid.IntRange(1, 16).Draw(t, "nodes"),
			GPUsPerNode: rapid.SampledFrom([]int{1, 2, 4, 8}).Draw(t, "gpus"),
			Load:        rapid.Float64Range(0.1, 3).Draw(t, "load"),
			Bursts:      rapid.IntRange(0, 3).Draw(t, "bursts"),
			MaxNodes:    rapid.IntRange(1, 4).Draw(t, "maxnodes"),
			OpenShare:   rapid.Float64Range(0.01, 1).Draw(t, "open"),
		}
		jobs, err := Generate(rapid.Uint64().Draw(t, "seed"), o)
		if err != nil {
			t.Fatal(err)
		}
		if len(jobs) != o.Jobs {
			t.Fatalf("%d jobs, want %d", len(jobs), o.Jobs)
		}
		for i, j := range jobs {
			switch {
			case j.GPUs < 1 || j.GPUs > o.Nodes*o.GPUsPerNode:
				t.Fatalf("job asks for %d GPUs of %d x %d", j.GPUs, o.Nodes, o.GPUsPerNode)
			case j.Iterations < 1 || j.Work <= 0:
				t.Fatalf("job without work: %+v", j)
			case j.Limit < j.Work:
				t.Fatalf("limit %v below the work %v", j.Limit, j.Work)
			case j.Open && j.GPUs < 2:
				t.Fatalf("one GPU has no shape to leave open: %+v", j)
			case i > 0 && j.Submit < jobs[i-1].Submit:
				t.Fatalf("job %d comes before job %d", i, i-1)
			}
		}
	})
}

func TestBurstsArriveTogether(t *testing.T) {
	jobs := generate(t, 1, Options{Jobs: 30, Bursts: 3})
	moments := map[time.Duration]int{}
	for _, j := range jobs {
		moments[j.Submit]++
	}
	if len(moments) != 3 || moments[0] != 10 {
		t.Errorf("arrivals %v, want three moments of ten", moments)
	}
}

func TestScript(t *testing.T) {
	job := func(form Form, gpus int) Job {
		o := Options{MaxNodes: 1}.withDefaults()
		return Job{
			Name: "bert-sweep-lr1e-4-s101", Account: "research", Model: "bert", Iterations: 1200, Form: form, GPUs: gpus,
			Request: request(o, form, gpus, pickShape(nil, o, family{form: form, gpus: gpus})), Limit: 90 * time.Minute,
		}
	}
	tests := []struct {
		name  string
		job   Job
		scale float64
		want  string
	}{
		{
			"one process a node, and a limit in real time",
			job(Gres, 4), 1,
			`#!/bin/bash
#SBATCH --job-name=bert-sweep-lr1e-4-s101
#SBATCH --account=research
#SBATCH --nodes=1
#SBATCH --gres=gpu:4
#SBATCH --time=0-01:30:00
#SBATCH --output=emujob-%j.out
srun --ntasks-per-node=1 emujob --model bert --iterations 1200
`,
		},
		{
			"a process for each GPU, and a limit cut to the lab's pace, rounded up",
			job(PerTask, 8), 1.0 / 60,
			`#!/bin/bash
#SBATCH --job-name=bert-sweep-lr1e-4-s101
#SBATCH --account=research
#SBATCH --ntasks=8
#SBATCH --gpus-per-task=1
#SBATCH --time=0-00:02:00
#SBATCH --output=emujob-%j.out
srun emujob --model bert --iterations 1200
`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, tt.job.Script(tt.scale)); diff != "" {
				t.Errorf("script (-want +got):\n%s", diff)
			}
			if strings.Contains(strings.ToLower(tt.job.Script(tt.scale)), "rifling") {
				t.Error("the script knows of rifling")
			}
		})
	}
}

func TestRequests(t *testing.T) {
	o := Options{}.withDefaults()
	tests := []struct {
		form Form
		gpus int
		s    shape
		want []string
	}{
		{Gres, 2, shape{fewest: 1, most: 1}, []string{"--nodes=1", "--gres=gpu:2"}},
		{Gres, 8, shape{fewest: 2, most: 2}, []string{"--nodes=2", "--gres=gpu:4"}},
		{Typed, 2, shape{fewest: 1, most: 1}, []string{"--nodes=1", "--gres=gpu:a100:2"}},
		{PerNode, 16, shape{fewest: 2, most: 2}, []string{"--nodes=2", "--gpus-per-node=8"}},
		{Gpus, 8, shape{fewest: 1, most: 4, open: true}, []string{"--gpus=8"}},
		{Range, 16, shape{fewest: 2, most: 4, open: true}, []string{"--nodes=2-4", "--gpus=16"}},
		{PerTask, 4, shape{fewest: 1, most: 4, open: true}, []string{"--ntasks=4", "--gpus-per-task=1"}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, request(o, tt.form, tt.gpus, tt.s)); diff != "" {
			t.Errorf("%s of %d GPUs (-want +got):\n%s", tt.form, tt.gpus, diff)
		}
	}
}

func TestNoOpenShapesAndAllModelsWhereAsked(t *testing.T) {
	got := map[string]int{}
	jobs := generate(t, 3, Options{Jobs: 120, OpenShare: -1})
	for _, j := range jobs {
		if j.Open {
			t.Fatalf("an open shape though none was asked for: %+v", j)
		}
		got[j.Model]++
	}
	for model, n := range got {
		if n < 15 {
			t.Errorf("%s: %d of 120 jobs, want a fair part", model, n)
		}
	}
}
