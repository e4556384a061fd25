// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"rifling/slurm"
)

// yearBegin is when the generated year begins.
var yearBegin = time.Date(2025, 1, 1, 0, 0, 0, 0, time.UTC)

const (
	historyYear = 365 * 24 * time.Hour
	// longestStay bounds how long after its place in the year a run is over: a
	// day of waiting and four of running, twice for one that was requeued.
	longestStay = 11 * 24 * time.Hour
	oddEvery    = 500
)

// runPlace is when in the year run i is submitted, but for some seconds.
func runPlace(i int) time.Time {
	return yearBegin.Add(time.Duration(i) * (historyYear / historyRuns)).Truncate(time.Second)
}

// pastRun makes run i of the year. It depends on nothing but i and the seed.
func pastRun(i int) slurm.PastJob {
	if i%100 == 37 { // the second run of a requeued job
		first := pastRun(i - 1)
		j := makeRun(i)
		j.ID, j.Restarts = first.ID, 1
		moveRun(&j, first.End.Sub(j.Submit))
		return j
	}
	j := makeRun(i)
	if i%100 == 36 {
		j.State = slurm.State{Base: "REQUEUED"}
		if j.Start.IsZero() {
			startRun(&j, rand.New(rand.NewPCG(uint64(i), 5)))
		}
	}
	return j
}

func moveRun(j *slurm.PastJob, by time.Duration) {
	for _, t := range []*time.Time{&j.Submit, &j.Eligible, &j.Start, &j.End} {
		if !t.IsZero() {
			*t = t.Add(by)
		}
	}
}

func makeRun(i int) slurm.PastJob {
	r := rand.New(rand.NewPCG(historySeed, uint64(i)))
	user := int(200 * math.Pow(r.Float64(), 2)) // some have many jobs
	work := r.IntN(5)
	j := slurm.PastJob{
		ID: slurm.JobID(1000 + i), ArrayTaskID: -1, Cluster: "site", User: fmt.Sprintf("u%03d", user),
		Account: fmt.Sprintf("group%02d", user%30), Partition: []string{"gpu", "long", "short"}[work%3], QOS: "normal",
		Name: fmt.Sprintf("train_%d", work), Submit: runPlace(i).Add(time.Duration(r.IntN(30)) * time.Second),
		Priority: int64(r.IntN(20000)), GPUUtil: -1, GPUMemory: -1, GPUType: "a100",
	}
	j.Eligible = j.Submit
	j.GPUs = 1 << r.IntN(5)
	j.CPUs, j.NodeCount = 8*j.GPUs, (j.GPUs+7)/8
	j.TimeLimit = time.Duration(1+(7*user+13*work)%96) * time.Hour // as the script has it
	if r.IntN(50) == 0 {
		j.TimeLimit, j.Unlimited = 0, true
	}
	j.Command = fmt.Sprintf("sbatch --gres=gpu:%d -t %d /home/%s/project%d/run.sh", min(8, j.GPUs), int(j.TimeLimit.Minutes()), j.User, work)
	switch r.IntN(20) {
	case 0, 1, 2: // parameters in names and commands
		j.Name += fmt.Sprintf("_lr%.4f_seed%d", r.Float64(), r.IntN(1000))
	case 3, 4:
		j.Command += fmt.Sprintf(" --seed %d", r.IntN(100_000))
	case 5, 6, 7, 8:
		j.ArrayJobID, j.ArrayTaskID = slurm.JobID(1000+i-i%50), int64(i%50)
	case 9:
		if r.IntN(5) == 0 {
			j.Name = oddNames()[r.IntN(len(oddNames()))]
		}
	}
	if r.IntN(20) == 0 { // cancelled before it ran
		j.State, j.End = slurm.State{Base: "CANCELLED"}, j.Submit.Add(time.Duration(r.IntN(86400))*time.Second)
		return j
	}
	j.State.Base = []string{"COMPLETED", "COMPLETED", "COMPLETED", "FAILED", "TIMEOUT", "CANCELLED", "OUT_OF_MEMORY", "NODE_FAIL"}[r.IntN(8)]
	if j.State.Base == "FAILED" {
		j.ExitCode = []int{1, 2, 127, 128 + 9, 128 + 11}[r.IntN(5)]
	}
	startRun(&j, r)
	return j
}

