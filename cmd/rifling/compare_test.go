// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// quick is a comparison that takes a moment.
var quick = []string{
	"compare", "--generate", "--jobs", "50", "--longest", "3h", "--nodes", "2x8", "--interval", "1m", "--loads", "0.8,1.2", "--seeds", "2",
	"-p", "slurm,rifling,peer:random,srtf",
}

// The same seed gives the same bytes with any number of workers, and whether
// the runs are done at once or by the tasks of an array.
func TestCompareGivesTheSameBytes(t *testing.T) {
	s := newSite(t)
	for _, form := range []string{"", "--json", "--csv"} {
		args := quick
		if form != "" {
			args = append(append([]string{}, quick...), form)
		}
		code, want, errs := s.run(append(args, "--workers", "1")...)
		if code != exitOK || len(want) < 100 {
			t.Fatalf("exit %d: %s%s", code, want, errs)
		}
		workers := []string{"2"}
		if form == "--json" { // holds all that the others hold
			workers = append(workers, "7")
		}
		for _, w := range workers {
			if _, got, _ := s.run(append(args, "--workers", w)...); got != want {
				t.Errorf("%s: %s workers give other bytes than one", form, w)
			}
		}
		dir := t.TempDir()
		for i := range 3 {
			code, out, errs := s.run(append(quick, "--share", fmt.Sprintf("%d/3", i), "--part", filepath.Join(dir, fmt.Sprintf("part-%d.json", i)))...)
			if code != exitOK || out != "" {
				t.Fatalf("share %d: exit %d: %s%s", i, code, out, errs)
			}
		}
		collect := []string{"compare", "--collect", dir}
		if form != "" {
			collect = append(collect, form)
		}
		if _, got, errs := s.run(collect...); got != want {
			t.Errorf("%s: the array's tasks give other bytes: %s", form, errs)
		}
	}
}

// The figures are those of the runs: means over the seeds, the difference seed
// by seed.
func TestCompareReckons(t *testing.T) {
	s := newSite(t)
	_, out, _ := s.run(append(quick, "--json")...)
	var all struct {
		Rows []row    `json:"rows"`
		Runs []played `json:"runs"`
	}
	if err := json.Unmarshal([]byte(out), &all); err != nil {
		t.Fatal(err)
	}
	if len(all.Rows) != 8 || len(all.Runs) != 16 {
		t.Fatalf("%d rows and %d runs, want 8 and 16", len(all.Rows), len(all.Runs))
	}
	last := all.Rows[7] // load 1.2, srtf
	a, b, first, second := all.Runs[11], all.Runs[15], all.Runs[8], all.Runs[12]
	if last.Policy != "srtf" || !last.Clairvoyant || !last.Preemptive || a.Policy != "srtf" || first.Policy != "slurm" || a.Seed != 1 || b.Seed != 2 {
		t.Fatalf("row %+v of runs %+v, %+v", last, a, b)
	}
	near := func(what string, got, want float64) {
		t.Helper()
		if d := got - want; d > 1e-9*want || d < -1e-9*want {
			t.Errorf("%s %v, want %v", what, got, want)
		}
	}
	near("mean JCT", last.Figures["jct_mean_s"].Mean, (a.MeanJCT+b.MeanJCT)/2)
	near("its error", last.Figures["jct_mean_s"].SE, max(a.MeanJCT-b.MeanJCT, b.MeanJCT-a.MeanJCT)/2)
	near("difference", 1+last.Difference.Mean, 1+(a.MeanJCT/first.MeanJCT-1+b.MeanJCT/second.MeanJCT-1)/2)
	if *a.Offered < 1.19 || *a.Offered > 1.21 || a.Preempted == 0 || first.Jobs != 50 {
		t.Errorf("offered load %v, %d preemptions, %d jobs", *a.Offered, a.Preempted, first.Jobs)
	}
	rows, err := csv.NewReader(strings.NewReader(func() string { _, o, _ := s.run(append(quick, "--csv")...); return o }())).ReadAll()
	if err != nil || len(rows) != 17 || rows[12][2] != "srtf" || rows[12][4] != num(a.MeanJCT) {
		t.Errorf("CSV: %v, %d rows, %v", err, len(rows), rows[min(12, len(rows)-1)])
	}
}

