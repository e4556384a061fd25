// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"path/filepath"
	"strconv"
	"strings"

	"rifling/sim/peer"
	"rifling/sim/trace"
)

// polluxTargets has, by workload, the mean completion time under Tiresias as
// Pollux's authors published it.
var polluxTargets = map[string][]float64{
	"workload-1": {2473.65}, "workload-2": {5144.96}, "workload-5": {3501.01}, "workload-6": {3469.69},
}

func polluxFigures(dir string) ([]figure, error) {
	steps, err := readSteps(filepath.Join(dir, "..", "placement"))
	if err != nil {
		return nil, err
	}
	var out []figure
	err = tracesIn(dir, filepath.Join("pollux", "*.csv"), trace.Pollux, func(name string, jobs []trace.Job) error {
		work, err := peer.FromPollux(jobs, steps)
		if err != nil {
			return err
		}
		done, err := peer.RunRounds(peer.Machine{Nodes: 16, GPUs: 4}, work, peer.PolluxTiresias)
		if err != nil {
			return err
		}
		sum := 0.0
		for i, d := range done {
			sum += d.End - work[i].Submit
		}
		out = append(out, figure{name, "Tiresias", "mean JCT s", sum / float64(len(done)), target(polluxTargets, name, 0)})
		return nil
	})
	return out, err
}

// readSteps reads the measured step times of all applications.
func readSteps(dir string) (map[string]*peer.StepTable, error) {
	const prefix, sized = "pollux_t4_", "_scalability"
	files, err := filepath.Glob(filepath.Join(dir, prefix+"*.csv"))
	if err != nil {
		return nil, err
	}
	out := map[string]*peer.StepTable{}
	for _, path := range files {
		name, isSized := strings.CutSuffix(strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".csv"), prefix), sized)
		if out[name] == nil {
			out[name] = &peer.StepTable{}
		}
		columns := []string{"placement", "num_nodes", "num_replicas", "local_bsz", "step_time", "sync_time"}
		err := readColumns(path, columns, func(v []string) error {
			if isSized == (v[0] != "") {
				return fmt.Errorf("placement %q does not suit the file", v[0])
			}
			size, err := counts(v[1:3])
			if err != nil {
				return err
			}
			var f [3]float64
			for i, text := range v[3:] {
				if f[i], err = strconv.ParseFloat(text, 64); err != nil {
					return err
				}
			}
			out[name].Add(v[0], size[0], size[1], f[0], f[1], f[2])
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return out, nil
}
