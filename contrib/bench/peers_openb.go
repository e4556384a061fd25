// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/csv"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rifling/sim/peer"
)

// The protocol of FGD's comparison.
const (
	openbLoad  = 1.3
	openbSeeds = 10
)

// openbTargets has, by list of pods, the allocated per cent of random, dot
// product, clustering, packing, best-fit and FGD.
var openbTargets = map[string][]float64{
	"default":    {87.47, 90.85, 91.88, 92.00, 93.08, 95.39},
	"multigpu50": {90.28, 94.85, 95.81, 96.18, 95.74, 97.18},
}

func openbFigures(dir string) ([]figure, error) {
	hosts, err := readHosts(filepath.Join(dir, "openb", "openb_node_list_gpu_node.csv"))
	if err != nil {
		return nil, err
	}
	const prefix = "openb_pod_list_"
	files, err := filepath.Glob(filepath.Join(dir, "openb", prefix+"*.csv"))
	if err != nil {
		return nil, err
	}
	var out []figure
	for _, path := range files {
		pods, err := readPods(path)
		if err != nil {
			return nil, err
		}
		name := strings.TrimPrefix(strings.TrimSuffix(filepath.Base(path), ".csv"), prefix)
		in := peer.Inflation{Hosts: hosts, Pods: pods, Load: openbLoad}
		for i, policy := range peer.FGD() {
			var got []float64
			for seed := range uint64(openbSeeds) {
				v, err := in.Run(policy, rand.New(rand.NewPCG(seed, 1)))
				if err != nil {
					return nil, fmt.Errorf("%s: %w", path, err)
				}
				got = append(got, v)
			}
			what := fmt.Sprintf("%% +-%.2f", deviation(got))
			out = append(out, figure{"openb " + name, policy.Name, what, average(got), target(openbTargets, name, i)})
		}
	}
	return out, nil
}

func average(v []float64) float64 {
	sum := 0.0
	for _, x := range v {
		sum += x
	}
	return sum / float64(len(v))
}

// deviation is the standard deviation of a sample.
func deviation(v []float64) float64 {
	m, sum := average(v), 0.0
	for _, x := range v {
		sum += (x - m) * (x - m)
	}
	return math.Sqrt(sum / float64(len(v)-1))
}

func readHosts(path string) ([]peer.Host, error) {
	var out []peer.Host
	err := readColumns(path, []string{"cpu_milli", "memory_mib", "gpu", "model"}, func(v []string) error {
		n, err := counts(v[:3])
		if err == nil {
			out = append(out, peer.Host{CPU: n[0], MiB: n[1], GPUs: n[2], Type: v[3]})
		}
		return err
	})
	return out, err
}

func readPods(path string) ([]peer.Pod, error) {
	var out []peer.Pod
	err := readColumns(path, []string{"cpu_milli", "memory_mib", "num_gpu", "gpu_milli", "gpu_spec"}, func(v []string) error {
		n, err := counts(v[:4])
		if err == nil {
			out = append(out, peer.Pod{CPU: n[0], MiB: n[1], GPUs: n[2], Milli: n[3], Types: v[4]})
		}
		return err
	})
	return out, err
}

func counts(text []string) ([]int, error) {
	out := make([]int, len(text))
	for i, t := range text {
		if t == "" {
			continue
		}
		n, err := strconv.Atoi(t)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("%q is no count", t)
		}
		out[i] = n
	}
	return out, nil
}

// readColumns hands over the named columns of a CSV file row by row; a column
// that is not there is empty.
func readColumns(path string, names []string, row func([]string) error) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close() // it was only read
	all, err := csv.NewReader(file).ReadAll()
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	if len(all) == 0 {
		return fmt.Errorf("%s is empty", path)
	}
	values := make([]string, len(names))
	for i, cells := range all[1:] {
		for n, name := range names {
			values[n] = ""
			if at := slices.Index(all[0], name); at >= 0 {
				values[n] = cells[at]
			}
		}
		if err := row(values); err != nil {
			return fmt.Errorf("%s, line %d: %w", path, i+2, err)
		}
	}
	return nil
}
