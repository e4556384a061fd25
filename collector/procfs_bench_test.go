// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"
)

// BenchmarkProcJobs looks for jobs among 1,000 processes that were met before:
// what a reading costs where GPUs' processes cannot be seen.
func BenchmarkProcJobs(b *testing.B) {
	root := b.TempDir()
	for pid := range 1000 {
		dir := filepath.Join(root, fmt.Sprint(pid+1))
		if err := os.Mkdir(dir, 0o700); err != nil {
			b.Fatal(err)
		}
		for name, text := range map[string]string{
			"stat":    stat("100"),
			"cgroup":  fmt.Sprintf("0::/system.slice/slurmstepd.scope/job_%d/step_0/user/task_0\n", 17+pid%8),
			"environ": fmt.Sprintf("SLURM_JOB_ID=%d\x00SLURM_STEP_GPUS=%d\x00", 17+pid%8, pid%8),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				b.Fatal(err)
			}
		}
	}
	proc := NewProc(root)
	if got := len(proc.Jobs()); got != 8 {
		b.Fatalf("%d jobs, want 8", got)
	}
	for b.Loop() {
		proc.Next()
		proc.Jobs()
	}
}
