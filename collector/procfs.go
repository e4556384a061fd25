// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"rifling/slurm"
)

// Proc finds a process's job below Root, a procfs: by its control group, and
// where that does not name the job (26.05's SLUIDs, sites without cgroups) by
// SLURM_JOB_ID of its environment. The latter needs root or CAP_SYS_PTRACE.
type Proc struct {
	Root string // "/proc"
}

// Job implements JobSource. A process that is gone has no job.
func (p Proc) Job(pid int) (JobRef, bool) {
	dir := filepath.Join(p.Root, strconv.Itoa(pid))
	var ref JobRef
	if b, err := os.ReadFile(filepath.Join(dir, "cgroup")); err == nil {
		for line := range strings.Lines(string(b)) {
			if c, ok := slurm.ParseCgroup(line); ok && c.JobID != 0 {
				ref.ID = c.JobID
				break
			}
		}
	}
	b, err := os.ReadFile(filepath.Join(dir, "environ"))
	if err != nil {
		return ref, ref.ID != 0
	}
	env := environ(b)
	if ref.ID == 0 {
		id, _ := strconv.ParseUint(env["SLURM_JOB_ID"], 10, 32)
		ref.ID = slurm.JobID(id)
	}
	for _, name := range []string{"SLURM_JOB_NUM_NODES", "SLURM_NNODES"} {
		if n, err := strconv.Atoi(env[name]); err == nil && n > 0 {
			ref.Nodes = n
			break
		}
	}
	return ref, ref.ID != 0
}

// environ picks Slurm's variables out of /proc/PID/environ.
func environ(b []byte) map[string]string {
	out := map[string]string{}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if k, v, ok := strings.Cut(string(kv), "="); ok && strings.HasPrefix(k, "SLURM_") {
			out[k] = v
		}
	}
	return out
}

// Jobs implements JobSource.
func (p Proc) Jobs() []JobRef { return nil }
