// SPDX-License-Identifier: Apache-2.0

package trace

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"strconv"
	"strings"
	"time"
)

// swfFields is the number of fields of a record of the Standard Workload Format,
// version 2.2 (Feitelson; Parallel Workloads Archive).
const swfFields = 18

// The fields of a record, from 0.
const (
	swfJob = iota
	swfSubmit
	swfWait
	swfRun
	swfProcs
	_ // average CPU time used
	_ // used memory
	swfAskedProcs
	swfAskedTime
	swfAskedMemory // KiB per processor
	swfStatus
	swfUser
	swfGroup
	swfExecutable
	swfQueue
	swfPartition
)

type swfRows struct {
	lines *bufio.Scanner
	line  int
}

func (s *swfRows) next() (Job, error) {
	for s.lines.Scan() {
		s.line++
		text := strings.TrimSpace(s.lines.Text())
		if text == "" || text[0] == ';' {
			continue
		}
		return s.job(strings.Fields(text))
	}
	if err := s.lines.Err(); err != nil {
		return Job{}, fmt.Errorf("line %d: %w", s.line+1, err)
	}
	return Job{}, io.EOF
}

func (s *swfRows) job(fields []string) (Job, error) {
	if len(fields) != swfFields {
		return Job{}, RowError{s.line, "not 18 fields"}
	}
	var v [swfFields]float64
	for i, f := range fields {
		x, err := strconv.ParseFloat(f, 64)
		if err != nil || math.IsNaN(x) || math.Abs(x) > 1e15 {
			return Job{}, RowError{s.line, "field " + strconv.Itoa(i+1) + " is no number"}
		}
		v[i] = x
	}
	j := Job{
		Line: s.line, ID: fields[swfJob], Milli: 1000, Estimate: math.NaN(),
		Submit: secs(v[swfSubmit]), Duration: secs(v[swfRun]), Wait: secs(v[swfWait]),
		GPUs: int(v[swfProcs]), Limit: max(0, secs(v[swfAskedTime])),
		User: known(v[swfUser]), Group: known(v[swfGroup]), Name: known(v[swfExecutable]), Queue: known(v[swfQueue]),
		// 1 completed; -1 not told, as in made-up traces.
		Completed: v[swfStatus] == 1 || v[swfStatus] == -1,
	}
	// What was asked for counts, where it is told: what was given may be more.
	if v[swfAskedProcs] > 0 {
		j.GPUs = int(v[swfAskedProcs])
	}
	if v[swfAskedMemory] > 0 {
		j.Memory = v[swfAskedMemory] * 1024 * float64(j.GPUs)
	}
	return j, nil
}

// secs is for numbers that are known to fit.
func secs(s float64) time.Duration { return time.Duration(math.Round(s*1e3)) * time.Millisecond }

// known writes a number that names something; -1 means not known.
func known(v float64) string {
	if v < 0 {
		return ""
	}
	return strconv.FormatInt(int64(v), 10)
}