func TestCompareDraws(t *testing.T) {
	s := newSite(t)
	svg := filepath.Join(s.dir, "c.svg")
	_, out, errs := s.run(append(quick, "--svg", svg)...)
	for _, want := range []string{"srtf*^", "Completion times", "load 1.20", "===", "O", "1h", "* reads true run times"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s%s", want, out, errs)
		}
	}
	for _, l := range strings.Split(out, "\n") {
		if strings.Contains(l, "|") && strings.Count(l, "O") != 1 {
			t.Errorf("no median in %q", l)
		}
	}
	text, err := os.ReadFile(svg)
	if err != nil || strings.Count(string(text), "<path d=\"M") < 8 || !strings.HasSuffix(string(text), "</svg>\n") {
		t.Errorf("%v, %.200s", err, text)
	}
}

// An array's script calls the program with the same flags, whatever they hold.
func TestCompareWritesAnArray(t *testing.T) {
	s := newSite(t)
	dir := filepath.Join(s.dir, "it's here")
	code, out, errs := s.run(append(quick, "--slurm", dir, "--tasks", "5")...)
	if code != exitOK || !strings.Contains(out, "16 runs in 5 tasks are ready") {
		t.Fatalf("exit %d: %s%s", code, out, errs)
	}
	text, err := os.ReadFile(filepath.Join(dir, "compare.sbatch"))
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"#SBATCH --array=0-4\n", "--policies=slurm,rifling,peer:random,srtf", "--loads=0.8,1.2", "--longest=3h0m0s", `--share="$SLURM_ARRAY_TASK_ID/5"`,
		`it'\''s here'/part-"$SLURM_ARRAY_TASK_ID".json`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	if _, _, errs := s.run("compare", "--collect", dir); !strings.Contains(errs, "holds no results") || !strings.Contains(errs, "hint: ") {
		t.Errorf("collecting nothing: %s", errs)
	}
	s.run(append(quick, "--share", "0/5", "--part", filepath.Join(dir, "part-0.json"))...)
	if _, _, errs := s.run("compare", "--collect", dir); !strings.Contains(errs, "12 of 16 runs are missing") {
		t.Errorf("collecting a part: %s", errs)
	}
	s.run(append(quick, "--seed", "5", "--share", "1/5", "--part", filepath.Join(dir, "part-1.json"))...)
	if _, _, errs := s.run("compare", "--collect", dir); !strings.Contains(errs, "of different comparisons") {
		t.Errorf("collecting two comparisons: %s", errs)
	}
}

