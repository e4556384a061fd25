// SPDX-License-Identifier: Apache-2.0

package slurm

import (
	"cmp"
	"math"
	"slices"
	"strings"
)

// JobRef is a job, an array task, a set of tasks, a component of a
// heterogeneous job or a step, as Slurm's commands write their ids.
type JobRef struct {
	Job  JobID // of an array its own id, which is not the raw id of its tasks
	Task int64 // -1 unless one array task is named

	// Tasks is the number of tasks of a set in brackets, a lower bound unless
	// TasksKnown. Both are zero for all else.
	Tasks      int
	TasksKnown bool
	Throttle   int // tasks that may run at once; 0 when there is no limit

	HetOffset int    // -1 unless a component is named
	Step      string // "0", "batch", "extern", "interactive"; empty for none
}

// ParseJobID reads an id in any form that squeue, sacct or a user writes:
// "123", "123_4", "123_[1-10%2]", "123_*", "93+1", "93+1.0", "715219_23.batch".
func ParseJobID(s string) (JobRef, error) {
	ref := JobRef{Task: -1, HetOffset: -1}
	fail := func(msg string) (JobRef, error) {
		return JobRef{Task: -1, HetOffset: -1}, &ParseError{Kind: "job id", Token: s, Msg: msg}
	}
	rest := strings.TrimSpace(s)
	i := 0
	for i < len(rest) && '0' <= rest[i] && rest[i] <= '9' {
		i++
	}
	id, ok := parseDigits(rest[:i])
	if !ok || id == 0 || id > math.MaxUint32 {
		return fail("does not begin with a job's number")
	}
	ref.Job, rest = JobID(id), rest[i:]

	if tail, ok := strings.CutPrefix(rest, "_"); ok {
		if rest, ok = ref.readTask(tail); !ok {
			return fail("odd array task")
		}
	} else if tail, ok := strings.CutPrefix(rest, "+"); ok {
		offset, _, _ := strings.Cut(tail, ".")
		n, ok := parseDigits(offset)
		if !ok || n > math.MaxInt32 {
			return fail("odd component of a heterogeneous job")
		}
		ref.HetOffset, rest = int(n), tail[len(offset):]
	}
	if rest == "" {
		return ref, nil
	}
	step, ok := strings.CutPrefix(rest, ".")
	if !ok || !isStep(step) {
		return fail("odd step")
	}
	ref.Step = step
	return ref, nil
}

// readTask reads what follows the underscore, one task or a set of them, and
// returns what follows that.
func (r *JobRef) readTask(s string) (rest string, ok bool) {
	if rest, ok := strings.CutPrefix(s, "*"); ok {
		return rest, true
	}
	if set, ok := strings.CutPrefix(s, "["); ok {
		set, rest, ok := strings.Cut(set, "]")
		if !ok || isNothing(set) {
			return "", false
		}
		var err error
		r.Tasks, r.Throttle, r.TasksKnown, err = ParseTasks(set)
		return rest, err == nil
	}
	task, _, _ := strings.Cut(s, ".")
	n, ok := parseDigits(task)
	r.Task = n
	return s[len(task):], ok && n <= math.MaxUint32
}

// isStep reports whether s may be the name of a step: a number or a word, with
// a component of a heterogeneous step behind a plus sign.
func isStep(s string) bool {
	name, component, het := strings.Cut(s, "+")
	for i := range len(name) {
		if c := name[i]; (c < 'a' || c > 'z') && (c < '0' || c > '9') && c != '_' {
			return false
		}
	}
	return name != "" && (!het || isDigits(component))
}

// ParseTasks reads array_task_string, the tasks of an array that are still
// pending: "1-6%2" (two at once), "1-9:2" (every second one), "1-3,7,...".
// slurmctld cuts long lists short and ends them in "..."; count is then a lower
// bound and known is false, as it is for the empty string of a job that is no
// array. throttle is 0 when there is no limit.
func ParseTasks(s string) (count, throttle int, known bool, err error) {
	fail := func(msg string) (int, int, bool, error) {
		return 0, 0, false, &ParseError{Kind: "array tasks", Token: s, Msg: msg}
	}
	list := strings.TrimSpace(s)
	if isNothing(list) {
		return 0, 0, false, nil
	}
	list, limit, throttled := strings.Cut(list, "%")
	if throttled {
		n, ok := parseDigits(limit)
		if !ok || n > math.MaxInt32 {
			return fail("the limit behind % is no number")
		}
		throttle = int(n)
	}
	list, _, cut := strings.Cut(list, "...")
	if cut {
		// Whatever stands right before the dots may have lost its end.
		list = list[:max(0, strings.LastIndexByte(list, ','))]
		if list == "" {
			return 0, throttle, false, nil
		}
	}
	var ranges []taskRange
	for part := range strings.SplitSeq(list, ",") {
		r, ok := parseTaskRange(part)
		if !ok {
			return fail("odd task or range")
		}
		ranges = append(ranges, r)
	}
	slices.SortFunc(ranges, func(a, b taskRange) int { return cmp.Compare(a.low, b.low) })
	for i, r := range ranges {
		if i > 0 && r.low <= ranges[i-1].high {
			return fail("ranges overlap")
		}
		count += int((r.high-r.low)/r.step) + 1
	}
	return count, throttle, !cut, nil
}

// taskRange is low, low+step, … up to high.
type taskRange struct{ low, high, step int64 }

// parseTaskRange reads "7", "1-6" or "1-9:2".
func parseTaskRange(s string) (taskRange, bool) {
	s, step, stepped := strings.Cut(s, ":")
	low, high, ranged := strings.Cut(s, "-")
	if !ranged {
		high = low
	}
	r := taskRange{step: 1}
	var ok, ok2 bool
	ok3 := true
	r.low, ok = parseDigits(low)
	r.high, ok2 = parseDigits(high)
	if stepped {
		r.step, ok3 = parseDigits(step)
	}
	return r, ok && ok2 && ok3 && r.step > 0 && r.low <= r.high && r.high <= math.MaxUint32
}
