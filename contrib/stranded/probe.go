// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"slices"
	"time"

	"rifling/policy"
	"rifling/slurm"
)

// slack is how many nodes beyond those it needs a job keeps, as the default of
// limits.slack-nodes has it.
const slack = 1

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
	hits, err := s.narrowAll(ctx, good, g)
	if err != nil {
		return err
	}
	for _, h := range hits {
		h.args = args[h.id]
		s.tally.stranded = append(s.tally.stranded, h.found)
	}
	// Slurm looks at the restored jobs again before the next part begins.
	if err := s.pause(ctx, s.wait); err != nil {
		return err
	}
	if err := s.alive(ctx, g); err != nil {
		return err
	}
	if err := s.killed(ctx, g); err != nil {
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

// hit is a job that a narrowing stranded.
type hit struct {
	found
	id slurm.JobID
}

// narrowAll narrows each job by a draw, without guard rails but for the number
// of nodes, returns those that are stranded, and gives all their lists back.
func (s *search) narrowAll(ctx context.Context, ids []slurm.JobID, g *generator) ([]hit, error) {
	snap, err := s.client.Snapshot(ctx)
	if err != nil {
		return nil, err
	}
	left := map[slurm.JobID]int{}
	for _, id := range ids {
		j := snap.Job(id)
		if j == nil {
			continue
		}
		keep := g.narrow(suitable(j, snap), policy.NodesNeeded(j, snap)+slack)
		if len(keep) < policy.NodesNeeded(j, snap)+slack {
			continue
		}
		var out []string
		for _, n := range snap.JobNodes(j) {
			if !slices.Contains(keep, n) {
				out = append(out, n)
			}
		}
		if err := s.client.Update(ctx, slurm.Update{JobID: id, ExcludedNodes: &out}); err == nil {
			left[id] = len(keep)
			s.tally.narrowed++
		}
	}
	if err := s.pause(ctx, s.wait); err != nil {
		return nil, err
	}
	if snap, err = s.client.Snapshot(ctx); err != nil {
		return nil, err
	}
	var hits []hit
	for _, id := range ids {
		if impossible(snap.Job(id)) && left[id] > 0 {
			hits = append(hits, hit{id: id, found: found{left: left[id]}})
		}
		none := []string{}
		if left[id] > 0 {
			if err := s.client.Update(ctx, slurm.Update{JobID: id, ExcludedNodes: &none}); err != nil {
				return nil, err
			}
		}
	}
	if err := s.pause(ctx, time.Second); err != nil {
		return nil, err
	}
	if snap, err = s.client.Snapshot(ctx); err != nil {
		return nil, err
	}
	for i := range hits {
		hits[i].back = !impossible(snap.Job(hits[i].id))
	}
	return hits, nil
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

// minimize leaves out one option after the other of up to eight requests, to
// see which it takes.
func (s *search) minimize(ctx context.Context) error {
	for i := range s.tally.stranded[:min(8, len(s.tally.stranded))] {
		f := &s.tally.stranded[i]
		var without [][]string
		for k := range f.args {
			without = append(without, slices.Delete(slices.Clone(f.args), k, k+1))
		}
		// Each several times, for several draws of the nodes.
		const draws = 6
		var requests [][]string
		for range draws {
			requests = append(requests, without...)
		}
		ids, err := s.submit(ctx, requests)
		if err != nil {
			return err
		}
		if err := s.pause(ctx, s.wait); err != nil {
			return err
		}
		of := map[slurm.JobID]int{}
		good, err := s.possible(ctx, ids, func(n int) { of[ids[n]] = n % len(without) }, false)
		if err != nil {
			return err
		}
		hits, err := s.narrowAll(ctx, good, newGenerator(uint64(i)+99, s.lab.Nodes, s.lab.GPUs))
		if err != nil {
			return err
		}
		still := map[int]bool{}
		for _, h := range hits {
			still[of[h.id]] = true
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
