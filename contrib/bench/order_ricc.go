// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"

	"rifling/agent"
	"rifling/policy"
	"rifling/sim/peer"
	"rifling/sim/trace"
)

// RICC's bounded slowdown under F1, which reads the time that was asked for.
const riccF1 = 5.94

// What is learned from lies behind the rows that are tested.
const (
	riccFrom        = 20000
	riccLists       = 4
	riccGap         = 4000
	riccGenerations = 4
	riccPopulation  = 8
	riccSeeds       = 3
)

// batchList is a stretch of a trace with whose jobs they are, and the runs that
// had ended before it began.
type batchList struct {
	jobs  []peer.Batch
	users []string
	past  []userRun
}

type userRun struct {
	user    string
	at, run float64 // submitted, took; seconds
}

// orderRICC replays RLScheduler's protocol on RICC. What is known of run times
// is what jobs of the same user took.
func orderRICC(ctx context.Context, out io.Writer, dir string) error {
	path := filepath.Join(dir, "ricc", "RICC-2010-2.swf.gz")
	m, err := readMachine(path)
	if errors.Is(err, os.ErrNotExist) {
		fmt.Fprintln(out, "RICC skipped: its trace is not there")
		return nil
	}
	if err != nil {
		return err
	}
	jobs, err := readRows(path, riccFrom+riccLists*riccGap+batchLength)
	if err != nil {
		return err
	}
	var tests, lists []batchList
	for _, from := range peer.Draws(batchSeed, batchRows, batchLength, batchSequences) {
		tests = append(tests, stretch(jobs, from))
	}
	for i := range riccLists {
		lists = append(lists, stretch(jobs, riccFrom+i*riccGap))
	}
	var got []float64
	for seed := range uint64(riccSeeds) {
		model, err := trainRICC(ctx, m, lists, seed+1)
		if err != nil {
			return err
		}
		v, err := riccMean(m, tests, model)
		if err != nil {
			return err
		}
		got = append(got, v)
		fmt.Fprintf(out, "RICC, search %d: %s\n", seed+1, weightsText(&model.Order))
	}
	start, err := riccMean(m, tests, riccStart())
	if err != nil {
		return err
	}
	s := spreadOf(got)
	fmt.Fprintf(out, "%-12s %-26s %10s %10s %24s\n", "RICC", "knows", "untrained", "learned", "least .. most")
	fmt.Fprintf(out, "%-12s %-26s %10.2f %s\n", "", "users' history", start, s)
	lessThan(out, "order-ricc", s.median, riccF1)
	return nil
}

func readRows(path string, rows int) ([]trace.Job, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close() // it was only read
	r, err := trace.NewReader(file, trace.SWF, trace.Options{})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", path, err)
	}
	var jobs []trace.Job
	for len(jobs) < rows {
		j, err := r.Next()
		if errors.Is(err, io.EOF) {
			return nil, fmt.Errorf("%s: %d rows where %d were wanted", path, len(jobs), rows)
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		jobs = append(jobs, j)
	}
	return jobs, nil
}

// stretch is what is tested or learned from, with up to 2,000 rows of history.
func stretch(jobs []trace.Job, from int) batchList {
	part := jobs[from : from+batchLength]
	l := batchList{jobs: peer.FromBatch(part)}
	for _, j := range part {
		l.users = append(l.users, j.User)
	}
	begin := part[0].Submit
	for _, j := range jobs[max(0, from-2000):from] {
		if j.Wait >= 0 && j.Submit+j.Wait+j.Duration <= begin {
			l.past = append(l.past, userRun{j.User, j.Submit.Seconds(), j.Duration.Seconds()})
		}
	}
	return l
}

// riccStart weighs a second of waiting by what it adds to a bounded slowdown,
// over what the job takes from others.
func riccStart() *policy.Model {
	m := policy.PlainModel()
	m.Order = agent.Linear([]string{"log_run", "log_run_low", "log_run_mean", "log_limit", "log_gpus", "log_age", "age_run", "fits", "pressure_gpus"})
	copy(m.Order.Layers[0].W, []float64{0, -1, -1, 0, -1, 0, 0, 0, 0})
	return &m
}

