// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// rights is what the kernel lets this process see of others.
type rights struct {
	known   bool // false where procfs does not tell
	ptrace  bool // CAP_SYS_PTRACE
	files   bool // CAP_DAC_READ_SEARCH or CAP_DAC_OVERRIDE
	hidepid bool // procfs hides other users' processes from those without CAP_SYS_PTRACE
	inside  bool // in a PID namespace of its own, where NVML may not know its process ids
}

// environ reports whether other users' environments can be read.
func (r rights) environ() bool { return r.ptrace && r.files }

// Numbers of capabilities, of <linux/capability.h>.
const (
	capDACOverride   = 1
	capDACReadSearch = 2
	capSysPtrace     = 19
)

// readRights reads what procfs says of this process.
func readRights(proc string) rights {
	var r rights
	status, err := os.ReadFile(filepath.Join(proc, "self", "status"))
	if err != nil {
		return r
	}
	for line := range strings.Lines(string(status)) {
		if hex, ok := strings.CutPrefix(line, "CapEff:"); ok {
			caps, err := strconv.ParseUint(strings.TrimSpace(hex), 16, 64)
			has := func(n int) bool { return caps&(1<<n) != 0 }
			r.known = err == nil
			r.ptrace, r.files = has(capSysPtrace), has(capDACOverride) || has(capDACReadSearch)
		}
	}
	mounts, _ := os.ReadFile(filepath.Join(proc, "self", "mounts"))
	for line := range strings.Lines(string(mounts)) {
		f := strings.Fields(line) // device, where, type, options
		if len(f) >= 4 && f[1] == proc && f[2] == "proc" {
			r.hidepid = hides(f[3])
		}
	}
	ns, err := os.Readlink(filepath.Join(proc, "self", "ns", "pid"))
	r.inside = err == nil && ns != hostPIDs
	return r
}

// hostPIDs is the first PID namespace, whose number is part of the kernel.
const hostPIDs = "pid:[4026531836]"

// hides reports whether the mount options of a procfs hide processes: hidepid=1
// hides what they are, 2 that they are.
func hides(options string) bool {
	for o := range strings.SplitSeq(options, ",") {
		if v, ok := strings.CutPrefix(o, "hidepid="); ok && v != "0" && v != "off" {
			return true
		}
	}
	return false
}