func startRun(j *slurm.PastJob, r *rand.Rand) {
	j.Start = j.Submit.Add(time.Duration(r.IntN(1+r.IntN(86400))) * time.Second)
	took := time.Duration(min(4*86400, math.Exp(7+2*r.NormFloat64()))) * time.Second
	j.Elapsed, j.End = took, j.Start.Add(took)
	first := r.IntN(200 - j.NodeCount)
	for n := range j.NodeCount {
		j.Nodes = append(j.Nodes, fmt.Sprintf("gpu%03d", first+n))
	}
}

// inWindow is slurmdbd's choice: eligible before the end of the range, and not
// over before its start.
func inWindow(j *slurm.PastJob, from, to time.Time) bool {
	return j.Eligible.Before(to) && !j.End.Before(from)
}

// window gives the runs of a range of time.
func window(from, to time.Time, each func(i int, j *slurm.PastJob)) {
	step := historyYear / historyRuns
	first := max(0, int(from.Add(-longestStay).Sub(yearBegin)/step))
	last := min(historyRuns, int(to.Sub(yearBegin)/step)+2)
	for i := first; i < last; i++ {
		// Most are too early or too late, which their place alone may tell.
		if j := pastRun(i); inWindow(&j, from, to) {
			each(i, &j)
		}
	}
}

// oddNames are names of jobs that users give in earnest.
var oddNames = sync.OnceValue(func() []string {
	names := []string{"some_job . | grep hot", "two\nlines", "tab\there", "ä€🙂", `quo"ted`, "7", "1.0", "a,b;c", "\n9\n"}
	return append(names, sharedCases()...)
})

// oddKinds are rows that nothing can be learnt from, made of a good one.
var oddKinds = sync.OnceValue(func() []func(row, delimiter string) string {
	with := func(column int, value string) func(string, string) string {
		return func(row, delimiter string) string {
			fields := strings.Split(row, delimiter)
			fields[column] = value
			return strings.Join(fields, delimiter)
		}
	}
	const id, state, submit, start, end = 0, 7, 9, 11, 12 // as slurmtest.SacctColumns has them
	kinds := []func(string, string) string{
		func(row, delimiter string) string { return row[:strings.LastIndex(row[:len(row)/2], delimiter)] + "\n" },
		func(string, string) string { return "\n" },
		with(id, "0"), with(id, "99999999999"), with(id, "17.batch"),
		with(state, "CANCELLED+"), with(state, ""), with(state, "\xff\xfe"),
		with(submit, "Unknown"), with(submit, "-1"), with(start, "soon"), with(end, "32503680000"),
	}
	for _, s := range sharedCases() {
		kinds = append(kinds, with(submit, s))
	}
	return kinds
})

// sharedCases are the strings of ../shared/cases, where that is there.
var sharedCases = sync.OnceValue(func() []string {
	dir := os.Getenv("RIFLING_SHARED")
	if dir == "" {
		dir = filepath.Join("..", "shared")
	}
	text, err := os.ReadFile(filepath.Join(dir, "cases", "cases.json"))
	if err != nil {
		fmt.Fprintln(os.Stderr, "history: without the shared cases:", err)
		return nil
	}
	var cases []struct{ Input string }
	if err := json.Unmarshal(text, &cases); err != nil {
		fmt.Fprintln(os.Stderr, "history: without the shared cases:", err)
	}
	var out []string
	for _, c := range cases {
		if c.Input != "" && len(c.Input) < 1000 {
			out = append(out, c.Input)
		}
	}
	return out
})
