// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"

	"rifling/policy"
	"rifling/slurm"
)

// slack is how many nodes beyond those it needs a job keeps, as the default of
// limits.slack-nodes has it.
const slack = 1

// draws is how often each request is narrowed, to other nodes each time: first
// to a leaf switch and a node more.
const draws = 2

// batch submits requests and tries all three ways on them.
func (s *search) batch(ctx context.Context, requests [][]string, g *generator) error {
	ids, err := s.submit(ctx, requests)
	if err != nil {
		return err
	}
	s.tally.tried += len(ids)
	if err := s.pause(ctx, s.wait); err != nil {
		return err
	}
	args := map[slurm.JobID][]string{}
	good, err := s.possible(ctx, ids, func(i int) { args[ids[i]] = requests[i] }, true)
	if err != nil {
		return err
	}
	hits := map[slurm.JobID]found{}
	for i := range draws {
		if err := s.narrowAll(ctx, good, g, i == 0, hits); err != nil {
			return err
		}
	}
	for _, id := range good {
		if h, ok := hits[id]; ok {
			h.args = args[id]
			s.tally.stranded = append(s.tally.stranded, h)
		}
	}
	if err := s.try(ctx, hits, s.alive); err != nil {
		return err
	}
	if err := s.try(ctx, hits, s.killed); err != nil {
		return err
	}
	return s.clear(ctx)
}

// possible returns the pending jobs among ids that slurmctld does not call
// impossible by itself, and counts the others.
func (s *search) possible(ctx context.Context, ids []slurm.JobID, note func(i int), count bool) ([]slurm.JobID, error) {
	snap, err := s.client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	var good []slurm.JobID
	for i, id := range ids {
		j := snap.Job(id)
		switch {
		case id == 0:
			if count {
				s.tally.refused++
			}
		case j == nil || !j.Pending() || impossible(j):
			if count {
				s.tally.slurms++
			}
		default:
			good = append(good, id)
			note(i)
		}
	}
	return good, nil
}

// first is an offset that brings a job to the queue's head: slurmctld's main
// scheduler calls only that one impossible, and does not look at the nodes of
// those behind it.
const first = int64(1_000_000)

// narrowAll narrows one job after the other by a draw and brings it to the
// queue's head, without guard rails but for the number of nodes, notes those
// that are stranded, and gives all back.
func (s *search) narrowAll(ctx context.Context, ids []slurm.JobID, g *generator, leaf bool, hits map[slurm.JobID]found) error {
	snap, err := s.client.Snapshot(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		j := snap.Job(id)
		if _, ok := hits[id]; ok || j == nil {
			continue
		}
		need := policy.NodesNeeded(j, snap) + slack
		keep := g.narrow(suitable(j, snap), need, leaf)
		if len(keep) < need || len(keep) >= len(snap.JobNodes(j)) {
			continue
		}
		if err := s.one(ctx, j, snap, keep, hits); err != nil {
			return err
		}
	}
	return nil
}

// one narrows one job, looks, and gives it back.
func (s *search) one(ctx context.Context, j *slurm.Job, snap *slurm.Snapshot, keep []string, hits map[slurm.JobID]found) error {
	var out []string
	for _, n := range snap.JobNodes(j) {
		if !slices.Contains(keep, n) {
			out = append(out, n)
		}
	}
	up, down, none := first, int64(0), []string{}
	set, back := slurm.Update{JobID: j.ID, ExcludedNodes: &out}, slurm.Update{JobID: j.ID, ExcludedNodes: &none}
	if snap.Release.HasSiteFactor() {
		set.SiteFactor, back.SiteFactor = &up, &down
	} else {
		nice := -first
		set.Nice, back.Nice = &nice, &down
	}
	if err := s.client.Update(ctx, set); err != nil {
		return nil //nolint:nilerr // a request that cannot be changed cannot be stranded
	}
	s.tally.narrowed++
	if err := s.pause(ctx, s.turn); err != nil {
		return err
	}
	now, err := s.client.Job(ctx, j.ID)
	if err != nil {
		return err
	}
	if err := s.client.Update(ctx, back); err != nil || !impossible(&now) {
		return err
	}
	if err := s.pause(ctx, s.turn); err != nil {
		return err
	}
	after, err := s.client.Job(ctx, j.ID)
	hits[j.ID] = found{keep: keep, back: err == nil && !impossible(&after)}
	return err
}

// suitable are the nodes that have the features that a job's constraint names
// in plain words: a draw that leaves none of them would show nothing.
func suitable(j *slurm.Job, snap *slurm.Snapshot) []string {
	var out []string
	for _, name := range snap.JobNodes(j) {
		if n := snap.Node(name); n != nil && (j.Features == "" || slices.Contains(n.Features, "old")) {
			out = append(out, name)
		}
	}
	return out
}

// minimize leaves out one option after the other of up to four requests, to
// see which it takes.
func (s *search) minimize(ctx context.Context) error {
	for i := range s.tally.stranded[:min(4, len(s.tally.stranded))] {
		f := &s.tally.stranded[i]
		var without [][]string
		for k := range f.args {
			without = append(without, slices.Delete(slices.Clone(f.args), k, k+1))
		}
		ids, err := s.submit(ctx, without)
		if err != nil {
			return err
		}
		if err := s.pause(ctx, s.wait); err != nil {
			return err
		}
		of := map[slurm.JobID]int{}
		good, err := s.possible(ctx, ids, func(n int) { of[ids[n]] = n }, false)
		if err != nil {
			return err
		}
		snap, err := s.client.Snapshot(ctx)
		if err != nil {
			return err
		}
		hits := map[slurm.JobID]found{}
		for _, id := range good {
			if j := snap.Job(id); j != nil {
				if err := s.one(ctx, j, snap, f.keep, hits); err != nil {
					return err
				}
			}
		}
		still := map[int]bool{}
		for id := range hits {
			still[of[id]] = true
		}
		for k, arg := range f.args {
			if !still[k] {
				f.need = append(f.need, option(arg))
			}
		}
		slices.Sort(f.need)
		if err := s.clear(ctx); err != nil {
			return err
		}
	}
	return nil
}