func TestSimulateAndCompareRefuseWhatCannotBe(t *testing.T) {
	s := newSite(t)
	trace := filepath.Join(s.dir, "t.csv")
	if err := os.WriteFile(trace, []byte("job,submit_s,gpus,duration_s,noisy_gpu_seconds_estimate\na,1,128,10,80\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		args []string
		code int
		want string
	}{
		"no work":           {[]string{"simulate"}, exitUsage, "give a trace, or --generate"},
		"both":              {[]string{"simulate", "--generate", trace}, exitUsage, "give a trace, or --generate"},
		"no such policy":    {[]string{"compare", "--generate", "-p", "slurm,best"}, exitUsage, `no policy "best"`},
		"twice":             {[]string{"compare", "--generate", "-p", "slurm,slurm"}, exitUsage, "twice"},
		"two forms":         {[]string{"compare", "--generate", "--json", "--csv"}, exitUsage, "exclude each other"},
		"no seeds":          {[]string{"compare", "--generate", "--seeds", "0"}, exitUsage, "--seeds"},
		"odd load":          {[]string{"compare", "--generate", "--loads", "-1"}, exitUsage, "is no load"},
		"odd nodes":         {[]string{"simulate", "--generate", "--nodes", "8by8"}, exitUsage, "NODESxGPUS"},
		"odd shape":         {[]string{"simulate", "--shape", "round", trace}, exitUsage, "use one of"},
		"nothing fits":      {[]string{"simulate", trace}, exitFailed, "no job that this cluster of 64 GPUs could run"},
		"no such trace":     {[]string{"simulate", "nowhere.csv"}, exitFailed, "nowhere.csv"},
		"no such conf":      {[]string{"simulate", "--generate", "--slurm-conf", "nowhere.conf"}, exitFailed, "nowhere.conf"},
		"odd share":         {[]string{"compare", "--generate", "--share", "5/3", "--part", "x"}, exitUsage, "I/N"},
		"share, no results": {[]string{"compare", "--generate", "--share", "0/3"}, exitUsage, "go together"},
	} {
		code, out, errs := s.run(tc.args...)
		if code != tc.code || !strings.Contains(errs, tc.want) || out != "" {
			t.Errorf("%s: exit %d, want %d and %q:\n%s%s", name, code, tc.code, tc.want, out, errs)
		}
	}
}

// A slurm.conf gives nodes, partitions and scheduling; a trace's queues are its
// partitions.
func TestSimulateOnASitesSlurmConf(t *testing.T) {
	s := newSite(t)
	conf, trace := filepath.Join(s.dir, "slurm.conf"), filepath.Join(s.dir, "t.csv")
	for path, text := range map[string]string{
		conf: "PriorityType=priority/basic\nNodeName=DEFAULT CPUs=16\nNodeName=g[01-02] Gres=gpu:a100:4\nNodeName=c1 CPUs=64\n" +
			"PartitionName=gpu Nodes=g[01-02] Default=YES\nPartitionName=one Nodes=g01,c1 \\\n MaxTime=60\nPartitionName=cpu Nodes=c1\n",
		trace: "job,submit_s,gpus,duration_s,user,milli,queue\na,0,4,100,u,1000,one\nb,0,4,100,v,1000,one\nc,0,4,100,v,1000,\n",
	} {
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	code, out, errs := s.run("simulate", "-p", "slurm", "--slurm-conf", conf, "--limits", "exact", "--mix", "none", "--csv", trace)
	if code != exitOK {
		t.Fatal(errs)
	}
	rows, err := csv.NewReader(strings.NewReader(out)).ReadAll()
	if err != nil || len(rows) != 4 {
		t.Fatalf("%v: %s", err, out)
	}
	on := map[string]string{}
	for _, r := range rows[1:] {
		on[r[0]] = r[11]
	}
	if on["1"] != "g01:4" || on["2"] != "g01:4" || on["3"] != "g02:4" {
		t.Errorf("jobs ran on %v; those of partition one must run on g01 after one another", on)
	}
	_, out, _ = s.run("simulate", "-p", "slurm", "--slurm-conf", conf, trace)
	if !strings.Contains(out, "2 nodes, 8 GPUs") {
		t.Errorf("cluster: %s", out)
	}
}

// What a trace does not tell is drawn anew for each seed.
func TestSeedsDrawWhatATraceDoesNotTell(t *testing.T) {
	s := newSite(t)
	trace := filepath.Join(s.dir, "t.csv")
	text := "job,submit_s,gpus,duration_s,noisy_gpu_seconds_estimate\n"
	for i := range 60 {
		text += fmt.Sprintf("j%d,%d,12,900,900\n", i, 60*i)
	}
	if err := os.WriteFile(trace, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	mean := func(seed, limits string) string {
		_, out, errs := s.run("compare", trace, "--nodes", "4x8", "-p", "slurm", "--seeds", "1", "--seed", seed, "--limits", limits, "--csv")
		if errs != "" {
			t.Fatal(errs)
		}
		return strings.Join(strings.Split(strings.Split(out, "\n")[1], ",")[4:], ",")
	}
	if mean("1", "none") == mean("2", "none") {
		t.Error("two seeds draw the same models")
	}
}
