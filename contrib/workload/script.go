// SPDX-License-Identifier: Apache-2.0

package workload

import (
	"fmt"
	"strings"
	"time"
)

// Script returns the batch script that the job's user submits. scale is
// Slurm's seconds per emulated second: 1 in a lab whose clock runs as fast as
// its jobs are compressed, 1/60 in a lab in real time whose jobs are
// compressed 60 times. Only the time limit depends on it.
//
// One process a node trains with all of the job's GPUs there; where the user
// asked by tasks, each task brings its own GPU.
func (j *Job) Script(scale float64) string {
	var b strings.Builder
	b.WriteString("#!/bin/bash\n")
	sbatch := func(format string, args ...any) { fmt.Fprintf(&b, "#SBATCH "+format+"\n", args...) }
	sbatch("--job-name=%s", j.Name)
	sbatch("--account=%s", j.Account)
	for _, r := range j.Request {
		sbatch("%s", r)
	}
	sbatch("--time=%s", slurmTime(time.Duration(float64(j.Limit)*scale)))
	sbatch("--output=%s", Output)
	launch := "srun --ntasks-per-node=1"
	if j.Form == PerTask {
		launch = "srun"
	}
	fmt.Fprintf(&b, "%s emujob --model %s --iterations %d\n", launch, j.Model, j.Iterations)
	return b.String()
}

// Output is where a job writes, below its user's home directory: %j is the
// job's id.
const Output = "emujob-%j.out"

// slurmTime writes a limit as --time takes it, in whole minutes, rounded up.
func slurmTime(d time.Duration) string {
	minutes := max(1, int((d+time.Minute-1)/time.Minute))
	return fmt.Sprintf("%d-%02d:%02d:00", minutes/(24*60), minutes/60%24, minutes%60)
}
