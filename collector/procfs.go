// SPDX-License-Identifier: Apache-2.0

package collector

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"rifling/slurm"
)

// Proc finds the jobs of processes below Root, a procfs. A process's control
// group counts first; where that does not name the job (26.05's SLUIDs, sites
// without control groups) SLURM_JOB_ID of its environment does. To read the
// environment of another user's process takes root, or CAP_SYS_PTRACE and
// CAP_DAC_READ_SEARCH.
//
// What was found is kept by process id and start time, so that a reading costs
// one small file for each process. Not safe for concurrent use.
type Proc struct {
	Root string // "/proc"

	kept  map[int]*kept
	round int
}

// kept is what is known of one process.
type kept struct {
	start string // when it began, by the kernel's word
	ref   JobRef
	found bool // of a job; it stays that for life
	asked int  // round in which it was last asked for
	read  int  // round in which it was read
}

// noneFor is for how many readings a process stays without a job before it is
// looked at again: pam_slurm_adopt may move it, and a read may have met it
// between fork and exec.
const noneFor = 8

// maxEnviron bounds what is read of one environment, in bytes. Linux allows a
// program 6 MB of arguments and environment by default.
const maxEnviron = 8 << 20

// maxCgroup bounds what is read of a process's list of control groups, bytes.
const maxCgroup = 1 << 16

// NewProc returns a Proc that reads below root.
func NewProc(root string) *Proc { return &Proc{Root: root, kept: map[int]*kept{}} }

// Next implements JobSource.
func (p *Proc) Next() {
	for pid, k := range p.kept {
		if k.asked < p.round {
			delete(p.kept, pid)
		}
	}
	p.round++
}

// Job implements JobSource. A process that is gone has no job.
func (p *Proc) Job(pid int) (JobRef, bool) {
	start, ok := p.start(pid)
	if !ok {
		delete(p.kept, pid)
		return JobRef{Way: WayHidden}, false
	}
	k := p.kept[pid]
	if k == nil || k.start != start || !k.found && p.round-k.read >= noneFor {
		k = &kept{start: start, read: p.round}
		k.ref, k.found = p.read(pid)
		p.kept[pid] = k
	}
	k.asked = p.round
	return k.ref, k.found
}

// Jobs implements JobSource. It reads each process that was not met before.
func (p *Proc) Jobs() []JobRef {
	entries, err := os.ReadDir(p.Root)
	if err != nil {
		return nil
	}
	var out []JobRef
	index := map[slurm.JobID]int{}
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil {
			continue
		}
		ref, ok := p.Job(pid)
		if !ok {
			continue
		}
		i, known := index[ref.ID]
		if !known {
			i = len(out)
			index[ref.ID] = i
			out = append(out, JobRef{ID: ref.ID, Way: WayList, Node: ref.Node, NodeSure: ref.NodeSure})
		}
		j := &out[i]
		j.Nodes = max(j.Nodes, ref.Nodes)
		j.GPUs = union(j.GPUs, ref.GPUs)
		j.UUIDs = union(j.UUIDs, ref.UUIDs)
	}
	return out
}

// union adds what is new to a; a is nil only while nothing was added.
func union[T int | string](a, b []T) []T {
	for _, x := range b {
		if !slices.Contains(a, x) {
			a = append(a, x)
		}
	}
	return a
}

// start is the field of /proc/PID/stat that tells one process of a number from
// the next of it. The name before it is in parentheses and may hold any.
func (p *Proc) start(pid int) (string, bool) {
	b, err := readSome(p.path(pid, "stat"), 4096)
	if err != nil {
		return "", false
	}
	_, rest, ok := bytes.Cut(b[bytes.LastIndexByte(b, ')')+1:], []byte{' '})
	if !ok {
		return "", false
	}
	const startTime = 22 - 3 // the field after the name is number 3
	fields := bytes.Fields(rest)
	if len(fields) <= startTime {
		return "", false
	}
	return string(fields[startTime]), true
}

func (p *Proc) path(pid int, name string) string {
	return filepath.Join(p.Root, strconv.Itoa(pid), name)
}