func trainRICC(ctx context.Context, m peer.BatchMachine, lists []batchList, seed uint64) (*policy.Model, error) {
	start := riccStart()
	base, err := riccLog(m, lists, start)
	if err != nil {
		return nil, err
	}
	with := func(w []float64) *policy.Model {
		model := riccStart()
		copy(model.Order.Layers[0].W, w)
		return model
	}
	w := start.Order.Layers[0].W
	search := &agent.Search{Seed: seed, Start: w, Steps: make([]float64, len(w)), Population: riccPopulation}
	for i := range search.Steps {
		search.Steps[i] = 0.2
	}
	p, err := search.Run(ctx, riccGenerations, benchWorkers, func(_ context.Context, _ int, w []float64) (float64, error) {
		v, err := riccLog(m, lists, with(w))
		for i, d := range search.Steps {
			step := (w[i] - search.Start[i]) / d
			v += orderCloseness * step * step
		}
		return v - base, err
	}, nil)
	if err != nil {
		return nil, fmt.Errorf("train an order: %w", err)
	}
	return with(p.Weights), nil
}

// riccLog is the mean over lists of the logarithm of their bounded slowdowns:
// one crowded list must not be all that is learned from.
func riccLog(m peer.BatchMachine, lists []batchList, model *policy.Model) (float64, error) {
	sum := 0.0
	for _, l := range lists {
		v, err := riccMean(m, []batchList{l}, model)
		if err != nil {
			return 0, err
		}
		sum += math.Log(v) / float64(len(lists))
	}
	return sum, nil
}

func riccMean(m peer.BatchMachine, lists []batchList, model *policy.Model) (float64, error) {
	sum := 0.0
	for _, l := range lists {
		starts, err := peer.SequenceScored(m, l.jobs, newUserRanker(model, l).score, true)
		if err != nil {
			return 0, err
		}
		sum += peer.MeanBoundedSlowdown(l.jobs, starts) / float64(len(lists))
	}
	return sum, nil
}

// userRanker scores batch jobs by what their users' jobs took.
type userRanker struct {
	model *policy.Model
	list  batchList
	past  *agent.Sequences
	runs  []*agent.SequenceRun // of the jobs that have come
	live  []int                // of those, the ones that have not ended
	begun map[int]bool
	scene *peer.BatchScene
	queue policy.QueueFacts
}

func newUserRanker(model *policy.Model, l batchList) *userRanker {
	r := &userRanker{model: model, list: l, past: agent.NewSequences(agent.DefaultSequenceParams()), begun: map[int]bool{}}
	for _, p := range l.past {
		run := r.past.Add(p.user, p.at, nil)
		r.past.End(run, p.run)
	}
	return r
}

func (r *userRanker) score(s *peer.BatchScene, j int) float64 {
	if s != r.scene {
		r.scene, r.queue = s, batchQueue(s)
		r.see(s)
	}
	b, asked := s.Jobs[j], float64(s.Jobs[j].Asked)
	belief := r.runs[j].Belief
	return r.model.OrderScore(policy.OrderFacts{
		Run: math.Exp(belief.MeanLog()), RunLow: belief.Quantile(0.1), RunHigh: belief.Quantile(0.9), RunMean: belief.Mean(), Limit: asked,
		GPUs: b.Procs, Nodes: b.Procs, Age: float64(s.Now - b.Submit), Fits: b.Procs*s.Nodes <= s.Free*s.Procs, Queue: r.queue,
	})
}

// see takes in what came, started and ended.
func (r *userRanker) see(s *peer.BatchScene) {
	for len(r.runs) < len(s.Jobs) && s.Jobs[len(r.runs)].Submit <= s.Now {
		i := len(r.runs)
		asked := float64(s.Jobs[i].Asked)
		r.runs = append(r.runs, r.past.Add(r.list.users[i], float64(s.Jobs[i].Submit), func(run float64) float64 {
			if run > 1.2*asked {
				return 1e-9
			}
			return 1
		}))
		r.live = append(r.live, i)
	}
	left := r.live[:0]
	for _, i := range r.live {
		switch at := s.Starts[i]; {
		case at < 0:
		case at+s.Jobs[i].Run <= s.Now:
			r.past.End(r.runs[i], float64(s.Jobs[i].Run))
			continue
		case !r.begun[i]:
			r.begun[i] = true
			r.runs[i].Start(float64(at))
		}
		left = append(left, i)
	}
	r.live = left
	r.past.Update(float64(s.Now))
}
