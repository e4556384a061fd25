// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"math"
	"strings"
)

// CgroupJob is the job and step that a control group belongs to. One of JobID
// and SLUID is set.
type CgroupJob struct {
	JobID JobID  // 0 when the path has a SLUID instead
	SLUID string // from 26.05 on; SLURM_JOB_ID in the process's environment gives the job
	Step  string // "0", "batch", "extern"; empty when the path ends at the job
	Node  string // the node's name, where a machine runs several slurmd; else empty
}

// ParseCgroup reads a line of /proc/PID/cgroup, or a path below
// /sys/fs/cgroup, and reports whether it is of a Slurm job: version 1
// ("/slurm_NODE/uid_U/job_J/step_S/…"), version 2
// ("/system.slice/NODE_slurmstepd.scope/job_J/step_S/…") and the SLUIDs of
// 26.05 in place of job_J. Groups below a user's own slice are never Slurm's,
// whatever their names are.
func ParseCgroup(line string) (CgroupJob, bool) {
	path := strings.TrimSpace(line)
	if i := strings.IndexByte(path, '/'); i >= 0 {
		path = path[i+1:]
	}
	for strings.HasPrefix(path, "../") { // as seen from within a control group's name space
		path = path[len("../"):]
	}
	parts := strings.Split(path, "/")
	if parts[0] == "user.slice" {
		return CgroupJob{}, false
	}
	for i, part := range parts {
		node, ok := slurmGroup(part)
		if !ok {
			continue
		}
		job, rest, ok := cgroupJob(parts[i+1:])
		if !ok {
			return CgroupJob{}, false
		}
		job.Node = node
		if len(rest) > 0 {
			if step, ok := strings.CutPrefix(rest[0], "step_"); ok && isStep(step) {
				job.Step = step
			}
		}
		return job, true
	}
	return CgroupJob{}, false
}

// slurmGroup reports whether the group is slurmd's topmost, and whose.
func slurmGroup(part string) (node string, ok bool) {
	if part == "slurm" || part == "slurmstepd.scope" {
		return "", true
	}
	if node, ok := strings.CutPrefix(part, "slurm_"); ok {
		return node, true
	}
	return strings.CutSuffix(part, "_slurmstepd.scope")
}

// cgroupJob reads the job's group, which in version 1 stands behind the
// user's, and returns the groups below it.
func cgroupJob(parts []string) (CgroupJob, []string, bool) {
	if len(parts) > 0 && strings.HasPrefix(parts[0], "uid_") {
		parts = parts[1:]
	}
	if len(parts) == 0 {
		return CgroupJob{}, nil, false
	}
	if digits, ok := strings.CutPrefix(parts[0], "job_"); ok {
		id, ok := parseDigits(digits)
		return CgroupJob{JobID: JobID(id)}, parts[1:], ok && id > 0 && id <= math.MaxUint32
	}
	return CgroupJob{SLUID: parts[0]}, parts[1:], isSLUID(parts[0])
}

// isSLUID reports whether s is "s" and 13 digits of base 32.
func isSLUID(s string) bool {
	if len(s) != 14 || s[0] != 's' {
		return false
	}
	return strings.Trim(s[1:], "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ") == ""
}
