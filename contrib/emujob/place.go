// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"rifling/slurm"
)

// place is what Slurm's environment says of this process.
type place struct {
	Job   slurm.JobID
	Key   string // names the job step, and its run when it was requeued: "17.0", "17.batch.r1"
	Node  string
	Rank  int // of this task in the step; 0 leads
	Ranks int // tasks of the step
	GPUs  []int
}

// placeFromEnv reads the place from a task of srun or, without srun, from the
// batch script, which is one process on the first node.
func placeFromEnv(get func(string) string) (place, error) {
	job, err := strconv.ParseUint(get("SLURM_JOB_ID"), 10, 32)
	if err != nil {
		return place{}, slurm.WithHint(errors.New("no SLURM_JOB_ID in the environment"),
			"run it in a batch script: srun --ntasks-per-node=1 emujob --model bert --iterations 1000")
	}
	p := place{Job: slurm.JobID(job), Node: get("SLURMD_NODENAME"), Ranks: 1}
	if p.Node == "" {
		return place{}, errors.New("no SLURMD_NODENAME in the environment")
	}

	step, gpuVars := "batch", []string{"SLURM_JOB_GPUS", "CUDA_VISIBLE_DEVICES"}
	if tasks := get("SLURM_STEP_NUM_TASKS"); tasks != "" {
		// srun hands on the batch script's SLURM_JOB_GPUS, which says nothing of other nodes.
		step, gpuVars = get("SLURM_STEP_ID"), []string{"SLURM_STEP_GPUS", "CUDA_VISIBLE_DEVICES"}
		if p.Ranks, err = strconv.Atoi(tasks); err != nil || p.Ranks < 1 {
			return place{}, fmt.Errorf("odd SLURM_STEP_NUM_TASKS %q", tasks)
		}
		if p.Rank, err = strconv.Atoi(get("SLURM_PROCID")); err != nil || p.Rank < 0 || p.Rank >= p.Ranks {
			return place{}, fmt.Errorf("odd SLURM_PROCID %q of %d tasks", get("SLURM_PROCID"), p.Ranks)
		}
	}
	p.Key = fmt.Sprintf("%d.%s", job, step)
	if r := get("SLURM_RESTART_COUNT"); r != "" && r != "0" {
		p.Key += ".r" + r
	}

	if p.GPUs, err = gpusFromEnv(get, gpuVars); err != nil {
		return place{}, fmt.Errorf("on node %s: %w", p.Node, err)
	}
	return p, nil
}

// gpusFromEnv returns the indices of the GPUs that the task has on its node,
// from the first of the variables that has any, or else by their number.
func gpusFromEnv(get func(string) string, vars []string) ([]int, error) {
	for _, name := range vars {
		if get(name) == "" {
			continue
		}
		gpus, err := parseIndices(get(name))
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		return gpus, nil
	}
	n, err := strconv.Atoi(get("SLURM_GPUS_ON_NODE"))
	if err != nil || n < 1 {
		return nil, slurm.WithHint(errors.New("the job has no GPU"), "ask for some: sbatch --gres=gpu:2")
	}
	gpus := make([]int, n)
	for i := range gpus {
		gpus[i] = i
	}
	return gpus, nil
}

// parseIndices reads "0,1,4-7" into indices, each once, in order.
func parseIndices(s string) ([]int, error) {
	var out []int
	for part := range strings.SplitSeq(s, ",") {
		first, last, ranged := strings.Cut(part, "-")
		if !ranged {
			last = first
		}
		lo, err1 := strconv.Atoi(first)
		hi, err2 := strconv.Atoi(last)
		if err1 != nil || err2 != nil || lo < 0 || hi < lo || hi >= maxGPUs {
			return nil, fmt.Errorf("odd list of GPUs %q", s)
		}
		for i := lo; i <= hi; i++ {
			out = append(out, i)
		}
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}

// maxGPUs bounds the GPUs of a node, as the stand-in NVML does.
const maxGPUs = 64
