// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"errors"
	"strings"
	"time"
)

// TRES is a set of trackable resources by Slurm's names: "cpu", "mem",
// "node", "billing", "gres/gpu", "gres/gpu:a100". Memory ("mem", "vmem",
// "gres/gpumem", "fs/disk", "bb/…") is in bytes; "cpu" is a number of CPUs, or
// seconds of CPU time in a string of usage.
type TRES map[string]int64

// mebi is the unit of a memory size that Slurm writes without a suffix.
const mebi = 1 << 20

// bareUnit is what one stands for in a count without a suffix. Slurm keeps mem
// and burst buffers in MiB; all else counts ones or bytes.
func bareUnit(name string) int64 {
	if name == "mem" || strings.HasPrefix(name, "bb/") {
		return mebi
	}
	return 1
}

// ParseTRES reads a TRES string such as tres_req_str, tres_alloc_str and
// sacct's AllocTRES and TRESUsageIn…: "cpu=8,mem=100G,gres/gpu:a100=2". Values
// that stand for unset or infinite (NO_VAL64, INFINITE64, negative) are left
// out. What can be read is returned even when other parts cannot; the error
// then joins one *ParseError for each rejected part.
func ParseTRES(s string) (TRES, error) {
	s = strings.TrimSpace(s)
	out := TRES{}
	if isNothing(s) {
		return out, nil
	}
	var errs []error
	reject := func(tok, msg string) {
		errs = append(errs, &ParseError{Kind: "tres", Token: tok, Msg: msg})
	}
	for tok := range strings.SplitSeq(s, ",") {
		name, value, found := strings.Cut(strings.TrimSpace(tok), "=")
		if !found || !isTRESName(name) {
			reject(tok, "not of the form name=count")
			continue
		}
		if isSentinel(value) {
			continue
		}
		n, ok := parseTRESValue(name, value)
		if _, twice := out[name]; twice {
			reject(tok, "named twice")
		} else if !ok {
			reject(tok, "the count is no number")
		} else {
			out[name] = n
		}
	}
	return out, errors.Join(errs...)
}

func isTRESName(name string) bool {
	base, kind, typed := strings.Cut(name, ":")
	return isGRESWord(base) && (!typed || isGRESWord(kind))
}

// isSentinel reports whether the number is one of those that Slurm uses for
// unset (NO_VAL64, -2) and infinite (INFINITE64, -1).
func isSentinel(value string) bool {
	switch value {
	case "18446744073709551614", "18446744073709551615", "-2", "-1":
		return true
	}
	return false
}

func parseTRESValue(name, value string) (int64, bool) {
	if name == "cpu" && strings.Contains(value, ":") {
		d, unlimited, err := ParseDuration(value)
		return int64(d / time.Second), err == nil && !unlimited
	}
	return parseScaled(value, bareUnit(name))
}

// gres gives the generic resources of the set in the form of ParseGRES.
func (t TRES) gres() []GRES {
	var out []GRES
	for name, n := range t {
		if rest, ok := strings.CutPrefix(name, "gres/"); ok {
			base, kind, _ := strings.Cut(rest, ":")
			out = append(out, GRES{Name: base, Type: kind, Count: n})
		}
	}
	return out
}

// GPUs returns the number of GPUs; typed entries are part of the untyped total
// and not added to it.
func (t TRES) GPUs() int {
	n, _ := GPUs(t.gres())
	return n
}

// GPUsByType returns the GPUs by type; nil when Slurm names no types.
func (t TRES) GPUsByType() map[string]int {
	_, byType := GPUs(t.gres())
	return byType
}

// StepUsage is what one step of a job has used, one row of sacct.
type StepUsage struct {
	Step string // "0", "batch", "extern"; "" for the job's own row
	Used TRES
}

// MaxUsage gives for each resource the largest figure of any real step. The
// extern step runs nothing of the user's and reports zeros, and the job's own
// row repeats the others, so neither counts.
func MaxUsage(steps []StepUsage) TRES {
	out := TRES{}
	for _, s := range steps {
		if s.Step == "" || s.Step == "extern" {
			continue
		}
		for name, n := range s.Used {
			if old, seen := out[name]; !seen || n > old {
				out[name] = n
			}
		}
	}
	return out
}

// ParseMemory reads a memory size as Slurm writes it ("4G", "1947276K",
// "1.50T") and returns bytes. A number without a suffix is in MiB, as in --mem.
func ParseMemory(s string) (int64, error) {
	n, ok := parseScaled(strings.TrimSpace(s), mebi)
	if !ok {
		return 0, &ParseError{Kind: "memory", Token: s, Msg: "not a number with one of K, M, G, T, P"}
	}
	return n, nil
}

// ParseReqMem reads sacct's ReqMem column and returns bytes. Up to release
// 20.11, whose rows are still in the database, a letter at the end says what the
// size is for: per is then "node" or "cpu", and empty in newer rows.
func ParseReqMem(s string) (bytes int64, per string, err error) {
	size := strings.TrimSpace(s)
	switch {
	case strings.HasSuffix(size, "n"):
		size, per = size[:len(size)-1], "node"
	case strings.HasSuffix(size, "c"):
		size, per = size[:len(size)-1], "cpu"
	}
	bytes, err = ParseMemory(size)
	if err != nil {
		return 0, "", &ParseError{Kind: "memory", Token: s, Msg: "not a size per node or CPU"}
	}
	return bytes, per, nil
}