// read finds a process's job from what the kernel shows of it.
func (p *Proc) read(pid int) (JobRef, bool) {
	var ref JobRef
	groups, _ := readSome(p.path(pid, "cgroup"), maxCgroup)
	group := slurmGroup(string(groups))
	if group.JobID != 0 {
		ref = JobRef{ID: group.JobID, Way: WayCgroup}
	}
	if group.Node != "" {
		ref.Node, ref.NodeSure = group.Node, true
	}
	b, err := readSome(p.path(pid, "environ"), maxEnviron)
	if err != nil {
		if ref.ID == 0 {
			ref.Way = WayNone
			if errors.Is(err, fs.ErrPermission) && (group.SLUID != "" || mayBeSlurms(string(groups))) {
				ref.Way = WayClosed
			}
		}
		return ref, ref.ID != 0
	}
	addEnviron(&ref, environ(b), group.Step)
	return ref, ref.ID != 0
}

// slurmGroup returns the first of the groups that is of a Slurm job. The lines
// are those of /proc/PID/cgroup.
func slurmGroup(lines string) slurm.CgroupJob {
	for line := range strings.Lines(lines) {
		if c, ok := slurm.ParseCgroup(line); ok {
			return c
		}
	}
	return slurm.CgroupJob{}
}

// mayBeSlurms reports whether a process that is in no job's group may be of
// one still: where Slurm uses no control groups its jobs are in that of slurmd,
// or in none.
func mayBeSlurms(lines string) bool {
	for line := range strings.Lines(lines) {
		path := strings.TrimSpace(line[strings.LastIndexByte(line, ':')+1:])
		if path != "/" && !strings.Contains(path, "slurm") {
			return false
		}
	}
	return true
}

// addEnviron adds what Slurm wrote into a process's environment. A user may
// write there too, so the control group's word stands.
func addEnviron(ref *JobRef, env map[string]string, step string) {
	id, _ := strconv.ParseUint(env["SLURM_JOB_ID"], 10, 32)
	switch {
	case ref.ID == 0 && id != 0:
		ref.ID, ref.Way = slurm.JobID(id), WayEnviron
	case ref.ID == 0:
		ref.Way = WayNone
		return
	case slurm.JobID(id) != ref.ID:
		return // of another job, as under a shell of salloc: it says nothing of this one
	}
	for _, name := range []string{"SLURM_JOB_NUM_NODES", "SLURM_NNODES"} {
		if n, err := strconv.Atoi(env[name]); err == nil && n > 0 {
			ref.Nodes = n
			break
		}
	}
	if ref.Node == "" {
		ref.Node = env["SLURMD_NODENAME"]
	}
	// srun hands the batch script's SLURM_JOB_GPUS on to other nodes, where it
	// is wrong: in a step only SLURM_STEP_GPUS counts. GPU_DEVICE_ORDINAL and
	// CUDA_VISIBLE_DEVICES count from 0 anew inside a control group and are
	// not used.
	list := env["SLURM_JOB_GPUS"]
	if inStep := step != "" && step != "batch" && step != "interactive"; inStep || step == "" && env["SLURM_STEP_ID"] != "" {
		list = env["SLURM_STEP_GPUS"]
	}
	devices, _ := slurm.ParseDevices(list)
	for _, d := range devices {
		if d.UUID != "" {
			ref.UUIDs = append(ref.UUIDs, d.UUID)
		} else {
			ref.GPUs = append(ref.GPUs, d.Index)
		}
	}
}

// environ picks Slurm's variables out of /proc/PID/environ.
func environ(b []byte) map[string]string {
	out := map[string]string{}
	for kv := range bytes.SplitSeq(b, []byte{0}) {
		if !bytes.HasPrefix(kv, []byte("SLURM")) {
			continue
		}
		if k, v, ok := strings.Cut(string(kv), "="); ok {
			out[k] = v
		}
	}
	return out
}

// readSome reads a file up to a bound.
func readSome(path string, limit int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, limit))
}
