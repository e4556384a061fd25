// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rifling/sim/peer"
	"rifling/sim/trace"
)

// The protocol of RLScheduler's comparison.
const (
	batchSeed      = 1
	batchLength    = 1024
	batchSequences = 10
	batchRows      = 10000 // taken of a trace, from its beginning
)

// batchTargets has, by trace, the bounded slowdowns of FCFS, WFP3, UNI, SJF and
// F1: those of RLScheduler's README for the two Lublin traces, those that its
// program printed for RICC (traces/README.md).
var batchTargets = map[string][]float64{
	"lublin_256, backfill":      {235.82, 133.87, 307.23, 73.31, 75.07},
	"lublin_256":                {7273.77, 19753.53, 22274.74, 277.35, 258.37},
	"lublin_256_new2, backfill": {247.61, 318.35, 379.59, 91.99, 148.25},
	"lublin_256_new2":           {7842.47, 9523.18, 11265.31, 787.89, 698.34},
	"RICC-2010-2, backfill":     {30.73, 7.77, 28.98, 31.53, 5.94},
}

func batchFigures(dir string) ([]figure, error) {
	var files []string
	for _, pattern := range []string{"rlscheduler/*", "ricc/*"} {
		found, err := filepath.Glob(filepath.Join(dir, filepath.FromSlash(pattern)))
		if err != nil {
			return nil, err
		}
		files = append(files, found...)
	}
	var out []figure
	for _, path := range files {
		m, err := readMachine(path)
		if err != nil {
			return nil, err
		}
		jobs, cut, err := readBatch(path)
		if err != nil {
			return nil, err
		}
		name, _, _ := strings.Cut(filepath.Base(path), ".")
		backfill := []bool{true, false}
		if cut {
			backfill = backfill[:1]
		}
		these, err := batchTrace(name, m, peer.FromBatch(jobs), backfill)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", path, err)
		}
		out = append(out, these...)
	}
	return out, nil
}

// readBatch reads the first rows of a trace; cut says whether there are more.
func readBatch(path string) (jobs []trace.Job, cut bool, err error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, false, err
	}
	defer file.Close() // it was only read
	r, err := trace.NewReader(file, trace.SWF, trace.Options{})
	if err != nil {
		return nil, false, fmt.Errorf("%s: %w", path, err)
	}
	for {
		j, err := r.Next()
		switch {
		case errors.Is(err, io.EOF):
			return jobs, false, nil
		case err != nil:
			return nil, false, fmt.Errorf("%s: %w", path, err)
		case r.Report().Rows > batchRows:
			return jobs, true, nil
		}
		jobs = append(jobs, j)
	}
}

func batchTrace(name string, m peer.BatchMachine, jobs []peer.Batch, backfill []bool) ([]figure, error) {
	var out []figure
	for _, fill := range backfill {
		work := name
		if fill {
			work += ", backfill"
		}
		for i, score := range peer.RLScheduler() {
			sum := 0.0
			for _, from := range peer.Draws(batchSeed, len(jobs), batchLength, batchSequences) {
				part := jobs[from : from+batchLength]
				starts, err := peer.Sequence(m, part, score, fill)
				if err != nil {
					return nil, err
				}
				sum += peer.MeanBoundedSlowdown(part, starts)
			}
			out = append(out, figure{work, score.Name, "bounded slowdown", sum / batchSequences, target(batchTargets, work, i)})
		}
	}
	return out, nil
}

// readMachine finds the nodes and processors in the comments of a trace in
// Standard Workload Format.
func readMachine(path string) (peer.BatchMachine, error) {
	file, err := os.Open(path)
	if err != nil {
		return peer.BatchMachine{}, err
	}
	defer file.Close() // it was only read
	plain, err := trace.Plain(file)
	if err != nil {
		return peer.BatchMachine{}, err
	}
	m := peer.BatchMachine{}
	lines := bufio.NewScanner(plain)
	for lines.Scan() && strings.HasPrefix(lines.Text(), ";") {
		key, value, _ := strings.Cut(strings.Trim(lines.Text(), "; "), ":")
		n, err := strconv.Atoi(strings.TrimSpace(value))
		if err != nil || n < 1 || n > math.MaxInt32 {
			continue
		}
		switch key {
		case "MaxNodes":
			m.Nodes = n
		case "MaxProcs":
			m.Procs = n
		}
	}
	if m.Nodes == 0 {
		return m, fmt.Errorf("%s does not say MaxNodes", path)
	}
	m.Procs = max(m.Procs, m.Nodes)
	return m, lines.Err()
}
