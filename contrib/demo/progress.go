// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"strings"
	"time"

	"rifling/contrib/labrun"
	"rifling/policy"
	"rifling/slurm"
	"rifling/store"
)

// steering is what rifling has done so far.
type steering struct {
	decided int    // jobs that rifling has chosen a place, or waiting, for
	changes int    // updates of jobs that Slurm took
	last    string // the newest decision, in words; empty for none
}

// steeringOf sums up the history.
func steeringOf(jobs []store.Job, status *store.Status) steering {
	s := steering{changes: status.Changes}
	var newest *store.Job
	for i := range jobs {
		j := &jobs[i]
		if j.Decision == nil || j.Decision.Skipped != "" || j.Decision.Action == policy.Leave {
			continue
		}
		s.decided++
		if newest == nil || !j.Decision.FirstAt.Before(newest.Decision.FirstAt) {
			newest = j
		}
	}
	if newest != nil {
		s.last = inWords(newest)
	}
	return s
}

// inWords is a decision as one would tell it.
func inWords(j *store.Job) string {
	d := j.Decision
	what := map[policy.Action]string{
		policy.Pack: "pack on", policy.Leaf: "one leaf:", policy.Even: "even parts on", policy.Quiet: "quiet:", policy.Wait: "wait for",
	}[d.Action]
	if what == "" {
		what = string(d.Action) + ":"
	}
	nodes := d.Target
	if len(nodes) == 0 {
		nodes = d.Candidates
	}
	return fmt.Sprintf("%d (%s, %d GPU): %s %s", j.ID, j.User, j.GPUs, what, slurm.CompressHosts(nodes))
}

// progressHeader names the columns; plan and set are explained above them.
const progressHeader = " time wait  run done | GPUs busy          | plan  set | last decision"

// width is what an admin's terminal shows without wrapping.
const width = 100

// progressLine is one line of at most width columns.
func progressLine(since time.Duration, p labrun.Progress, gpus int, s steering) string {
	sec := int(since.Seconds())
	line := fmt.Sprintf("%2d:%02d %4d %4d %4d | %s %3d/%-3d | %4d %4d | %s",
		sec/60, sec%60, p.Waiting, p.Running, p.Done, bar(p.GPUsBusy, gpus, 10), p.GPUsBusy, gpus, s.decided, s.changes, s.last)
	line = strings.TrimRight(line, " ")
	if r := []rune(line); len(r) > width {
		line = string(r[:width-1]) + "…"
	}
	return line
}

// bar shows n of total in the given number of characters.
func bar(n, total, columns int) string {
	full := 0
	if total > 0 {
		full = min(columns, (n*columns+total/2)/total)
	}
	return strings.Repeat("#", full) + strings.Repeat(".", columns-full)
}

// choose picks what tells most: a job that was told to wait, and one of several
// GPUs that was placed with the most to choose from.
func choose(stories []*store.Story) []slurm.JobID {
	var waited, placed *store.Story
	better := func(than *store.Story, s *store.Story, worth func(*store.Story) int) bool {
		return worth(s) > 0 && (than == nil || worth(s) > worth(than))
	}
	for _, s := range stories {
		if better(waited, s, waits) {
			waited = s
		}
	}
	for _, s := range stories {
		if s != waited && better(placed, s, choices) {
			placed = s
		}
	}
	var ids []slurm.JobID
	for _, s := range []*store.Story{waited, placed} {
		if s != nil {
			ids = append(ids, s.Job.ID)
		}
	}
	return ids
}

// waits is 0 for a job that never was told to wait, and more the more GPUs it
// asks for and the shorter its story is.
func waits(s *store.Story) int {
	for i := range s.Decisions {
		if s.Decisions[i].Action == policy.Wait {
			return max(1, 10*s.Job.GPUs-len(s.Decisions))
		}
	}
	return 0
}

// choices is how many actions were weighed when the job got its place.
func choices(s *store.Story) int {
	d := s.Job.Decision
	if d == nil || d.Skipped != "" || d.Action == policy.Leave {
		return 0
	}
	return len(d.Considered)*1000 + s.Job.GPUs
}
